"""``Idempotency-Key``: a write that is sent again is answered as the first time, and nothing is done twice.

What succeeded is kept. An error is not: it has changed nothing, so its retry runs and is told how things are by then,
and a body that was refused may be corrected under the same key. Neither is a stream kept. Of an answer that holds an
API key or a password, or is larger than MOST_BYTES, only that it was given is kept: the retry is refused with the id of
what was made, rather than done again.
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

from app.access import Principal, Role
from app.api.body_digest import HashedBody
from app.api.problems import PROBLEM, problem
from app.db.models.base import SYSTEM_TENANT
from app.errors import Conflict, Forbidden, InvalidInput, TooLarge
from app.idempotency import DELETED, Answer, IdempotencyKeys, KeyReused, Place, RequestInProgress
from app.ids import decode_id
from app.publications.passwords import LIKE_ONE
from app.tenants.types import looks_like_key

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
# Stored among an answer's headers, and never sent: the rights of its caller.
RIGHTS = "carrel-rights"
MOST_BYTES = 1024 * 1024
# What a handler leaves unread of a body is of no use to it, and is read only to tell it from another.
MOST_UNREAD = 64 * 1024
WRITING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# The operator's key has no row.
OPERATOR_KEY_ID = SYSTEM_TENANT
RETRY_AFTER_SECONDS = 1

PARAMETER: dict[str, Any] = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "Names this write, so that it can be sent again without being done again: for 24 hours the same key "
    f"on the same route is answered as the first time, with `{REPLAYED}: true`. Errors are not kept.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
CONFLICT: dict[str, Any] = {"description": "It does not fit what is there, or what its key came with first", **PROBLEM}

_KEY = re.compile(r"[!-~]{1,255}")
# What can be deleted, and then is to leave nothing in an answer that is kept.
_ID = re.compile(r"\b(doc|kb|ten|file)_[0-9a-z]{26}\b")
_LIKE_A_SECRET = re.compile(r"carrel_[0-9A-Za-z]{38}")
_SIGNING_SECRET = re.compile(rb'"secret":"whsec_[A-Za-z0-9+/]{32}"')

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class RightsChanged(Forbidden):
    """This was done already, by a caller with rights that this one lacks: its answer is not shown. A new request needs
    a new key.
    """

    code = "idempotency_rights_changed"


class SecretShown(Conflict):
    """This was done already; the secret in its answer was shown once and is stored nowhere."""

    code = "idempotency_secret_shown"


class AnswerTooLarge(Conflict):
    """This was done already; its answer was too large to be kept."""

    code = "idempotency_answer_too_large"


class AnswerDeleted(Conflict):
    """This was done already; what it made was deleted since, and its answer with it."""

    code = DELETED


WITHHELD: dict[str, type[Conflict]] = {error.code: error for error in (SecretShown, AnswerTooLarge, AnswerDeleted)}


async def answer_once(
    request: Request, handle: Handler, *, keys: IdempotencyKeys, principal: Principal, limit: int
) -> Response:
    """Handle a write, unless its key has been answered; ``limit`` is that of its body.

    The caller's role fits the route. Raises InvalidInput for a key that is none, RightsChanged, KeyReused, SecretShown,
    AnswerTooLarge, DatabaseUnavailable.
    """
    given = request.headers.getlist(HEADER)
    if not given:
        return await handle(request)
    place = _place(request, principal, given)
    body = HashedBody(request)
    try:
        begun = await keys.begin(place)
    except RequestInProgress as error:
        wait = {"Retry-After": str(RETRY_AFTER_SECONDS)}
        return problem(request, 409, error.code, error.message, headers=wait)
    if isinstance(begun, Answer):
        if not _covers(principal, begun.headers.get(RIGHTS)):
            raise RightsChanged
        return await _again(begun, body, limit)
    async with keys.running(begun):
        response = await handle(Request(request.scope, body.receive))
        answer = await _answer(response, body)
        if answer is not None:
            rights = json.dumps(_rights(principal), separators=(",", ":"))
            begun.answer = replace(answer, headers={**answer.headers, RIGHTS: rights})
    return response


def _rights(principal: Principal) -> dict[str, Any]:
    """Return what may change between a request and its retry; a user's name is hashed."""
    bases = principal.knowledge_base_ids
    return {
        "role": principal.role.value,
        "knowledge_bases": None if bases is None else sorted(map(str, bases)),
        "user": None if principal.user_id is None else hashlib.sha256(principal.user_id.encode()).hexdigest(),
    }


def _covers(principal: Principal, text: str | None) -> bool:
    """Return whether the caller may still do what the caller of then might; None is of an earlier version."""
    if text is None:
        return True
    now, stored = _rights(principal), json.loads(text)
    bases, earlier = now["knowledge_bases"], stored["knowledge_bases"]
    return (
        principal.role.covers(Role(stored["role"]))
        and now["user"] in (None, stored["user"])
        and (bases is None or (earlier is not None and set(earlier) <= set(bases)))
    )


def _place(request: Request, principal: Principal, given: list[str]) -> Place:
    if len(given) != 1 or not _KEY.fullmatch(given[0]):
        raise InvalidInput(f"{HEADER} is one header of 1 to 255 visible ASCII characters.", loc=("header", HEADER))
    # Hashed: a path and a query may be longer than an index takes, and a filter in them is content.
    target = hashlib.sha256(request.scope["raw_path"] + b"?" + request.scope["query_string"]).hexdigest()
    return Place(principal.tenant_id, principal.line_id or OPERATOR_KEY_ID, f"{request.method} {target}", given[0])


async def _again(answer: Answer, body: HashedBody, limit: int) -> Response:
    if answer.request_hash is not None and answer.request_hash != await body.finish(limit):
        raise KeyReused
    if answer.body is None:
        error = WITHHELD[answer.headers["withheld"]]
        made = answer.headers.get("made")
        raise error(f"{error.__doc__} It made {made}." if made else None)
    headers = {name: value for name, value in answer.headers.items() if name != RIGHTS}
    return Response(answer.body, answer.status, {**headers, REPLAYED: "true"})


async def _answer(response: Response, body: HashedBody) -> Answer | None:
    """What is to be kept of a response; None for nothing."""
    if isinstance(response, StreamingResponse | FileResponse) or not 200 <= response.status_code < 300:
        return None
    try:
        request_hash = await body.finish(MOST_UNREAD)
    except (TooLarge, ClientDisconnect):
        request_hash = None
    content = bytes(response.body)
    withheld = _reason_to_withhold(content)
    if withheld is not None:
        made = _id_in(content)
        reason = {"withheld": withheld.code} | ({"made": made} if made else {})
        return Answer(request_hash, response.status_code, reason, None)
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    return Answer(request_hash, response.status_code, headers, content, _subjects(content))


def _subjects(content: bytes) -> set[UUID]:
    found = _ID.finditer(content.decode("utf-8", "replace"))
    ids = (decode_id(match[1], match[0]) for match in found)
    return {one for one in ids if one is not None}


def _reason_to_withhold(content: bytes) -> type[Conflict] | None:
    text = content.decode("utf-8", "replace")
    named = _SIGNING_SECRET.search(content) or LIKE_ONE.search(text)
    if named or any(looks_like_key(found) for found in _LIKE_A_SECRET.findall(text)):
        return SecretShown
    return AnswerTooLarge if len(content) > MOST_BYTES else None


def _id_in(content: bytes) -> str | None:
    try:
        found = json.loads(content)
    except ValueError:
        return None
    made = found.get("id") if isinstance(found, dict) else None
    return made if isinstance(made, str) else None
