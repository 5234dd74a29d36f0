"""Tar archives that contain only regular files, written and read as a stream."""

import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass

from app.transfer.types import ArchiveDamaged, ArchiveTruncated

BLOCK_BYTES = tarfile.BLOCKSIZE
END_MARKER = bytes(2 * BLOCK_BYTES)
# Tar programs pad their last record with zeros, with less than this size.
MAX_FILLING_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """A file of the archive. Its name is only compared with known names, and never used as a path."""

    name: str
    size: int


def build_header(name: str, size: int) -> bytes:
    """Return the header of a file."""
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.USTAR_FORMAT)


def build_padding(size: int) -> bytes:
    """Return the padding after the content of a file."""
    return bytes(-size % BLOCK_BYTES)


def build_member(name: str, content: bytes) -> bytes:
    """Return a file with header and padding."""
    return build_header(name, len(content)) + content + build_padding(len(content))


class TarReader:
    """Reader of the files of a stream, in their order and in pieces. The unread rest of a file is skipped."""

    def __init__(self, body: AsyncIterator[bytes]) -> None:
        self._body = body
        self._buffer = b""
        self._remaining_bytes = 0
        self._padding_bytes = 0

    async def read_next_member(self) -> ArchiveMember | None:
        """Return the next file, or None after the last one.

        Raises:
            ArchiveDamaged: The archive contains something other than files, or continues after its end.
            ArchiveTruncated: The stream ends too early.
        """
        async for _ in self.iter_pieces():
            pass
        await self._read_exactly(self._padding_bytes)
        block = await self._read_exactly(BLOCK_BYTES)
        if not any(block):
            await self._check_end()
            return None
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeError) as exc:
            raise ArchiveDamaged from exc
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.size < 0:
            raise ArchiveDamaged("The archive contains something other than files.")
        self._remaining_bytes, self._padding_bytes = info.size, -info.size % BLOCK_BYTES
        return ArchiveMember(info.name, info.size)

    async def iter_pieces(self) -> AsyncIterator[bytes]:
        """Yield the unread rest of the file in pieces. Raises ArchiveTruncated."""
        while self._remaining_bytes:
            piece = await self._read_up_to(self._remaining_bytes)
            self._remaining_bytes -= len(piece)
            yield piece

    async def _read_exactly(self, size: int) -> bytes:
        content = b""
        while len(content) < size:
            content += await self._read_up_to(size - len(content))
        return content

    async def _read_up_to(self, max_bytes: int) -> bytes:
        while not self._buffer:
            try:
                self._buffer = await anext(self._body)
            except StopAsyncIteration:
                raise ArchiveTruncated from None
        piece, self._buffer = self._buffer[:max_bytes], self._buffer[max_bytes:]
        return piece

    async def _check_end(self) -> None:
        filling_bytes = len(self._buffer)
        is_clean = not any(self._buffer)
        async for piece in self._body:
            filling_bytes += len(piece)
            is_clean = is_clean and not any(piece)
            if not is_clean or filling_bytes > MAX_FILLING_BYTES:
                break
        if not is_clean or filling_bytes > MAX_FILLING_BYTES:
            raise ArchiveDamaged("The file continues after the end of the archive.")
