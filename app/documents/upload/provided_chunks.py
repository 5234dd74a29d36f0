"""Chunks that their owner cut: checked on their way in, kept as JSON, read again by ingestion."""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields

from app.documents.types import ProvidedChunk
from app.errors import InvalidInputError
from app.inference.embedding import EmbeddingIdentity

_MODEL_KEY = "model"


def encode_chunks(chunks: Sequence[ProvidedChunk], *, model: EmbeddingIdentity, excluded_keys: Collection[str]) -> str:
    """Return the form in which chunks are stored, their metadata without ``excluded_keys``; blocking.

    Vectors are stored with the ``model`` that they are of: the knowledge base may have another one when they are read.
    Raises InvalidInputError for an empty text or a vector that cannot be used.
    """
    for number, chunk in enumerate(chunks):
        if not chunk.text.strip():
            raise InvalidInputError("The text is empty.", loc=("body", "chunks", number, "text"))
        if chunk.vector is not None:
            _check_vector(chunk.vector, model.dimensions, ("body", "chunks", number, "vector"))
    model_entry = {_MODEL_KEY: asdict(model)}
    # One by one: as long as one is written, nothing else of the process runs.
    encoded_chunks = (
        _encode_chunk(chunk, {} if chunk.vector is None else model_entry, excluded_keys) for chunk in chunks
    )
    return f"[{','.join(encoded_chunks)}]"


def _encode_chunk(chunk: ProvidedChunk, model_entry: Mapping[str, object], excluded_keys: Collection[str]) -> str:
    values = {field.name: getattr(chunk, field.name) for field in fields(chunk)}  # asdict copies each number
    metadata = {key: value for key, value in chunk.metadata.items() if key not in excluded_keys}
    return json.dumps({**values, "metadata": metadata, **model_entry}, ensure_ascii=False, separators=(",", ":"))


def _check_vector(vector: Sequence[float], dimensions: int, loc: tuple[str | int, ...]) -> None:
    if len(vector) != dimensions:
        raise InvalidInputError(f"It has {len(vector)} dimensions; the knowledge base has {dimensions}.", loc=loc)
    length = math.hypot(*vector)  # NaN and infinity carry through
    if not math.isfinite(length) or length == 0:
        raise InvalidInputError("It must be finite numbers, not all of them zero.", loc=loc)


def decode_chunks(body: bytes, *, model: EmbeddingIdentity) -> list[ProvidedChunk]:
    """What ``encode_chunks`` made, without vectors of another model than this; blocking."""
    chunks, current_model = [], asdict(model)
    for item in json.loads(body):
        if item.pop(_MODEL_KEY, None) != current_model:
            item["vector"] = None
        chunks.append(ProvidedChunk(**{**item, "section_titles": tuple(item["section_titles"])}))
    return chunks
