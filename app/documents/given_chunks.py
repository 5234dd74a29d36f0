"""Chunks that their owner cut: checked on their way in, kept as JSON, read again by ingestion."""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields

from app.documents.types import GivenChunk
from app.errors import InvalidInput
from app.inference.embedding import EmbeddingIdentity

_MADE_BY = "made_by"


def encode_chunks(chunks: Sequence[GivenChunk], *, model: EmbeddingIdentity, without: Collection[str]) -> str:
    """The form they are stored in, their metadata ``without`` these keys; blocking.

    Vectors are stored with the ``model`` that they are of: the knowledge base may have another one when they are read.
    Raises InvalidInput for an empty text or a vector that cannot be used.
    """
    for number, chunk in enumerate(chunks):
        if not chunk.text.strip():
            raise InvalidInput("The text is empty.", loc=("body", "chunks", number, "text"))
        if chunk.vector is not None:
            _check_vector(chunk.vector, model.dimensions, ("body", "chunks", number, "vector"))
    made_by = {_MADE_BY: asdict(model)}
    # One by one: as long as one is written, nothing else of the process runs.
    kept = (_encode(chunk, {} if chunk.vector is None else made_by, without) for chunk in chunks)
    return f"[{','.join(kept)}]"


def _encode(chunk: GivenChunk, made_by: Mapping[str, object], without: Collection[str]) -> str:
    values = {field.name: getattr(chunk, field.name) for field in fields(chunk)}  # asdict copies each number
    metadata = {key: value for key, value in chunk.metadata.items() if key not in without}
    return json.dumps({**values, "metadata": metadata, **made_by}, ensure_ascii=False, separators=(",", ":"))


def _check_vector(vector: Sequence[float], dimensions: int, loc: tuple[str | int, ...]) -> None:
    if len(vector) != dimensions:
        raise InvalidInput(f"It has {len(vector)} dimensions; the knowledge base has {dimensions}.", loc=loc)
    length = math.hypot(*vector)  # NaN and infinity carry through
    if not math.isfinite(length) or length == 0:
        raise InvalidInput("It must be finite numbers, not all of them zero.", loc=loc)


def decode_chunks(body: bytes, *, model: EmbeddingIdentity) -> list[GivenChunk]:
    """What ``encode_chunks`` made, without vectors of another model than this; blocking."""
    chunks, ours = [], asdict(model)
    for one in json.loads(body):
        if one.pop(_MADE_BY, None) != ours:
            one["vector"] = None
        chunks.append(GivenChunk(**{**one, "section_titles": tuple(one["section_titles"])}))
    return chunks
