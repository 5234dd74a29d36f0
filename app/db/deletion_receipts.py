"""Receipts of deletions: opened in the transaction that hides the deleted object."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from app.db.session import Session
from app.db.statements import parse_statement

DeletionKind = Literal["document", "documents", "knowledge_base", "tenant"]


@dataclass(frozen=True, slots=True)
class DeletedCounts:
    """The contents of a deleted object: documents, chunks that searches saw, bytes of originals.

    ``retained_files`` counts its documents that were made of a file which is not deleted.
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
    """Begin a receipt. One that is there stays as it is, or with ``add_to_existing`` is open again for a further batch.

    ``user_key`` is the scope key of the user whose restricted key asked for the deletion.
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
       finished_at = null  -- the originals of the batches before may be gone already""")  # noqa: S608
