"""Response header with the id of a deletion, on every DELETE of documents, a knowledge base or a tenant."""

from typing import Any
from uuid import UUID

from fastapi import Response

from app.api.http import example_values
from app.ids import encode_id

_ID_SCHEMA = {"type": "string", "examples": [example_values.DELETION_ID]}
DELETION_HEADER = "Carrel-Deletion-Id"


def create_deletion_response(status: int, deletion: UUID) -> Response:
    """Create a response without a body, with the id of a deletion in its header."""
    return Response(status_code=status, headers={DELETION_HEADER: encode_id("del", deletion)})


def describe_deletion_header(status: int, description: str) -> dict[int | str, dict[str, Any]]:
    """Return the description of a response with the header ``Carrel-Deletion-Id``, for the OpenAPI document."""
    header = {
        "description": "Id of the deletion; `GET /v1/deletions/{deletion}` returns its receipt.",
        "schema": _ID_SCHEMA,
    }
    return {status: {"headers": {DELETION_HEADER: header}, "description": description}}
