"""Delete nodes that a chunker added to document trees, after the deletion of the search index that used the nodes."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from app.db.session import Session, TenantDatabase
from app.db.statements import parse_statement
from app.documents.types import build_node_id
from app.ingestion.chunkers.registry import load_chunkers
from app.ingestion.types import NodeKind

BATCH_SIZE = 100


async def delete_unreferenced_nodes(db: TenantDatabase, kb_id: UUID) -> None:
    """Delete the topics that no chunk refers to, and the sentences if no chunker of the knowledge base needs sentences.

    Args:
        db: Database of the tenant.
        kb_id: The knowledge base.
    """
    after_id: UUID | None = UUID(int=0)
    while after_id is not None:
        async with db.transaction() as session:
            params = {"t": db.tenant_id, "kb": kb_id}
            # The lock comes first: no transaction can then add chunks of these documents that refer to the nodes.
            document_ids = [
                row["id"]
                for row in await session.fetch_rows(_LOCK_DOCUMENTS, {**params, "after": after_id, "limit": BATCH_SIZE})
            ]
            kinds = await _list_deletable_kinds(session, params)
            await _delete_nodes(session, params, document_ids, kinds)
        after_id = document_ids[-1] if len(document_ids) == BATCH_SIZE else None


async def _list_deletable_kinds(session: Session, params: Mapping[str, Any]) -> list[str]:
    """Return the kinds of nodes to delete. A chunker that is no longer installed may need sentences, so they stay."""
    strategies = [row["strategy"] for row in await session.fetch_rows(_STRATEGIES, params)]
    chunkers = load_chunkers()
    needs_sentences = any(name not in chunkers or chunkers[name].needs_sentences for name in strategies)
    return [NodeKind.TOPIC.value] if needs_sentences else [NodeKind.TOPIC.value, NodeKind.SENTENCE.value]


async def _delete_nodes(
    session: Session, params: Mapping[str, Any], document_ids: Sequence[UUID], kinds: Sequence[str]
) -> None:
    rows = await session.fetch_rows(_REFERENCED_NODES, {**params, "ds": document_ids})
    referenced_ids = [build_node_id(row["document_id"], row["version"], tuple(row["node_path"])) for row in rows]
    await session.fetch_rows(
        _DELETE_NODES, {"t": params["t"], "ds": document_ids, "kinds": kinds, "named": referenced_ids}
    )


_STRATEGIES = parse_statement("""
select coalesce(i.settings -> 'chunking', k.chunking) ->> 'strategy' as strategy
  from search_index i join knowledge_base k on k.tenant_id = i.tenant_id and k.id = i.kb_id
 where i.tenant_id = :t and i.kb_id = :kb and (i.state <> 'retired' or i.retired_at is not null)""")
_LOCK_DOCUMENTS = parse_statement("""
select d.id from document d
 where d.tenant_id = :t and d.kb_id = :kb and d.id > :after
   and exists (select from node n
                where n.tenant_id = d.tenant_id and n.document_id = d.id and n.kind in ('topic', 'sentence'))
 order by d.id limit :limit for no key update""")
_REFERENCED_NODES = parse_statement("""
select distinct document_id, version, node_path from chunk
 where tenant_id = :t and kb_id = :kb and document_id = any(:ds::uuid[])""")
_DELETE_NODES = parse_statement("""
delete from node
 where tenant_id = :t and document_id = any(:ds::uuid[]) and kind = any(:kinds::text[])
   and id <> all(:named::uuid[])""")
