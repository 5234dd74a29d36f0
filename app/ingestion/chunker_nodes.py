"""Nodes that chunkers have added to trees, when the search index is gone whose chunks named them."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from app.db.session import Session, TenantDatabase
from app.db.statements import statement
from app.documents.types import node_id
from app.ingestion.chunkers.installed import installed_chunkers
from app.ingestion.types import NodeKind

BATCH = 100


async def remove_unnamed_nodes(db: TenantDatabase, kb_id: UUID) -> None:
    """Topics that no chunk names, and sentences where no chunker of the knowledge base works with them."""
    after: UUID | None = UUID(int=0)
    while after is not None:
        async with db.transaction() as session:
            place = {"t": db.tenant_id, "kb": kb_id}
            # Locked, so that nobody adds chunks that name one of them; only then it stays who works with them.
            documents = [row["id"] for row in await session.rows(_DOCUMENTS, {**place, "after": after, "limit": BATCH})]
            kinds = await _kinds(session, place)
            await _remove(session, place, documents, kinds)
        after = documents[-1] if len(documents) == BATCH else None


async def _kinds(session: Session, place: Mapping[str, Any]) -> list[str]:
    """The kinds of which the unnamed ones go; a chunker that is not installed any more may have wanted everything."""
    strategies = [row["strategy"] for row in await session.rows(_STRATEGIES, place)]
    chunkers = installed_chunkers()
    wanted = any(name not in chunkers or chunkers[name].sentences for name in strategies)
    return [NodeKind.TOPIC.value] if wanted else [NodeKind.TOPIC.value, NodeKind.SENTENCE.value]


async def _remove(session: Session, place: Mapping[str, Any], documents: Sequence[UUID], kinds: Sequence[str]) -> None:
    rows = await session.rows(_NAMED, {**place, "ds": documents})
    named = [node_id(row["document_id"], row["version"], tuple(row["node_path"])) for row in rows]
    await session.rows(_REMOVE, {"t": place["t"], "ds": documents, "kinds": kinds, "named": named})


_STRATEGIES = statement("""
select coalesce(i.settings -> 'chunking', k.chunking) ->> 'strategy' as strategy
  from search_index i join knowledge_base k on k.tenant_id = i.tenant_id and k.id = i.kb_id
 where i.tenant_id = :t and i.kb_id = :kb and (i.state <> 'retired' or i.retired_at is not null)""")
_DOCUMENTS = statement("""
select d.id from document d
 where d.tenant_id = :t and d.kb_id = :kb and d.id > :after
   and exists (select from node n
                where n.tenant_id = d.tenant_id and n.document_id = d.id and n.kind in ('topic', 'sentence'))
 order by d.id limit :limit for no key update""")
_NAMED = statement("""
select distinct document_id, version, node_path from chunk
 where tenant_id = :t and kb_id = :kb and document_id = any(:ds::uuid[])""")
_REMOVE = statement("""
delete from node
 where tenant_id = :t and document_id = any(:ds::uuid[]) and kind = any(:kinds::text[])
   and id <> all(:named::uuid[])""")
