"""The index queries: both lanes in one round trip, then the text of what is returned."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal
from uuid import UUID

import numpy as np
import numpy.typing as npt
from pgvector import HalfVector
from sqlalchemy import TextClause, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession

from app.retrieval.types import FoundChunk, FoundDocument, Key

Lane = Literal["dense", "lexical"]
LANE_TABLES: dict[Lane, str] = {"dense": "chunk_embedding", "lexical": "chunk_lexical"}


@dataclass(frozen=True, slots=True)
class LaneCall:
    """One query in one search index; a None vector leaves the dense lane out, no terms the lexical one."""

    tenant_id: UUID
    index_id: UUID
    dim: int
    vector: npt.NDArray[np.float32] | None
    term_ids: Sequence[int]
    keys: Sequence[int]
    scopes: Sequence[UUID]
    contains: dict[str, Any] | None
    path: str | None

    @property
    def asks_something(self) -> bool:
        """False where neither lane has anything to look for."""
        return self.vector is not None or bool(self.term_ids)


@dataclass(frozen=True, slots=True)
class LaneRow:
    """A row of a lane: ``call`` is the position of the LaneCall that found it; ``similarity`` is the cosine."""

    call: int
    lane: Lane
    chunk_id: UUID
    score: float
    similarity: float | None


class RetrievalRepository:
    """Reads in one tenant's scope."""

    def __init__(self, session: AsyncSession) -> None:
        self.session = session

    async def limit_time(self, seconds: float) -> None:
        """Let the database give up every statement of this transaction that takes longer."""
        milliseconds = max(1, int(seconds * 1000))  # 0 would mean no limit
        await self.session.execute(_LIMIT, {"ms": str(milliseconds)})

    async def run_lanes(self, calls: Sequence[LaneCall], *, size: int) -> list[LaneRow]:
        """Both lanes of every call, ``size`` rows each, best first, in one statement."""
        parameters: dict[str, Any] = {"size": size}
        for number, call in enumerate(calls):
            parameters |= {
                f"t{number}": call.tenant_id,
                f"i{number}": call.index_id,
                f"v{number}": None if call.vector is None else HalfVector(call.vector),
                f"d{number}": call.dim,
                f"w{number}": list(call.term_ids),
                f"k{number}": list(call.keys),
                f"s{number}": list(call.scopes),
                f"c{number}": None if call.contains is None else json.dumps(call.contains),
                f"p{number}": call.path,
            }
        return [LaneRow(*row) for row in await self.session.execute(_lanes(len(calls)), parameters)]

    async def read(
        self, keys: Sequence[Key], *, tenant_id: UUID, lane: Lane
    ) -> dict[Key, tuple[FoundChunk, FoundDocument]]:
        """The chunks with these keys and their documents, told from this lane; not what is gone or expired."""
        values = {"tenant": tenant_id, "indexes": [key[0] for key in keys], "chunks": [key[1] for key in keys]}
        rows = await self.session.execute(_READ[lane], values)
        return {(row[0], row[1]): (FoundChunk(*row[1:13]), FoundDocument(*row[13:])) for row in rows}


@lru_cache(maxsize=128)
def _lanes(calls: int) -> TextClause:
    """The statement for so many calls; made once, because reading its parameters out of the text is not free."""
    return text(" union all ".join(_LANES.replace("{n}", str(number)) for number in range(calls)))


_LIMIT = text("select set_config('statement_timeout', :ms, true)")
_LANES = """
select {n} as call, h.lane, h.chunk_id, h.score, h.similarity
  from hybrid_search(cast(:t{n} as uuid), cast(:i{n} as uuid), cast(:v{n} as halfvec), cast(:d{n} as int),
                     cast(:w{n} as int4[]), cast(:k{n} as int4[]), cast(:s{n} as uuid[]), cast(:c{n} as jsonb),
                     cast(:p{n} as jsonpath), cast(:size as int), cast(:size as int)) h"""
# The columns stand in the order of FoundChunk and FoundDocument. What is told of the document is what a lane was
# stamped with, and so belongs to the version that was found: the row may be a newer one's, queued or failed. Both lanes
# have the stamp, so that one of them can be out of reach.
_TEXTS = """
select c.index_id, c.id as chunk_id, c.version, c.ordinal, c.content, c.page, c.page_end, c.slide, c.section_titles,
       c.node_path, c.media_ordinal, c.media_type, m.told as metadata, d.id as document_id,
       l.metadata ->> '$source', l.metadata ->> '$title', l.metadata ->> '$source_uri',
       cast(l.metadata ->> '$source_created_at' as timestamptz), l.metadata ->> '$media_type',
       case when c.metadata = '{}' then m.told else d.metadata end as document_metadata, d.chunk_count
  from unnest(cast(:indexes as uuid[]), cast(:chunks as uuid[])) k(index_id, id)
  join chunk c on c.tenant_id = :tenant and c.index_id = k.index_id and c.id = k.id
  join {lane} l on l.tenant_id = :tenant and l.index_id = k.index_id and l.chunk_id = k.id
  join document d on d.tenant_id = :tenant and d.id = c.document_id and (d.expires_at is null or d.expires_at > now())
 cross join lateral (select coalesce(jsonb_object_agg(e.key, e.value), '{}') as told from jsonb_each(l.metadata) e
                      where left(e.key, 1) <> '$') m"""
_READ = {
    lane: text(_TEXTS.replace("{lane}", table)).columns(section_titles=JSONB, metadata=JSONB, document_metadata=JSONB)
    for lane, table in LANE_TABLES.items()
}
