"""Tables of the images of documents and their captions. Row-level security is forced."""

from uuid import UUID

from sqlalchemy import BigInteger, ForeignKeyConstraint, Index, LargeBinary
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, CreatedAtMixin, TenantOwnedMixin

# Inside DocumentImage, the name `bytes` is a column.
Digest = bytes


class DocumentImage(TenantOwnedMixin, Base):
    """An image of a document's live version, and the key of its object in the object store."""

    __tablename__ = "document_image"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "document_id"], ["document.tenant_id", "document.id"], ondelete="CASCADE"),
    )

    document_id: Mapped[UUID] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    ordinal: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    key: Mapped[str]
    media_type: Mapped[str]
    bytes: Mapped[int] = mapped_column(BigInteger)
    width: Mapped[int]
    height: Mapped[int]
    sha256: Mapped[Digest] = mapped_column(LargeBinary)


class ImageCaption(CreatedAtMixin, TenantOwnedMixin, Base):
    """A model's caption of an image, found by the hash of the image's bytes. Equal images need one model call.

    The caption is deleted with its document.
    """

    __tablename__ = "image_caption"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "document_id"], ["document.tenant_id", "document.id"], ondelete="CASCADE"),
        Index("image_caption_document_idx", "tenant_id", "document_id"),
    )

    identity: Mapped[UUID] = mapped_column(primary_key=True)
    sha256: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    document_id: Mapped[UUID] = mapped_column(primary_key=True)
    content: Mapped[str]
