"""What routing reads: profiles of knowledge bases, never their chunks."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from pgvector import HalfVector

from app.db.session import Session
from app.db.statements import Record, Statement, statement
from app.retrieval.routing import Candidate, Likeness, Profile
from app.retrieval.types import Reason

Vector = npt.NDArray[np.float32]


class RoutingRepository:
    """Reads in one tenant's scope: its own, and what is shared."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def candidates(self, only: Sequence[UUID] | None, *, levels: Sequence[UUID]) -> list[Candidate]:
        """Every knowledge base, or those of ``only``, by name; ``levels`` are a user's or a chat's that are searched.

        What belongs to these is in no profile, so whatever holds some of it is searched.
        """
        values = {"tenant": self.tenant_id, "only": only}
        rows = await self.session.rows(_CANDIDATES, values)
        twins = {row["name"]: row for row in await self.session.rows(_TWINS, {"tenant": self.tenant_id})}
        holding = await self._holding(levels) if levels else set()
        return [_candidate(row, twins.get(row["name"]), holds=row["id"] in holding) for row in rows]

    async def _holding(self, levels: Sequence[UUID]) -> set[UUID]:
        rows = await self.session.rows(_HOLDING, {"tenant": self.tenant_id, "levels": list(levels)})
        return {row[0] for row in rows}

    async def likeness(self, indexes: Sequence[UUID], queries: Sequence[Vector]) -> dict[UUID, Likeness]:
        """How like the most alike query each search index is; they are all of the queries' model."""
        values: dict[str, Any] = {f"query_{number}": HalfVector(query) for number, query in enumerate(queries)}
        values |= {"tenant": self.tenant_id, "indexes": list(indexes)}
        rows = await self.session.rows(_likeness(len(queries)), values)
        return {row["index_id"]: Likeness(row["centroids"], row["texts"]) for row in rows}


def _candidate(own: Record, twin: Record | None, *, holds: bool) -> Candidate:
    """A knowledge base with chunks that no profile knows of yet is searched, and so is one that nothing is known of."""
    settings = own["routing"]
    rows = [own] if twin is None else [own, twin]
    weights = [row["routing"].get("description_weight", 0.3) for row in rows]
    profiles = [
        Profile(row["index_id"], row["model"], weight)
        for row, weight in zip(rows, weights, strict=True)
        if row["model"] is not None
    ]
    free: Reason | None = None
    if settings.get("always", False):
        free = "always"
    elif holds:
        free = "own_documents"
    elif own["model"] is None or (twin is not None and twin["unknown"]):
        free = "nothing_known"
    return Candidate(own["id"], own["name"], settings.get("scale", 1.0), profiles, free)


# `unknown` where there are chunks and no profile: an empty knowledge base has neither.
_PROFILED = """
select k.id, k.name, k.routing, i.id as index_id, p.model,
       p.index_id is null and exists (select from lex_totals t
                                       where t.tenant_id = i.tenant_id and t.index_id = i.id) as unknown
  from knowledge_base k
  join search_index i on i.tenant_id = k.tenant_id and i.kb_id = k.id and i.state = 'live'
  left join routing_profile p on p.tenant_id = i.tenant_id and p.index_id = i.id"""
_CANDIDATES = statement(f"""{_PROFILED}
 where k.tenant_id = :tenant and k.deleted_at is null and (:only::uuid[] is null or k.id = any(:only))
 order by k.name""")
_TWINS = statement(f"""{_PROFILED}
 where k.tenant_id = system_tenant() and :tenant::uuid <> system_tenant() and k.deleted_at is null""")
_HOLDING = statement("""
select distinct kb_id from document
 where tenant_id = :tenant and scope_key = any(:levels::uuid[])
   and scope_level in ('user', 'chat_shared', 'chat_agent')""")


@lru_cache(maxsize=32)
def _likeness(queries: int) -> Statement:
    """One pass over the vectors, however many queries there are."""
    products = ", ".join(f"-(v.embedding <#> :query_{number}::halfvec)" for number in range(queries))
    best = f"max(greatest({products}))"
    return statement(f"""
select v.index_id, {best} filter (where not v.described) as centroids, {best} filter (where v.described) as texts
  from routing_vector v
 where v.tenant_id = any(array[:tenant::uuid, system_tenant()]) and v.index_id = any(:indexes::uuid[])
 group by v.index_id""")  # noqa: S608  (numbers)
