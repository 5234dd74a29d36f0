"""Pool of sandboxed processes that check the documents of archives, at most one process for each running import."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from app.sandbox.process import ReplyTooLong, SandboxedProcess
from app.transfer.archive_format import (
    CHUNKS,
    NODES,
    PAGES,
    REPLIES,
    TEXT,
    ArchiveRecord,
    ChunkRecord,
    NodeRecord,
    PageRecord,
    parse_record,
)
from app.transfer.reply_transfer import ReplyRecord
from app.transfer.types import MAX_LINE_BYTES, ArchiveDamaged, ArchiveTooLarge

MAX_MEMORY_MB = 700
MAX_CPU_SECONDS = 60
READ_TIMEOUT_SECONDS = 180
MAX_CALLS_PER_PROCESS = 500
# The reader formats records again: numbers and escapes may become longer.
MAX_REPLY_LINE_BYTES = 8 * MAX_LINE_BYTES
_RECORD_TYPES: dict[bytes, type[ArchiveRecord]] = {
    b"n": NodeRecord, b"p": PageRecord, b"c": ChunkRecord, b"r": ReplyRecord,
}  # fmt: skip
_FILES = (TEXT, NODES, PAGES, CHUNKS, REPLIES)
# After this number of records, other tasks of the event loop run.
_RECORDS_PER_TURN = 100


@dataclass(slots=True)
class ArchiveReaderPool:
    """Pool of sandboxed reader processes. One idle process is kept. Callers check the replies again."""

    _idle: list[SandboxedProcess] = field(default_factory=list)

    async def read_records(
        self, folder: Path, *, image_numbers: list[int], max_characters: int
    ) -> AsyncGenerator[ArchiveRecord]:
        """Yield the nodes, pages, chunks and replies of a document.

        Args:
            folder: Folder with the document's files.
            image_numbers: Numbers of the document's images.
            max_characters: Maximum number of characters of its text.

        Raises:
            ArchiveDamaged: A record is not valid. The message names file and line.
            ArchiveTooLarge: The document exceeds a limit of size, memory or time.
            SandboxUnavailable: No sandboxed process can start.
        """
        process = self._idle.pop() if self._idle else await self._start()
        is_complete = False
        try:
            async with asyncio.timeout(READ_TIMEOUT_SECONDS):
                with ExitStack() as stack:
                    paths = [folder / name for name in _FILES if name != REPLIES or (folder / name).exists()]
                    files = [stack.enter_context(path.open("rb")).fileno() for path in paths]
                    request = json.dumps({"images": image_numbers, "max_characters": max_characters})
                    await process.send(request.encode("ascii") + b"\n", files)
                number = 0
                while (line := await self._read_line(process))[:1] not in (b"d", b"f"):
                    number += 1
                    if number % _RECORDS_PER_TURN == 0:
                        await asyncio.sleep(0)
                    yield _parse_record(line)
            is_complete = True
            if line[:1] == b"f":
                raise _parse_error(line)
        except TimeoutError:
            raise ArchiveTooLarge(
                f"A document of the archive took longer than {READ_TIMEOUT_SECONDS} seconds to read."
            ) from None
        finally:
            await self._release(process, is_complete=is_complete)

    async def close(self) -> None:
        """Stop the idle processes."""
        idle, self._idle = self._idle, []
        for process in idle:
            await process.kill()

    async def _start(self) -> SandboxedProcess:
        return await SandboxedProcess.start(
            "app.transfer.archive_reader", {"memory_mb": MAX_MEMORY_MB, "cpu_seconds": MAX_CPU_SECONDS}
        )

    async def _read_line(self, process: SandboxedProcess) -> bytes:
        try:
            line = await process.read_line(MAX_REPLY_LINE_BYTES)
        except ReplyTooLong as exc:
            raise ArchiveDamaged("A document of the archive gives a record that is too long.") from exc
        if line is not None:
            return line
        status = await process.process.wait()
        if status in (-signal.SIGKILL, -signal.SIGXCPU):
            raise ArchiveTooLarge("A document of the archive needs too much memory or time.")
        raise ArchiveDamaged("A document of the archive cannot be read.")

    async def _release(self, process: SandboxedProcess, *, is_complete: bool) -> None:
        """Keep the process if its reply is complete; otherwise stop it, because its state is unknown."""
        process.request_count += 1
        if is_complete and not self._idle and process.request_count < MAX_CALLS_PER_PROCESS:
            self._idle.append(process)
        else:
            await process.kill()


def _parse_record(line: bytes) -> ArchiveRecord:
    record_type = _RECORD_TYPES.get(line[:1])
    if record_type is None:
        raise ArchiveDamaged("A document of the archive gives a record that is not valid.")
    return parse_record(record_type, line[1:], "A document of the archive")


def _parse_error(line: bytes) -> ArchiveDamaged | ArchiveTooLarge:
    try:
        error = json.loads(line[1:])
        message = str(error["message"])[:500].encode("utf-8", "replace").decode()
    except (ValueError, TypeError, KeyError):
        return ArchiveDamaged("A document of the archive gives a record that is not valid.")
    return ArchiveTooLarge(message) if error["error"] == "ArchiveTooLarge" else ArchiveDamaged(message)
