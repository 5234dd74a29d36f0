"""Documents wherever they are among a key's knowledge bases: one by its id alone, its text, and the list of them."""

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
    """A part of a document's stored text, and whether there is more behind it."""

    document: DocumentRow
    knowledge_base: str
    text: str
    has_more: bool


@dataclass(frozen=True, slots=True)
class DocumentCatalog:
    """What a key can read without naming a knowledge base."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService

    async def read_text(self, document_id: UUID, *, start: int, max_characters: int) -> TextPage:
        """The live version's text from ``start`` on, at most so many characters; none before the first is ready.

        Raises DocumentNotFound.
        """
        async with self.db.transaction(snapshot=True) as session:
            document, name = await self._find_document(session, document_id)
            repository = ContentRepository(session, document.tenant_id)
            text = await repository.get_text(document.id, start=start, end=start + max_characters + 1)
        return TextPage(document, name, text[:max_characters], has_more=len(text) > max_characters)

    async def list_documents(self, *, before: UUID | None, limit: int) -> Sequence[tuple[DocumentRow, str]]:
        """Documents that are ready, newest first, each with its knowledge base's name.

        They are those that a search finds that names no scope, and of a key that is narrowed to a user, that user's.
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
        except KnowledgeBaseNotFound as exc:  # one that the key is not narrowed to: there is no such document for it
            raise DocumentNotFound from exc
        document, _ = await find_readable_document(
            session, kb, document_id, reader=self.knowledge_bases.principal.user_id
        )
        return document, kb.row.name
