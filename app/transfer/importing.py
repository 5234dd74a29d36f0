"""An archive into a knowledge base: each document becomes visible whole, in one transaction, or not at all."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from sqlalchemy.exc import IntegrityError

from app.audit.types import Actor
from app.db.models.media import DocumentMedia
from app.db.models.tenant_data import Document
from app.db.session import Session, TenantDatabase
from app.documents.expiring import find_lasting
from app.documents.media_repository import MediaRepository
from app.documents.scopes import Scope
from app.documents.types import UploadConflict, filterable, object_key
from app.documents.upload_repository import UploadRepository
from app.ids import new_id
from app.inference.embedding import Embedder
from app.ingestion.embedding import Spent, book
from app.ingestion.repository import IndexedDocument, IngestionRepository
from app.ingestion.version_repository import VersionRepository
from app.job_queue import JobQueue
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import IndexMismatch, KnowledgeBaseNotFound, KnowledgeBaseView
from app.object_store import ObjectStore
from app.quotas.room import Room
from app.quotas.service import QuotaService
from app.quotas.types import NO_KEY
from app.tenant_places import TenantPlaces
from app.threads import run_in_thread
from app.transfer.places import ImportRoom
from app.transfer.readers import Readers
from app.transfer.reading import ReadDocument, Structure, read_document, read_text
from app.transfer.receiving import Coming, pass_over, read_coming, read_small, received
from app.transfer.records import (
    LEFT_OUT,
    MANIFEST,
    ORIGINAL,
    SUMS,
    DocumentRecord,
    Manifest,
    picture_name,
    read_manifest,
)
from app.transfer.repository import TransferRepository
from app.transfer.tar import TarReader
from app.transfer.types import ArchiveDamaged, ArchiveMismatch, Imported

GROWN = {"documents": 0, "stored_bytes": 0, "chunks": 0}
REINDEXED = "The knowledge base was reindexed while this was imported; import it again."


@dataclass(frozen=True, slots=True)
class ImportService:
    """How knowledge bases come in; ``room`` is for the documents that are held in memory at once, of all callers."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    objects: ObjectStore
    queue: JobQueue
    quotas: QuotaService
    places: TenantPlaces
    room: ImportRoom
    readers: Readers
    max_characters: int

    async def open(self, reference: str) -> KnowledgeBaseView:
        """The one that is to take an archive in. Raises KnowledgeBaseNotFound, HoldsNoDocuments, Forbidden."""
        self.knowledge_bases.require_whole()
        kb = await self.knowledge_bases.find(reference)
        kb.require_documents()
        return kb

    async def take(self, kb: KnowledgeBaseView, body: AsyncIterator[bytes]) -> Imported:
        """Read an archive, or a part of one with its manifest before it; what is there already is passed over.

        Whatever was taken before an error stays. Raises IndexMismatch, ArchiveMismatch, ArchiveDamaged,
        ArchiveTruncated, ArchiveNewer, ArchiveTooLarge, TooManyTerms, QuotaExceeded, UploadConflict,
        KnowledgeBaseNotFound; TooManyTransfers and TransfersBusy before anything is read.
        """
        async with self.places.take(self.db.tenant_id):
            return await self._take_all(kb, body)

    async def _take_all(self, kb: KnowledgeBaseView, body: AsyncIterator[bytes]) -> Imported:
        kb.require_match(self.knowledge_bases.settings.embedders.identities)
        tar = TarReader(body)
        first = await tar.next()
        if first is None or first.name != MANIFEST:
            raise ArchiveDamaged("The archive does not begin with its manifest.")
        kb = await self._begin(kb, read_manifest(await read_small(tar, first)))
        done = Imported()
        while (member := await tar.next()) is not None:
            if member.name in (LEFT_OUT, SUMS):
                continue
            coming = await read_coming(tar, member, most_bytes=self.quotas.upload_bytes)
            await self._take(kb, coming, tar, done)
        return done

    async def _begin(self, kb: KnowledgeBaseView, manifest: Manifest) -> KnowledgeBaseView:
        """Its words are weighed as they were, where there are none yet. Raises ArchiveMismatch."""
        for name, ours in kb.index.identity.items():
            if manifest.identity.get(name) != ours:
                theirs = str(manifest.identity.get(name))[:100]
                raise ArchiveMismatch(f"The archive was made with {name} {theirs!r}; the knowledge base has {ours!r}.")
        async with self.db.transaction() as session:
            place = (self.db.tenant_id, kb.row.id, kb.index.id)
            await TransferRepository(session, *place).begin_with(manifest.average_length)
            return await self.knowledge_bases.find_in(session, kb.row.name)

    async def _take(self, kb: KnowledgeBaseView, coming: Coming, tar: TarReader, done: Imported) -> None:
        scope = _scope(coming.record, self.db.tenant_id)
        async with self.db.transaction() as session:
            place, digest = (self.db.tenant_id, kb.row.id, scope.key()), bytes.fromhex(coming.record.original.sha256)
            known = await find_lasting(session, self.queue, *place, name=coming.record.external_id, sha256=digest)
        if known is not None:
            await pass_over(tar, coming)
            is_same = known.sha256 == digest
            done.present += is_same
            done.conflicts += not is_same
            return
        async with received(tar, coming) as folder, self.room.take(coming.size):
            embedder = kb.embedder(self.knowledge_bases.settings.embedders)
            incoming = _Incoming(self, kb, coming.record, scope, folder, embedder)
            chunks = await incoming.store()
        done.documents += chunks is not None
        done.present += chunks is None
        done.chunks += chunks or 0


def _scope(record: DocumentRecord, tenant_id: UUID) -> Scope:
    return Scope(record.user_id, record.chat_id, record.agent_id).of_tenant(tenant_id)


