"""Checks for all problem documents of the native API."""

from typing import Any

import httpx2


def assert_problem(reply: httpx2.Response, status: int, code: str | None = None) -> dict[str, Any]:
    """Return the problem document of a reply after checking its status, its code and all its fields."""
    assert reply.status_code == status, reply.text[:2000]
    assert reply.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = reply.json()
    assert found["status"] == status
    assert found["request_id"] == reply.headers["x-request-id"]
    assert all(isinstance(found[name], str) and found[name] for name in ("type", "title", "detail"))
    assert code is None or found["type"] == f"urn:carrel:problem:{code}", found
    assert status != 422 or all(set(one) == {"loc", "msg"} for one in found["errors"]), found
    assert status != 401 or reply.headers["www-authenticate"] == "Bearer"
    assert status != 503 or int(reply.headers["retry-after"]) >= 1
    assert not any(word in reply.text for word in ("Traceback", "sqlalchemy", "asyncpg", "select "))
    return found
