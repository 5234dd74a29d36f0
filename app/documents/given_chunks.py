"""Chunks that their owner cut: checked on their way in, kept as JSON, read again by ingestion."""

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import asdict

from app.documents.types import GivenChunk
from app.errors import InvalidInput


def encode_chunks(chunks: Sequence[GivenChunk], *, dimensions: int, without: Collection[str]) -> str:
    """The form they are stored in, their metadata ``without`` these keys; blocking.

    Raises InvalidInput for an empty text or a vector that cannot be used.
    """
    for number, chunk in enumerate(chunks):
        if not chunk.text.strip():
            raise InvalidInput("The text is empty.", loc=("body", "chunks", number, "text"))
        if chunk.vector is not None:
            _check_vector(chunk.vector, dimensions, ("body", "chunks", number, "vector"))
    kept = [
        {**asdict(chunk), "metadata": {key: value for key, value in chunk.metadata.items() if key not in without}}
        for chunk in chunks
    ]
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def _check_vector(vector: Sequence[float], dimensions: int, loc: tuple[str | int, ...]) -> None:
    if len(vector) != dimensions:
        raise InvalidInput(f"It has {len(vector)} dimensions; the knowledge base has {dimensions}.", loc=loc)
    length = math.hypot(*vector)  # NaN and infinity carry through
    if not math.isfinite(length) or length == 0:
        raise InvalidInput("It must be finite numbers, not all of them zero.", loc=loc)


def decode_chunks(body: bytes) -> list[GivenChunk]:
    """What ``encode_chunks`` made; blocking."""
    return [GivenChunk(**{**one, "section_titles": tuple(one["section_titles"])}) for one in json.loads(body)]
