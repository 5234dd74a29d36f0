"""What every error of the OpenAI door has in common."""

from typing import Any

import httpx2


def failure(reply: httpx2.Response, status: int, code: str | None = None) -> dict[str, Any]:
    """The error of a reply, once it is known to be a whole one of this status and code."""
    assert reply.status_code == status, reply.text[:2000]
    assert reply.headers["content-type"] == "application/json"
    assert reply.json().keys() == {"error"}
    error: dict[str, Any] = reply.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert all(isinstance(error[name], str) and error[name] for name in ("message", "type", "code"))
    assert code is None or error["code"] == code, error
    assert status != 401 or reply.headers["www-authenticate"] == "Bearer"
    return error
