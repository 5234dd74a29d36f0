"""The pictures of documents, as callers get them."""

from dataclasses import dataclass
from uuid import UUID

from app.db.models.images import DocumentImage
from app.db.session import TenantDatabase
from app.documents.content.image_repository import ImageRepository
from app.documents.lookup import find_readable_document
from app.errors import NotFoundError
from app.knowledge_bases.service import KnowledgeBaseService
from app.object_store import ObjectStore


class ImageNotFound(NotFoundError):
    """There is no such picture."""

    code = "image_not_found"


@dataclass(frozen=True, slots=True)
class ImageDownload:
    """A picture: a link where the object store makes links, else what to stream."""

    row: DocumentImage
    filename: str
    link: str | None


@dataclass(frozen=True, slots=True)
class ImageService:
    """What a tenant can see of its documents' pictures."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    objects: ObjectStore

    async def get(self, reference: str, document_id: UUID, ordinal: int) -> ImageDownload:
        """Raises KnowledgeBaseNotFound, DocumentNotFound, ImageNotFound."""
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            reader = self.knowledge_bases.principal.user_id
            document, _ = await find_readable_document(session, kb, document_id, reader=reader)
            row = await ImageRepository(session, document.tenant_id).find(document, ordinal)
        if row is None:
            raise ImageNotFound
        filename = f"image-{ordinal + 1}.{row.media_type.rpartition('/')[2]}"
        link = await self.objects.presign(row.key, filename=filename, media_type=row.media_type, inline=True)
        return ImageDownload(row, filename, link)
