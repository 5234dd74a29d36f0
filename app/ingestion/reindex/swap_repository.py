"""Swap the live generation of a search index for the next one, in one transaction."""

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from app.db.session import Session
from app.db.statements import parse_statement
from app.ingestion.reindex.repository import RebuildingRepository
from app.knowledge_bases.model_language import is_english_only
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.types import Generation
from app.lexical.languages import AUTO
from app.warnings import WarningCode

BATCH_SIZE = 1000


class SwapRepository:
    """Repository that swaps one generation in."""

    def __init__(self, session: Session, tenant_id: UUID, generation: Generation) -> None:
        self.session = session
        self.tenant_id = tenant_id
        self.generation = generation

    async def acquire_locks(self, *, timeout_seconds: float) -> bool:
        """Lock the knowledge base, its documents and its search indexes, so that no chunk is added, changed or removed.

        All transactions take these locks in this order.

        Args:
            timeout_seconds: Maximum seconds to wait for one lock.

        Returns:
            False if the generation is no longer being built.

        Raises:
            DBAPIError: Another transaction holds a lock for longer.
        """
        await self.session.fetch_rows(_SET_LOCK_TIMEOUT, {"ms": str(int(timeout_seconds * 1000))})
        await KnowledgeBaseRepository(self.session, self.tenant_id).lock(self.generation.kb_id)
        await self.session.fetch_rows(_LOCK_DOCUMENTS, self._params)
        rows = await self.session.fetch_rows(_LOCK_INDEXES, self._params)
        return any((row["id"], row["state"]) == (self.generation.id, "building") for row in rows)

    async def find_pending_documents(self) -> Sequence[UUID]:
        """Return the ids of the documents that the generation does not have."""
        repository = RebuildingRepository(self.session, self.tenant_id, self.generation.kb_id)
        return (await repository.find_pending_documents(self.generation.id)).document_ids

    async def swap(self) -> None:
        """Make the generation the live one, and retain the previous one for a rollback.

        The knowledge base gets the chunking and the language of the generation. Warnings that the former model does
        not read a document are removed if nothing is known to limit the languages of the new model.
        """
        settings = self.generation.settings
        values = {**self._params, "chunking": json.dumps(settings["chunking"]), "language": settings["language"]}
        await self.session.fetch_rows(_RETIRE, self._params)
        await self.session.fetch_rows(_PROMOTE, self._params)
        await self.session.fetch_rows(_SET_SETTINGS, values)
        await self._update_chunk_counts()
        if self.generation.language != AUTO:
            await self.session.fetch_rows(_SET_LANGUAGE, values)
        if not is_english_only(self.generation.identity):
            code = WarningCode.LANGUAGE_NOT_SUPPORTED.value
            await self.session.fetch_rows(_REMOVE_WARNINGS, {**self._params, "code": code})

    async def _update_chunk_counts(self) -> None:
        """Set the number of chunks of each document to its number of chunks in the new generation."""
        rows = await self.session.fetch_rows(_COUNT_CHUNKS, self._params)
        for start in range(0, len(rows), BATCH_SIZE):
            batch = rows[start : start + BATCH_SIZE]
            params = {"ids": [row["document_id"] for row in batch], "counts": [row["chunks"] for row in batch]}
            await self.session.fetch_rows(_SET_COUNTS, {"t": self.tenant_id, **params})

    @property
    def _params(self) -> dict[str, Any]:
        return {"t": self.tenant_id, "kb": self.generation.kb_id, "i": self.generation.id}


_SET_LOCK_TIMEOUT = parse_statement("select set_config('lock_timeout', :ms, true)")
# The count avoids one result row for each document.
_LOCK_DOCUMENTS = parse_statement("""
select count(*) from (select from document where tenant_id = :t and kb_id = :kb order by id for no key update) d""")
_LOCK_INDEXES = parse_statement("select id, state from search_index where tenant_id = :t and kb_id = :kb for update")
_RETIRE = parse_statement("""
update search_index i
   set state = 'retired', retired_at = now(),
       settings = jsonb_build_object('chunking', k.chunking, 'language', k.language)
  from knowledge_base k
 where i.tenant_id = :t and i.kb_id = :kb and i.state = 'live' and k.tenant_id = :t and k.id = :kb""")
_PROMOTE = parse_statement("""
update search_index set state = 'live', settings = null, retired_at = null, job_id = null
 where tenant_id = :t and id = :i""")
_SET_SETTINGS = parse_statement("""
update knowledge_base set chunking = :chunking::jsonb, language = :language, updated_at = now()
 where tenant_id = :t and id = :kb""")
_SET_LANGUAGE = parse_statement("""
update document set language = :language
 where tenant_id = :t and kb_id = :kb and live_version is not null and language is distinct from :language""")
_REMOVE_WARNINGS = parse_statement("""
update document d
   set warnings = (select coalesce(jsonb_agg(w.warning order by w.position), '[]')
                     from jsonb_array_elements(d.warnings) with ordinality w(warning, position)
                    where w.warning->>'code' is distinct from :code)
 where tenant_id = :t and kb_id = :kb and warnings @> jsonb_build_array(jsonb_build_object('code', :code::text))""")
_COUNT_CHUNKS = parse_statement("""
select document_id, count(*) as chunks from chunk where tenant_id = :t and index_id = :i group by document_id""")
_SET_COUNTS = parse_statement("""
update document d set chunk_count = u.chunks from unnest(:ids::uuid[], :counts::int[]) u(id, chunks)
 where d.tenant_id = :t and d.id = any(:ids::uuid[]) and d.id = u.id and d.chunk_count <> u.chunks""")
