"""Reads of entities from the tables of the graph."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.session import Session
from app.db.statements import Record
from app.graph.entities import statements
from app.graph.entities.corrected_keys import CorrectedKey, CorrectedKeys
from app.graph.entities.types import EntityChunk, EntityReader, NameCondition

LAST_CHARACTER = "\U0010ffff"
MAX_COUNTED_CHUNKS = 2_000
"""Entities in more chunks are summarized from a sample, if all their chunks are readable."""

SAMPLED_CHUNKS = 50


@dataclass(frozen=True, slots=True)
class MemberSummary:
    """Summary of an entity, or of one of the keys that count as it.

    ``name`` is the most frequent spelling. ``kinds`` are letters.
    """

    name: str
    kinds: str
    type: str | None
    chunks: int
    titles: int


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Summary of an entity over all keys that count as it, and of each of these keys."""

    total: MemberSummary
    members: Mapping[int, MemberSummary]


@dataclass(frozen=True, slots=True)
class SharedChunks:
    """Entities that share chunks with another: keys with numbers of chunks, and the number of all of them.

    ``read_chunks`` is the number of chunks that were compared.
    """

    counts: Mapping[int, int]
    degree: int
    read_chunks: int


class EntityRepository:
    """Reads of the entities of one search index by one caller."""

    def __init__(self, session: Session, reader: EntityReader) -> None:
        self.session = session
        self.reader = reader

    @property
    def _values(self) -> dict[str, Any]:
        reader = self.reader
        scope = {"scope": reader.filters.scope_key, "reader": reader.filters.reader}
        return {"t": reader.tenant_id, "kb": reader.kb_id, "i": reader.index_id, **scope}

    async def load_corrected_keys(self) -> CorrectedKeys:
        """Return the corrections of the knowledge base."""
        rows = await self.session.fetch_rows(statements.LIST_CORRECTED_KEYS, self._values)
        return CorrectedKeys.from_rows(CorrectedKey(*row) for row in rows)

    async def list_names(
        self, condition: NameCondition, *, low: str, after: str, limit: int
    ) -> tuple[list[tuple[str, int]], str | None]:
        """List entities of the index by their normalized names, also those that the caller may not read.

        Args:
            condition: Condition on the names.
            low: First name.
            after: Name behind which the list begins.
            limit: Number of rows to read. A name may have several.

        Returns:
            Names with keys, and the last name if more may follow.
        """
        values = {
            "low": max(low, condition.prefix),
            "high": condition.prefix + LAST_CHARACTER,
            "after": after,
            "patterns": condition.patterns,
            "limit": limit,
        }
        rows = await self.session.fetch_rows(statements.LIST_NAMES, self._values | values)
        names = list(dict.fromkeys((row["name"], row["key"]) for row in rows))
        return names, names[-1][0] if len(rows) == limit else None

    async def list_key_names(self, keys: Collection[int]) -> dict[int, str]:
        """Return the normalized names of keys, also of entities that the caller may not read."""
        rows = await self.session.fetch_rows(statements.LIST_KEY_NAMES, self._values | {"keys": list(keys)})
        return {row["key"]: row["name"] for row in rows}

    async def summarize(self, keys: Sequence[int], corrected: CorrectedKeys) -> dict[int, GroupSummary]:
        """Return the summaries of entities from the chunks that the caller may read. Others are missing.

        Args:
            keys: Keys of the entities.
            corrected: Corrections of the knowledge base.
        """
        common = await self._count_common(keys, corrected)
        rare = [key for key in keys if key not in common]
        groups = {}
        if rare:
            raw_keys = {raw for key in rare for raw in corrected.list_raw_keys(key)}
            values = self._values | {"keys": rare, "raw_keys": list(raw_keys)}
            groups = _to_groups(await self.session.fetch_rows(statements.SUMMARIZE, values))
        if common:
            values = self._values | {"keys": list(common), "raw_keys": list(common), "limit": SAMPLED_CHUNKS}
            rows = await self.session.fetch_rows(statements.SUMMARIZE_SAMPLE, values)
            for key, group in _to_groups(rows).items():
                total = MemberSummary(group.total.name, group.total.kinds, group.total.type, *common[key])
                groups[key] = GroupSummary(total, {key: total})
        return groups

    async def _count_common(self, keys: Sequence[int], corrected: CorrectedKeys) -> dict[int, tuple[int, int]]:
        """Return chunks and titles of frequent entities whose chunks the caller may read without exception."""
        if not self.reader.reads_all_levels or self.reader.is_filtered:
            return {}
        changed = corrected.list_changed()
        values = self._values | {"keys": [key for key in keys if key not in changed]}
        counts = {
            row["key"]: (row["chunks"], row["titles"])
            for row in await self.session.fetch_rows(statements.COUNT_CHUNKS, values)
            if row["chunks"] > MAX_COUNTED_CHUNKS
        }
        if not counts:
            return {}
        row = await self.session.fetch_row(statements.HAS_EXPIRED_DOCUMENTS, self._values)
        return counts if row is not None and not row["has_expired"] else {}

    async def list_chunks(
        self, key: int, raw_keys: Sequence[int], *, after: tuple[UUID, int] | None, limit: int
    ) -> list[EntityChunk]:
        """List the readable chunks that name an entity, by document and index.

        Args:
            key: The entity.
            raw_keys: Keys of chunks that may count as the entity.
            after: Document and index of the last chunk of the page before.
            limit: Maximum number of chunks.
        """
        document, ordinal = after or (None, None)
        values = {"key": key, "raw_keys": list(raw_keys), "limit": limit}
        place = {"after_document": document, "after_ordinal": ordinal}
        rows = await self.session.fetch_rows(statements.LIST_CHUNKS, self._values | values | place)
        return [EntityChunk(*row) for row in rows]

    async def find_neighbours(self, key: int, raw_keys: Sequence[int], *, max_chunks: int, limit: int) -> SharedChunks:
        """Return the entities that share the most readable chunks with an entity.

        Args:
            key: The entity.
            raw_keys: Keys of chunks that may count as the entity.
            max_chunks: Maximum number of chunks to read.
            limit: Maximum number of neighbours.
        """
        values = {"key": key, "raw_keys": list(raw_keys), "max_chunks": max_chunks, "limit": limit}
        rows = await self.session.fetch_rows(statements.FIND_NEIGHBOURS, self._values | values)
        counts = {row["key"]: row["shared"] for row in rows}
        return SharedChunks(counts, rows[0]["degree"], rows[0]["chunks"]) if rows else SharedChunks({}, 0, 0)

    async def list_relations(self, key: int, raw_keys: Sequence[int], *, limit: int) -> list[Record]:
        """Return the relations of an entity with numbers of chunks, those with the most evidence first."""
        values = {"key": key, "raw_keys": list(raw_keys), "limit": limit}
        return await self.session.fetch_rows(statements.LIST_RELATIONS, self._values | values)

    async def list_graph_mentions(self, document_id: UUID, version: int, *, limit: int) -> list[Record]:
        """Return the entities of the chunks of a document, in reading order."""
        values = {"document": document_id, "version": version, "limit": limit}
        return await self.session.fetch_rows(statements.GRAPH_MENTIONS, self._values | values)

    async def list_graph_relations(self, document_id: UUID, version: int, *, limit: int) -> list[Record]:
        """Return the relations of the chunks of a document, in reading order."""
        values = {"document": document_id, "version": version, "limit": limit}
        return await self.session.fetch_rows(statements.GRAPH_RELATIONS, self._values | values)


def _to_groups(rows: Iterable[Record]) -> dict[int, GroupSummary]:
    totals: dict[int, MemberSummary] = {}
    members: dict[int, dict[int, MemberSummary]] = {}
    for row in rows:
        summary = MemberSummary(row["name"], row["kinds"], row["type"], row["chunks"], row["titles"])
        if row["member_key"] is None:
            totals[row["key"]] = summary
        else:
            members.setdefault(row["key"], {})[row["member_key"]] = summary
    return {key: GroupSummary(total, members[key]) for key, total in totals.items()}
