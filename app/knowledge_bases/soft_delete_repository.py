"""Queries that soft-delete a knowledge base: it disappears immediately, and a job removes its contents."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.deletion_receipts import DeletedCounts
from app.db.session import Session
from app.db.statements import parse_statement
from app.idempotency import delete_stored_responses


@dataclass(frozen=True, slots=True)
class SoftDeleted:
    """Amounts of a soft-deleted knowledge base, and the search indexes to remove."""

    counts: DeletedCounts
    indexes: list[UUID]


class SoftDeleteRepository:
    """Queries for one knowledge base of one tenant."""

    def __init__(self, session: Session, tenant_id: UUID, kb_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id
        self.kb_id = kb_id

    async def soft_delete(self) -> SoftDeleted | None:
        """Mark the knowledge base as deleted and free its name.

        The search indexes are retired, so that index maintenance builds nothing for them. The statement waits for
        uploads
        that have read the knowledge base. Later uploads do not find it.

        Returns:
            The amounts and search indexes, or None if the knowledge base was deleted already.
        """
        if await self.session.fetch_row(_SOFT_DELETE, self._key_params) is None:
            return None
        await self.session.fetch_rows(_RELEASE_KEYS, self._key_params)
        await self.session.fetch_rows(_RELEASE_AGENTS, self._key_params)
        await self.session.fetch_rows(_DELETE_PROMPTS, self._key_params)
        await self.session.fetch_rows(_DELETE_LABELS, self._key_params)
        await self.session.fetch_rows(_REVOKE_SQL_VIEW, self._key_params)
        await delete_stored_responses(self.session, self.tenant_id, [self.kb_id])
        return SoftDeleted(await self._count_contents(), await self.retire_indexes())

    async def retire_indexes(self) -> list[UUID]:
        """Retire all search indexes of the knowledge base, and return their ids."""
        return [row["id"] for row in await self.session.fetch_rows(_RETIRE_INDEXES, self._key_params)]

    async def _count_contents(self) -> DeletedCounts:
        row = await self.session.fetch_row(_COUNT_CONTENTS, self._key_params)
        assert row is not None
        return DeletedCounts(**row)

    @property
    def _key_params(self) -> dict[str, Any]:
        return {"tenant": self.tenant_id, "kb": self.kb_id}


# The new name is not a valid name, so no caller can use it. Texts of the tenant are deleted at once. The name is part
# of a key, so the update waits for transactions that have locked the row with ``for key share``.
_SOFT_DELETE = parse_statement("""
update knowledge_base
   set deleted_at = now(), name = '~' || id, title = null, description = null, pending_metadata_filter = null,
       source = null, routing_texts = '{}', retrieval = retrieval - array['rewrite_prompt', 'answer_prompt']
 where tenant_id = :tenant and id = :kb and deleted_at is null returning 1""")
# A key that was restricted to this knowledge base alone reads nothing from now on.
_RELEASE_KEYS = parse_statement("""
update api_key set knowledge_base_ids = array_remove(knowledge_base_ids, :kb::uuid)
 where tenant_id = :tenant and :kb::uuid = any(knowledge_base_ids)""")
# An agent that was bound to this knowledge base alone reads nothing from now on.
_RELEASE_AGENTS = parse_statement("""
update agent_binding set knowledge_base_ids = array_remove(knowledge_base_ids, :kb::uuid), updated_at = now()
 where tenant_id = :tenant and :kb::uuid = any(knowledge_base_ids)""")
_DELETE_PROMPTS = parse_statement("delete from prompt_version where tenant_id = :tenant and kb_id = :kb")
_DELETE_LABELS = parse_statement("delete from vector_store_labels where tenant_id = :tenant and kb_id = :kb")
# The SQL view is empty from now on. The purge job drops it first.
_REVOKE_SQL_VIEW = parse_statement("""
update sql_view set removed_at = now(), updated_at = now()
 where tenant_id = :tenant and kb_id = :kb and removed_at is null""")
_RETIRE_INDEXES = parse_statement("""
update search_index set state = 'retired', retired_at = null, error = null, job_id = null
 where tenant_id = :tenant and kb_id = :kb returning id""")
_COUNT_CONTENTS = parse_statement("""
select count(*) as documents, coalesce(sum(chunk_count), 0)::bigint as chunks, coalesce(sum(bytes), 0)::bigint as bytes
  from document where tenant_id = :tenant and kb_id = :kb""")
