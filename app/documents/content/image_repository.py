"""Queries for the images of documents and for the captions of images."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models.images import DocumentImage
from app.db.models.tenant_data import DocumentRow


class ImageRepository:
    """Queries for images and captions of one tenant."""

    def __init__(self, session: AsyncSession, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def find(self, document: DocumentRow, ordinal: int) -> DocumentImage | None:
        """Return an image of the document's live version, or None. Images are numbered from 0."""
        statement = select(DocumentImage).where(
            DocumentImage.tenant_id == self.tenant_id,
            DocumentImage.document_id == document.id,
            DocumentImage.version == document.live_version,
            DocumentImage.ordinal == ordinal,
        )
        return await self.session.scalar(statement)

    async def list_images(self, document_id: UUID, version: int) -> Sequence[DocumentImage]:
        """Return all images of a version."""
        statement = select(DocumentImage).where(
            DocumentImage.tenant_id == self.tenant_id,
            DocumentImage.document_id == document_id,
            DocumentImage.version == version,
        )
        return (await self.session.scalars(statement)).all()

    async def add(self, images: Sequence[DocumentImage]) -> None:
        """Insert images."""
        self.session.add_all(images)
        await self.session.flush()

    async def find_captions(self, identity: UUID, hashes: Sequence[bytes]) -> dict[bytes, str]:
        """Return the tenant's stored captions by the hash of the image.

        A stored caption saves a call of the vision model. ``identity`` identifies the model, the prompt and the
        language.
        """
        values = {"t": self.tenant_id, "identity": identity, "hashes": list(hashes)}
        return {row.sha256: row.content for row in await self.session.execute(text(_FIND_CAPTIONS), values)}

    async def add_captions(self, identity: UUID, document_id: UUID, texts: Mapping[bytes, str]) -> None:
        """Store captions of a document's images. Nothing is stored if the document was deleted.

        Args:
            identity: Identifies the vision model, the prompt and the language.
            document_id: The document. Its captions are deleted with it.
            texts: Captions by the hash of the image.
        """
        values = {"t": self.tenant_id, "identity": identity, "d": document_id}
        await self.session.execute(
            text(_ADD_CAPTIONS), {**values, "hashes": list(texts), "contents": list(texts.values())}
        )


_FIND_CAPTIONS = """
select distinct on (sha256) sha256, content from image_caption
 where tenant_id = :t and identity = :identity and sha256 = any(cast(:hashes as bytea[]))"""
# The row lock makes a deletion of the document wait until the captions are stored. A deleted document gets none.
_ADD_CAPTIONS = """
insert into image_caption (tenant_id, identity, document_id, sha256, content)
select d.tenant_id, :identity, d.id, u.*
  from (select tenant_id, id from document where tenant_id = :t and id = :d for key share) d,
       unnest(cast(:hashes as bytea[]), cast(:contents as text[])) u
on conflict do nothing"""
