"""Read the inputs of a routing profile, and store the profile of one search index."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from pgvector import HalfVector

from app.db.session import Session
from app.db.statements import parse_statement

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ProfileInput:
    """Inputs of the routing profile of one search index.

    Attributes:
        identity: Identity of the search index.
        dim: Number of dimensions of its vectors.
        chunks: Number of all chunks.
        shared_chunks: Number of chunks in scopes that every reader of the knowledge base can read.
        texts: Descriptions and example queries of the knowledge base.
        texts_id: Id of the texts whose vectors are stored; None if there are none.
    """

    identity: dict[str, Any]
    dim: int
    chunks: int
    shared_chunks: int
    texts: Sequence[str]
    texts_id: UUID | None


@dataclass(frozen=True, slots=True)
class RoutingProfileRepository:
    """Repository of the routing profile of one search index."""

    session: Session
    tenant_id: UUID
    index_id: UUID

    async def find_input(self) -> ProfileInput | None:
        """Return the inputs of the profile, or None if the search index is deleted or retired."""
        row = await self.session.fetch_row(_FIND_INPUT, self._params)
        if row is None:
            return None
        routing_texts = row["routing_texts"]
        texts = [*routing_texts.get("descriptions", ()), *routing_texts.get("examples", ())]
        chunks = int(row["chunks"])
        shared_chunks = max(0, chunks - int(row["private_chunks"]))
        return ProfileInput(row["identity"], row["dim"], chunks, shared_chunks, texts, row["texts_id"])

    async def sample_vectors(self, *, dim: int, scope_keys: Sequence[UUID], max_rows: int, size: int) -> Vectors:
        """Return a sample of vectors. It takes the first chunks by id: ids are hashes, so their order is random.

        Args:
            dim: Number of dimensions.
            scope_keys: Scopes of the chunks.
            max_rows: Maximum number of rows that are read.
            size: Maximum number of vectors.

        Returns:
            The vectors, of the shape (vectors, dimensions).
        """
        values = {**self._params, "dim": dim, "scopes": list(scope_keys), "reads": max_rows, "size": size}
        rows = await self.session.fetch_rows(_SAMPLE, values)
        return np.array([row[0].to_numpy() for row in rows], np.float32).reshape(len(rows), dim)

    async def fetch_text_vectors(self) -> list[HalfVector]:
        """Return the stored vectors of the texts."""
        return [row[0] for row in await self.session.fetch_rows(_TEXT_VECTORS, self._params)]

    async def replace(
        self, *, model: UUID, chunks: int, texts_id: UUID | None, centroids: Vectors, text_vectors: Sequence[Any]
    ) -> None:
        """Replace the profile. The call does nothing if the search index is deleted or retired.

        The count of chunks that changed since the profile was built starts again from zero.

        Args:
            model: Key of the embedding model.
            chunks: Number of chunks that the profile represents.
            texts_id: Id of the texts.
            centroids: Centroids, of the shape (centroids, dimensions).
            text_vectors: Vectors of the texts.
        """
        model_id = model if len(centroids) or text_vectors else None
        values = {**self._params, "model": model_id, "chunks": chunks, "texts_id": texts_id}
        if await self.session.fetch_row(_UPSERT, values) is None:
            return
        await self.session.fetch_rows(_CLEAR, self._params)
        vectors = [HalfVector(vector) for vector in centroids]
        is_text_flags = [False] * len(vectors) + [True] * len(text_vectors)
        vectors += [vector if isinstance(vector, HalfVector) else HalfVector(vector) for vector in text_vectors]
        await self.session.fetch_rows(_ADD, {**self._params, "kinds": is_text_flags, "vectors": vectors})

    async def replace_texts(self, *, model: UUID, texts_id: UUID | None, text_vectors: Sequence[Any]) -> None:
        """Replace the vectors of the texts. The call does nothing if the search index is deleted or retired.

        Args:
            model: Key of the embedding model.
            texts_id: Id of the texts.
            text_vectors: Vectors of the texts.
        """
        values = {**self._params, "model": model if text_vectors else None, "texts_id": texts_id}
        if await self.session.fetch_row(_UPSERT_TEXTS, values) is None:
            return
        await self.session.fetch_rows(_CLEAR_TEXTS, self._params)
        vectors = [HalfVector(vector) for vector in text_vectors]
        await self.session.fetch_rows(_ADD, {**self._params, "kinds": [True] * len(vectors), "vectors": vectors})

    @property
    def _params(self) -> dict[str, Any]:
        return {"tenant": self.tenant_id, "index": self.index_id}


_FIND_INPUT = parse_statement("""
select i.identity, i.dim, k.routing_texts, p.texts_id,
       (select coalesce(sum(t.chunks), 0) from index_totals t
         where t.tenant_id = i.tenant_id and t.index_id = i.id) as chunks,
       (select coalesce(sum(f.chunks), 0) from private_frequency f
         where f.tenant_id = i.tenant_id and f.index_id = i.id and f.scope_key = all_private_levels()
           and f.key is null) as private_chunks
  from search_index i
  join knowledge_base k on k.tenant_id = i.tenant_id and k.id = i.kb_id and k.deleted_at is null
  left join routing_profile p on p.tenant_id = i.tenant_id and p.index_id = i.id
 where i.tenant_id = :tenant and i.id = :index and i.state <> 'retired'""")
_SAMPLE = parse_statement("""
select e.embedding
  from (select e.embedding, e.scope_key from chunk_embedding e
         where e.tenant_id = :tenant and e.index_id = :index and e.dim = :dim
         order by e.chunk_id limit :reads) e
 where e.scope_key = any(:scopes::uuid[]) limit :size""")
_TEXT_VECTORS = parse_statement("""
select embedding from routing_vector where tenant_id = :tenant and index_id = :index and described order by number""")
_UPSERT, _UPSERT_TEXTS = (
    parse_statement(f"""
insert into routing_profile as p (tenant_id, index_id, model, chunks, texts_id)
select i.tenant_id, i.id, :model::uuid, {chunks}, :texts_id::uuid from search_index i
 where i.tenant_id = :tenant and i.id = :index and i.state <> 'retired' for key share
on conflict (tenant_id, index_id) do update set {changes}, texts_id = excluded.texts_id, created_at = now()
returning 1""")  # noqa: S608  (constants)
    for chunks, changes in (
        (":chunks::bigint", "model = excluded.model, chunks = excluded.chunks, changed_chunks = 0"),
        ("0", "model = coalesce(excluded.model, p.model)"),
    )
)
_CLEAR_TEXTS = parse_statement(
    "delete from routing_vector where tenant_id = :tenant and index_id = :index and described"
)
_CLEAR = parse_statement("delete from routing_vector where tenant_id = :tenant and index_id = :index")
_ADD = parse_statement("""
insert into routing_vector (tenant_id, index_id, number, described, embedding)
select :tenant::uuid, :index::uuid, u.n + m.greatest, u.described, u.embedding
  from unnest(:kinds::boolean[], :vectors::halfvec[]) with ordinality u(described, embedding, n),
       (select coalesce(max(v.number), 0) as greatest from routing_vector v
         where v.tenant_id = :tenant and v.index_id = :index) m""")
