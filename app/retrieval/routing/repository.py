"""SQL of routing, which reads profiles of knowledge bases and never their chunks."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
from pgvector import HalfVector

from app.db.session import Session
from app.db.statements import Record, Statement, parse_statement
from app.retrieval.routes import RoutingReason
from app.retrieval.routing.candidates import Candidate, Candidates, Numbers, Profile
from app.retrieval.routing.profile_cache import (
    IndexVectors,
    ProfileCache,
    TenantProfiles,
    Vectors,
    build_matrices,
)

# Maximum number of knowledge bases that routing considers. Those with documents come first, then the newest.
MAX_CONSIDERED = 1000
# Estimated vectors of a search index (centroids and texts), and bytes of a number in single precision.
_VECTORS_PER_INDEX, _BYTES_PER_NUMBER = 20, 4


class RoutingRepository:
    """Repository for the routing of one tenant, which reads the tenant's routing profiles and shared profiles."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def load_profiles(self, cache: ProfileCache) -> TenantProfiles:
        """Load the profiles of all knowledge bases of the tenant. Unchanged profiles come from the cache.

        Args:
            cache: Cache that is read and updated.

        Returns:
            The profiles, sorted by the name of the knowledge base.
        """
        values = {"tenant": self.tenant_id}
        row = await self.session.fetch_row(_VERSION, values)
        version = None if row is None else tuple(row)
        profiles = cache.get(self.tenant_id)
        if profiles is None or profiles.version != version:
            profiles = await self._read_profiles(
                version, {} if profiles is None else profiles.vectors, max_bytes=cache.max_tenant_bytes
            )
        cache.put(self.tenant_id, profiles)
        return profiles

    async def _read_profiles(
        self, version: object, cached_vectors: Mapping[UUID, IndexVectors], *, max_bytes: int
    ) -> TenantProfiles:
        """Read the profiles. They may include changes after ``version``: the next search then reads them again."""
        own = await self.session.fetch_rows(_PROFILES, {"tenant": self.tenant_id, "most": MAX_CONSIDERED})
        incomplete = len(own) > MAX_CONSIDERED and own[-1]["holds"]
        own = own[:MAX_CONSIDERED]
        shared_rows = await self.session.fetch_rows(_SHARED, {"names": [row["name"] for row in own]})
        shared_by_name = {row["name"]: row for row in shared_rows}
        rows = [*own, *shared_rows]
        items = [_build_candidate(row, shared_by_name.get(row["name"])) for row in own]
        candidates = await asyncio.to_thread(Candidates.from_candidates, items, is_incomplete=incomplete)
        rows_by_index = {row["index_id"]: row for row in rows if row["index_id"] in candidates.positions}
        if sum(row["dim"] for row in rows_by_index.values()) * _VECTORS_PER_INDEX * _BYTES_PER_NUMBER > max_bytes:
            return TenantProfiles(version, candidates, {}, None)
        vectors = {
            index: index_vectors
            for index, index_vectors in cached_vectors.items()
            if index in rows_by_index and index_vectors.created_at == rows_by_index[index]["created_at"]
        }
        vectors |= await self._load_vectors([row for index, row in rows_by_index.items() if index not in vectors])
        return TenantProfiles(
            version, candidates, vectors, await asyncio.to_thread(build_matrices, candidates, vectors)
        )

    async def _load_vectors(self, indexes: Sequence[Record]) -> dict[UUID, IndexVectors]:
        values = {"tenant": self.tenant_id, "indexes": [row["index_id"] for row in indexes]}
        vectors_by_index: dict[UUID, tuple[list[Vectors], list[Vectors]]] = {}
        for index_id, described, vector in await self.session.fetch_rows(_VECTORS, values):
            vectors_by_index.setdefault(index_id, ([], []))[described].append(vector.to_numpy())
        return {
            row["index_id"]: IndexVectors(
                row["created_at"], *(_stack_vectors(part, row["dim"]) for part in vectors_by_index[row["index_id"]])
            )
            for row in indexes
            if row["index_id"] in vectors_by_index
        }

    async def find_with_user_documents(self, levels: Sequence[UUID]) -> set[UUID]:
        """Find the knowledge bases with documents of a user or a chat, which profiles do not cover."""
        rows = await self.session.fetch_rows(_WITH_USER_DOCUMENTS, {"tenant": self.tenant_id, "levels": list(levels)})
        return {row[0] for row in rows}

    async def fill_similarities(
        self, candidates: Candidates, indexes: Sequence[UUID], queries: Sequence[Vectors], similarities: Numbers
    ) -> None:
        """Write the highest cosine of each search index with any query into the similarity tables.

        Args:
            candidates: Knowledge bases of the tenant.
            indexes: Search indexes of the queries' embedding model.
            queries: Vectors of the queries.
            similarities: Tables from ``create_similarities``, changed in place.
        """
        values: dict[str, Any] = {f"query_{number}": HalfVector(query) for number, query in enumerate(queries)}
        values |= {"tenant": self.tenant_id, "indexes": list(indexes)}
        for index_id, *cosines in await self.session.fetch_rows(_build_comparison(len(queries)), values):
            similarities[:, *candidates.positions[index_id]] = np.array(cosines, np.float64)  # None becomes nan


