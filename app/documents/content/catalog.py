"""Access to documents by id alone, across all knowledge bases that the caller's key may read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from app.db.models.tenant_data import DocumentRow
from app.db.session import Session, TenantDatabase
from app.documents.content.catalog_repository import DocumentCatalogRepository, ListedChunk
from app.documents.content.repository import ContentRepository
from app.documents.lookup import find_readable_document
from app.documents.repository import DocumentRowFilters
from app.documents.scopes import SHARED_SCOPE
from app.documents.types import ChunkNotFound, DocumentNotFound
from app.filters import CompiledFilter
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

    async def list_chunks(
        self,
        reference: str,
        filters: DocumentRowFilters,
        chunk_filter: CompiledFilter,
        *,
        after: tuple[UUID, int] | None,
        limit: int,
    ) -> tuple[str, Sequence[ListedChunk]]:
        """List the chunks of a knowledge base, in the order of their documents' ids and of their index.

        Args:
            reference: Name or id of the knowledge base.
            filters: Conditions on the documents. The shared scope lists the chunks of the shared counterpart.
            chunk_filter: Condition on the metadata of the chunks.
            after: Document and index of the last chunk of the page before. None begins with the first chunk.
            limit: The maximum number of chunks.

        Returns:
            The name of the knowledge base, and the chunks with their documents.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            InvalidInputError: The database rejects the filter.
        """
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            is_shared = filters.scope_key == SHARED_SCOPE.to_key() and kb.shared_counterpart is not None
            listed_kb = kb.shared_counterpart if is_shared and kb.shared_counterpart else kb
            repository = DocumentCatalogRepository(session, listed_kb.row.tenant_id)
            filters = replace(filters, reader=self.knowledge_bases.principal.user_id)
            chunks = await repository.list_chunks(
                listed_kb.row.id, listed_kb.index.id, filters, chunk_filter, after=after, limit=limit
            )
            return kb.row.name, chunks

    async def locate_chunk(self, chunk_id: UUID) -> tuple[str, UUID]:
        """Return the id of the knowledge base and the id of the document of a chunk.

        The caller reads the chunk through them, which checks that its key may read both.

        Raises:
            ChunkNotFound: No live version of a document has the chunk.
        """
        async with self.db.transaction() as session:
            place = await DocumentCatalogRepository(session, self.db.tenant_id).find_chunk_place(chunk_id)
        if place is None:
            raise ChunkNotFound
        kb_id, document_id = place
        return encode_id("kb", kb_id), document_id

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
