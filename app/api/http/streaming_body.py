"""Functions for routes that read their body themselves: content type, size limits and validation."""

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
# Validating a body of this size takes less time than starting a thread for it.
SMALL_BYTES = 64 * 1024
ModelT = TypeVar("ModelT", bound=BaseModel)


def parse_content_type(request: Request) -> tuple[str, bytes]:
    """Return the media type and the multipart boundary of the request.

    Args:
        request: The request. Its header ``Content-Type`` is ignored if it is longer than
            ``MAX_CONTENT_TYPE_CHARACTERS``.

    Returns:
        The media type, ``text/plain`` without a header, and the boundary, which is empty without one.
    """
    header_value = request.headers.get("content-type", "")
    header = Message()
    header["content-type"] = header_value if len(header_value) <= MAX_CONTENT_TYPE_CHARACTERS else ""
    boundary = header.get_boundary("")
    return header.get_content_type(), boundary.encode("latin-1", "replace")


def reject_oversized_body(request: Request, max_bytes: int, limit: int) -> None:
    """Refuse a request whose ``Content-Length`` is larger than ``max_bytes``.

    Args:
        request: The request.
        max_bytes: Maximum size of the body, with the overhead of a form.
        limit: Maximum size of the upload, for the message.

    Raises:
        UploadTooLarge: The body is too large.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise create_upload_too_large(min(limit, max_bytes))


def create_upload_too_large(limit: int) -> UploadTooLarge:
    """Create the error for an upload that is larger than ``limit`` bytes."""
    return UploadTooLarge(f"The upload is larger than {limit} bytes.", limit=limit)


async def read_json_body(request: Request, model: type[ModelT], *, max_bytes: int, limit: JsonLimit) -> ModelT:
    """Read and validate a JSON body.

    Args:
        request: The request.
        model: Class of the body.
        max_bytes: Maximum size of the body.
        limit: Maximum number of values and names.

    Returns:
        The body.

    Raises:
        UploadTooLarge: The body is larger than ``max_bytes``.
        TooLargeError: The body has too many values or names.
        RequestValidationError: The body does not match the model.
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
    """Validate a body.

    Args:
        model: Class of the body.
        value: JSON, or the fields of a form.

    Returns:
        The body.

    Raises:
        RequestValidationError: The body does not match the model. The locations begin with ``body``.
    """
    try:
        return model.model_validate_json(value) if isinstance(value, bytes) else model.model_validate(value)
    except ValidationError as exc:
        if exc.error_count() > MAX_VALIDATION_ERRORS:
            fault = {"type": "value_error", "loc": ("body",), "msg": TOO_MANY_ERRORS_MESSAGE}
            raise RequestValidationError([fault]) from None
        errors = exc.errors(include_url=False, include_input=False, include_context=False)
        raise RequestValidationError([{**error, "loc": ("body", *error["loc"])} for error in errors]) from None
