"""A knowledge base as one archive, written while it is sent."""

import asyncio
import hashlib
import json
import tempfile
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import IO
from uuid import UUID

from pydantic import ValidationError

from app import __version__
from app.audit.types import Action, Event
from app.db.models.tenant_data import Document
from app.db.session import Session, TenantDatabase
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView
from app.object_store import ObjectMissing, ObjectStore
from app.settings.environment import temporary_directory
from app.transfer.records import DOCUMENT, LEFT_OUT, MANIFEST, SUMS, Manifest, picture_name
from app.transfer.repository import FoundDocument, StoredParts, TransferRepository
from app.transfer.tar import END, header, padding, whole
from app.transfer.types import FORMAT, PART_BYTES, VERSION, ExportBroken
from app.transfer.writing import NotWritable, WrittenDocument, written

PAGE = 500
# Of versions of prompts: the texts go along, and are counted anew.
NUMBERS = {"rewrite_prompt_version", "answer_prompt_version"}
IN_MEMORY = 1024 * 1024


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

    async def export(self, reference: str) -> "Export":
        """An archive that is yet to be written; that somebody wants it is recorded.

        Raises KnowledgeBaseNotFound, HoldsNoDocuments, Forbidden.
        """
        self.knowledge_bases.require_whole()
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            kb.require_documents()
            kb = await KnowledgeBaseRepository(session, self.db.tenant_id).counted(kb)
            event = Event(Action.KNOWLEDGE_BASE_EXPORT, [kb.row.id], kb.row.id)
            await self.knowledge_bases.record(session, event)
        return Export(self.db, self.objects, kb)


@dataclass(frozen=True, slots=True)
class Export:
    """One archive; each document in it is as one moment shows it."""

    db: TenantDatabase
    objects: ObjectStore
    kb: KnowledgeBaseView

    async def pieces(self) -> AsyncIterator[bytes]:
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
                    async for piece in self._document(f"documents/{number:07}", *found, sums):
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

    async def _read(self, document_id: UUID) -> tuple[StoredParts, WrittenDocument] | None:
        """None where it is gone meanwhile. Raises LeftOut, ExportBroken."""
        async with self.db.transaction(snapshot=True) as session:
            repository = self._repository(session)
            found = await repository.document(document_id)
            if found is None:
                return None
            if not found.is_live:
                raise ExportBroken
            document, stored = found.document, await _stored(repository, found)
        try:
            await self._require_objects(stored)
            return stored, await asyncio.to_thread(written, stored)
        except NotWritable as exc:
            raise LeftOut(document, str(exc)) from exc
        except ObjectMissing as exc:
            raise LeftOut(document, "its original is not in the object store") from exc
        except ValidationError as exc:
            raise LeftOut(document, "it breaks a rule of the format") from exc

    async def _require_objects(self, stored: StoredParts) -> None:
        """Before anything of the document is sent: afterwards it could not be left out."""
        sizes = {stored.key: stored.document.bytes} | {one["key"]: one["bytes"] for one in stored.media}
        for key, size in sizes.items():
            if await self.objects.size(key) != size:
                raise NotWritable("its original has another size than it should have")

    async def _document(
        self, folder: str, stored: StoredParts, made: WrittenDocument, sums: IO[bytes]
    ) -> AsyncIterator[bytes]:
        content = made.record.encoded()
        _note(sums, hashlib.sha256(content).hexdigest(), f"{folder}/{DOCUMENT}")
        yield whole(f"{folder}/{DOCUMENT}", content)
        keys = {picture_name(one["ordinal"]): one["key"] for one in stored.media}
        for part in made.record.parts:
            name = f"{folder}/{part.name}"
            _note(sums, part.sha256, name)
            if part.name in made.files:
                yield whole(name, made.files[part.name])
                continue
            yield header(name, part.bytes)
            async for piece in self.objects.stream(keys.get(part.name, stored.key), start=0, length=part.bytes):
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


async def _stored(repository: TransferRepository, found: FoundDocument) -> StoredParts:
    document = found.document
    if document.live_version != document.version or document.status != "ready":
        raise LeftOut(document, f"its newest version is {document.status}")
    if found.size > PART_BYTES:
        raise LeftOut(document, "it is too large")
    stored = await repository.parts(document)
    if stored is None:
        raise LeftOut(document, "its text is not stored")
    return stored


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
