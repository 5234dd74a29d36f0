"""The pictures of documents, as callers get them."""

from dataclasses import dataclass
from uuid import UUID

from app.db.models.media import DocumentMedia
from app.db.session import TenantDatabase
from app.documents.media_repository import MediaRepository
from app.documents.repository import DocumentRepository
from app.documents.types import DocumentNotFound
from app.errors import NotFound
from app.knowledge_bases.service import KnowledgeBaseService
from app.object_store import ObjectStore


class MediaNotFound(NotFound):
    """There is no such picture."""

    code = "media_not_found"


@dataclass(frozen=True, slots=True)
class FoundMedia:
    """A picture: a link where the object store makes links, else what to stream."""

    row: DocumentMedia
    filename: str
    link: str | None


@dataclass(frozen=True, slots=True)
class MediaService:
    """What a tenant can see of its documents' pictures."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    objects: ObjectStore

    async def get(self, reference: str, document_id: UUID, ordinal: int) -> FoundMedia:
        """Raises KnowledgeBaseNotFound, DocumentNotFound, MediaNotFound."""
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            repository, reader = DocumentRepository(session, self.db.tenant_id), self.knowledge_bases.principal.user_id
            document = await repository.get(kb.row.id, document_id, reader=reader)
            if document is None:
                raise DocumentNotFound
            row = await MediaRepository(session, self.db.tenant_id).find(document, ordinal)
        if row is None:
            raise MediaNotFound
        filename = f"picture-{ordinal + 1}.{row.media_type.rpartition('/')[2]}"
        link = await self.objects.presign(row.key, filename=filename, media_type=row.media_type, inline=True)
        return FoundMedia(row, filename, link)
