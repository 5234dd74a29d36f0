"""Includes of chunks that a caller reads without a search."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from app.db.models.tenant_data import ChunkRow
from app.db.session import DatabaseRefused, DatabaseUnavailable, TenantDatabase
from app.graph.includes import INCLUDES
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
            loaded = await self._load_include(name, keys)
            if loaded is None:
                message = f"The chunks have no {name.replace('_', ' ')}, because they were not loaded in time."
                warnings.append(ServiceWarning(WarningCode.INCLUDE_SKIPPED, message))
            else:
                items[name] = {key.chunk_id: loaded[key] for key in keys if key in loaded}
        return ChunkIncludes(items, warnings)

    async def _load_include(
        self, name: str, chunks: Sequence[SectionedChunk]
    ) -> Mapping[SectionedChunk, Sequence[Any]] | None:
        """Load the items of one include; None if the database does not answer in time."""
        try:
            async with (
                asyncio.timeout(INCLUDE_TIMEOUT_SECONDS),
                self.db.read_transaction(snapshot=True, statement_timeout_seconds=INCLUDE_TIMEOUT_SECONDS) as reader,
            ):
                return await INCLUDES[name].load(reader, chunks)
        except (DBAPIError, TimeoutError, DatabaseUnavailable, DatabaseRefused) as exc:
            logger.warning("chunks.include_failed", include=name, reason=type(exc).__name__)
            return None


def _to_sectioned_chunk(chunk: ChunkRow) -> SectionedChunk:
    return SectionedChunk(
        chunk.tenant_id, chunk.index_id, chunk.id, chunk.document_id, chunk.version, tuple(chunk.node_path)
    )
