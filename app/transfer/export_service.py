"""Export of a knowledge base as an archive, which is written while it is sent."""

import hashlib
import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import IO, Any
from uuid import UUID

from pydantic import ValidationError

from app.audit.types import AuditAction, AuditEvent
from app.db.models.tenant_data import DocumentRow
from app.db.session import Session, TenantDatabase
from app.db.statements import Record
from app.knowledge_bases.graph_settings import GraphSettings
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView
from app.object_store import ObjectMissing, ObjectStore
from app.settings.environment import find_temporary_directory
from app.tenant_slots import TenantSlots
from app.threads import run_in_thread
from app.transfer.archive_format import (
    CHECKSUMS,
    DOCUMENT,
    MANIFEST,
    SKIPPED_DOCUMENTS,
    ArchiveManifest,
    DocumentRecord,
    SplitRecord,
    build_image_name,
)
from app.transfer.correction_transfer import ArchivedCorrections, load_corrections
from app.transfer.document_writer import DocumentNotWritable, DocumentWriter
from app.transfer.repository import DocumentSnapshot, StoredText, TransferRepository
from app.transfer.tar import END_MARKER, build_header, build_member, build_padding
from app.transfer.types import (
    FORMAT,
    FORMAT_VERSION,
    MAX_PART_BYTES,
    VERSION_OF_CORRECTIONS,
    VERSION_WITHOUT_CORRECTIONS,
    ExportInterrupted,
)
from carrel import __version__

PAGE_SIZE = 500
# Fields that the archive leaves out: it has the texts of prompts, and an import assigns new version numbers.
PROMPT_VERSION_FIELDS = {"rewrite_prompt_version", "answer_prompt_version"}
READ_SIZE_BYTES = 1024 * 1024
# Smaller batches are written without a thread, because the start of a thread would take longer than the work.
MAX_INLINE_ROWS = 50
MAX_INLINE_CHARACTERS = 64 * 1024


class DocumentSkipped(Exception):
    """A document is left out of the archive, which lists it with the reason."""

    def __init__(self, document: DocumentRow, reason: str) -> None:
        super().__init__(reason)
        self.details = {"source": document.source, "external_id": document.external_id, "reason": reason}

    def to_json_line(self) -> bytes:
        """Return the entry of the archive's list."""
        return _format_skipped(self.details)


