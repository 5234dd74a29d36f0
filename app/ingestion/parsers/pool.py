"""Parsing in killable processes: a pool of children, each under limits, none of them trusted."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from app.errors import Unavailable
from app.ingestion.parsers import NO_OCR, PARSERS, LanguageData, ParserSpec
from app.ingestion.parsers.protocol import Answer, encode, line_limit
from app.ingestion.types import ParsedDocument, ParserCrashed, ParserMemory, ParserTimeout, UnsupportedFormat

RECYCLE_AFTER_CALLS = 200
RECYCLE_ABOVE_MB = 300
START_SECONDS = 60
_PIECE = 64 * 1024


OnPages = Callable[[int, int], None]


def _unheard(done: int, total: int) -> None:
    """Nobody asked."""


class ParserUnavailable(Unavailable):
    """A parser process cannot be started; try again."""

    code = "parser_unavailable"


class _Child:
    """One parser process and the bytes that it said but nobody has read yet."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.calls = 0
        self._said = bytearray()

    async def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(ConnectionError):  # a dead child shows at the next read
            self.process.stdin.write(line)
            await self.process.stdin.drain()

    async def line(self, limit: int) -> bytes | None:
        """The next line without its end; None when the child is gone. Raises ParserCrashed above ``limit`` bytes."""
        assert self.process.stdout is not None
        looked_at = 0
        while (end := self._said.find(b"\n", looked_at)) < 0:
            looked_at = len(self._said)
            if looked_at > limit:
                raise ParserCrashed("The parser process gave too long an answer.")
            piece = await self.process.stdout.read(_PIECE)
            if not piece:
                return None
            self._said += piece
        line = bytes(self._said[:end])
        del self._said[: end + 1]
        return line

    async def kill(self) -> None:
        """End the process with all that it started, and wait until it is gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        # The transport of a pipe that still holds bytes would never close.
        while await self.process.stdout.read(_PIECE):
            pass
        await self.process.wait()


class ParserPool:
    """At most ``processes`` children parse at a time; further callers wait.

    Limits hold per document: address space in MiB, CPU and wall time in seconds, pages (or slides), characters.
    ``ocr`` is the language data that pictures are read with. ``parsers`` is what the children import; nothing else can
    be asked of them.
    """

    def __init__(
        self,
        *,
        processes: int,
        memory_mb: int,
        cpu_seconds: int,
        wall_seconds: int,
        max_pages: int,
        max_characters: int,
        ocr: LanguageData = NO_OCR,
        parsers: Mapping[str, ParserSpec] = PARSERS,
        recycle_after_calls: int = RECYCLE_AFTER_CALLS,
    ) -> None:
        self._wall_seconds = wall_seconds
        self._max_characters = max_characters
        self._parsers = parsers
        self._recycle_after_calls = recycle_after_calls
        self._options = {
            "max_pages": max_pages,
            "max_characters": max_characters,
            "ocr": asdict(ocr),
            "cpu_seconds": cpu_seconds,
            "wall_seconds": wall_seconds,
        }
        self._setup = {
            "memory_mb": memory_mb,
            "cpu_seconds": cpu_seconds,
            "modules": {name: spec.module for name, spec in parsers.items() if not spec.plugin},
            "plugins": {name: spec.module for name, spec in parsers.items() if spec.plugin},
        }
        self._processes = processes
        self._slots = asyncio.Semaphore(processes)
        self._idle: list[_Child] = []
        self._closed = False

    async def parse(
        self,
        path: Path,
        media_type: str,
        *,
        encoding: str | None = None,
        pictures: bool = False,
        on_pages: OnPages = _unheard,
    ) -> ParsedDocument:
        """Parse one file, its ``pictures`` too; cancelling, and whatever ``on_pages`` raises, kills the child.

        Raises Encrypted, Corrupt, NoText, TooMuchText, TooManyPages, ParserTimeout, ParserMemory, ParserCrashed,
        UnsupportedFormat; ParserUnavailable where no child can be started.
        """
        if media_type not in self._parsers:
            raise UnsupportedFormat(media_type=media_type)
        request = {"path": str(path), "media_type": media_type, "encoding": encoding, **self._options}
        request["pictures"] = pictures
        async with self._slots:
            child = self._idle.pop() if self._idle else await self._spawn()
            try:
                answer = await self._ask(child, encode(request), on_pages)
            except BaseException:  # whatever happened, our cancellation included: the child's state is unknown
                await child.kill()
                raise
            await self._settle(child, answer)
        if answer.error is not None:
            raise answer.error
        assert answer.document is not None
        return answer.document

    async def warm(self) -> None:
        """Start every child, so that the first documents need not wait. Raises ParserUnavailable."""
        missing = self._processes - len(self._idle)
        results = await asyncio.gather(*(self._start_idle() for _ in range(missing)), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def close(self) -> None:
        """End every child; callers that still parse end with their child's last answer."""
        self._closed = True
        idle, self._idle = self._idle, []
        for child in idle:
            await child.kill()

    async def _start_idle(self) -> None:
        self._idle.append(await self._spawn())

    async def _spawn(self) -> _Child:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-m", "app.ingestion.parsers.child",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "2"},
        )  # fmt: skip
        child = _Child(process)
        try:
            async with asyncio.timeout(START_SECONDS):
                await child.send(encode({"parent": os.getpid(), **self._setup}))
                ready = await child.line(_PIECE)
        except TimeoutError as exc:
            await child.kill()
            raise ParserUnavailable from exc
        except BaseException:
            await child.kill()
            raise
        if ready is None:
            await child.kill()
            raise ParserUnavailable
        return child

    async def _ask(self, child: _Child, request: bytes, on_pages: OnPages) -> Answer:
        answer = Answer(max_characters=self._max_characters)
        limit = line_limit(self._max_characters)
        try:
            async with asyncio.timeout(self._wall_seconds):
                await child.send(request)
                while (line := await child.line(limit)) is not None:
                    if answer.feed(line):
                        return answer
                    if answer.pages is not None:
                        on_pages(*answer.pages)
                status = await child.process.wait()
        except TimeoutError as exc:
            raise ParserTimeout from exc
        if status == -signal.SIGXCPU:
            raise ParserTimeout
        if status == -signal.SIGKILL:  # nobody here did it: the kernel was out of memory
            raise ParserMemory
        raise ParserCrashed(status=status)

    async def _settle(self, child: _Child, answer: Answer) -> None:
        """Keep the child for the next document, unless it is worn out."""
        child.calls += 1
        worn = child.calls >= self._recycle_after_calls or answer.resident_mb > RECYCLE_ABOVE_MB
        if worn or self._closed or isinstance(answer.error, ParserMemory):
            await child.kill()
        else:
            self._idle.append(child)
