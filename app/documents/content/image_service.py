"""Download of the images of documents."""

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
    """The document has no image with this number. Check the number of the image."""

    code = "image_not_found"


@dataclass(frozen=True, slots=True)
class ImageDownload:
    """Download of an image: a presigned link, or without links in the object store, the object key to stream."""

    row: DocumentImage
    filename: str
    link: str | None


@dataclass(frozen=True, slots=True)
class ImageService:
    """Use cases that read images of documents."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    objects: ObjectStore

    async def get(self, reference: str, document_id: UUID, ordinal: int) -> ImageDownload:
        """Return an image of a document's live version.

        Args:
            reference: Name or id of the knowledge base.
            document_id: The document.
            ordinal: The image's number in the document, from 0.

        Returns:
            The image, with a filename for the download.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            DocumentNotFound: The document does not exist, or the caller may not read it.
            ImageNotFound: The live version has no image with this number.
        """
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
