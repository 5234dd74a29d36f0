"""Queries of a search: texts, vectors and images."""

import base64
import binascii
from typing import Annotated, Any

import numpy as np
from pydantic import Discriminator, Field, FiniteFloat, StringConstraints, Tag

from app.api.http.request_models import STORABLE
from app.api.v1.schemas import StrictRequestModel
from app.errors import InvalidInputError
from app.inference.embedding import ImageFile, Vectors
from app.retrieval.types import Query

MAX_DIMENSIONS = 4000
MAX_IMAGE_BYTES = 8 * 1024 * 1024
# Media types by the first bytes of a file.
IMAGE_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}

QueryText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=32_000), STORABLE]


class VectorQuery(StrictRequestModel):
    """Vector to search with, made by the embedding model of the knowledge base. With ``text``, the lexical retriever
    runs too.
    """

    vector: Annotated[list[FiniteFloat], Field(min_length=1, max_length=MAX_DIMENSIONS, fail_fast=True)] = Field(
        description="Numbers of the vector, as many as the model has dimensions: 1 to 4,000. The service scales "
        "it to unit length; it must not be all zeros.",
        examples=[[0.12, -0.43, 0.27]],
    )
    text: QueryText | None = Field(
        None,
        description="Text for the lexical retriever, 1 to 32,000 characters. Without it, only the dense retriever "
        "runs.",
        examples=["parental leave"],
    )


class ImageQuery(StrictRequestModel):
    """Image to search with. The embedding model of the knowledge base must embed images."""

    image: Annotated[str, Field(min_length=1, max_length=MAX_IMAGE_BYTES * 4 // 3 + 4)] = Field(
        description="PNG or JPEG in base64, at most 8 MiB before encoding.",
        examples=["iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="],
    )


def _detect_query_kind(value: Any) -> str | None:
    """Return the kind of a query in a request, so that an error lists only the faults of this kind."""
    if isinstance(value, dict):
        return "query[image]" if "image" in value and "vector" not in value else "query[vector]"
    return "query[words]" if isinstance(value, str) else None


QueryRequest = Annotated[
    Annotated[QueryText, Tag("query[words]")]
    | Annotated[VectorQuery, Tag("query[vector]")]
    | Annotated[ImageQuery, Tag("query[image]")],
    Discriminator(
        _detect_query_kind,
        custom_error_type="query",
        custom_error_message='It must be words, {"vector": []} or {"image": ""}',
    ),
]
Loc = tuple[str | int, ...]


def parse_query(value: str | VectorQuery | ImageQuery, *, loc: Loc) -> Query:
    """Convert a query of a request.

    Args:
        value: Text, vector or image.
        loc: Location of the query in the request, for errors.

    Raises:
        InvalidInputError: The vector is all zeros, or the image is no PNG or JPEG in base64.
    """
    if isinstance(value, VectorQuery):
        return Query(value.text, vector=_normalize_vector(value.vector, loc=(*loc, "vector")), loc=loc)
    if isinstance(value, ImageQuery):
        return Query(image=_decode_image(value.image, loc=(*loc, "image")), loc=loc)
    return Query(value, loc=loc)


def _normalize_vector(values: list[float], *, loc: Loc) -> Vectors:
    """Scale a vector to unit length. Cosine similarity uses only the direction, and the maximum of half precision is
    65,504.
    """
    vector = np.array(values)
    largest = np.abs(vector).max()
    if largest == 0:
        raise InvalidInputError("It must not be all zeros.", loc=loc)
    vector /= largest  # first, so that squares of very large or very small numbers neither overflow nor vanish
    unit: Vectors = (vector / np.linalg.norm(vector)).astype(np.float32)
    return unit


def _decode_image(text: str, *, loc: Loc) -> ImageFile:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidInputError("It must be base64.", loc=loc) from exc
    for signature, media_type in IMAGE_SIGNATURES.items():
        if data.startswith(signature):
            return ImageFile(media_type, data)
    raise InvalidInputError("It must be a PNG or a JPEG.", loc=loc)
