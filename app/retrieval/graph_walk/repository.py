"""SQL of walks in the entity graph. The statements run in the transaction of the search."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from app.db.driver import DriverReader
from app.db.statements import Statement, parse_statement
from app.retrieval.graph_walk.types import Aliases, EntityCount, IndexState, WalkIndex, WalkRow, WalkSettings, WalkStart

MAX_WALK_ROWS = 10_000
"""Maximum number of rows of chunks that one step of a walk reads, in one search index."""

MAX_REACHED_CHUNKS = 200
"""Maximum number of chunks that a walk returns for one search index."""


class GraphWalkRepository:
    """Statements of walks for the searches of one tenant, which reads the tenant's rows and shared rows."""

    def __init__(self, reader: DriverReader) -> None:
        self.reader = reader

    async def load_state(self, index: WalkIndex, keys: Sequence[int]) -> IndexState | None:
        """Load the state of a search index, with the numbers of chunks of some entities and of all corrected ones.

        For a restricted key, only chunks that it can read count, and each entity counts as a title.

        Args:
            index: The search index.
            keys: Keys of the entities.

        Returns:
            The state; None if the search index was dropped.
        """
        values: dict[str, Any] = {
            "t": index.tenant_id, "kb": index.kb_id, "i": index.index_id, "keys": list(keys)
        }  # fmt: skip
        if index.is_user_restricted:
            row = await self.reader.fetch_row(_RESTRICTED_STATE, values | {"scopes": index.scopes})
        else:
            row = await self.reader.fetch_row(_STATE, values)
        if row is None:
            return None
        counts = {
            key: EntityCount(*numbers) for key, *numbers in zip(row[6] or (), row[7] or (), row[8] or (), strict=True)
        }
        return IndexState(row[0], row[1], row[2], Aliases(row[3] or (), row[4] or (), row[5] or ()), counts)

    async def walk(self, starts: Sequence[WalkStart], settings: WalkSettings) -> list[WalkRow]:
        """Walk from each start. All starts share a statement.

        Args:
            starts: Starts, one for each search index.
            settings: Settings of the walk.

        Returns:
            The chunks of the last step, and those of earlier steps from which the walk went on.
        """
        values: dict[str, Any] = {
            "hops": settings.max_hops,
            "damping": settings.damping,
            "share": settings.max_entity_share,
            "most": MAX_WALK_ROWS,
            "limit": MAX_REACHED_CHUNKS,
            "predicates": None if settings.relation_filter is None else json.dumps(list(settings.relation_filter)),
        }
        for number, start in enumerate(starts):
            values |= {f"{name}{number}": value for name, value in _build_start_values(start).items()}
        rows = await self.reader.fetch_rows(_build_walk_statement(len(starts)), values)
        return [_parse_walk_row(starts[row[0]].index.index_id.bytes, row[1:]) for row in rows]


def _build_start_values(start: WalkStart) -> Mapping[str, Any]:
    index, aliases = start.index, start.state.aliases
    row_filter = index.filter.exclude_expired(datetime.now(UTC)) if start.state.has_expired else index.filter
    contains, path, _ = row_filter.sql_params
    return {
        "t": index.tenant_id,
        "i": index.index_id,
        "s": list(start.seeds),
        "m": list(start.seed_masses),
        "e": [entity.key for entity in start.entities],
        "w": [entity.weight for entity in start.entities],
        "n": [entity.chunks for entity in start.entities],
        "o": index.scopes,
        "c": contains,
        "p": path,
        "r": index.is_user_restricted,
        "k": list(aliases.keys),
        "a": list(aliases.targets),
        "d": list(aliases.documents),
    }


def _parse_walk_row(index: bytes, row: Sequence[Any]) -> WalkRow:
    step, chunk, mass, entity, source, is_cut = row
    return WalkRow(step, index + chunk.bytes, mass, entity, None if source is None else index + source.bytes, is_cut)


@lru_cache(maxsize=32)
def _build_walk_statement(start_count: int) -> Statement:
    return parse_statement(" union all ".join(_WALK.replace("{n}", str(number)) for number in range(start_count)))


_WALK = """
select {n}, w.step, w.chunk_id, w.mass, w.key, w.source, w.is_cut
  from graph_walk(:t{n}, :i{n}, :s{n}, :m{n}, :e{n}, :w{n}, :n{n}, :o{n}, :c{n}, :p{n}, :hops, :damping, :share, :most,
                  :limit, :r{n}, :k{n}, :a{n}, :d{n}, :predicates) w"""
_STATES = """
with alias as materialized (
  select a.key, a.target_key, a.document_id from entity_alias a where a.tenant_id = :t and a.kb_id = :kb{readable}
), counted as (
  select k.key, {chunks} as chunks, {titles} as titles
    from (select unnest(:keys::int4[]) union select key from alias union select target_key from alias) k(key)
   cross join lateral (select coalesce(sum(e.chunks), 0)::int as chunks, coalesce(sum(e.titles), 0)::int as titles
                         from entity e where e.tenant_id = :t and e.index_id = :i and e.key = k.key offset 0) e
)
select i.graph is not null,
       exists (select from document d where d.tenant_id = :t and d.kb_id = :kb and d.expires_at <= now()),
       t.chunks::bigint, a.keys, a.targets, a.documents, c.keys, c.chunks, c.titles
  from search_index i
 cross join (select coalesce(sum(t.chunks), 0){private_total} as chunks from index_totals t
              where t.tenant_id = :t and t.index_id = :i) t
 cross join (select array_agg(key) as keys, array_agg(target_key) as targets, array_agg(document_id) as documents
               from alias) a
 cross join (select array_agg(key) as keys, array_agg(chunks) as chunks, array_agg(titles) as titles
               from counted where chunks > 0) c
 where i.tenant_id = :t and i.id = :i"""
_STATE = parse_statement(_STATES.format(chunks="e.chunks", titles="e.titles", private_total="", readable=""))
_PRIVATE_ROWS = """
(select coalesce(sum(case when x.scope_key = all_private_levels() then -x.chunks else x.chunks end), 0)::int
   from {table} x where x.tenant_id = :t and x.index_id = :i
    and x.scope_key = any(:scopes::uuid[] || all_private_levels()) and x.key is not distinct from {key})"""
_READABLE_SPLITS = """
    and (a.document_id is null or exists (select from document d where d.tenant_id = :t and d.kb_id = :kb
                                             and d.id = a.document_id and d.scope_key = any(:scopes::uuid[])))"""
_RESTRICTED_STATE = parse_statement(
    _STATES.format(
        chunks="greatest(0, e.chunks + " + _PRIVATE_ROWS.format(table="private_entity_frequency", key="k.key") + ")",
        titles="1",
        private_total=" + " + _PRIVATE_ROWS.format(table="private_frequency", key="null"),
        readable=_READABLE_SPLITS,
    )
)
