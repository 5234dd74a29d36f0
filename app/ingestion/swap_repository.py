"""One generation of a search index in the place of another, in one transaction."""

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from app.db.session import Session
from app.db.statements import statement
from app.ingestion.rebuilding_repository import RebuildingRepository
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.types import Generation
from app.lexical.languages import AUTO

BATCH = 1000


class SwapRepository:
    """Queries in one tenant."""

    def __init__(self, session: Session, tenant_id: UUID, generation: Generation) -> None:
        self.session = session
        self.tenant_id = tenant_id
        self.generation = generation

    async def hold(self, *, seconds: float) -> bool:
        """Keep everybody from adding, changing and removing chunks; False where it is not built any more.

        Raises DBAPIError where somebody is in the way for longer. In the order of all others: the knowledge base, its
        documents, its search indexes.
        """
        await self.session.rows(_LIMIT_WAITING, {"ms": str(int(seconds * 1000))})
        await KnowledgeBaseRepository(self.session, self.tenant_id).lock(self.generation.kb_id)
        await self.session.rows(_HOLD_DOCUMENTS, self._place)
        rows = await self.session.rows(_HOLD_INDEXES, self._place)
        return any((row["id"], row["state"]) == (self.generation.id, "building") for row in rows)

    async def waiting(self) -> Sequence[UUID]:
        """The documents that it does not have."""
        repository = RebuildingRepository(self.session, self.tenant_id, self.generation.kb_id)
        return (await repository.waiting(self.generation.id)).documents

    async def swap(self) -> None:
        """Make it the live one, with its settings those of the knowledge base; the live one is kept as it is."""
        settings = self.generation.settings
        values = {**self._place, "chunking": json.dumps(settings["chunking"]), "language": settings["language"]}
        await self.session.rows(_RETIRE, self._place)
        await self.session.rows(_PROMOTE, self._place)
        await self.session.rows(_SET_SETTINGS, values)
        await self._count()
        if self.generation.language != AUTO:
            await self.session.rows(_SET_LANGUAGE, values)

    async def _count(self) -> None:
        """How many chunks each document has now."""
        rows = await self.session.rows(_COUNT, self._place)
        for start in range(0, len(rows), BATCH):
            batch = rows[start : start + BATCH]
            counts = {"ids": [row["document_id"] for row in batch], "counts": [row["chunks"] for row in batch]}
            await self.session.rows(_SET_COUNTS, {"t": self.tenant_id, **counts})

    @property
    def _place(self) -> dict[str, Any]:
        return {"t": self.tenant_id, "kb": self.generation.kb_id, "i": self.generation.id}


_LIMIT_WAITING = statement("select set_config('lock_timeout', :ms, true)")
# Nobody wants what it returns, which is a row for each document.
_HOLD_DOCUMENTS = statement("""
select count(*) from (select from document where tenant_id = :t and kb_id = :kb order by id for no key update) d""")
_HOLD_INDEXES = statement("select id, state from search_index where tenant_id = :t and kb_id = :kb for update")
_RETIRE = statement("""
update search_index i
   set state = 'retired', retired_at = now(),
       settings = jsonb_build_object('chunking', k.chunking, 'language', k.language)
  from knowledge_base k
 where i.tenant_id = :t and i.kb_id = :kb and i.state = 'live' and k.tenant_id = :t and k.id = :kb""")
_PROMOTE = statement("""
update search_index set state = 'live', settings = null, retired_at = null, job_id = null
 where tenant_id = :t and id = :i""")
_SET_SETTINGS = statement("""
update knowledge_base set chunking = :chunking::jsonb, language = :language, updated_at = now()
 where tenant_id = :t and id = :kb""")
_SET_LANGUAGE = statement("""
update document set language = :language
 where tenant_id = :t and kb_id = :kb and live_version is not null and language is distinct from :language""")
_COUNT = statement("""
select document_id, count(*) as chunks from chunk where tenant_id = :t and index_id = :i group by document_id""")
_SET_COUNTS = statement("""
update document d set chunk_count = u.chunks from unnest(:ids::uuid[], :counts::int[]) u(id, chunks)
 where d.tenant_id = :t and d.id = any(:ids::uuid[]) and d.id = u.id and d.chunk_count <> u.chunks""")
