"""An archive on the local disk: verified whole, and cut into parts that can be sent one after the other."""

import hashlib
import json
import re
import tarfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from app.transfer.records import DOCUMENT, LEFT_OUT, MANIFEST, SUMS, DocumentRecord, read_manifest, read_record
from app.transfer.tar import BLOCK, END
from app.transfer.types import RECORD_BYTES, ArchiveDamaged, ArchiveTruncated

PIECE_BYTES = 1024 * 1024
# A request is finished well before a client's patience is.
PART_BYTES = 8 * 1024 * 1024
PART_DOCUMENTS = 100
_FOLDER = re.compile(r"(documents/[0-9]{7,})/[a-z0-9./-]+")


@dataclass(slots=True)
class ArchivedDocument:
    """Where a document stands in the archive, from byte to byte, and what tells it from others."""

    start: int
    end: int
    identity: tuple[str | None, ...]


@dataclass(slots=True)
class Archive:
    """What is in it; ``head`` are the bytes of the manifest, which go before every part."""

    path: Path
    settings: dict[str, Any] = field(default_factory=dict)
    head: bytes = b""
    documents: list[ArchivedDocument] = field(default_factory=list)
    left_out: list[dict[str, Any]] = field(default_factory=list)

    def parts(self, known: Collection[tuple[str | None, ...]]) -> Iterator[tuple[bytes, int]]:
        """Archives of documents that are not known, and how many documents each part of the way is."""
        with self.path.open("rb") as file:
            waiting: list[bytes] = []
            passed = 0
            for one in self.documents:
                passed += 1
                if one.identity not in known:
                    file.seek(one.start)
                    waiting.append(file.read(one.end - one.start))
                if len(waiting) == PART_DOCUMENTS or sum(map(len, waiting)) >= PART_BYTES:
                    yield b"".join([self.head, *waiting, END]), passed
                    waiting, passed = [], 0
            yield b"".join([self.head, *waiting, END]) if waiting else b"", passed


def identity_of(external_id: str | None, sha256: str, scope: Sequence[str | None]) -> tuple[str | None, ...]:
    """What makes a document the same one."""
    return (external_id, sha256, *scope)


def open_archive(path: Path, tell: Callable[[int], object]) -> Archive:
    """Read all of it, against its own hashes; ``tell`` is told how far it is, in bytes.

    Raises ArchiveDamaged, ArchiveTruncated, ArchiveNewer, OSError.
    """
    found, sums, is_whole = Archive(path), hashlib.sha256(), False
    try:
        with tarfile.open(path, "r:") as tar:
            while (member := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # not in typeshed; else it keeps them all
                content, digest = _read(tar, member)
                if is_whole:
                    raise ArchiveDamaged("Something follows the archive's hashes.")
                if member.name == SUMS:
                    if digest != sums.hexdigest():
                        raise ArchiveDamaged("The archive's files have other hashes than it says.")
                    is_whole = True
                sums.update(f"{digest}  {member.name}\n".encode())
                _add(found, member, content)
                tell(_end(member))
    except (tarfile.TarError, UnicodeError) as exc:
        raise ArchiveDamaged from exc
    if not is_whole:
        raise ArchiveTruncated
    return found


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> tuple[bytes, str]:
    """A small file's bytes, nothing of a large one, and its hash."""
    file: IO[bytes] | None = tar.extractfile(member) if member.isreg() else None
    if file is None:
        raise ArchiveDamaged("The archive holds something else than files.")
    digest, kept = hashlib.sha256(), b""
    while piece := file.read(PIECE_BYTES):
        digest.update(piece)
        kept = kept + piece if member.size <= RECORD_BYTES else b""
    return kept, digest.hexdigest()


def _add(found: Archive, member: tarfile.TarInfo, content: bytes) -> None:
    folder = _FOLDER.fullmatch(member.name)
    if not found.head:
        if member.name != MANIFEST:
            raise ArchiveDamaged("That is no archive of a knowledge base.")
        found.settings = read_manifest(content).settings
        found.head = tarfile.TarInfo.tobuf(member, tarfile.USTAR_FORMAT) + content + bytes(-len(content) % BLOCK)
    elif folder is not None and member.name == f"{folder[1]}/{DOCUMENT}":
        record = read_record(DocumentRecord, content, member.name)
        scope = (record.user_id, record.chat_id, record.agent_id)
        identity = identity_of(record.external_id, record.checked().original.sha256, scope)
        found.documents.append(ArchivedDocument(member.offset, _end(member), identity))
    elif folder is not None and found.documents:
        found.documents[-1].end = _end(member)
    elif member.name == LEFT_OUT:
        found.left_out = [json.loads(line) for line in content.splitlines()]
    elif member.name != SUMS:
        raise ArchiveDamaged("The archive holds files that are none of its own.")


def _end(member: tarfile.TarInfo) -> int:
    return member.offset_data + member.size + -member.size % BLOCK
