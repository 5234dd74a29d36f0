"""Receipts of deletions. The transaction that hides a deleted object also opens its receipt."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from app.db.session import Session
from app.db.statements import parse_statement

DeletionKind = Literal["document", "documents", "knowledge_base", "tenant"]


@dataclass(frozen=True, slots=True)
class DeletedCounts:
    """Numbers of deleted documents, of their chunks in the live search index, and of bytes of their originals.

    ``retained_files`` counts the deleted documents that were created from a stored file. The stored file remains.
    """

    documents: int = 0
    chunks: int = 0
    bytes: int = 0
    retained_files: int = 0


async def open_receipt(
    session: Session,
    tenant_id: UUID,
    deletion_id: UUID,
    *,
    kind: DeletionKind,
    object_id: UUID | None,
    kb_id: UUID | None,
    counts: DeletedCounts,
    add_to_existing: bool = False,
    user_key: UUID | None = None,
) -> None:
    """Create the receipt of a deletion, unless it exists.

    Args:
        session: Transaction that hides the deleted object.
        tenant_id: Tenant that owns the receipt.
        deletion_id: Id of the receipt.
        kind: Kind of the deleted object.
        object_id: Id of the deleted object; None for a batch of documents.
        kb_id: Knowledge base of the deleted object.
        counts: Numbers of the deleted contents.
        add_to_existing: Whether ``counts`` are added to an existing receipt, which is then unfinished again. By default
            an existing receipt does not change.
        user_key: Scope key of the user whose restricted key requested the deletion; None for other keys.
    """
    values = {
        "tenant": tenant_id,
        "id": deletion_id,
        "kind": kind,
        "object": object_id,
        "kb": kb_id,
        "documents": counts.documents,
        "chunks": counts.chunks,
        "bytes": counts.bytes,
        "retained_files": counts.retained_files,
        "user": user_key,
    }
    await session.fetch_rows(_ADD if add_to_existing else _OPEN, values)


_INSERT = """
insert into deletion (tenant_id, id, kind, object_id, kb_id, documents, chunks, bytes, retained_files, user_key)
values (:tenant, :id, :kind, :object, :kb, :documents, :chunks, :bytes, :retained_files, :user)
on conflict (tenant_id, id)"""
_OPEN = parse_statement(f"{_INSERT} do nothing")
_ADD = parse_statement(f"""{_INSERT} do update
   set documents = deletion.documents + excluded.documents, chunks = deletion.chunks + excluded.chunks,
       bytes = deletion.bytes + excluded.bytes, retained_files = deletion.retained_files + excluded.retained_files,
       finished_at = null  -- the earlier batches may be finished""")  # noqa: S608
