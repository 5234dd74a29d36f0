"""Bodies that a route reads itself, piece by piece: of which type they are, and which are refused beforehand."""

import asyncio
from collections.abc import Mapping
from email.message import Message
from typing import TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from app.api.http.json_limits import MAX_CONTENT_TYPE_CHARACTERS, JsonLimit, JsonValueCounter
from app.api.http.request_models import MAX_VALIDATION_ERRORS, TOO_MANY_ERRORS_MESSAGE
from app.documents.types import UploadTooLarge

MULTIPART_FORM = "multipart/form-data"
# What is read in less time than a thread would be worth.
SMALL_BYTES = 64 * 1024
ModelT = TypeVar("ModelT", bound=BaseModel)


def parse_content_type(request: Request) -> tuple[str, bytes]:
    """Return media type and multipart boundary of the request; nothing of a header that is too long for one."""
    header_value = request.headers.get("content-type", "")
    header = Message()
    header["content-type"] = header_value if len(header_value) <= MAX_CONTENT_TYPE_CHARACTERS else ""
    boundary = header.get_boundary("")
    return header.get_content_type(), boundary.encode("latin-1", "replace")


def reject_oversized_body(request: Request, max_bytes: int, limit: int) -> None:
    """One that says of itself that it is larger than ``max_bytes``. Raises UploadTooLarge."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise create_upload_too_large(min(limit, max_bytes))


def create_upload_too_large(limit: int) -> UploadTooLarge:
    """For a body that says so, or turns out so."""
    return UploadTooLarge(f"The upload is larger than {limit} bytes.", limit=limit)


async def read_json_body(request: Request, model: type[ModelT], *, max_bytes: int, limit: JsonLimit) -> ModelT:
    """The body as the model.

    Raises UploadTooLarge beyond ``max_bytes`` bytes, TooLargeError, RequestValidationError.
    """
    body, counter = bytearray(), JsonValueCounter(limit)
    async for piece in request.stream():
        body += piece
        if len(body) > max_bytes:
            raise create_upload_too_large(max_bytes)
        counter.update(piece)
    if len(body) <= SMALL_BYTES:
        return validate_body(model, bytes(body))
    return await asyncio.to_thread(validate_body, model, bytes(body))


def validate_body(model: type[ModelT], value: Mapping[str, str] | bytes) -> ModelT:
    """The fields as the model. Raises RequestValidationError, located in the body."""
    try:
        return model.model_validate_json(value) if isinstance(value, bytes) else model.model_validate(value)
    except ValidationError as exc:
        if exc.error_count() > MAX_VALIDATION_ERRORS:
            fault = {"type": "value_error", "loc": ("body",), "msg": TOO_MANY_ERRORS_MESSAGE}
            raise RequestValidationError([fault]) from None
        errors = exc.errors(include_url=False, include_input=False, include_context=False)
        raise RequestValidationError([{**error, "loc": ("body", *error["loc"])} for error in errors]) from None
