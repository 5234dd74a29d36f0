"""What maintenance reads and writes in one tenant, as the plain role."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from pgvector import SparseVector

from app.db.session import Session
from app.db.statements import statement
from app.indexing.types import HeldBack, IndexBusy, IndexFigures
from app.lexical.weights import reweighed

BATCH = 2000
# A sparsevec as the server sends it: dimensions, entries, 0, then the indices, then the values.
_HEADER_BYTES = 12


class StoredTerms(SparseVector):
    """A sparsevec in the server's own form, so that rows pass through without becoming lists of numbers."""

    def __init__(self, stored: bytes) -> None:
        self.stored = stored

    def to_binary(self) -> bytes:
        return self.stored


@dataclass(frozen=True, slots=True)
class IndexRepository:
    """Queries about one search index."""

    session: Session
    tenant_id: UUID
    index_id: UUID

    async def hold(self) -> bool:
        """Keep others from maintaining it, though not from using it; False when it is gone. Raises IndexBusy."""
        if not await self._hold_knowledge_base():
            return False
        if await self.session.row(_HOLD, self._place) is None:
            raise IndexBusy
        return True

    async def hold_alone(self, *, seconds: float) -> bool:
        """The same, and keep everybody from adding, changing and deleting chunks; raises DBAPIError after a wait.

        No wait for a lock is longer in this transaction: shorter than what Postgres takes to see that two wait for each
        other.
        """
        await self.session.rows(_LIMIT_WAITING, {"ms": str(int(seconds * 1000))})
        if not await self._hold_knowledge_base():
            return False
        return await self.session.row(_HOLD_ALONE, self._place) is not None

    async def _hold_knowledge_base(self) -> bool:
        """Comes first: whoever deletes it begins with its row, and removes what is counted here."""
        return await self.session.row(_HOLD_KNOWLEDGE_BASE, self._place) is not None

    async def figures(self) -> IndexFigures | None:
        """What is known of it, with its chunks counted; None when it is gone."""
        row = await self.session.row(_FIGURES, self._place)
        if row is None:
            return None
        return IndexFigures(
            id=self.index_id,
            dim=row["dim"],
            live=row["state"] == "live",
            building=row["state"] == "building",
            avgdl=row["avgdl"],
            k1=row["k1"],
            b=row["b"],
            vector_index=row["vector_index"],
            held_back=row["held_back"],
            built_chunks=row["built_chunks"],
            deleted_chunks=row["deleted_chunks"],
            chunks=int(row["chunks"]),
            tokens=int(row["tokens"]),
        )

    async def fold(self) -> None:
        """Make one row of the changes of its totals, and of those of a key where they are many.

        Rows are folded when there are twice as many as keys: so each is rewritten about twice in its life, whatever
        the size. Beside writers: a change that this statement does not see stays a row of its own.
        """
        counted = await self.session.row(_COUNT_FREQUENCIES, self._place)
        if counted is not None and counted["rows"] > 2 * counted["keys"] + LEAST_ROWS:
            await self.session.rows(FOLD_FREQUENCIES, self._place)
        crowded = await self.session.rows(_CROWDED_LEVELS, {**self._place, "least": LEAST_ROWS})
        if crowded:
            await self.session.rows(_FOLD_PRIVATE, {**self._place, "levels": [row["scope_key"] for row in crowded]})
        folded = await self.session.row(_FOLD_TOTALS, self._place)
        if folded is not None and folded["deleted"]:
            await self.session.rows(_COUNT_DELETED, {**self._place, "deleted": folded["deleted"]})
        if folded is not None and folded["changed"]:
            await self.session.rows(_COUNT_CHANGED, {**self._place, "changed": folded["changed"]})

    async def measure(self, names: Collection[str]) -> None:
        """What its indexes, of these names, take by now: rows that come and go make them grow."""
        await self.session.rows(_MEASURE, {**self._place, "names": list(names)})

    async def reweigh(self, figures: IndexFigures, avgdl: float) -> None:
        """Give every chunk the weights of another mean length. The caller holds the index alone."""
        after = UUID(int=0)
        while rows := await self.session.rows(_TERMS, {**self._place, "after": after, "limit": BATCH}):
            terms = reweigh_terms(
                [row["terms"] for row in rows], [row["dl"] for row in rows], figures=figures, avgdl=avgdl
            )
            ids = [row["chunk_id"] for row in rows]
            await self.session.rows(_SET_TERMS, {**self._place, "ids": ids, "terms": terms})
            after = ids[-1]
        await self.session.rows(_RAISE_TOPS, {**self._place, "longer": max(1.0, avgdl / figures.avgdl)})
        await self.session.rows(_SET_AVGDL, {**self._place, "avgdl": avgdl})

    async def set_exact(self, reason: HeldBack | None, *, chunks: int | None = None) -> None:
        """From now on searches read all its vectors; ``chunks`` is how many were too many for a try that failed."""
        await self.session.rows(_SET_EXACT, {**self._place, "reason": reason and reason.value, "chunks": chunks})

    async def set_building(self) -> None:
        """A vector index is being built; searches do without."""
        await self.session.rows(_SET_BUILDING, self._place)

    async def set_built(self, *, chunks: int, anew: bool = True) -> None:
        """From now on searches use the vector index, which was found good with so many chunks; ``anew`` has no dead."""
        await self.session.rows(_SET_BUILT, {**self._place, "chunks": chunks, "anew": anew})

    async def give_up(self) -> tuple[UUID, bool] | None:
        """Nobody goes back to it from now on: its knowledge base, and whether it has partial indexes of its own.

        None where it is no retired one, or was one for too short a time: searches may still read it.
        """
        row = await self.session.row(_GIVE_UP, self._place)
        return None if row is None else (row["kb_id"], row["vector_index"] != "exact")

    async def remove_chunks(self, *, limit: int) -> int:
        """Some of them, with their lanes; returns how many. The caller holds the index alone."""
        return len(await self.session.rows(_REMOVE_CHUNKS, {**self._place, "limit": limit}))

    async def remove(self) -> None:
        """The index itself; what has no foreign key first. The caller holds it alone."""
        for each in (_REMOVE_FREQUENCIES, _REMOVE_PRIVATE, _REMOVE_TOTALS, _REMOVE):
            await self.session.rows(each, self._place)

    @property
    def _place(self) -> dict[str, Any]:
        return {"tenant": self.tenant_id, "index": self.index_id}


