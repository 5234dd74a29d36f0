"""Includes of chunks that a caller reads without a search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from app.db.models.tenant_data import ChunkRow
from app.db.session import TenantDatabase
from app.graph.includes.loader import INCLUDE_FAILURES, load_include
from app.logging import get_logger
from app.section_notes.types import SectionedChunk
from app.warnings import ServiceWarning, WarningCode

INCLUDE_TIMEOUT_SECONDS = 2.0
"""Maximum duration of one include of a list of chunks."""
logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ChunkIncludes:
    """Items of chunks by include, and warnings about includes that were not loaded.

    Attributes:
        items: Items by the name of the include and the id of the chunk.
        warnings: One warning for each include that is missing.
    """

    items: Mapping[str, Mapping[UUID, Sequence[Any]]] = field(default_factory=dict)
    warnings: Sequence[ServiceWarning] = ()

    def select(self, chunk: ChunkRow) -> dict[str, Sequence[Any]]:
        """Return the items of one chunk by include."""
        return {name: loaded.get(chunk.id, ()) for name, loaded in self.items.items()}


@dataclass(frozen=True, slots=True)
class ChunkIncludeService:
    """Use case that adds includes to chunks."""

    db: TenantDatabase

    async def load(self, names: Sequence[str], chunks: Sequence[ChunkRow]) -> ChunkIncludes:
        """Load includes of chunks. An include that is late or fails becomes a warning.

        Args:
            names: Names of the includes.
            chunks: Chunks that the caller may read.
        """
        if not names or not chunks:
            return ChunkIncludes()
        keys = [_to_sectioned_chunk(chunk) for chunk in chunks]
        items: dict[str, Mapping[UUID, Sequence[Any]]] = {}
        warnings = []
        for name in names:
            try:
                loaded = await load_include(self.db, name, keys, timeout_seconds=INCLUDE_TIMEOUT_SECONDS)
            except INCLUDE_FAILURES as exc:
                logger.warning("chunks.include_failed", include=name, reason=type(exc).__name__)
                message = f"The chunks have no {name.replace('_', ' ')}, because they were not loaded in time."
                warnings.append(ServiceWarning(WarningCode.INCLUDE_SKIPPED, message))
            else:
                items[name] = {key.chunk_id: loaded[key] for key in keys if key in loaded}
        return ChunkIncludes(items, warnings)


def _to_sectioned_chunk(chunk: ChunkRow) -> SectionedChunk:
    return SectionedChunk(
        chunk.tenant_id, chunk.index_id, chunk.id, chunk.document_id, chunk.version, tuple(chunk.node_path)
    )