@dataclass(frozen=True, slots=True)
class _Incoming:
    """One document, from its files to its rows."""

    service: ImportService
    kb: KnowledgeBaseView
    record: DocumentRecord
    scope: Scope
    folder: Path
    embedder: Embedder
    keys: list[str] = field(default_factory=list)

    async def store(self) -> int | None:
        """Object before row, all rows in one transaction; how many chunks, None where another was faster."""
        read = await self._read()
        document = self._document()
        try:
            key = await self._put(document, ORIGINAL)
            media = [await self._picture(document, number) for number in range(len(self.record.pictures))]
            async with self.service.db.transaction() as session:
                is_written = await self._write(session, document, key, media, read)
        except BaseException as exc:
            await self._forget()
            if isinstance(exc, IntegrityError):
                raise KnowledgeBaseNotFound from exc  # it was deleted meanwhile
            raise
        if not is_written:
            await self._forget()
            return None
        self.service.quotas.count(uploads=1, documents=1, bytes=document.bytes)
        return len(read.drafts)

    async def _read(self) -> ReadDocument:
        """Read it in a sandboxed process, line by line; then add vectors and words."""
        most, pictures = self.service.max_characters, [picture.number for picture in self.record.pictures]
        text = await run_in_thread(read_text, self.folder, most=most)
        structure = Structure(text, self.kb.row.stamp.keys())
        records = self.service.readers.read(self.folder, pictures=pictures, max_characters=most)
        async with aclosing(records):
            await structure.fill(records, pictures)
        return await run_in_thread(read_document, self.record, structure, self.folder, self.kb, self.embedder)

    async def _write(
        self, session: Session, document: Document, key: str, media: list[DocumentMedia], read: ReadDocument
    ) -> bool:
        tenant_id, kb, principal = self.service.db.tenant_id, self.kb, self.service.knowledge_bases.principal
        uploads, bases = UploadRepository(session, tenant_id), KnowledgeBaseRepository(session, tenant_id)
        if not await uploads.stamped(kb.row.id, kb.row.stamp_number):
            raise UploadConflict("The knowledge base was changed while this was imported; import it again.")
        row = await uploads.add(document, key, by=Actor.of(principal))
        if row is None:
            return False
        held = await bases.hold_indexes(kb.row.id)
        if kb.index.id not in held:
            raise IndexMismatch(REINDEXED)
        made = self._made(read, media).weighed(kb.index.avgdl, held[kb.index.id].avgdl)
        await IngestionRepository(session, tenant_id).replace(row, made, index_id=kb.index.id, dim=kb.index.dim)
        if read.language not in kb.languages:
            await bases.add_language(kb.index.id, read.language)
        finished = await VersionRepository(session, tenant_id).finish(
            row,
            kb.index.id,
            chunks=len(read.drafts),
            language=read.language,
            page_count=made.page_count,
            warnings=made.warnings,
            pictures=[one.sha256 for one in media],
        )
        if finished is None:
            raise IndexMismatch(REINDEXED)
        await MediaRepository(session, tenant_id).add(media)
        await Room.of(principal).require(session, GROWN, of_key=GROWN)
        # Last: the day's row is every document's of the tenant.
        key_id = principal.key_id or NO_KEY
        await book(session, self.service.db, self.embedder, Spent(), key_id=key_id, chunks=len(read.drafts))
        return True

    def _made(self, read: ReadDocument, media: list[DocumentMedia]) -> IndexedDocument:
        by_number = {one.ordinal: one for one in media}
        return IndexedDocument(
            tree=read.tree,
            title=self.record.title,
            page_count=self.record.page_count,
            warnings=list(self.record.warnings),
            language=read.language,
            drafts=read.drafts,
            token_counts=read.token_counts,
            vectors=read.vectors,
            unembedded=read.unembedded,
            entries=read.entries,
            media={at: by_number[number] for at, number in read.shown.items()},
        )

    def _document(self) -> Document:
        record, kb = self.record, self.kb
        document = Document(
            tenant_id=kb.row.tenant_id,
            kb_id=kb.row.id,
            id=new_id(),
            bytes=record.original.bytes,
            sha256=bytes.fromhex(record.original.sha256),
            scope_level=self.scope.level().value,
            scope_key=self.scope.key(),
            attributes={**record.metadata, **kb.row.stamp},
            stamp_number=kb.row.stamp_number,
            **{name: getattr(record, name) for name in _AS_THEY_ARE},
        )
        document.quota_key_id = self.service.knowledge_bases.principal.stores_for
        document.filterable = filterable(document)
        return document

    async def _picture(self, document: Document, place: int) -> DocumentMedia:
        picture = self.record.pictures[place]
        name = picture_name(picture.number)
        (part,) = (part for part in self.record.parts if part.name == name)
        return DocumentMedia(
            tenant_id=document.tenant_id,
            document_id=document.id,
            version=1,
            ordinal=picture.number,
            key=await self._put(document, name),
            media_type=picture.media_type,
            bytes=part.bytes,
            width=picture.width,
            height=picture.height,
            sha256=bytes.fromhex(part.sha256),
        )

    async def _put(self, document: Document, name: str) -> str:
        key = object_key(document.tenant_id, document.id, new_id())
        self.keys.append(key)
        await self.service.objects.put(key, self.folder / name)
        return key

    async def _forget(self) -> None:
        for key in self.keys:
            await self.service.objects.delete(key)


_AS_THEY_ARE = (
    *("source", "title", "external_id", "source_uri", "source_created_at", "media_type", "encoding"),
    *("user_id", "chat_id", "agent_id", "dynamic", "expires_at", "created_at"),
)