def reweigh_terms(
    stored: Sequence[bytes], lengths: Sequence[int], *, figures: IndexFigures, avgdl: float
) -> list[StoredTerms]:
    """The sparse vectors of chunks of these lengths, with the weights of another mean length."""
    counts = [(len(each) - _HEADER_BYTES) // 8 for each in stored]
    starts = [len(each) - 4 * count for each, count in zip(stored, counts, strict=True)]
    values = b"".join(each[start:] for each, start in zip(stored, starts, strict=True))
    weights: npt.NDArray[np.float64] = np.frombuffer(values, ">f4").astype(np.float64)
    new = reweighed(
        weights, np.repeat(np.asarray(lengths, np.float64), counts), k1=figures.k1, b=figures.b,
        avgdl=(figures.avgdl, avgdl),
    ).astype(">f4").tobytes()  # fmt: skip
    made, at = [], 0
    for each, start, count in zip(stored, starts, counts, strict=True):
        made.append(StoredTerms(each[:start] + new[at : at + 4 * count]))
        at += 4 * count
    return made


# So few are read in a moment, however many changes they stand for.
LEAST_ROWS = 1000
_HOLD_KNOWLEDGE_BASE = statement("""
select 1 from knowledge_base where tenant_id = :tenant
   and id = (select kb_id from search_index where tenant_id = :tenant and id = :index) for key share""")
_HOLD = statement("""
select 1 from search_index where tenant_id = :tenant and id = :index for no key update skip locked""")
# What adds a chunk takes `for key share` through its foreign key; what changes or deletes one does so by itself.
_HOLD_ALONE = statement("select 1 from search_index where tenant_id = :tenant and id = :index for update")
_LIMIT_WAITING = statement("select set_config('lock_timeout', :ms, true)")
_FIGURES = statement("""
select i.dim, i.state, i.avgdl, (i.identity ->> 'k1')::float8 as k1, (i.identity ->> 'b')::float8 as b, i.vector_index,
       i.held_back, i.built_chunks, i.deleted_chunks,
       coalesce(t.chunks, 0) as chunks, coalesce(t.tokens, 0) as tokens
  from search_index i cross join (select sum(chunks) as chunks, sum(tokens) as tokens from lex_totals
                                   where tenant_id = :tenant and index_id = :index) t
 where i.tenant_id = :tenant and i.id = :index""")
_COUNT_FREQUENCIES = statement("""
select coalesce(sum(g.n), 0)::bigint as rows, count(*) as keys
  from (select count(*) as n from lex_df where tenant_id = :tenant and index_id = :index group by key) g""")
# All of them, and no join: without statistics one that picked out the crowded keys took a minute for a few thousand.
FOLD_FREQUENCIES = statement("""
with gone as (
  delete from lex_df where tenant_id = :tenant and index_id = :index returning key, df, top
)
insert into lex_df (tenant_id, index_id, key, df, top)
select :tenant, :index, key, sum(df), max(top) from gone group by key having sum(df) <> 0""")
_CROWDED_LEVELS = statement("""
select scope_key
  from (select scope_key, count(*) as n from private_frequency
         where tenant_id = :tenant and index_id = :index group by scope_key, key) g
 group by scope_key having sum(g.n) > 2 * count(*) + :least::int limit 1000""")
_FOLD_PRIVATE = statement("""
with gone as (
  delete from private_frequency where tenant_id = :tenant and index_id = :index and scope_key = any(:levels::uuid[])
  returning scope_key, key, chunks
)
insert into private_frequency (tenant_id, index_id, scope_key, key, chunks)
select :tenant, :index, scope_key, key, sum(chunks) from gone group by scope_key, key having sum(chunks) <> 0""")
_FOLD_TOTALS = statement("""
with gone as (
  delete from lex_totals where tenant_id = :tenant and index_id = :index returning chunks, tokens, folded
), folded as (
  insert into lex_totals (tenant_id, index_id, chunks, tokens, folded)
  select :tenant, :index, sum(chunks), sum(tokens), true from gone having sum(chunks) <> 0 or sum(tokens) <> 0
)
select coalesce(-sum(chunks) filter (where chunks < 0), 0)::bigint as deleted,
       coalesce(sum(abs(chunks)) filter (where not gone.folded), 0)::bigint as changed from gone""")
_COUNT_DELETED = statement("""
update search_index set deleted_chunks = deleted_chunks + :deleted
 where tenant_id = :tenant and id = :index and vector_index <> 'exact'""")
_MEASURE = statement("""
update search_index i set index_bytes = m.bytes
  from (select coalesce(sum(pg_relation_size(to_regclass('public.' || name))), 0)::bigint as bytes
          from unnest(:names::text[]) name) m
 where i.tenant_id = :tenant and i.id = :index and i.vector_index = 'hnsw' and i.index_bytes <> m.bytes""")
_COUNT_CHANGED = statement("""
update routing_profile set changed_chunks = changed_chunks + :changed
 where tenant_id = :tenant and index_id = :index""")
_TERMS = statement("""
select chunk_id, dl, sparsevec_send(terms) as terms from chunk_lexical
 where tenant_id = :tenant and index_id = :index and chunk_id > :after order by chunk_id limit :limit""")
_SET_TERMS = statement("""
update chunk_lexical l set terms = u.terms from unnest(:ids::uuid[], :terms::sparsevec[]) u(id, terms)
 where l.tenant_id = :tenant and l.index_id = :index and l.chunk_id = any(:ids::uuid[]) and l.chunk_id = u.id""")
# A weight is 1 / (1 + K / tf), and K becomes `longer` times smaller at most; a hair more for what rounding does.
_RAISE_TOPS = statement("""
update lex_df set top = least(1, 1.000001 / (1 + (1 / top - 1) / :longer::float8))
 where tenant_id = :tenant and index_id = :index and top > 0 and :longer::float8 > 1""")
_SET_AVGDL = statement("update search_index set avgdl = :avgdl where tenant_id = :tenant and id = :index")
_SET_EXACT = statement("""
update search_index
   set vector_index = 'exact', held_back = :reason, built_chunks = :chunks, deleted_chunks = 0, index_bytes = 0
 where tenant_id = :tenant and id = :index""")
_SET_BUILDING = statement("""
update search_index set vector_index = 'building', held_back = null, deleted_chunks = 0
 where tenant_id = :tenant and id = :index""")
_SET_BUILT = statement("""
update search_index
   set vector_index = 'hnsw', built_chunks = :chunks::bigint,
       deleted_chunks = case when :anew then 0 else deleted_chunks end
 where tenant_id = :tenant and id = :index""")
_GIVE_UP = statement("""
update search_index set retired_at = null
 where tenant_id = :tenant and id = :index and state = 'retired'
   and (retired_at is null or retired_at <= now() - interval '1 min') returning kb_id, vector_index""")
_REMOVE_CHUNKS = statement("""
delete from chunk where tenant_id = :tenant and index_id = :index
   and id = any(array(select id from chunk where tenant_id = :tenant and index_id = :index order by id limit :limit))
returning 1""")
_REMOVE_FREQUENCIES = statement("delete from lex_df where tenant_id = :tenant and index_id = :index")
_REMOVE_PRIVATE = statement("delete from private_frequency where tenant_id = :tenant and index_id = :index")
_REMOVE_TOTALS = statement("delete from lex_totals where tenant_id = :tenant and index_id = :index")
_REMOVE = statement("delete from search_index where tenant_id = :tenant and id = :index and state = 'retired'")
