"""Archive of a knowledge base on the local disk: verification, and division into parts for the upload."""

import hashlib
import json
import re
import tarfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from app.transfer.archive_format import (
    CHECKSUMS,
    DOCUMENT,
    MANIFEST,
    SKIPPED_DOCUMENTS,
    DocumentRecord,
    parse_manifest,
    parse_record,
)
from app.transfer.tar import BLOCK_BYTES, END_MARKER
from app.transfer.types import MAX_RECORD_BYTES, ArchiveDamaged, ArchiveTruncated

READ_BYTES = 1024 * 1024
# Size of a part. A request with one part ends long before the client's timeout.
MIN_PART_BYTES = 8 * 1024 * 1024
MAX_PART_DOCUMENTS = 100
_FOLDER = re.compile(r"(documents/[0-9]{7,})/[a-z0-9./-]+")


@dataclass(slots=True)
class ArchivedDocument:
    """Byte range of a document in the archive, and the identity of the document."""

    start: int
    end: int
    identity: tuple[str | None, ...]


@dataclass(slots=True)
class Archive:
    """Contents of an archive. ``manifest_bytes`` are the bytes of the manifest, with which every part begins."""

    path: Path
    settings: dict[str, Any] = field(default_factory=dict)
    manifest_bytes: bytes = b""
    documents: list[ArchivedDocument] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)

    def split(self, existing: Collection[tuple[str | None, ...]]) -> Iterator[tuple[bytes, int]]:
        """Yield parts of the archive with the documents that are not stored yet.

        Args:
            existing: Identities of the stored documents, which are left out.

        Returns:
            Pairs of the bytes of a part and a number of documents. The number counts the archive's documents since the
            previous part, including stored ones. The last part is empty if no document is left.
        """
        with self.path.open("rb") as file:
            pending: list[bytes] = []
            passed = 0
            for document in self.documents:
                passed += 1
                if document.identity not in existing:
                    file.seek(document.start)
                    pending.append(file.read(document.end - document.start))
                if len(pending) == MAX_PART_DOCUMENTS or sum(map(len, pending)) >= MIN_PART_BYTES:
                    yield b"".join([self.manifest_bytes, *pending, END_MARKER]), passed
                    pending, passed = [], 0
            yield b"".join([self.manifest_bytes, *pending, END_MARKER]) if pending else b"", passed


def build_document_identity(
    external_id: str | None, sha256: str, scope: Sequence[str | None]
) -> tuple[str | None, ...]:
    """Return the identity of a document: two documents with the same identity are the same document."""
    return (external_id, sha256, *scope)


def verify_archive(path: Path, on_progress: Callable[[int], object]) -> Archive:
    """Read the whole archive and verify its hashes.

    Args:
        path: Path of the archive.
        on_progress: Called with the number of bytes that have been read.

    Returns:
        The contents of the archive.

    Raises:
        ArchiveDamaged: A hash or the structure of the archive is wrong.
        ArchiveTruncated: The end of the archive is missing.
        ArchiveVersionUnsupported: The archive has a version of the format that this version cannot read.
        OSError: The file cannot be read.
    """
    archive, sums, is_complete = Archive(path), hashlib.sha256(), False
    try:
        with tarfile.open(path, "r:") as tar:
            while (member := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # missing in typeshed; without it tarfile keeps every member in memory
                content, digest = _read_member(tar, member)
                if is_complete:
                    raise ArchiveDamaged("The archive has data after its hashes; export the knowledge base again.")
                if member.name == CHECKSUMS:
                    if digest != sums.hexdigest():
                        raise ArchiveDamaged(
                            "The hashes of the archive do not match its files; export the knowledge base again."
                        )
                    is_complete = True
                sums.update(f"{digest}  {member.name}\n".encode())
                _add_member(archive, member, content)
                on_progress(_compute_end(member))
    except (tarfile.TarError, UnicodeError) as exc:
        raise ArchiveDamaged from exc
    if not is_complete:
        raise ArchiveTruncated
    return archive


def _read_member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> tuple[bytes, str]:
    """Return the contents and the SHA-256 of a member; the contents of a large member are empty."""
    file: IO[bytes] | None = tar.extractfile(member) if member.isreg() else None
    if file is None:
        raise ArchiveDamaged("The archive contains an entry that is not a file; export the knowledge base again.")
    digest, content = hashlib.sha256(), b""
    while piece := file.read(READ_BYTES):
        digest.update(piece)
        content = content + piece if member.size <= MAX_RECORD_BYTES else b""
    return content, digest.hexdigest()


def _add_member(archive: Archive, member: tarfile.TarInfo, content: bytes) -> None:
    folder = _FOLDER.fullmatch(member.name)
    if not archive.manifest_bytes:
        if member.name != MANIFEST:
            raise ArchiveDamaged("The file is not an archive of `carrel export`; check the path.")
        archive.settings = parse_manifest(content).settings
        archive.manifest_bytes = (
            tarfile.TarInfo.tobuf(member, tarfile.USTAR_FORMAT) + content + bytes(-len(content) % BLOCK_BYTES)
        )
    elif folder is not None and member.name == f"{folder[1]}/{DOCUMENT}":
        record = parse_record(DocumentRecord, content, member.name)
        scope = (record.user_id, record.chat_id, record.agent_id)
        identity = build_document_identity(record.external_id, record.check_parts().original.sha256, scope)
        archive.documents.append(ArchivedDocument(member.offset, _compute_end(member), identity))
    elif folder is not None and archive.documents:
        archive.documents[-1].end = _compute_end(member)
    elif member.name == SKIPPED_DOCUMENTS:
        archive.skipped = [json.loads(line) for line in content.splitlines()]
    elif member.name != CHECKSUMS:
        raise ArchiveDamaged("The archive contains unknown files; export the knowledge base again.")


def _compute_end(member: tarfile.TarInfo) -> int:
    return member.offset_data + member.size + -member.size % BLOCK_BYTES
