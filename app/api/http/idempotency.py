"""Header ``Idempotency-Key``: a retry of a write gets the response of the first request, and nothing is done twice.

Only successful responses are stored. An error has changed nothing, so its retry runs again, and a refused body may be
corrected under the same key. Streams are not stored.

Two kinds of responses are stored without their body: those with an API key, a signing secret or a password, and those
larger than ``MAX_RESPONSE_BYTES``. A retry is then refused, and the error names the id of the created object.
"""

import hashlib
import json
import re
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any
from uuid import UUID

from fastapi import Request
from fastapi.responses import FileResponse, Response, StreamingResponse
from starlette.requests import ClientDisconnect

from app.api.http.body_hash import HashingReceiver
from app.api.http.problems import PROBLEM_RESPONSE, create_problem_response
from app.db.models.base import SYSTEM_TENANT
from app.errors import ConflictError, ForbiddenError, InvalidInputError, TooLargeError
from app.idempotency import (
    RESPONSE_DELETED_CODE,
    IdempotencyKeyReused,
    IdempotencyScope,
    IdempotencyStore,
    RequestInProgress,
    StoredResponse,
)
from app.ids import decode_id
from app.principal import Principal, Role
from app.sql_views.passwords import PASSWORD_PATTERN
from app.tenants.types import has_key_format

IDEMPOTENCY_HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotent-Replayed"
# Rights of the caller. They are stored with the headers of the response and never sent.
RIGHTS_HEADER = "carrel-rights"
MAX_RESPONSE_BYTES = 1024 * 1024
# Maximum number of bytes that a handler may leave unread. They are only read to hash the whole body.
MAX_UNREAD_BYTES = 64 * 1024
WRITE_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# The operator's key has no row in the database, so its idempotency keys use this id.
OPERATOR_KEY_ID = SYSTEM_TENANT
RETRY_AFTER_SECONDS = 1

