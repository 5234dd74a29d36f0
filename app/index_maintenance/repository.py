"""Read and write one search index for its maintenance, with the service's database role, which owns no tables."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from pgvector import SparseVector

from app.db.session import Session
from app.db.statements import parse_statement
from app.index_maintenance.types import IndexBusy, IndexStats, VectorIndexSkipReason
from app.lexical.weights import recompute_weights

BATCH_SIZE = 2000
# Bytes before the data of a sparsevec in the format of the server: dimensions, number of entries, 0. The data are all
# indices, then all values.
_HEADER_BYTES = 12


class StoredTerms(SparseVector):
    """Sparse vector in the binary format of the server, so that rows are not converted to lists of numbers."""

    def __init__(self, stored: bytes) -> None:
        self.stored = stored

    def to_binary(self) -> bytes:
        return self.stored


@dataclass(frozen=True, slots=True)
class IndexRepository:
    """Repository of one search index."""

    session: Session
    tenant_id: UUID
    index_id: UUID

    async def lock_shared(self) -> bool:
        """Lock the search index against other maintenance. Searches and writers continue.

        Returns:
            False if the search index is deleted.

        Raises:
            IndexBusy: Other maintenance is running.
        """
        if not await self._lock_knowledge_base():
            return False
        if await self.session.fetch_row(_LOCK_SHARED, self._params) is None:
            raise IndexBusy
        return True

    async def lock_exclusive(self, *, timeout_seconds: float) -> bool:
        """Lock the search index against other maintenance, and against adding, changing and deleting chunks.

        Args:
            timeout_seconds: Maximum seconds that this transaction waits for any lock. Choose less than the second after
                which Postgres detects a deadlock.

        Returns:
            False if the search index is deleted.

        Raises:
            DBAPIError: Another transaction holds a lock for longer.
        """
        await self.session.fetch_rows(_SET_LOCK_TIMEOUT, {"ms": str(int(timeout_seconds * 1000))})
        if not await self._lock_knowledge_base():
            return False
        return await self.session.fetch_row(_LOCK_EXCLUSIVE, self._params) is not None

    async def _lock_knowledge_base(self) -> bool:
        """Lock the row of the knowledge base first, because a deletion begins with that row and removes the counts."""
        return await self.session.fetch_row(_LOCK_KNOWLEDGE_BASE, self._params) is not None

    async def get_stats(self) -> IndexStats | None:
        """Return the statistics of the search index with its number of chunks, or None if it is deleted."""
        row = await self.session.fetch_row(_STATS, self._params)
        if row is None:
            return None
        return IndexStats(
            id=self.index_id,
            dim=row["dim"],
            live=row["state"] == "live",
            building=row["state"] == "building",
            avgdl=row["avgdl"],
            k1=row["k1"],
            b=row["b"],
            vector_index=row["vector_index"],
            skip_reason=row["skip_reason"],
            built_chunks=row["built_chunks"],
            deleted_chunks=row["deleted_chunks"],
            chunks=int(row["chunks"]),
            tokens=int(row["tokens"]),
        )

    async def merge_deltas(self) -> None:
        """Merge the append-only rows of the totals, and of the frequencies of terms and entities.

        Frequencies of the search index and of each scope are merged when there are more than twice as many rows as
        keys. On average each row is therefore rewritten about twice, for any size of the index. Writers continue: a row
        that this transaction does not see stays.
        """
        for count_statement, merge_statement in _FREQUENCY_STATEMENTS:
            counted = await self.session.fetch_row(count_statement, self._params)
            if counted is not None and counted["rows"] > 2 * counted["keys"] + MIN_MERGE_ROWS:
                await self.session.fetch_rows(merge_statement, self._params)
        for crowded_statement, merge_statement in _PRIVATE_FREQUENCY_STATEMENTS:
            crowded = await self.session.fetch_rows(crowded_statement, {**self._params, "min_rows": MIN_MERGE_ROWS})
            if crowded:
                levels = [row["scope_key"] for row in crowded]
                await self.session.fetch_rows(merge_statement, {**self._params, "levels": levels})
        merged = await self.session.fetch_row(_MERGE_TOTALS, self._params)
        if merged is not None and merged["deleted"]:
            await self.session.fetch_rows(_COUNT_DELETED, {**self._params, "deleted": merged["deleted"]})
        if merged is not None and merged["changed"]:
            await self.session.fetch_rows(_COUNT_CHANGED, {**self._params, "changed": merged["changed"]})

    async def measure_size(self, names: Collection[str]) -> None:
        """Store the size in bytes of the partial indexes with these names, which grows as rows change."""
        await self.session.fetch_rows(_MEASURE, {**self._params, "names": list(names)})

    async def recompute_weights(self, stats: IndexStats, avgdl: float) -> None:
        """Recompute the term weights of every chunk for another average chunk length.

        Args:
            stats: Statistics of the search index, which the caller has locked exclusively.
            avgdl: New average length of a chunk, in terms.
        """
        after = UUID(int=0)
        while rows := await self.session.fetch_rows(_TERMS, {**self._params, "after": after, "limit": BATCH_SIZE}):
            terms = recompute_term_weights(
                [row["terms"] for row in rows], [row["dl"] for row in rows], stats=stats, avgdl=avgdl
            )
            ids = [row["chunk_id"] for row in rows]
            await self.session.fetch_rows(_SET_TERMS, {**self._params, "ids": ids, "terms": terms})
            after = ids[-1]
        await self.session.fetch_rows(_RAISE_MAX_WEIGHTS, {**self._params, "longer": max(1.0, avgdl / stats.avgdl)})
        await self.session.fetch_rows(_SET_AVGDL, {**self._params, "avgdl": avgdl})

    async def set_exact(
        self, reason: VectorIndexSkipReason | None, *, chunks: int | None = None, recall: float | None = None
    ) -> None:
        """Make searches scan all vectors from now on.

        Args:
            reason: Reason why a large search index has no vector index.
            chunks: Number of chunks at which a vector index was not accurate enough.
            recall: Measured recall of that vector index.
        """
        params = {"reason": reason and reason.value, "chunks": chunks, "recall": recall}
        await self.session.fetch_rows(_SET_EXACT, {**self._params, **params})

    async def set_building(self) -> None:
        """Record that a vector index is being built; searches do not use it yet."""
        await self.session.fetch_rows(_SET_BUILDING, self._params)

    async def set_built(self, *, chunks: int, recall: float | None = None, rebuilt: bool = True) -> None:
        """Make searches use the vector index from now on.

        Args:
            chunks: Number of chunks at which the vector index was accurate.
            recall: Measured recall of the vector index.
            rebuilt: Whether the vector index is new and therefore has no deleted chunks.
        """
        params = {"chunks": chunks, "recall": recall, "rebuilt": rebuilt}
        await self.session.fetch_rows(_SET_BUILT, {**self._params, **params})

    async def mark_for_deletion(self) -> tuple[UUID, bool] | None:
        """Mark a retired search index for deletion, so that a rollback to it is impossible.

        Returns:
            The knowledge base, and whether the search index has partial indexes. None if the search index is not
            retired, or for less than a minute: running searches may still read it.
        """
        row = await self.session.fetch_row(_MARK_FOR_DELETION, self._params)
        return None if row is None else (row["kb_id"], row["vector_index"] != "exact")

    async def remove_chunks(self, *, limit: int) -> int:
        """Delete up to ``limit`` chunks with their search rows, and return their number. Needs the exclusive lock."""
        return len(await self.session.fetch_rows(_REMOVE_CHUNKS, {**self._params, "limit": limit}))

    async def remove(self) -> None:
        """Delete the search index and its counts, which have no foreign key. Needs the exclusive lock."""
        for delete_statement in (*_REMOVE_COUNTS, _REMOVE):
            await self.session.fetch_rows(delete_statement, self._params)

    @property
    def _params(self) -> dict[str, Any]:
        return {"tenant": self.tenant_id, "index": self.index_id}


def recompute_term_weights(
    stored: Sequence[bytes], lengths: Sequence[int], *, stats: IndexStats, avgdl: float
) -> list[StoredTerms]:
    """Recompute the stored term weights of chunks for another average chunk length.

    Args:
        stored: Term weights of each chunk in the binary format of the server.
        lengths: Length of each chunk, in terms.
        stats: Statistics of the search index, with the average length of the stored weights.
        avgdl: New average length.

    Returns:
        The new term weights of each chunk.
    """
    counts = [(len(each) - _HEADER_BYTES) // 8 for each in stored]
    starts = [len(each) - 4 * count for each, count in zip(stored, counts, strict=True)]
    values = b"".join(each[start:] for each, start in zip(stored, starts, strict=True))
    weights: npt.NDArray[np.float64] = np.frombuffer(values, ">f4").astype(np.float64)
    new = recompute_weights(
        weights, np.repeat(np.asarray(lengths, np.float64), counts), k1=stats.k1, b=stats.b,
        avgdl=(stats.avgdl, avgdl),
    ).astype(">f4").tobytes()  # fmt: skip
    result, offset = [], 0
    for each, start, count in zip(stored, starts, counts, strict=True):
        result.append(StoredTerms(each[:start] + new[offset : offset + 4 * count]))
        offset += 4 * count
    return result


# Number of rows below which frequencies are not merged, because a search reads so few rows quickly.
MIN_MERGE_ROWS = 1000
_LOCK_KNOWLEDGE_BASE = parse_statement("""
select 1 from knowledge_base where tenant_id = :tenant
   and id = (select kb_id from search_index where tenant_id = :tenant and id = :index) for key share""")
_LOCK_SHARED = parse_statement("""
select 1 from search_index where tenant_id = :tenant and id = :index for no key update skip locked""")
# A transaction that adds a chunk locks this row `for key share` through the foreign key. One that changes or deletes a
# chunk takes that lock explicitly.
_LOCK_EXCLUSIVE = parse_statement("select 1 from search_index where tenant_id = :tenant and id = :index for update")
_SET_LOCK_TIMEOUT = parse_statement("select set_config('lock_timeout', :ms, true)")
_STATS = parse_statement("""
select i.dim, i.state, i.avgdl, (i.identity ->> 'k1')::float8 as k1, (i.identity ->> 'b')::float8 as b, i.vector_index,
       i.skip_reason, i.built_chunks, i.deleted_chunks,
       coalesce(t.chunks, 0) as chunks, coalesce(t.tokens, 0) as tokens
  from search_index i cross join (select sum(chunks) as chunks, sum(tokens) as tokens from index_totals
                                   where tenant_id = :tenant and index_id = :index) t
 where i.tenant_id = :tenant and i.id = :index""")
_COUNT_ROWS = """
select coalesce(sum(g.n), 0)::bigint as rows, count(*) as keys
  from (select count(*) as n from {table} where tenant_id = :tenant and index_id = :index group by key) g"""
# Merge all keys, without a join. A join with only the keys that have many rows took a minute for a few thousand rows if
# the table had no statistics.
MERGE_FREQUENCIES = parse_statement("""
with removed as (
  delete from term_document_frequency where tenant_id = :tenant and index_id = :index returning key, df, max_weight
)
insert into term_document_frequency (tenant_id, index_id, key, df, max_weight)
select :tenant, :index, key, sum(df), max(max_weight) from removed group by key having sum(df) <> 0""")
# An entity keeps its name while chunks name it.
MERGE_ENTITIES = parse_statement("""
with removed as (
  delete from entity where tenant_id = :tenant and index_id = :index returning key, chunks, titles, name
)
insert into entity (tenant_id, index_id, key, chunks, titles, name)
select :tenant, :index, key, sum(chunks), sum(titles), case when sum(chunks) > 0 then max(name collate "C") end
  from removed group by key having sum(chunks) <> 0 or sum(titles) <> 0""")
_FREQUENCY_STATEMENTS = (
    (parse_statement(_COUNT_ROWS.format(table="term_document_frequency")), MERGE_FREQUENCIES),
    (parse_statement(_COUNT_ROWS.format(table="entity")), MERGE_ENTITIES),
)
_CROWDED_LEVELS = """
select scope_key
  from (select scope_key, count(*) as n from {table}
         where tenant_id = :tenant and index_id = :index group by scope_key, key) g
 group by scope_key having sum(g.n) > 2 * count(*) + :min_rows::int limit 1000"""
_MERGE_PRIVATE = """
with removed as (
  delete from {table} where tenant_id = :tenant and index_id = :index and scope_key = any(:levels::uuid[])
  returning scope_key, key, chunks
)
insert into {table} (tenant_id, index_id, scope_key, key, chunks)
select :tenant, :index, scope_key, key, sum(chunks) from removed group by scope_key, key having sum(chunks) <> 0"""
_PRIVATE_FREQUENCY_STATEMENTS = [
    (parse_statement(_CROWDED_LEVELS.format(table=table)), parse_statement(_MERGE_PRIVATE.format(table=table)))
    for table in ("private_frequency", "private_entity_frequency")
]
_MERGE_TOTALS = parse_statement("""
with removed as (
  delete from index_totals where tenant_id = :tenant and index_id = :index returning chunks, tokens, merged
), merged as (
  insert into index_totals (tenant_id, index_id, chunks, tokens, merged)
  select :tenant, :index, sum(chunks), sum(tokens), true from removed having sum(chunks) <> 0 or sum(tokens) <> 0
)
select coalesce(-sum(chunks) filter (where chunks < 0), 0)::bigint as deleted,
       coalesce(sum(abs(chunks)) filter (where not removed.merged), 0)::bigint as changed from removed""")
_COUNT_DELETED = parse_statement("""
update search_index set deleted_chunks = deleted_chunks + :deleted
 where tenant_id = :tenant and id = :index and vector_index <> 'exact'""")
_MEASURE = parse_statement("""
update search_index i set index_bytes = m.bytes
  from (select coalesce(sum(pg_relation_size(to_regclass('public.' || name))), 0)::bigint as bytes
          from unnest(:names::text[]) name) m
 where i.tenant_id = :tenant and i.id = :index and i.vector_index = 'hnsw' and i.index_bytes <> m.bytes""")
_COUNT_CHANGED = parse_statement("""
update routing_profile set changed_chunks = changed_chunks + :changed
 where tenant_id = :tenant and index_id = :index""")
_TERMS = parse_statement("""
select chunk_id, dl, sparsevec_send(terms) as terms from chunk_lexical
 where tenant_id = :tenant and index_id = :index and chunk_id > :after order by chunk_id limit :limit""")
_SET_TERMS = parse_statement("""
update chunk_lexical l set terms = u.terms from unnest(:ids::uuid[], :terms::sparsevec[]) u(id, terms)
 where l.tenant_id = :tenant and l.index_id = :index and l.chunk_id = any(:ids::uuid[]) and l.chunk_id = u.id""")
# A weight is 1 / (1 + K / tf), and K becomes at most `longer` times smaller. The factor 1.000001 allows for rounding.
_RAISE_MAX_WEIGHTS = parse_statement("""
update term_document_frequency set max_weight = least(1, 1.000001 / (1 + (1 / max_weight - 1) / :longer::float8))
 where tenant_id = :tenant and index_id = :index and max_weight > 0 and :longer::float8 > 1""")
_SET_AVGDL = parse_statement("update search_index set avgdl = :avgdl where tenant_id = :tenant and id = :index")
_SET_EXACT = parse_statement("""
update search_index
   set vector_index = 'exact', skip_reason = :reason, built_chunks = :chunks, deleted_chunks = 0, index_bytes = 0,
       recall = :recall
 where tenant_id = :tenant and id = :index""")
_SET_BUILDING = parse_statement("""
update search_index set vector_index = 'building', skip_reason = null, deleted_chunks = 0, recall = null
 where tenant_id = :tenant and id = :index""")
_SET_BUILT = parse_statement("""
update search_index
   set vector_index = 'hnsw', built_chunks = :chunks::bigint, recall = :recall::real,
       deleted_chunks = case when :rebuilt then 0 else deleted_chunks end
 where tenant_id = :tenant and id = :index""")
_MARK_FOR_DELETION = parse_statement("""
update search_index set retired_at = null
 where tenant_id = :tenant and id = :index and state = 'retired'
   and (retired_at is null or retired_at <= now() - interval '1 min') returning kb_id, vector_index""")
_REMOVE_CHUNKS = parse_statement("""
delete from chunk where tenant_id = :tenant and index_id = :index
   and id = any(array(select id from chunk where tenant_id = :tenant and index_id = :index order by id limit :limit))
returning 1""")
_COUNT_TABLES = ("term_document_frequency", "private_frequency", "index_totals", "entity", "private_entity_frequency")
_REMOVE_COUNTS = [
    parse_statement(f"delete from {table} where tenant_id = :tenant and index_id = :index")  # noqa: S608
    for table in _COUNT_TABLES
]
_REMOVE = parse_statement("delete from search_index where tenant_id = :tenant and id = :index and state = 'retired'")
