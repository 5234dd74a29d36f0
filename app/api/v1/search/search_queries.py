"""Queries of a search: texts, vectors and images."""

import base64
import binascii
import re
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
IMAGE_SIGNATURES = {
    re.compile(rb"\x89PNG\r\n\x1a\n"): "image/png",
    re.compile(rb"\xff\xd8\xff"): "image/jpeg",
    re.compile(rb"GIF8[79]a"): "image/gif",
    re.compile(rb"BM....\0\0\0\0", re.DOTALL): "image/bmp",
    re.compile(rb"RIFF....WEBP", re.DOTALL): "image/webp",
}

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


class TextQuery(StrictRequestModel):
    """Text to search with, as an object. It means the same as the text alone."""

    text: QueryText = Field(description="Words to search for, 1 to 32,000 characters.", examples=["parental leave"])


class ImageQuery(StrictRequestModel):
    """Image to search with. The embedding model of the knowledge base must embed images."""

    image: Annotated[str, Field(min_length=1, max_length=MAX_IMAGE_BYTES * 4 // 3 + 4)] = Field(
        description="PNG, JPEG, GIF, BMP or WebP in base64, at most 8 MiB before encoding. The embedding model gets it "
        "unchanged.",
        examples=["iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="],
    )


def _detect_query_kind(value: Any) -> str | None:
    """Return the kind of a query in a request, so that an error lists only the faults of this kind."""
    if isinstance(value, dict):
        if "vector" not in value and ("image" in value or "text" in value):
            return "query[image]" if "image" in value else "query[text]"
        return "query[vector]"
    return "query[words]" if isinstance(value, str) else None


QueryRequest = Annotated[
    Annotated[QueryText, Tag("query[words]")]
    | Annotated[TextQuery, Tag("query[text]")]
    | Annotated[VectorQuery, Tag("query[vector]")]
    | Annotated[ImageQuery, Tag("query[image]")],
    Discriminator(
        _detect_query_kind,
        custom_error_type="query",
        custom_error_message='It must be words, {"text": ""}, {"vector": []} or {"image": ""}',
    ),
]
Loc = tuple[str | int, ...]


def parse_query(value: str | TextQuery | VectorQuery | ImageQuery, *, loc: Loc) -> Query:
    """Convert a query of a request.

    Args:
        value: Text, vector or image.
        loc: Location of the query in the request, for errors.

    Raises:
        InvalidInputError: The vector is all zeros, or the image has no known format, or is no base64.
    """
    if isinstance(value, VectorQuery):
        return Query(value.text, vector=_normalize_vector(value.vector, loc=(*loc, "vector")), loc=loc)
    if isinstance(value, ImageQuery):
        return Query(image=_decode_image(value.image, loc=(*loc, "image")), loc=loc)
    return Query(value.text if isinstance(value, TextQuery) else value, loc=loc)


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
        if signature.match(data):
            return ImageFile(media_type, data)
    raise InvalidInputError("It must be a PNG, JPEG, GIF, BMP or WebP.", loc=loc)