def _stack_vectors(vectors: Sequence[Vectors], dim: int) -> Vectors:
    return np.array(vectors, np.float32).reshape(len(vectors), dim)


def _build_candidate(own: Record, shared: Record | None) -> Candidate:
    """Build a candidate. It is exempt from the comparison if it has no profile yet.

    A shared knowledge base of the same name that has no profile yet does not exempt it.
    """
    settings = own["routing"]
    profiles = [
        Profile(row["index_id"], row["model"], row["routing"].get("description_weight", 0.3))
        for row in ([own] if shared is None else [own, shared])
        if row["model"] is not None
    ]
    exempt_reason: RoutingReason | None = None
    if settings.get("always", False):
        exempt_reason = "always"
    elif own["model"] is None:
        exempt_reason = "no_profile"
    return Candidate(own["id"], own["name"], settings.get("scale", 1.0), profiles, exempt_reason)


# Version of everything that is cached: sums that do not depend on the order of rows. Each reads one table, because a
# join costs more.
_VERSION = parse_statement("""
select (select bit_xor(hash_record_extended(row(k.tenant_id, k.id, k.name, k.routing), 0)) from knowledge_base k
         where k.tenant_id = any(array[:tenant::uuid, system_tenant()]) and k.deleted_at is null),
       (select bit_xor(uuid_hash_extended(i.id, 0)) from search_index i
         where i.tenant_id = any(array[:tenant::uuid, system_tenant()]) and i.state = 'live'),
       (select bit_xor(hash_record_extended(row(p.index_id, p.model, p.created_at), 0)) from routing_profile p
         where p.tenant_id = any(array[:tenant::uuid, system_tenant()]))""")
_COLUMNS = """
select k.tenant_id, k.id, k.name, k.routing, i.id as index_id, i.dim, p.model, p.created_at,
       k.source is not null
         or exists (select from document d where d.tenant_id = k.tenant_id and d.kb_id = k.id) as holds
  from knowledge_base k
  join search_index i on i.tenant_id = k.tenant_id and i.kb_id = k.id and i.state = 'live'
  left join routing_profile p on p.tenant_id = i.tenant_id and p.index_id = i.id
 where k.deleted_at is null"""
_PROFILES = parse_statement(f"""{_COLUMNS} and k.tenant_id = :tenant::uuid
 order by coalesce(k.routing -> 'always' = 'true', false) desc, p.model is not null desc, holds desc,
          k.created_at desc, k.id desc limit :most::int + 1""")
_SHARED = parse_statement(f"""{_COLUMNS} and k.tenant_id = system_tenant() and k.name = any(:names::text[])""")
_VECTORS = parse_statement("""
select v.index_id, v.described, v.embedding from routing_vector v
 where v.tenant_id = any(array[:tenant::uuid, system_tenant()]) and v.index_id = any(:indexes::uuid[])
 order by v.index_id, v.number""")
_WITH_USER_DOCUMENTS = parse_statement("""
select distinct kb_id from document
 where tenant_id = :tenant and scope_key = any(:levels::uuid[])
   and scope_level in ('user', 'chat_shared', 'chat_agent')""")


@lru_cache(maxsize=32)
def _build_comparison(query_count: int) -> Statement:
    """Build the statement that compares a number of queries in one pass over the vectors."""
    products = ", ".join(f"-(v.embedding <#> :query_{number}::halfvec)" for number in range(query_count))
    best = f"max(greatest({products}))"
    return parse_statement(f"""
select v.index_id, {best} filter (where not v.described) as centroids, {best} filter (where v.described) as texts
  from routing_vector v
 where v.tenant_id = any(array[:tenant::uuid, system_tenant()]) and v.index_id = any(:indexes::uuid[])
 group by v.index_id""")  # noqa: S608  (numbers)
