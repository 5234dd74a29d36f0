"""A knowledge base as one archive, written while it is sent."""

import hashlib
import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import IO
from uuid import UUID

from pydantic import ValidationError

from app import __version__
from app.audit.types import Action, Event
from app.db.models.tenant_data import Document
from app.db.session import Session, TenantDatabase
from app.db.statements import Record
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView
from app.object_store import ObjectMissing, ObjectStore
from app.settings.environment import temporary_directory
from app.tenant_places import TenantPlaces
from app.threads import run_in_thread
from app.transfer.records import DOCUMENT, LEFT_OUT, MANIFEST, SUMS, DocumentRecord, Manifest, picture_name
from app.transfer.repository import FoundDocument, StoredText, TransferRepository
from app.transfer.tar import END, header, padding, whole
from app.transfer.types import FORMAT, PART_BYTES, VERSION, ExportBroken
from app.transfer.writing import DocumentWriter, NotWritable

PAGE = 500
# Of versions of prompts: the texts go along, and are counted anew.
NUMBERS = {"rewrite_prompt_version", "answer_prompt_version"}
IN_MEMORY = 1024 * 1024
# What is written in less time than a thread would be worth.
SMALL_ROWS = 50
SMALL_TEXT = 64 * 1024


class LeftOut(Exception):
    """A document does not go into the archive, which says why."""

    def __init__(self, document: Document, reason: str) -> None:
        super().__init__(reason)
        self.told = {"source": document.source, "external_id": document.external_id, "reason": reason}

    def line(self) -> bytes:
        """As the archive has it."""
        return json.dumps(self.told, ensure_ascii=False).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class ExportService:
    """How knowledge bases leave."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    objects: ObjectStore
    places: TenantPlaces

    async def export(self, reference: str) -> "Export":
        """An archive that is yet to be written; that somebody wants it is recorded.

        Raises KnowledgeBaseNotFound, HoldsNoDocuments, Forbidden.
        """
        self.knowledge_bases.require_whole()
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            kb.require_documents()
            kb = await KnowledgeBaseRepository(session, self.db.tenant_id).counted(kb, reader=None)
            event = Event(Action.KNOWLEDGE_BASE_EXPORT, [kb.row.id], kb.row.id)
            await self.knowledge_bases.record(session, event)
        return Export(self.db, self.objects, kb, self.places)


@dataclass(frozen=True, slots=True)
class Export:
    """One archive; each document in it is as one moment shows it."""

    db: TenantDatabase
    objects: ObjectStore
    kb: KnowledgeBaseView
    places: TenantPlaces

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[AsyncIterator[bytes]]:
        """Hold a place for the export while its bytes are sent. Raises TooManyTransfers, TransfersBusy."""
        async with self.places.take(self.db.tenant_id), aclosing(self.pieces()) as pieces:
            yield pieces

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Its bytes. Raises ExportBroken where the index is not the same any more; ObjectStoreUnavailable."""
        place = temporary_directory()
        with tempfile.TemporaryFile(dir=place) as sums, tempfile.TemporaryFile(dir=place) as left_out:
            content = manifest(self.kb).encoded()
            _note(sums, hashlib.sha256(content).hexdigest(), MANIFEST)
            yield whole(MANIFEST, content)
            number, after = 0, None
            while ids := await self._page(after):
                for after in ids:
                    try:
                        found = await self._read(after)
                    except LeftOut as exc:
                        left_out.write(exc.line())
                        continue
                    if found is None:
                        continue
                    number += 1
                    with closing(found.writer):
                        async for piece in self._document(f"documents/{number:07}", found, sums):
                            yield piece
            async for piece in _spooled(LEFT_OUT, left_out, sums):
                yield piece
            async for piece in _spooled(SUMS, sums, None):
                yield piece
            yield END

    async def _page(self, after: UUID | None) -> list[UUID]:
        async with self.db.transaction(snapshot=True) as session:
            repository = self._repository(session)
            if not await repository.is_live():
                raise ExportBroken
            return list(await repository.documents(after=after, limit=PAGE))

    async def _read(self, document_id: UUID) -> "_Written | None":
        """None where it is gone meanwhile. Raises LeftOut, ExportBroken."""
        async with self.db.transaction(snapshot=True) as session:
            repository = self._repository(session)
            found = await repository.document(document_id)
            if found is None:
                return None
            if not found.is_live:
                raise ExportBroken
            document = found.document
            stored = await _stored(repository, found)
            writer = DocumentWriter(document, stored.content)
            try:
                written = await _write(repository, writer, stored.key)
            except NotWritable as exc:
                writer.close()
                raise LeftOut(document, str(exc)) from exc
            except ValidationError as exc:
                writer.close()
                raise LeftOut(document, "it breaks a rule of the format") from exc
            except BaseException:
                writer.close()
                raise
        try:
            await self._require_objects(written)
        except BaseException as exc:
            writer.close()
            if isinstance(exc, NotWritable):
                raise LeftOut(document, str(exc)) from exc
            if isinstance(exc, ObjectMissing):
                raise LeftOut(document, "its original is not in the object store") from exc
            raise
        return written

    async def _require_objects(self, written: "_Written") -> None:
        """Before anything of the document is sent: afterwards it could not be left out."""
        document = written.writer.document
        sizes = {written.key: document.bytes} | {one["key"]: one["bytes"] for one in written.media}
        for key, size in sizes.items():
            if await self.objects.size(key) != size:
                raise NotWritable("its original has another size than it should have")

    async def _document(self, folder: str, written: "_Written", sums: IO[bytes]) -> AsyncIterator[bytes]:
        content = written.record.encoded()
        _note(sums, hashlib.sha256(content).hexdigest(), f"{folder}/{DOCUMENT}")
        yield whole(f"{folder}/{DOCUMENT}", content)
        keys = {picture_name(one["ordinal"]): one["key"] for one in written.media}
        for part in written.record.parts:
            name = f"{folder}/{part.name}"
            _note(sums, part.sha256, name)
            yield header(name, part.bytes)
            if part.name in written.writer.files:
                for piece in written.writer.files[part.name].pieces():
                    yield piece
            else:
                key = keys.get(part.name, written.key)
                async for piece in self.objects.stream(key, start=0, length=part.bytes):
                    yield piece
            yield padding(part.bytes)

    def _repository(self, session: Session) -> TransferRepository:
        return TransferRepository(session, self.db.tenant_id, self.kb.row.id, self.kb.index.id)


