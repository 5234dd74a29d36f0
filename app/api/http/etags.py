"""ETags of resources, and the preconditions ``If-Match`` and ``If-None-Match`` (RFC 9110, section 13).

An ETag has two digests: of the fields that PATCH can change, and of the whole representation. Both change with a
setting, so the ETag is strong. ``If-Match`` compares the first digest alone: counts and the progress of jobs, which
change by themselves, refuse no PATCH. A schema is a resource if it has ``etag_fields``, the names of these fields.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header
from fastapi.responses import Response
from pydantic import BaseModel

from app.errors import PreconditionFailedError

T = TypeVar("T")
DIGEST_CHARACTERS = 20
MAX_HEADER_CHARACTERS = 1000
EXAMPLE_ETAG = '"5f2b7c19d04e8a63b1c7-90ad3e6f51b2c8d4e7fa"'
NOT_MODIFIED_RESPONSE: dict[str, Any] = {"description": "The resource still has an ETag of `If-None-Match`"}
NONE_MATCH_PARAMETER: dict[str, Any] = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "ETags of stored responses. If the resource still has one of them, the response is 304 without a "
    "body.",
    "schema": {"type": "string", "maxLength": MAX_HEADER_CHARACTERS},
    "example": EXAMPLE_ETAG,
}


@dataclass(frozen=True, slots=True)
class Precondition:
    """The header ``If-Match`` of a PATCH; None without one."""

    header: str | None

    def build_check(self, schema: type[BaseModel], to_out: Callable[[T], Any]) -> Callable[[T], None] | None:
        """Return the check of a stored object, for the transaction that changes it.

        Args:
            schema: Schema of the resource.
            to_out: Function that returns the response fields of the object.

        Returns:
            A function that raises ``PreconditionFailedError`` if no ETag of the header matches; None without a header.
        """
        if self.header is None:
            return None
        settings = {tag.strip('"').partition("-")[0] for tag in _split_tags(self.header) if tag.startswith('"')}
        is_any = self.header.strip() == "*"

        def check(stored: T) -> None:
            fields = schema.model_validate(to_out(stored)).model_dump(mode="json", by_alias=True)
            if not is_any and _compute_digest(_select_settings(schema, fields)) not in settings:
                raise PreconditionFailedError

        return check


def _get_precondition(
    if_match: Annotated[
        str | None,
        Header(
            alias="If-Match",
            max_length=MAX_HEADER_CHARACTERS,
            description="ETag of the resource as it was read, or several with commas. If a field that PATCH can change "
            "has changed since, the response is 412 `precondition_failed`.",
            examples=[EXAMPLE_ETAG],
        ),
    ] = None,
) -> Precondition:
    return Precondition(if_match)


CurrentPrecondition = Annotated[Precondition, Depends(_get_precondition)]


def find_resource_schema(model: Any) -> type[BaseModel] | None:
    """Return the class with ``etag_fields`` among a response model and its bases, or None."""
    classes = model.__mro__ if isinstance(model, type) and issubclass(model, BaseModel) else ()
    return next((cls for cls in classes if "etag_fields" in vars(cls)), None)


def add_etag(response: Response, schema: type[BaseModel], *, none_match: str | None, is_read: bool) -> Response:
    """Add the ETag to the response with a resource.

    Args:
        response: Response of the route. Errors and streams stay unchanged.
        schema: Schema of the resource. The response of a write may have more fields, such as a secret.
        none_match: Header ``If-None-Match`` of the request.
        is_read: Whether the request is a GET. Only then can the response be 304.
    """
    body = getattr(response, "body", None)
    if not body or not 200 <= response.status_code < 300:
        return response
    fields = json.loads(body)
    if not is_read:
        fields = {name: value for name, value in fields.items() if name in schema.model_fields}
    etag = f'"{_compute_digest(_select_settings(schema, fields))}-{_compute_digest(fields)}"'
    if is_read and none_match is not None and _has_match(none_match, etag):
        return Response(status_code=304, headers={"ETag": etag})
    response.headers["ETag"] = etag
    return response


def _has_match(header: str, etag: str) -> bool:
    tags = {tag.removeprefix("W/") for tag in _split_tags(header)}
    return "*" in tags or etag in tags


def _split_tags(header: str) -> Iterable[str]:
    return (tag.strip() for tag in header.split(","))


def _select_settings(schema: type[BaseModel], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that PATCH can change. A response may leave out fields that are null."""
    names: frozenset[str] = vars(schema)["etag_fields"]
    return {name: value for name, value in fields.items() if name in names and value is not None}


def _compute_digest(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARACTERS]
