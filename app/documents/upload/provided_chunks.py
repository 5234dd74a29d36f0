"""Encoding of provided chunks: the upload checks the chunks and stores them as JSON, and ingestion reads them back."""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields

from app.documents.types import ProvidedChunk
from app.errors import InvalidInputError
from app.inference.embedding import EmbeddingIdentity

_MODEL_KEY = "model"


def encode_chunks(chunks: Sequence[ProvidedChunk], *, model: EmbeddingIdentity, excluded_keys: Collection[str]) -> str:
    """Return the JSON form in which provided chunks are stored. The function blocks.

    Each vector is stored with its model, because the knowledge base may have another model when ingestion reads the
    vector.

    Args:
        chunks: The chunks.
        model: The model of the vectors.
        excluded_keys: Metadata keys to leave out.

    Returns:
        A JSON list.

    Raises:
        InvalidInputError: A text is empty, or a vector has wrong dimensions, is not finite or is zero.
    """
    for number, chunk in enumerate(chunks):
        if not chunk.text.strip():
            raise InvalidInputError(
                "The text is empty. Send a chunk with text, or leave the chunk out.",
                loc=("body", "chunks", number, "text"),
            )
        if chunk.vector is not None:
            _check_vector(chunk.vector, model.dimensions, ("body", "chunks", number, "vector"))
    model_entry = {_MODEL_KEY: asdict(model)}
    # Chunks are encoded one by one, because one call of the encoder blocks all threads of the process.
    encoded_chunks = (
        _encode_chunk(chunk, {} if chunk.vector is None else model_entry, excluded_keys) for chunk in chunks
    )
    return f"[{','.join(encoded_chunks)}]"


def _encode_chunk(chunk: ProvidedChunk, model_entry: Mapping[str, object], excluded_keys: Collection[str]) -> str:
    values = {
        field.name: getattr(chunk, field.name) for field in fields(chunk)
    }  # ``asdict`` would copy each number of a vector
    metadata = {key: value for key, value in chunk.metadata.items() if key not in excluded_keys}
    return json.dumps({**values, "metadata": metadata, **model_entry}, ensure_ascii=False, separators=(",", ":"))


def _check_vector(vector: Sequence[float], dimensions: int, loc: tuple[str | int, ...]) -> None:
    if len(vector) != dimensions:
        raise InvalidInputError(
            f"The vector has {len(vector)} dimensions. Send one with {dimensions}, as the knowledge base requires.",
            loc=loc,
        )
    length = math.hypot(*vector)  # the length is NaN or infinite if any number is
    if not math.isfinite(length) or length == 0:
        raise InvalidInputError("The vector is not usable. Send finite numbers that are not all zero.", loc=loc)


def decode_chunks(body: bytes, *, model: EmbeddingIdentity) -> list[ProvidedChunk]:
    """Return the chunks that ``encode_chunks`` stored. The function blocks.

    Args:
        body: The stored JSON list.
        model: The present model of the knowledge base. Vectors of other models are dropped.

    Returns:
        The chunks.
    """
    chunks, current_model = [], asdict(model)
    for item in json.loads(body):
        if item.pop(_MODEL_KEY, None) != current_model:
            item["vector"] = None
        chunks.append(ProvidedChunk(**{**item, "section_titles": tuple(item["section_titles"])}))
    return chunks