def manifest(kb: KnowledgeBaseView) -> Manifest:
    """What stands first in an archive of this knowledge base."""
    row, identity = kb.row, kb.index.identity
    settings = {
        "title": row.title,
        "description": row.description,
        "language": row.language,
        "embedding": {"model": identity["model"], "dimensions": kb.index.dim},
        "chunking": row.chunking,
        "retrieval": {
            name: value for name, value in row.retrieval.items() if value is not None and name not in NUMBERS
        },
        "routing": asdict(kb.routing),
        "metadata_filter": row.stamp,
    }
    return Manifest(
        format=FORMAT,
        version=VERSION,
        carrel=__version__,
        name=row.name,
        settings={name: value for name, value in settings.items() if value is not None},
        identity=identity,
        average_length=kb.index.avgdl,
        exported_at=datetime.now(UTC),
    )


@dataclass(frozen=True, slots=True)
class _Written:
    """A document whose parts are written: its record, the key of its original, and its pictures."""

    writer: DocumentWriter
    record: DocumentRecord
    key: str
    media: Sequence[Record]


async def _stored(repository: TransferRepository, found: FoundDocument) -> StoredText:
    document = found.document
    if document.live_version != document.version or document.status != "ready":
        raise LeftOut(document, f"its newest version is {document.status}")
    if found.size > PART_BYTES:
        raise LeftOut(document, "it is too large")
    stored = await repository.text(document)
    if stored is None:
        raise LeftOut(document, "its text is not stored")
    return stored


async def _write(repository: TransferRepository, writer: DocumentWriter, key: str) -> _Written:
    """Write all parts, a batch of rows at a time. Raises NotWritable, ValidationError."""
    document = writer.document
    await _run(writer.add_text, len(writer.text) > SMALL_TEXT)
    async for rows in repository.nodes(document):
        await _run(partial(writer.add_nodes, rows), len(rows) > SMALL_ROWS)
    async for rows in repository.pages(document):
        await run_in_thread(writer.add_pages, rows)
    async for rows in repository.chunks(document):
        await _run(partial(writer.add_chunks, rows), len(rows) > SMALL_ROWS)
    media = await repository.media(document)
    return _Written(writer, writer.record(media), key, media)


async def _run(work: Callable[[], None], is_large: bool) -> None:
    """In a thread, if it is worth one."""
    if is_large:
        await run_in_thread(work)
    else:
        work()


def _note(sums: IO[bytes], digest: str, name: str) -> None:
    sums.write(f"{digest}  {name}\n".encode())


async def _spooled(name: str, file: IO[bytes], sums: IO[bytes] | None) -> AsyncIterator[bytes]:
    size = file.tell()
    file.seek(0)
    yield header(name, size)
    digest = hashlib.sha256()
    while piece := file.read(IN_MEMORY):
        digest.update(piece)
        yield piece
    yield padding(size)
    if sums is not None:
        _note(sums, digest.hexdigest(), name)
