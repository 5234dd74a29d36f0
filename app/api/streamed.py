"""Bodies that a route reads itself, piece by piece: of which type they are, and which are refused beforehand."""

from collections.abc import Mapping
from email.message import Message
from typing import TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from app.documents.types import UploadTooLarge

FORM = "multipart/form-data"
ModelT = TypeVar("ModelT", bound=BaseModel)


def content_type(request: Request) -> tuple[str, bytes]:
    """Media type and multipart boundary of the request."""
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
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


def checked(model: type[ModelT], value: Mapping[str, str] | bytes) -> ModelT:
    """The fields as the model. Raises RequestValidationError, located in the body."""
    try:
        return model.model_validate_json(value) if isinstance(value, bytes) else model.model_validate(value)
    except ValidationError as exc:
        found = exc.errors(include_url=False, include_input=False, include_context=False)
        raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in found]) from None
