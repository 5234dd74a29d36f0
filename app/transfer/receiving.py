"""One document of an archive on its way in: its files on the local disk, each with the hash that it should have."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from app.temporary import temporary_folder
from app.transfer.records import DOCUMENT, ORIGINAL, PARTS, DocumentRecord, Part, read_record
from app.transfer.tar import Member, TarReader
from app.transfer.types import PART_BYTES, PICTURE_BYTES, RECORD_BYTES, ArchiveDamaged, ArchiveTooLarge


@dataclass(frozen=True, slots=True)
class Coming:
    """A document whose record is read and whose files follow; ``folder`` is its place in the archive."""

    record: DocumentRecord
    folder: str

    @property
    def size(self) -> int:
        """Bytes of the parts that are read into memory."""
        return sum(part.bytes for part in self.record.parts if part.name in PARTS)


async def read_small(tar: TarReader, member: Member) -> bytes:
    """A file that is small by its nature. Raises ArchiveTooLarge."""
    if member.size > RECORD_BYTES:
        raise ArchiveTooLarge(f"{member.name} is larger than {RECORD_BYTES} bytes.")
    return b"".join([piece async for piece in tar.pieces()])


async def read_coming(tar: TarReader, member: Member, *, most_bytes: int) -> Coming:
    """The document that begins with this file; its parts are not too large. Raises ArchiveDamaged, ArchiveTooLarge."""
    folder, _, name = member.name.rpartition("/")
    if name != DOCUMENT:
        raise ArchiveDamaged("A document of the archive does not begin with its record.")
    record = read_record(DocumentRecord, await read_small(tar, member), DOCUMENT).checked()
    for part in record.parts:
        limit = most_bytes if part.name == ORIGINAL else PART_BYTES if part.name in PARTS else PICTURE_BYTES
        if part.bytes > limit:
            raise ArchiveTooLarge(f"A document's {part.name} is larger than {limit} bytes.")
    if record.original.bytes == 0:
        raise ArchiveDamaged("A document of the archive has an empty original.")
    return Coming(record, folder)


@asynccontextmanager
async def received(tar: TarReader, coming: Coming) -> AsyncIterator[Path]:
    """Its files, all of them right, below a directory that goes with the block. Raises ArchiveDamaged."""
    with temporary_folder("import") as folder:
        (folder / "media").mkdir()
        for part in coming.record.parts:  # their names are ours: the record was checked
            await _expect(tar, coming, part)
            with (folder / part.name).open("wb") as file:
                digest = hashlib.sha256()
                async for piece in tar.pieces():
                    digest.update(piece)
                    file.write(piece)
            if digest.hexdigest() != part.sha256:
                raise ArchiveDamaged(f"{part.name} of a document has another hash than it should have.")
        yield folder


async def pass_over(tar: TarReader, coming: Coming) -> None:
    """Read over its files."""
    for part in coming.record.parts:
        await _expect(tar, coming, part)


async def _expect(tar: TarReader, coming: Coming, part: Part) -> None:
    member = await tar.next()
    if member != Member(f"{coming.folder}/{part.name}", part.bytes):
        raise ArchiveDamaged("The files of a document are not those that its record names.")
