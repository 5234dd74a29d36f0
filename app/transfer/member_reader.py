"""Reader of one document of an archive: its files go to the local disk, and their hashes are checked."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from app.temp_files import create_temp_directory
from app.transfer.archive_format import DOCUMENT, ORIGINAL, PARTS, REPLIES, ArchivePart, DocumentRecord, parse_record
from app.transfer.tar import ArchiveMember, TarReader
from app.transfer.types import MAX_IMAGE_BYTES, MAX_PART_BYTES, MAX_RECORD_BYTES, ArchiveDamaged, ArchiveTooLarge


@dataclass(frozen=True, slots=True)
class IncomingDocument:
    """Document whose record was read, and whose files come next in the archive. ``folder`` is its folder there."""

    record: DocumentRecord
    folder: str

    @property
    def size(self) -> int:
        """Bytes of the parts that are read into memory."""
        return sum(part.bytes for part in self.record.parts if part.name in (*PARTS, REPLIES))


async def read_small_member(tar: TarReader, member: ArchiveMember) -> bytes:
    """Return the content of a file that should be small. Raises ArchiveTooLarge."""
    if member.size > MAX_RECORD_BYTES:
        raise ArchiveTooLarge(f"{member.name} is larger than {MAX_RECORD_BYTES} bytes.")
    return b"".join([piece async for piece in tar.iter_pieces()])


async def read_incoming_document(tar: TarReader, member: ArchiveMember, *, max_original_bytes: int) -> IncomingDocument:
    """Read a document's record from a file of the archive, and check the sizes of the document's parts.

    Args:
        tar: The archive.
        member: The file.
        max_original_bytes: Maximum size of the original.

    Raises:
        ArchiveDamaged: The file is not the record of a document.
        ArchiveTooLarge: A part is too large.
    """
    folder, _, name = member.name.rpartition("/")
    if name != DOCUMENT:
        raise ArchiveDamaged("The first file of a document is not its record. Export it again.")
    record = parse_record(DocumentRecord, await read_small_member(tar, member), DOCUMENT).check_parts()
    for part in record.parts:
        limit = (
            max_original_bytes
            if part.name == ORIGINAL
            else MAX_PART_BYTES
            if part.name in (*PARTS, REPLIES)
            else MAX_IMAGE_BYTES
        )
        if part.bytes > limit:
            raise ArchiveTooLarge(f"A document's {part.name} is larger than {limit} bytes.")
    if record.original.bytes == 0:
        raise ArchiveDamaged("A document of the archive has an empty original.")
    return IncomingDocument(record, folder)


@asynccontextmanager
async def receive_files(tar: TarReader, incoming: IncomingDocument) -> AsyncIterator[Path]:
    """Yield a temporary directory with the document's files, after a check of their hashes.

    Args:
        tar: The archive.
        incoming: The document.

    Raises:
        ArchiveDamaged: A file is missing or has another hash.
    """
    with create_temp_directory("import") as folder:
        (folder / "images").mkdir()
        for part in incoming.record.parts:  # the check of the record allows only known names
            await _expect_part(tar, incoming, part)
            with (folder / part.name).open("wb") as file:
                digest = hashlib.sha256()
                async for piece in tar.iter_pieces():
                    digest.update(piece)
                    file.write(piece)
            if digest.hexdigest() != part.sha256:
                raise ArchiveDamaged(
                    f"{part.name} of a document does not have the hash of its record. Export it again."
                )
        yield folder


async def skip_files(tar: TarReader, incoming: IncomingDocument) -> None:
    """Skip the files of a document."""
    for part in incoming.record.parts:
        await _expect_part(tar, incoming, part)


async def _expect_part(tar: TarReader, incoming: IncomingDocument, part: ArchivePart) -> None:
    member = await tar.read_next_member()
    if member != ArchiveMember(f"{incoming.folder}/{part.name}", part.bytes):
        raise ArchiveDamaged("The files of a document are not the parts of its record. Export it again.")
