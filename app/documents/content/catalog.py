"""Access to documents by id alone, across all knowledge bases that the caller's key may read."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.models.tenant_data import DocumentRow
from app.db.session import Session, TenantDatabase
from app.documents.content.catalog_repository import DocumentCatalogRepository
from app.documents.content.repository import ContentRepository
from app.documents.lookup import find_readable_document
from app.documents.types import DocumentNotFound
from app.ids import encode_id
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseNotFound


@dataclass(frozen=True, slots=True)
class TextPage:
    """A part of a document's stored text; ``has_more`` is True if the text continues after it."""

    document: DocumentRow
    knowledge_base: str
    text: str
    has_more: bool


@dataclass(frozen=True, slots=True)
class DocumentCatalog:
    """Use cases that read documents without the name of a knowledge base."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService

    async def read_text(self, document_id: UUID, *, start: int, max_characters: int) -> TextPage:
        """Return a part of the live version's text.

        Args:
            document_id: The document.
            start: Offset of the first character.
            max_characters: The maximum length of the part.

        Returns:
            The part. It is empty until the first version is ready.

        Raises:
            DocumentNotFound: The document does not exist, or the caller may not read it.
        """
        async with self.db.transaction(snapshot=True) as session:
            document, name = await self._find_document(session, document_id)
            repository = ContentRepository(session, document.tenant_id)
            text = await repository.get_text(document.id, start=start, end=start + max_characters + 1)
        return TextPage(document, name, text[:max_characters], has_more=len(text) > max_characters)

    async def list_documents(self, *, before: UUID | None, limit: int) -> Sequence[tuple[DocumentRow, str]]:
        """List documents that have a live version, newest first, each with the name of its knowledge base.

        The list contains the documents that a search without a scope finds. A key restricted to a user also gets the
        documents of that user.

        Args:
            before: Id of the last document of the previous page. None begins with the newest document.
            limit: The maximum number of documents.

        Returns:
            Pairs of document and knowledge base name.
        """
        principal = self.knowledge_bases.principal
        async with self.db.transaction() as session:
            return await DocumentCatalogRepository(session, self.db.tenant_id).list_documents(
                allowed_kb_ids=principal.knowledge_base_ids, reader=principal.user_id, before=before, limit=limit
            )

    async def _find_document(self, session: Session, document_id: UUID) -> tuple[DocumentRow, str]:
        kb_id = await DocumentCatalogRepository(session, self.db.tenant_id).find_knowledge_base_id(document_id)
        if kb_id is None:
            raise DocumentNotFound
        try:
            kb = await self.knowledge_bases.find_in_session(session, encode_id("kb", kb_id))
        except KnowledgeBaseNotFound as exc:  # the key may not read this knowledge base
            raise DocumentNotFound from exc
        document, _ = await find_readable_document(
            session, kb, document_id, reader=self.knowledge_bases.principal.user_id
        )
        return document, kb.row.name
