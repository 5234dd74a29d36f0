"""What can be searched for: words, a vector, a picture."""

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
# By how a file begins.
IMAGE_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}

QueryText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=32_000), STORABLE]


class VectorQuery(StrictRequestModel):
    """A vector of the knowledge base's model, of any length but none; with ``text`` its words are searched for too."""

    vector: Annotated[list[FiniteFloat], Field(min_length=1, max_length=MAX_DIMENSIONS, fail_fast=True)]
    text: QueryText | None = None


class ImageQuery(StrictRequestModel):
    """A PNG or a JPEG in base64, for a knowledge base whose model embeds pictures."""

    image: Annotated[str, Field(min_length=1, max_length=MAX_IMAGE_BYTES * 4 // 3 + 4)]


def _detect_query_kind(value: Any) -> str | None:
    """What a caller means by it: of something wrong only the faults of that are told."""
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
    """The room's form of it. Raises InvalidInputError."""
    if isinstance(value, VectorQuery):
        return Query(value.text, vector=_normalize_vector(value.vector, loc=(*loc, "vector")), loc=loc)
    if isinstance(value, ImageQuery):
        return Query(image=_decode_image(value.image, loc=(*loc, "image")), loc=loc)
    return Query(value, loc=loc)


def _normalize_vector(values: list[float], *, loc: Loc) -> Vectors:
    """Of unit length: only the direction counts, and a half-precision number ends at 65,504."""
    vector = np.array(values)
    largest = np.abs(vector).max()
    if largest == 0:
        raise InvalidInputError("It must not be all zeros.", loc=loc)
    vector /= largest  # first, so that squares of very large or small numbers stay numbers
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
