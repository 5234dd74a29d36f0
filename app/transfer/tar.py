"""Tar as archives use it: regular files one after the other, written and read as a stream."""

import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass

from app.transfer.types import ArchiveDamaged, ArchiveTruncated

BLOCK = tarfile.BLOCKSIZE
END = bytes(2 * BLOCK)
# Writers fill up their last record with zeros; nobody's is longer.
MOST_FILLING = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Member:
    """A file of the archive; its name is compared with names of ours, never opened."""

    name: str
    size: int


def header(name: str, size: int) -> bytes:
    """What stands before a file's bytes."""
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.USTAR_FORMAT)


def padding(size: int) -> bytes:
    """What stands behind them."""
    return bytes(-size % BLOCK)


def whole(name: str, content: bytes) -> bytes:
    """A file at once."""
    return header(name, len(content)) + content + padding(len(content))


class TarReader:
    """Reads the files of a stream in their order, each in pieces; what is left of one is passed over."""

    def __init__(self, body: AsyncIterator[bytes]) -> None:
        self._body = body
        self._held = b""
        self._left = 0
        self._padding = 0

    async def next(self) -> Member | None:
        """The next file; None behind the last. Raises ArchiveDamaged, ArchiveTruncated."""
        async for _ in self.pieces():
            pass
        await self._exactly(self._padding)
        block = await self._exactly(BLOCK)
        if not any(block):
            await self._finish()
            return None
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeError) as exc:
            raise ArchiveDamaged from exc
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.size < 0:
            raise ArchiveDamaged("The archive holds something else than files.")
        self._left, self._padding = info.size, -info.size % BLOCK
        return Member(info.name, info.size)

    async def pieces(self) -> AsyncIterator[bytes]:
        """What is left of the file. Raises ArchiveTruncated."""
        while self._left:
            piece = await self._some(self._left)
            self._left -= len(piece)
            yield piece

    async def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            found += await self._some(size - len(found))
        return found

    async def _some(self, most: int) -> bytes:
        while not self._held:
            try:
                self._held = await anext(self._body)
            except StopAsyncIteration:
                raise ArchiveTruncated from None
        piece, self._held = self._held[:most], self._held[most:]
        return piece

    async def _finish(self) -> None:
        filling = len(self._held)
        is_clean = not any(self._held)
        async for piece in self._body:
            filling += len(piece)
            is_clean = is_clean and not any(piece)
            if not is_clean or filling > MOST_FILLING:
                break
        if not is_clean or filling > MOST_FILLING:
            raise ArchiveDamaged("Something follows the archive's end.")
