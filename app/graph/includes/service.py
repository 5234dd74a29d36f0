"""Includes of chunks that a caller reads without a search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.models.tenant_data import ChunkRow
from app.db.session import TenantDatabase
from app.graph.includes import INCLUDES
from app.section_notes.types import SectionedChunk


@dataclass(frozen=True, slots=True)
class ChunkIncludeService:
    """Service that loads the includes of chunks which the caller may read."""

    db: TenantDatabase

    async def load(self, names: Sequence[str], chunks: Sequence[ChunkRow]) -> Mapping[UUID, dict[str, Sequence[Any]]]:
        """Load the items of chunks.

        Args:
            names: Names of the includes, as ``parse_include_names`` returns them.
            chunks: Chunks that the caller may read.

        Returns:
            The items of each chunk by the name of the include; empty without names.

        Raises:
            DatabaseUnavailable: The database does not answer.
        """
        if not names or not chunks:
            return {}
        keys = {chunk.id: _to_sectioned_chunk(chunk) for chunk in chunks}
        async with self.db.read_transaction(snapshot=True) as reader:
            loaded = {name: await INCLUDES[name].load(reader, [*keys.values()]) for name in names}
        return {id_: {name: items.get(key, ()) for name, items in loaded.items()} for id_, key in keys.items()}


def _to_sectioned_chunk(chunk: ChunkRow) -> SectionedChunk:
    return SectionedChunk(
        chunk.tenant_id, chunk.index_id, chunk.id, chunk.document_id, chunk.version, tuple(chunk.node_path)
    )
