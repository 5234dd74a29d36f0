"""What routing profiles are made of, and the profiles themselves, of one search index."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from pgvector import HalfVector

from app.db.session import Session
from app.db.statements import statement

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Described:
    """A search index: what made it, how large it is, what people say of it, and which of that is embedded already.

    ``open_chunks`` are those of the levels that everybody sees, for what searches see of it.
    """

    identity: dict[str, Any]
    dim: int
    chunks: int
    open_chunks: int
    texts: Sequence[str]
    texts_id: UUID | None


@dataclass(frozen=True, slots=True)
class RoutingProfileRepository:
    """Queries about one search index."""

    session: Session
    tenant_id: UUID
    index_id: UUID

    async def described(self) -> Described | None:
        """What is known of it; None where it is gone, or of no use any more."""
        row = await self.session.row(_DESCRIBED, self._place)
        if row is None:
            return None
        said = row["routing_texts"]
        texts = [*said.get("descriptions", ()), *said.get("examples", ())]
        chunks = int(row["chunks"])
        open_chunks = max(0, chunks - int(row["private_chunks"]))
        return Described(row["identity"], row["dim"], chunks, open_chunks, texts, row["texts_id"])

    async def sample(self, *, dim: int, scopes: Sequence[UUID], reads: int, size: int) -> Vectors:
        """Vectors of at most ``size`` chunks of these levels, of the first ``reads`` there are.

        The ids of chunks are hashes: the first are as good a sample as any.
        """
        values = {**self._place, "dim": dim, "scopes": list(scopes), "reads": reads, "size": size}
        rows = await self.session.rows(_SAMPLE, values)
        return np.array([row[0].to_numpy() for row in rows], np.float32).reshape(len(rows), dim)

    async def described_vectors(self) -> list[HalfVector]:
        """Those of the texts, as they are kept."""
        return [row[0] for row in await self.session.rows(_DESCRIBED_VECTORS, self._place)]

    async def replace(
        self, *, model: UUID, chunks: int, texts_id: UUID | None, centroids: Vectors, described: Sequence[Any]
    ) -> None:
        """Nothing is changed where the search index is gone. What changes beside this is counted from now on."""
        made_by = model if len(centroids) or described else None
        values = {**self._place, "model": made_by, "chunks": chunks, "texts_id": texts_id}
        if await self.session.row(_PUT, values) is None:
            return
        await self.session.rows(_CLEAR, self._place)
        vectors = [HalfVector(one) for one in centroids]
        kinds = [False] * len(vectors) + [True] * len(described)
        vectors += [one if isinstance(one, HalfVector) else HalfVector(one) for one in described]
        await self.session.rows(_ADD, {**self._place, "kinds": kinds, "vectors": vectors})

    @property
    def _place(self) -> dict[str, Any]:
        return {"tenant": self.tenant_id, "index": self.index_id}


_DESCRIBED = statement("""
select i.identity, i.dim, k.routing_texts, p.texts_id,
       (select coalesce(sum(t.chunks), 0) from lex_totals t
         where t.tenant_id = i.tenant_id and t.index_id = i.id) as chunks,
       (select coalesce(sum(f.chunks), 0) from private_frequency f
         where f.tenant_id = i.tenant_id and f.index_id = i.id and f.scope_key = all_private_levels()
           and f.key is null) as private_chunks
  from search_index i
  join knowledge_base k on k.tenant_id = i.tenant_id and k.id = i.kb_id and k.deleted_at is null
  left join routing_profile p on p.tenant_id = i.tenant_id and p.index_id = i.id
 where i.tenant_id = :tenant and i.id = :index and i.state <> 'retired'""")
_SAMPLE = statement("""
select e.embedding
  from (select e.embedding, e.scope_key from chunk_embedding e
         where e.tenant_id = :tenant and e.index_id = :index and e.dim = :dim
         order by e.chunk_id limit :reads) e
 where e.scope_key = any(:scopes::uuid[]) limit :size""")
_DESCRIBED_VECTORS = statement("""
select embedding from routing_vector where tenant_id = :tenant and index_id = :index and described order by number""")
_PUT = statement("""
insert into routing_profile as p (tenant_id, index_id, model, chunks, texts_id)
select i.tenant_id, i.id, :model::uuid, :chunks::bigint, :texts_id::uuid from search_index i
 where i.tenant_id = :tenant and i.id = :index and i.state <> 'retired' for key share
on conflict (tenant_id, index_id) do update
   set model = excluded.model, chunks = excluded.chunks, changed_chunks = 0, texts_id = excluded.texts_id,
       made_at = now()
returning 1""")
_CLEAR = statement("delete from routing_vector where tenant_id = :tenant and index_id = :index")
_ADD = statement("""
insert into routing_vector (tenant_id, index_id, number, described, embedding)
select :tenant::uuid, :index::uuid, u.n, u.described, u.embedding
  from unnest(:kinds::boolean[], :vectors::halfvec[]) with ordinality u(described, embedding, n)""")