def _format_skipped(details: Mapping[str, str | None]) -> bytes:
    return json.dumps(details, ensure_ascii=False).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class ExportService:
    """Use cases of the export of knowledge bases."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    objects: ObjectStore
    slots: TenantSlots

    async def export(self, reference: str) -> "KnowledgeBaseExport":
        """Prepare an export, which begins when its stream is opened. The request is recorded in the audit log.

        Args:
            reference: Name or id of the knowledge base.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            NoDocumentStore: The knowledge base searches an HTTP source.
            ForbiddenError: The API key is restricted.
        """
        self.knowledge_bases.require_unrestricted_key()
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            kb.require_documents()
            kb = await KnowledgeBaseRepository(session, self.db.tenant_id).add_counts(kb, reader=None)
            event = AuditEvent(AuditAction.KNOWLEDGE_BASE_EXPORT, [kb.row.id], kb.row.id)
            await self.knowledge_bases.record_event(session, event)
        return KnowledgeBaseExport(self.db, self.objects, kb, self.slots)


@dataclass(frozen=True, slots=True)
class KnowledgeBaseExport:
    """Export of one archive. Each document is read in one snapshot."""

    db: TenantDatabase
    objects: ObjectStore
    kb: KnowledgeBaseView
    slots: TenantSlots

    @asynccontextmanager
    async def open_stream(self) -> AsyncIterator[AsyncIterator[bytes]]:
        """Hold a slot for the export while its bytes are sent. Raises TooManyTransfers, TransfersBusy."""
        async with self.slots.acquire(self.db.tenant_id), aclosing(self.iter_pieces()) as pieces:
            yield pieces

    async def iter_pieces(self) -> AsyncGenerator[bytes]:
        """Yield the bytes of the archive.

        Raises:
            ExportInterrupted: The search index was replaced, or the knowledge base was deleted.
            ObjectStoreUnavailable: The object store does not answer.
        """
        directory = find_temporary_directory()
        with tempfile.TemporaryFile(dir=directory) as sums, tempfile.TemporaryFile(dir=directory) as skipped:
            corrections, needs_newest = await self._load_corrections()
            for entity, reason in corrections.omitted:
                skipped.write(_format_skipped({"source": entity, "external_id": None, "reason": reason}))
            content = build_manifest(self.kb, corrections, needs_newest=needs_newest).to_json_line()
            _write_checksum(sums, hashlib.sha256(content).hexdigest(), MANIFEST)
            yield build_member(MANIFEST, content)
            number, after = 0, None
            while ids := await self._list_document_ids(after):
                for after in ids:
                    try:
                        written = await self._read_document(after, corrections.splits.get(after, ()))
                    except DocumentSkipped as exc:
                        skipped.write(exc.to_json_line())
                        continue
                    if written is None:
                        continue
                    number += 1
                    with closing(written.writer):
                        async for piece in self._iter_document(f"documents/{number:07}", written, sums):
                            yield piece
            async for piece in _iter_spooled(SKIPPED_DOCUMENTS, skipped, sums):
                yield piece
            async for piece in _iter_spooled(CHECKSUMS, sums, None):
                yield piece
            yield END_MARKER

    async def _list_document_ids(self, after: UUID | None) -> list[UUID]:
        async with self.db.transaction(snapshot=True) as session:
            repository = self._create_repository(session)
            if not await repository.is_live():
                raise ExportInterrupted
            return list(await repository.list_document_ids(after=after, limit=PAGE_SIZE))

    async def _load_corrections(self) -> tuple[ArchivedCorrections, bool]:
        """Return the corrections of entities, and whether the archive needs the newest format."""
        async with self.db.transaction(snapshot=True) as session:
            corrections = await load_corrections(session, self.db.tenant_id, self.kb.row.id, self.kb.index.id)
            return corrections, await self._create_repository(session).needs_newest_format()

    async def _read_document(self, document_id: UUID, splits: Sequence[SplitRecord]) -> "_WrittenDocument | None":
        """Write the parts of a document. Return None if the document was deleted.

        Raises DocumentSkipped, ExportInterrupted.
        """
        async with self.db.transaction(snapshot=True) as session:
            repository = self._create_repository(session)
            snapshot = await repository.find_document(document_id)
            if snapshot is None:
                return None
            if not snapshot.is_live:
                raise ExportInterrupted
            document = snapshot.document
            stored_text = await _load_text(repository, snapshot)
            writer = DocumentWriter(document, stored_text.content, stored_text.source_map, stored_text.place_map)
            try:
                written = await _write_parts(repository, writer, stored_text.key, splits)
            except DocumentNotWritable as exc:
                writer.close()
                raise DocumentSkipped(document, str(exc)) from exc
            except ValidationError as exc:
                writer.close()
                raise DocumentSkipped(document, "it breaks a rule of the format") from exc
            except BaseException:
                writer.close()
                raise
        try:
            await self._require_objects(written)
        except BaseException as exc:
            writer.close()
            if isinstance(exc, DocumentNotWritable):
                raise DocumentSkipped(document, str(exc)) from exc
            if isinstance(exc, ObjectMissing):
                raise DocumentSkipped(document, "its original is not in the object store") from exc
            raise
        return written

    async def _require_objects(self, written: "_WrittenDocument") -> None:
        """Check the size of every object before the document is sent, because it could not be left out afterwards."""
        document = written.writer.document
        sizes = {written.key: document.bytes} | {image["key"]: image["bytes"] for image in written.images}
        for key, size in sizes.items():
            if await self.objects.get_size(key) != size:
                raise DocumentNotWritable("its original has the wrong size in the object store")

    async def _iter_document(self, folder: str, written: "_WrittenDocument", sums: IO[bytes]) -> AsyncIterator[bytes]:
        content = written.record.to_json_line()
        _write_checksum(sums, hashlib.sha256(content).hexdigest(), f"{folder}/{DOCUMENT}")
        yield build_member(f"{folder}/{DOCUMENT}", content)
        keys = {build_image_name(image["ordinal"]): image["key"] for image in written.images}
        for part in written.record.parts:
            name = f"{folder}/{part.name}"
            _write_checksum(sums, part.sha256, name)
            yield build_header(name, part.bytes)
            if part.name in written.writer.files:
                for piece in written.writer.files[part.name].iter_pieces():
                    yield piece
            else:
                key = keys.get(part.name, written.key)
                async for piece in self.objects.stream(key, start=0, length=part.bytes):
                    yield piece
            yield build_padding(part.bytes)

    def _create_repository(self, session: Session) -> TransferRepository:
        return TransferRepository(session, self.db.tenant_id, self.kb.row.id, self.kb.index.id)


def build_manifest(kb: KnowledgeBaseView, corrections: ArchivedCorrections, *, needs_newest: bool) -> ArchiveManifest:
    """Return the manifest of an archive of this knowledge base.

    Args:
        kb: The knowledge base with its search index.
        corrections: Its corrections of entities.
        needs_newest: Whether the archive has positions in files, replies or context lines.
    """
    row, identity = kb.row, kb.index.identity
    settings = {
        "title": row.title,
        "description": row.description,
        "language": row.language,
        "embedding": {"model": identity["model"], "dimensions": kb.index.dim},
        "chunking": row.chunking,
        "retrieval": {
            name: value
            for name, value in row.retrieval.items()
            if value is not None and name not in PROMPT_VERSION_FIELDS
        },
        "routing": asdict(kb.routing),
        "metadata_filter": row.enforced_metadata,
        # Services before this setting accept archives with its default.
        "graph": None if row.graph == GraphSettings().to_stored() else _to_graph_fields(row.graph),
    }
    version = VERSION_WITHOUT_CORRECTIONS if corrections.is_empty else VERSION_OF_CORRECTIONS
    return ArchiveManifest(
        format=FORMAT,
        version=FORMAT_VERSION if needs_newest else version,
        merges=tuple(corrections.merges),
        carrel=__version__,
        name=row.name,
        settings={name: value for name, value in settings.items() if value is not None},
        identity=identity,
        average_length=kb.index.avgdl,
        exported_at=datetime.now(UTC),
    )


@dataclass(frozen=True, slots=True)
class _WrittenDocument:
    """A document with written parts: its record, the key of its original, and the rows of its images."""

    writer: DocumentWriter
    record: DocumentRecord
    key: str
    images: Sequence[Record]


async def _load_text(repository: TransferRepository, snapshot: DocumentSnapshot) -> StoredText:
    document = snapshot.document
    if document.live_version != document.version or document.status != "ready":
        raise DocumentSkipped(document, f"its newest version is {document.status}")
    if document.chunk_count == 0:
        raise DocumentSkipped(document, "its chunks were deleted")
    if snapshot.memory_bytes > MAX_PART_BYTES:
        raise DocumentSkipped(document, "it is too large")
    stored_text = await repository.find_text(document)
    if stored_text is None:
        raise DocumentSkipped(document, "its text is not stored")
    return stored_text


async def _write_parts(
    repository: TransferRepository, writer: DocumentWriter, key: str, splits: Sequence[SplitRecord]
) -> _WrittenDocument:
    """Write all parts of a document, one batch of rows at a time. Raises DocumentNotWritable, ValidationError."""
    document = writer.document
    await _run_work(writer.add_text, len(writer.text) > MAX_INLINE_CHARACTERS)
    async for rows in repository.iter_nodes(document):
        await _run_work(partial(writer.add_nodes, rows), len(rows) > MAX_INLINE_ROWS)
    async for rows in repository.iter_pages(document):
        await run_in_thread(writer.add_pages, rows)
    async for rows in repository.iter_chunks(document):
        await _run_work(partial(writer.add_chunks, rows), len(rows) > MAX_INLINE_ROWS)
    writer.add_replies(await repository.list_replies(document))
    images = await repository.list_images(document)
    return _WrittenDocument(writer, writer.build_record(images, splits), key, images)


async def _run_work(work: Callable[[], None], is_large: bool) -> None:
    """Run a function, in a thread if the work is large."""
    if is_large:
        await run_in_thread(work)
    else:
        work()


def _to_graph_fields(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the graph settings as a request has them, without an empty list of extractors."""
    return {name: value for name, value in stored.items() if name != "extractors" or value}


def _write_checksum(sums: IO[bytes], digest: str, name: str) -> None:
    sums.write(f"{digest}  {name}\n".encode())


async def _iter_spooled(name: str, file: IO[bytes], sums: IO[bytes] | None) -> AsyncIterator[bytes]:
    size = file.tell()
    file.seek(0)
    yield build_header(name, size)
    digest = hashlib.sha256()
    while piece := file.read(READ_SIZE_BYTES):
        digest.update(piece)
        yield piece
    yield build_padding(size)
    if sums is not None:
        _write_checksum(sums, digest.hexdigest(), name)
