"""A knowledge base that is deleted: out of everybody's reach at once, and removed by a job afterwards."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.deletion_receipts import DeletedCounts
from app.db.session import Session
from app.db.statements import parse_statement
from app.idempotency import delete_stored_responses


@dataclass(frozen=True, slots=True)
class SoftDeleted:
    """What was in it, and the search indexes that have to go."""

    counts: DeletedCounts
    indexes: list[UUID]


class SoftDeleteRepository:
    """Queries about one knowledge base of one tenant."""

    def __init__(self, session: Session, tenant_id: UUID, kb_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id
        self.kb_id = kb_id

    async def soft_delete(self) -> SoftDeleted | None:
        """Nobody finds it from now on, and its name is free; None where that was done before.

        Its search indexes are nobody's, so that maintenance builds nothing for them any more. Uploads that have looked
        at the knowledge base are waited for, and those that come later do not find it.
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
        """Its search indexes, which nobody reads from now on."""
        return [row["id"] for row in await self.session.fetch_rows(_RETIRE_INDEXES, self._key_params)]

    async def _count_contents(self) -> DeletedCounts:
        row = await self.session.fetch_row(_COUNT_CONTENTS, self._key_params)
        assert row is not None
        return DeletedCounts(**row)

    @property
    def _key_params(self) -> dict[str, Any]:
        return {"tenant": self.tenant_id, "kb": self.kb_id}


# A name that nobody can give; what people have said of it goes at once. The name is a key, so that whoever has looked
# at the row `for key share` is waited for.
_SOFT_DELETE = parse_statement("""
update knowledge_base
   set deleted_at = now(), name = '~' || id, title = null, description = null, pending_metadata_filter = null,
       source = null, routing_texts = '{}', retrieval = retrieval - array['rewrite_prompt', 'answer_prompt']
 where tenant_id = :tenant and id = :kb and deleted_at is null returning 1""")
# A key that was narrowed to it alone reads nothing now, as one narrowed to what is not there.
_RELEASE_KEYS = parse_statement("""
update api_key set knowledge_base_ids = array_remove(knowledge_base_ids, :kb::uuid)
 where tenant_id = :tenant and :kb::uuid = any(knowledge_base_ids)""")
# So does an agent that was bound to it alone.
_RELEASE_AGENTS = parse_statement("""
update agent_binding set knowledge_base_ids = array_remove(knowledge_base_ids, :kb::uuid), updated_at = now()
 where tenant_id = :tenant and :kb::uuid = any(knowledge_base_ids)""")
_DELETE_PROMPTS = parse_statement("delete from prompt_version where tenant_id = :tenant and kb_id = :kb")
_DELETE_LABELS = parse_statement("delete from vector_store_labels where tenant_id = :tenant and kb_id = :kb")
# Its view shows nothing from now on; the job that removes the knowledge base takes it away first.
_REVOKE_SQL_VIEW = parse_statement("""
update sql_view set removed_at = now(), updated_at = now()
 where tenant_id = :tenant and kb_id = :kb and removed_at is null""")
_RETIRE_INDEXES = parse_statement("""
update search_index set state = 'retired', retired_at = null, error = null, job_id = null
 where tenant_id = :tenant and kb_id = :kb returning id""")
_COUNT_CONTENTS = parse_statement("""
select count(*) as documents, coalesce(sum(chunk_count), 0)::bigint as chunks, coalesce(sum(bytes), 0)::bigint as bytes
  from document where tenant_id = :tenant and kb_id = :kb""")