IDEMPOTENCY_PARAMETER: dict[str, Any] = {
    "name": IDEMPOTENCY_HEADER,
    "in": "header",
    "required": False,
    "description": "Key of this write, 1 to 255 visible ASCII characters. For 24 hours, the same key on the same route "
    f"gets the first response again, with `{REPLAYED_HEADER}: true`, and nothing is done twice. Errors are not stored.",
    "example": "4f1c2a9e-upload-handbook",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
CONFLICT_RESPONSE: dict[str, Any] = {
    "description": "The request conflicts with the stored state, or with the first request of its Idempotency-Key",
    **PROBLEM_RESPONSE,
}

_KEY_PATTERN = re.compile(r"[!-~]{1,255}")
# Ids of objects that can be deleted. Their stored responses are deleted with them.
_ID_PATTERN = re.compile(r"\b(doc|kb|ten|file)_[0-9a-z]{26}\b")
_API_KEY_PATTERN = re.compile(r"carrel_[0-9A-Za-z]{38}")
_SIGNING_SECRET_PATTERN = re.compile(rb'"secret":"whsec_[A-Za-z0-9+/]{32}"')

RouteHandler = Callable[[Request], Coroutine[Any, Any, Response]]


class RightsChanged(ForbiddenError):
    """The first request with this Idempotency-Key had rights that this caller lacks. Send another Idempotency-Key."""

    code = "idempotency_rights_changed"


class ResponseContainsSecret(ConflictError):
    """The request was already done. Its response has a secret, which is shown once and not stored."""

    code = "idempotency_secret_shown"


class ResponseTooLarge(ConflictError):
    """The request was already done. Its response was too large to be stored."""

    code = "idempotency_response_too_large"


class StoredResponseDeleted(ConflictError):
    """The request was already done. The object it created has since been deleted, and its response too."""

    code = RESPONSE_DELETED_CODE


WITHHELD_ERRORS: dict[str, type[ConflictError]] = {
    error.code: error for error in (ResponseContainsSecret, ResponseTooLarge, StoredResponseDeleted)
}


async def run_idempotent(
    request: Request, handle: RouteHandler, *, keys: IdempotencyStore, principal: Principal, max_body_bytes: int
) -> Response:
    """Handle a write, or replay the stored response of its idempotency key.

    Args:
        request: The request.
        handle: Handler of the route.
        keys: Store of idempotency keys.
        principal: The caller. Its role is already checked.
        max_body_bytes: Maximum size of the route's body; a longer body of a retry is refused.

    Returns:
        The new or stored response; 409 with ``Retry-After`` if the first request is not finished.

    Raises:
        InvalidInputError: The key is not valid.
        RightsChanged: The caller has fewer rights than the caller of the first request.
        IdempotencyKeyReused: The first request had another body.
        ResponseContainsSecret: The response had a secret and is not stored.
        ResponseTooLarge: The response was too large and is not stored.
        StoredResponseDeleted: The response was deleted with the object that the request created.
        DatabaseUnavailable: The database does not answer.
    """
    header_values = request.headers.getlist(IDEMPOTENCY_HEADER)
    if not header_values:
        return await handle(request)
    scope = _create_scope(request, principal, header_values)
    body = HashingReceiver(request)
    try:
        acquired = await keys.acquire(scope)
    except RequestInProgress as error:
        retry_headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
        return create_problem_response(request, 409, error.code, error.message, headers=retry_headers)
    if isinstance(acquired, StoredResponse):
        if not _has_stored_rights(principal, acquired.headers.get(RIGHTS_HEADER)):
            raise RightsChanged
        return await _replay_response(acquired, body, max_body_bytes)
    async with keys.maintain_lock(acquired):
        response = await handle(Request(request.scope, body.receive))
        stored = await _to_stored_response(response, body)
        if stored is not None:
            rights = json.dumps(_describe_rights(principal), separators=(",", ":"))
            acquired.response = replace(stored, headers={**stored.headers, RIGHTS_HEADER: rights})
    return response


def _describe_rights(principal: Principal) -> dict[str, Any]:
    """Return the rights of a caller that may change between a request and its retry. The user id is hashed."""
    bases = principal.knowledge_base_ids
    return {
        "role": principal.role.value,
        "knowledge_bases": None if bases is None else sorted(map(str, bases)),
        "user": None if principal.user_id is None else hashlib.sha256(principal.user_id.encode()).hexdigest(),
    }


def _has_stored_rights(principal: Principal, text: str | None) -> bool:
    """Return whether the caller has at least the stored rights. Rows of earlier versions have no rights; then return
    true.
    """
    if text is None:
        return True
    now, stored = _describe_rights(principal), json.loads(text)
    bases, earlier = now["knowledge_bases"], stored["knowledge_bases"]
    return (
        principal.role.includes(Role(stored["role"]))
        and now["user"] in (None, stored["user"])
        and (bases is None or (earlier is not None and set(earlier) <= set(bases)))
    )


def _create_scope(request: Request, principal: Principal, header_values: list[str]) -> IdempotencyScope:
    if len(header_values) != 1 or not _KEY_PATTERN.fullmatch(header_values[0]):
        raise InvalidInputError(
            f"{IDEMPOTENCY_HEADER} must be one header of 1 to 255 visible ASCII characters.",
            loc=("header", IDEMPOTENCY_HEADER),
        )
    # Path and query are hashed for two reasons: they may be longer than an index entry, and a filter in them is
    # content.
    target = hashlib.sha256(request.scope["raw_path"] + b"?" + request.scope["query_string"]).hexdigest()
    return IdempotencyScope(
        principal.tenant_id, principal.key_lineage_id or OPERATOR_KEY_ID, f"{request.method} {target}", header_values[0]
    )


async def _replay_response(stored: StoredResponse, body: HashingReceiver, max_body_bytes: int) -> Response:
    if stored.request_hash is not None and stored.request_hash != await body.finish_hash(max_body_bytes):
        raise IdempotencyKeyReused
    if stored.body is None:
        error = WITHHELD_ERRORS[stored.headers["withheld"]]
        created_id = stored.headers.get("created_id")
        raise error(f"{error.__doc__} It created {created_id}." if created_id else None)
    headers = {name: value for name, value in stored.headers.items() if name != RIGHTS_HEADER}
    return Response(stored.body, stored.status, {**headers, REPLAYED_HEADER: "true"})


async def _to_stored_response(response: Response, body: HashingReceiver) -> StoredResponse | None:
    """Return the response to store, or None if it is an error or a stream."""
    if isinstance(response, StreamingResponse | FileResponse) or not 200 <= response.status_code < 300:
        return None
    try:
        request_hash = await body.finish_hash(MAX_UNREAD_BYTES)
    except (TooLargeError, ClientDisconnect):
        request_hash = None
    content = bytes(response.body)
    withheld = _find_withholding_error(content)
    if withheld is not None:
        created_id = _extract_id(content)
        reason = {"withheld": withheld.code} | ({"created_id": created_id} if created_id else {})
        return StoredResponse(request_hash, response.status_code, reason, None)
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    return StoredResponse(request_hash, response.status_code, headers, content, _find_object_ids(content))


def _find_object_ids(content: bytes) -> set[UUID]:
    matches = _ID_PATTERN.finditer(content.decode("utf-8", "replace"))
    ids = (decode_id(match[1], match[0]) for match in matches)
    return {object_id for object_id in ids if object_id is not None}


def _find_withholding_error(content: bytes) -> type[ConflictError] | None:
    text = content.decode("utf-8", "replace")
    secret_match = _SIGNING_SECRET_PATTERN.search(content) or PASSWORD_PATTERN.search(text)
    if secret_match or any(has_key_format(candidate) for candidate in _API_KEY_PATTERN.findall(text)):
        return ResponseContainsSecret
    return ResponseTooLarge if len(content) > MAX_RESPONSE_BYTES else None


def _extract_id(content: bytes) -> str | None:
    try:
        payload = json.loads(content)
    except ValueError:
        return None
    created_id = payload.get("id") if isinstance(payload, dict) else None
    return created_id if isinstance(created_id, str) else None
