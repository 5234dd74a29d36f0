"""Parse and check the reply of an OpenAI-compatible embedding endpoint."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from app.inference.embedding import EmbeddingMismatch, Vectors


class UnusableReply(Exception):
    """The reply is invalid, and a retry may help. The message contains no text of the reply."""


def read_reply(payload: Any, count: int, dimensions: int, *, setting: str) -> Vectors:
    """Parse the vectors of a reply.

    Vectors may be lists of numbers or base64 of little-endian float32, because some servers ignore the requested
    format.

    Args:
        payload: Decoded JSON.
        count: Number of inputs of the request.
        dimensions: Configured number of dimensions.
        setting: Name of the setting of the dimensions, for messages.

    Returns:
        Vectors of unit length in the order of the request, of the shape (count, dimensions).

    Raises:
        EmbeddingMismatch: The vectors have another number of dimensions.
        UnusableReply: The reply is invalid.
    """
    entries = _sort_entries(payload, count)
    vectors = np.empty((count, dimensions), np.float32)
    for position, entry in enumerate(entries):
        vector = _decode_vector(entry.get("embedding"))
        if vector.shape != (dimensions,):
            raise EmbeddingMismatch(
                f"The embedding model returns {vector.size} dimensions, but {setting} is {dimensions}. Correct it.",
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
        raise UnusableReply("the answer is not a list of embeddings")
    if len(entries) != count:
        raise UnusableReply(f"{len(entries)} embeddings for {count} inputs")
    indexes = [entry.get("index") for entry in entries]
    if all(index is None for index in indexes):
        return entries
    entries_by_index = {index: entry for index, entry in zip(indexes, entries, strict=True) if type(index) is int}
    if entries_by_index.keys() != set(range(count)):
        raise UnusableReply("the answer has indexes that the request does not have")
    return [entries_by_index[index] for index in range(count)]


def _decode_vector(embedding: Any) -> npt.NDArray[np.float32]:
    try:
        if isinstance(embedding, str):
            return np.frombuffer(base64.b64decode(embedding, validate=True), np.dtype("<f4"))
        vector = np.asarray(embedding, np.float64)
    except (ValueError, TypeError, OverflowError) as exc:  # OverflowError: an integer beyond the range of a float
        raise UnusableReply("an embedding is neither numbers nor base64") from exc
    if vector.ndim != 1:
        raise UnusableReply("an embedding is not a list of numbers")
    with np.errstate(over="ignore"):  # numbers that are too large become infinite; a later check refuses them
        return vector.astype(np.float32)


def _normalize(vectors: Vectors) -> Vectors:
    if not np.isfinite(vectors).all():
        raise UnusableReply("an embedding contains numbers that are not finite")
    # The norm is computed in double precision, because the square of a large float32 overflows.
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    if not norms.all():
        raise UnusableReply("an embedding is zero")
    unit: Vectors = (vectors / norms).astype(np.float32)
    return unit
