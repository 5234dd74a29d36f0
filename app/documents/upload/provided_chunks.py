"""Encoding of provided chunks: the upload checks the chunks and stores them as JSON, and ingestion reads them back."""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from app.documents.provided_graph import ProvidedGraph
from app.documents.types import ProvidedChunk
from app.errors import InvalidInputError
from app.inference.embedding import EmbeddingIdentity

_MODEL_KEY = "model"


def encode_chunks(
    chunks: Sequence[ProvidedChunk],
    *,
    model: EmbeddingIdentity,
    excluded_keys: Collection[str],
    single_loc: tuple[str | int, ...] | None = None,
) -> str:
    """Return the JSON form in which provided chunks are stored. The function blocks.

    Each vector is stored with its model, because the knowledge base may have another model when ingestion reads the
    vector.

    Args:
        chunks: The chunks.
        model: The model of the vectors.
        excluded_keys: Metadata keys to leave out.
        single_loc: Location of the only chunk in the request; None for a list ``chunks`` in the body.

    Returns:
        A JSON list.

    Raises:
        InvalidInputError: A text is empty, or a vector has wrong dimensions, is not finite or is zero.
    """
    for number, chunk in enumerate(chunks):
        loc = ("body", "chunks", number) if single_loc is None else single_loc
        if not chunk.text.strip():
            raise InvalidInputError(
                "The text is empty. Send a chunk with text, or leave the chunk out.",
                loc=(*loc, "text"),
            )
        if chunk.vector is not None:
            _check_vector(chunk.vector, model.dimensions, (*loc, "vector"))
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
    values["graph"] = chunk.graph.to_stored()
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


@dataclass(frozen=True, slots=True)
class EditedChunks:
    """Stored chunks after a change: the JSON list, and the indexes of the chunks that exist."""

    body: str
    ordinals: Sequence[int]


def edit_chunks(
    body: bytes, encoded_chunk: str | None, *, find_ordinal: Callable[[int], int | None], live_ordinals: Sequence[int]
) -> EditedChunks | None:
    """Replace or delete one chunk of a stored list. The function blocks.

    A deleted chunk leaves null in the list, so that the indexes and ids of the other chunks stay the same.

    Args:
        body: The stored JSON list.
        encoded_chunk: JSON list with the new chunk, from ``encode_chunks``. None deletes the chunk.
        find_ordinal: Returns the index of the chunk to change, in a list of the given length; None if there is none.
        live_ordinals: Indexes of the chunks of the live version if the list describes it; empty otherwise. An import
            numbers the chunks again without gaps. The list then loses its gaps too.

    Returns:
        The new list, or None if no such chunk exists.
    """
    items = json.loads(body)
    present = [ordinal for ordinal, item in enumerate(items) if item is not None]
    if live_ordinals and list(live_ordinals) == list(range(len(present))) != present:
        items = [items[ordinal] for ordinal in present]
    ordinal = find_ordinal(len(items))
    if ordinal is None or (encoded_chunk is None and items[ordinal] is None):
        return None
    items[ordinal] = None if encoded_chunk is None else json.loads(encoded_chunk)[0]
    encoded_items = ",".join(json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in items)
    return EditedChunks(f"[{encoded_items}]", [position for position, item in enumerate(items) if item is not None])


def decode_chunks(body: bytes, *, model: EmbeddingIdentity) -> dict[int, ProvidedChunk]:
    """Return the chunks that ``encode_chunks`` stored. The function blocks.

    Args:
        body: The stored JSON list.
        model: The present model of the knowledge base. Vectors of other models are dropped.

    Returns:
        The chunks by their index. Deleted chunks leave gaps.
    """
    chunks, current_model = {}, asdict(model)
    for ordinal, item in enumerate(json.loads(body)):
        if item is None:
            continue
        if item.pop(_MODEL_KEY, None) != current_model:
            item["vector"] = None
        item["graph"] = ProvidedGraph.from_stored(item.get("graph"))
        chunks[ordinal] = ProvidedChunk(**{**item, "section_titles": tuple(item["section_titles"])})
    return chunks
