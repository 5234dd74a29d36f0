"""Reading an OpenAI-compatible embedding reply: nothing in it is believed before it has been checked."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from app.inference.embedding import EmbeddingMismatch, Vectors


class UnusableReply(Exception):
    """A reply that is not what was asked for, and that another try may mend; the message holds no content."""


def read_reply(payload: Any, count: int, dimensions: int, *, setting: str) -> Vectors:
    """Return the unit-length vectors of a decoded JSON reply, shape (count, dimensions), in the order of the request.

    ``setting`` is the name of the setting of the dimensions, for messages.

    Vectors may be lists of numbers or base64 of little-endian float32 (some servers ignore the format asked for).
    Raises EmbeddingMismatch for another dimension, UnusableReply for anything else that is wrong.
    """
    entries = _sort_entries(payload, count)
    vectors = np.empty((count, dimensions), np.float32)
    for position, entry in enumerate(entries):
        vector = _decode_vector(entry.get("embedding"))
        if vector.shape != (dimensions,):
            raise EmbeddingMismatch(
                f"The embedding model gives {vector.size} dimensions, {setting} is {dimensions}.",
                expected=dimensions,
                received=vector.size,
            )
        vectors[position] = vector
    return _normalize(vectors)


def read_used_tokens(payload: Any, *, max_tokens: int) -> int | None:
    """Return the tokens of the request as the endpoint reports them, or None without a plausible number."""
    usage = payload.get("usage") if isinstance(payload, dict) else None
    tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
    return tokens if type(tokens) is int and 0 < tokens <= max_tokens else None


def _sort_entries(payload: Any, count: int) -> Sequence[Mapping[str, Any]]:
    entries = payload.get("data") if isinstance(payload, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UnusableReply("it is no list of embeddings")
    if len(entries) != count:
        raise UnusableReply(f"{len(entries)} embeddings for {count} inputs")
    indexes = [entry.get("index") for entry in entries]
    if all(index is None for index in indexes):
        return entries
    entries_by_index = {index: entry for index, entry in zip(indexes, entries, strict=True) if type(index) is int}
    if entries_by_index.keys() != set(range(count)):
        raise UnusableReply("its indexes are not those of the request")
    return [entries_by_index[index] for index in range(count)]


def _decode_vector(embedding: Any) -> npt.NDArray[np.float32]:
    try:
        if isinstance(embedding, str):
            return np.frombuffer(base64.b64decode(embedding, validate=True), np.dtype("<f4"))
        vector = np.asarray(embedding, np.float64)
    except (ValueError, TypeError, OverflowError) as exc:  # the last for an integer that no float holds
        raise UnusableReply("an embedding is neither numbers nor base64") from exc
    if vector.ndim != 1:
        raise UnusableReply("an embedding is no list of numbers")
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused as such
        return vector.astype(np.float32)


def _normalize(vectors: Vectors) -> Vectors:
    if not np.isfinite(vectors).all():
        raise UnusableReply("an embedding holds numbers that are not finite")
    # In double precision: the square of a large float32 is not one.
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    if not norms.all():
        raise UnusableReply("an embedding is zero")
    unit: Vectors = (vectors / norms).astype(np.float32)
    return unit
