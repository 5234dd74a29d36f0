"""Sandboxed processes that read archives' documents: at most as many as documents are imported at a time."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from app.sandbox.process import AnswerTooLong, SandboxedProcess
from app.transfer.records import CHUNKS, NODES, PAGES, TEXT, ChunkRecord, NodeRecord, PageRecord, Record, read_record
from app.transfer.types import MAX_LINE_BYTES, ArchiveDamaged, ArchiveTooLarge

MEMORY_MB = 700
CPU_SECONDS = 60
WALL_SECONDS = 180
RECYCLE_AFTER_CALLS = 500
# Records are written anew: numbers and escapes may take more bytes than they did.
MOST_ANSWER_BYTES = 8 * MAX_LINE_BYTES
_KINDS: dict[bytes, type[Record]] = {b"n": NodeRecord, b"p": PageRecord, b"c": ChunkRecord}
_FILES = (TEXT, NODES, PAGES, CHUNKS)
# So many records are read before others get their turn.
_TURN = 100


@dataclass(slots=True)
class Readers:
    """The processes; one that is idle is kept. What they answer is checked once more."""

    _idle: list[SandboxedProcess] = field(default_factory=list)

    async def read(self, folder: Path, *, pictures: list[int], max_characters: int) -> AsyncGenerator[Record]:
        """Yield the nodes, pages and chunks of the document whose files are in ``folder``.

        Raises ArchiveDamaged and ArchiveTooLarge, which name file and line; SandboxUnavailable.
        """
        process = self._idle.pop() if self._idle else await self._start()
        is_whole = False
        try:
            async with asyncio.timeout(WALL_SECONDS):
                with ExitStack() as stack:
                    files = [stack.enter_context((folder / name).open("rb")).fileno() for name in _FILES]
                    request = json.dumps({"pictures": pictures, "max_characters": max_characters})
                    await process.send(request.encode("ascii") + b"\n", files)
                number = 0
                while (line := await self._line(process))[:1] not in (b"d", b"f"):
                    number += 1
                    if number % _TURN == 0:
                        await asyncio.sleep(0)
                    yield _record(line)
            is_whole = True
            if line[:1] == b"f":
                raise _refusal(line)
        except TimeoutError:
            raise ArchiveTooLarge(
                f"A document of the archive took longer than {WALL_SECONDS} seconds to read."
            ) from None
        finally:
            await self._settle(process, is_whole=is_whole)

    async def close(self) -> None:
        """End the processes that are idle."""
        idle, self._idle = self._idle, []
        for process in idle:
            await process.kill()

    async def _start(self) -> SandboxedProcess:
        return await SandboxedProcess.start("app.transfer.reader", {"memory_mb": MEMORY_MB, "cpu_seconds": CPU_SECONDS})

    async def _line(self, process: SandboxedProcess) -> bytes:
        try:
            line = await process.line(MOST_ANSWER_BYTES)
        except AnswerTooLong as exc:
            raise ArchiveDamaged("The reader of the archive gave too long an answer.") from exc
        if line is not None:
            return line
        status = await process.process.wait()
        if status in (-signal.SIGKILL, -signal.SIGXCPU):
            raise ArchiveTooLarge("A document of the archive takes too much memory or time.")
        raise ArchiveDamaged("A document of the archive cannot be read.")

    async def _settle(self, process: SandboxedProcess, *, is_whole: bool) -> None:
        """Keep the process if it has answered to the end: else its state is unknown."""
        process.calls += 1
        if is_whole and not self._idle and process.calls < RECYCLE_AFTER_CALLS:
            self._idle.append(process)
        else:
            await process.kill()


def _record(line: bytes) -> Record:
    kind = _KINDS.get(line[:1])
    if kind is None:
        raise ArchiveDamaged("The reader of the archive gave an answer that is not valid.")
    return read_record(kind, line[1:], "A document of the archive")


def _refusal(line: bytes) -> ArchiveDamaged | ArchiveTooLarge:
    try:
        told = json.loads(line[1:])
        message = str(told["message"])[:500].encode("utf-8", "replace").decode()
    except (ValueError, TypeError, KeyError):
        return ArchiveDamaged("The reader of the archive gave an answer that is not valid.")
    return ArchiveTooLarge(message) if told["code"] == "ArchiveTooLarge" else ArchiveDamaged(message)
