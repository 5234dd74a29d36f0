"""Checks for all error replies of the OpenAI API."""

from typing import Any

import httpx2


def failure(reply: httpx2.Response, status: int, code: str | None = None) -> dict[str, Any]:
    """Return the error of a reply after checking its status, its code and all its fields."""
    assert reply.status_code == status, reply.text[:2000]
    assert reply.headers["content-type"] == "application/json"
    assert reply.json().keys() == {"error"}
    error: dict[str, Any] = reply.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert all(isinstance(error[name], str) and error[name] for name in ("message", "type", "code"))
    assert code is None or error["code"] == code, error
    assert status != 401 or reply.headers["www-authenticate"] == "Bearer"
    return error
