"""A knowledge base that is deleted: out of everybody's reach at once, and removed by a job afterwards."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.receipts import Amount
from app.db.session import Session
from app.db.statements import statement
from app.idempotency import forget_answers


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """What was in it, and the search indexes that have to go."""

    amount: Amount
    indexes: list[UUID]


class WithdrawalRepository:
    """Queries about one knowledge base of one tenant."""

    def __init__(self, session: Session, tenant_id: UUID, kb_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id
        self.kb_id = kb_id

    async def withdraw(self) -> Withdrawn | None:
        """Nobody finds it from now on, and its name is free; None where that was done before.

        Its search indexes are nobody's, so that maintenance builds nothing for them any more. Uploads that have looked
        at the knowledge base are waited for, and those that come later do not find it.
        """
        if await self.session.row(_WITHDRAW, self._place) is None:
            return None
        await self.session.rows(_RELEASE_KEYS, self._place)
        await self.session.rows(_RELEASE_AGENTS, self._place)
        await self.session.rows(_FORGET_PROMPTS, self._place)
        await self.session.rows(_FORGET_LABELS, self._place)
        await self.session.rows(_REVOKE_PUBLICATION, self._place)
        await forget_answers(self.session, self.tenant_id, [self.kb_id])
        return Withdrawn(await self._amount(), await self.retire())

    async def retire(self) -> list[UUID]:
        """Its search indexes, which nobody reads from now on."""
        return [row["id"] for row in await self.session.rows(_RETIRE, self._place)]

    async def _amount(self) -> Amount:
        row = await self.session.row(_AMOUNT, self._place)
        assert row is not None
        return Amount(**row)

    @property
    def _place(self) -> dict[str, Any]:
        return {"tenant": self.tenant_id, "kb": self.kb_id}


# A name that nobody can give; what people have said of it goes at once. The name is a key, so that whoever has looked
# at the row `for key share` is waited for.
_WITHDRAW = statement("""
update knowledge_base
   set deleted_at = now(), name = '~' || id, title = null, description = null, pending_filter = null,
       source = null, routing_texts = '{}', retrieval = retrieval - array['rewrite_prompt', 'answer_prompt']
 where tenant_id = :tenant and id = :kb and deleted_at is null returning 1""")
# A key that was narrowed to it alone reads nothing now, as one narrowed to what is not there.
_RELEASE_KEYS = statement("""
update api_key set knowledge_base_ids = array_remove(knowledge_base_ids, :kb::uuid)
 where tenant_id = :tenant and :kb::uuid = any(knowledge_base_ids)""")
# So does an agent that was bound to it alone.
_RELEASE_AGENTS = statement("""
update agent_binding set knowledge_base_ids = array_remove(knowledge_base_ids, :kb::uuid), updated_at = now()
 where tenant_id = :tenant and :kb::uuid = any(knowledge_base_ids)""")
_FORGET_PROMPTS = statement("delete from prompt_version where tenant_id = :tenant and kb_id = :kb")
_FORGET_LABELS = statement("delete from openai_store where tenant_id = :tenant and kb_id = :kb")
# Its view shows nothing from now on; the job that removes the knowledge base takes it away first.
_REVOKE_PUBLICATION = statement("""
update publication set removed_at = now(), updated_at = now()
 where tenant_id = :tenant and kb_id = :kb and removed_at is null""")
_RETIRE = statement("""
update search_index set state = 'retired', retired_at = null, error = null, job_id = null
 where tenant_id = :tenant and kb_id = :kb returning id""")
_AMOUNT = statement("""
select count(*) as documents, coalesce(sum(chunk_count), 0)::bigint as chunks, coalesce(sum(bytes), 0)::bigint as bytes
  from document where tenant_id = :tenant and kb_id = :kb""")
