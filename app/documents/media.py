"""The pictures of documents, as callers get them."""

from dataclasses import dataclass
from uuid import UUID

from app.db.models.media import DocumentMedia
from app.db.session import TenantDatabase
from app.documents.finding import find_readable
from app.documents.media_repository import MediaRepository
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
            reader = self.knowledge_bases.principal.user_id
            document, _ = await find_readable(session, kb, document_id, reader=reader)
            row = await MediaRepository(session, document.tenant_id).find(document, ordinal)
        if row is None:
            raise MediaNotFound
        filename = f"picture-{ordinal + 1}.{row.media_type.rpartition('/')[2]}"
        link = await self.objects.presign(row.key, filename=filename, media_type=row.media_type, inline=True)
        return FoundMedia(row, filename, link)
