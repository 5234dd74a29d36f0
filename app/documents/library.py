"""Documents wherever they are among a key's knowledge bases: one by its id alone, its text, and the list of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.models.tenant_data import Document
from app.db.session import Session, TenantDatabase
from app.documents.finding import find_readable
from app.documents.library_repository import LibraryRepository
from app.documents.reading_repository import ReadingRepository
from app.documents.types import DocumentNotFound
from app.ids import encode_id
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseNotFound


@dataclass(frozen=True, slots=True)
class LibraryText:
    """A part of a document's stored text, and whether there is more behind it."""

    document: Document
    knowledge_base: str
    text: str
    more: bool


@dataclass(frozen=True, slots=True)
class LibraryService:
    """What a key can read without naming a knowledge base."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService

    async def read(self, document_id: UUID, *, start: int, most: int) -> LibraryText:
        """The live version's text from ``start`` on, at most so many characters; none before the first is ready.

        Raises DocumentNotFound.
        """
        async with self.db.transaction(snapshot=True) as session:
            document, name = await self._find(session, document_id)
            reading = ReadingRepository(session, document.tenant_id)
            text = await reading.stored_text(document.id, start=start, end=start + most + 1)
        return LibraryText(document, name, text[:most], more=len(text) > most)

    async def page(self, *, before: UUID | None, limit: int) -> Sequence[tuple[Document, str]]:
        """Documents that are ready, newest first, each with its knowledge base's name.

        They are those that a search finds that names no scope, and of a key that is narrowed to a user, that user's.
        """
        principal = self.knowledge_bases.principal
        async with self.db.transaction() as session:
            return await LibraryRepository(session, self.db.tenant_id).page(
                only=principal.knowledge_base_ids, reader=principal.user_id, before=before, limit=limit
            )

    async def _find(self, session: Session, document_id: UUID) -> tuple[Document, str]:
        home = await LibraryRepository(session, self.db.tenant_id).home(document_id)
        if home is None:
            raise DocumentNotFound
        try:
            kb = await self.knowledge_bases.find_in(session, encode_id("kb", home))
        except KnowledgeBaseNotFound as exc:  # one that the key is not narrowed to: there is no such document for it
            raise DocumentNotFound from exc
        document, _ = await find_readable(session, kb, document_id, reader=self.knowledge_bases.principal.user_id)
        return document, kb.row.name
