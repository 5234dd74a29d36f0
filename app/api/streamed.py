"""Bodies that a route reads itself, piece by piece: of which type they are, and which are refused beforehand."""

import asyncio
from collections.abc import Mapping
from email.message import Message
from typing import TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from app.api.bodies import MOST_COUNTED, TOO_MANY
from app.api.json_limits import LONGEST_CONTENT_TYPE, JsonCount, JsonLimit
from app.documents.types import UploadTooLarge

FORM = "multipart/form-data"
# What is read in less time than a thread would be worth.
SMALL_BYTES = 64 * 1024
ModelT = TypeVar("ModelT", bound=BaseModel)


def content_type(request: Request) -> tuple[str, bytes]:
    """Return media type and multipart boundary of the request; nothing of a header that is too long for one."""
    given = request.headers.get("content-type", "")
    header = Message()
    header["content-type"] = given if len(given) <= LONGEST_CONTENT_TYPE else ""
    boundary = header.get_boundary("")
    return header.get_content_type(), boundary.encode("latin-1", "replace")


def refuse_large(request: Request, most: int, limit: int) -> None:
    """One that says of itself that it is larger than ``most``. Raises UploadTooLarge."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise too_large(min(limit, most))


def too_large(limit: int) -> UploadTooLarge:
    """For a body that says so, or turns out so."""
    return UploadTooLarge(f"The upload is larger than {limit} bytes.", limit=limit)


async def read_json(request: Request, model: type[ModelT], *, most: int, limit: JsonLimit) -> ModelT:
    """The body as the model. Raises UploadTooLarge beyond ``most`` bytes, TooLarge, RequestValidationError."""
    body, count = bytearray(), JsonCount(limit)
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise too_large(most)
        count.feed(piece)
    if len(body) <= SMALL_BYTES:
        return checked(model, bytes(body))
    return await asyncio.to_thread(checked, model, bytes(body))


def checked(model: type[ModelT], value: Mapping[str, str] | bytes) -> ModelT:
    """The fields as the model. Raises RequestValidationError, located in the body."""
    try:
        return model.model_validate_json(value) if isinstance(value, bytes) else model.model_validate(value)
    except ValidationError as exc:
        if exc.error_count() > MOST_COUNTED:
            fault = {"type": "value_error", "loc": ("body",), "msg": TOO_MANY}
            raise RequestValidationError([fault]) from None
        found = exc.errors(include_url=False, include_input=False, include_context=False)
        raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in found]) from None
