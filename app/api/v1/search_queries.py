"""What can be searched for: words, a vector, a picture."""

import base64
import binascii
from typing import Annotated, Any

import numpy as np
from pydantic import Discriminator, Field, FiniteFloat, StringConstraints, Tag

from app.api.bodies import STORABLE
from app.api.v1.schemas import Input
from app.errors import InvalidInput
from app.inference.embedding import PictureFile, Vectors
from app.retrieval.types import Query

MAX_DIMENSIONS = 4000
MAX_PICTURE_BYTES = 8 * 1024 * 1024
# By how a file begins.
PICTURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=32_000), STORABLE]


class VectorQuery(Input):
    """A vector of the knowledge base's model, of any length but none; with ``text`` its words are searched for too."""

    vector: Annotated[list[FiniteFloat], Field(min_length=1, max_length=MAX_DIMENSIONS, fail_fast=True)]
    text: Words | None = None


class ImageQuery(Input):
    """A PNG or a JPEG in base64, for a knowledge base whose model embeds pictures."""

    image: Annotated[str, Field(min_length=1, max_length=MAX_PICTURE_BYTES * 4 // 3 + 4)]


def _kind(given: Any) -> str | None:
    """What a caller means by it: of something wrong only the faults of that are told."""
    if isinstance(given, dict):
        return "query[image]" if "image" in given and "vector" not in given else "query[vector]"
    return "query[words]" if isinstance(given, str) else None


QueryIn = Annotated[
    Annotated[Words, Tag("query[words]")]
    | Annotated[VectorQuery, Tag("query[vector]")]
    | Annotated[ImageQuery, Tag("query[image]")],
    Discriminator(
        _kind, custom_error_type="query", custom_error_message='It must be words, {"vector": []} or {"image": ""}'
    ),
]
Loc = tuple[str | int, ...]


def query_of(given: str | VectorQuery | ImageQuery, *, loc: Loc) -> Query:
    """The room's form of it. Raises InvalidInput."""
    if isinstance(given, VectorQuery):
        return Query(given.text, vector=_unit(given.vector, loc=(*loc, "vector")), loc=loc)
    if isinstance(given, ImageQuery):
        return Query(picture=_picture(given.image, loc=(*loc, "image")), loc=loc)
    return Query(given, loc=loc)


def _unit(values: list[float], *, loc: Loc) -> Vectors:
    """Of unit length: only the direction counts, and a half-precision number ends at 65,504."""
    vector = np.array(values)
    largest = np.abs(vector).max()
    if largest == 0:
        raise InvalidInput("It must not be all zeros.", loc=loc)
    vector /= largest  # first, so that squares of very large or small numbers stay numbers
    unit: Vectors = (vector / np.linalg.norm(vector)).astype(np.float32)
    return unit


def _picture(text: str, *, loc: Loc) -> PictureFile:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidInput("It must be base64.", loc=loc) from exc
    for start, media_type in PICTURES.items():
        if data.startswith(start):
            return PictureFile(media_type, data)
    raise InvalidInput("It must be a PNG or a JPEG.", loc=loc)
