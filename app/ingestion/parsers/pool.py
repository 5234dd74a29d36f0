"""Parsing in killable processes: a pool of children, each under limits, none of them trusted."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.errors import Unavailable
from app.ingestion.parsers import NO_OCR, PARSERS, LanguageData, ParserSpec
from app.ingestion.parsers.protocol import Answer, encode, line_limit
from app.ingestion.types import (
    Corrupt,
    ParsedDocument,
    ParserCrashed,
    ParserKilled,
    ParserMemory,
    ParserTimeout,
    UnsupportedFormat,
)
from app.logging import get_logger
from app.sandbox.confinement import Confinement
from app.sandbox.descriptors import sealed_copy
from app.sandbox.process import AnswerTooLong, SandboxedProcess, SandboxUnavailable

logger = get_logger(__name__)

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


class ParserPool:
    """At most ``processes`` and ``spare`` children parse at a time; further callers wait.

    Spare children start when they are needed and end afterwards: they are for the jobs that a worker takes beyond its
    usual number.

    Limits hold per document: address space in MiB, CPU and wall time in seconds, pages (or slides), characters.
    ``ocr`` is the language data that pictures are read with. ``parsers`` is what the children import; nothing else can
    be asked of them.
    """

    def __init__(
        self,
        *,
        processes: int,
        spare: int = 0,
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
        self._setup = {
            "memory_mb": memory_mb,
            "cpu_seconds": cpu_seconds,
            "wall_seconds": wall_seconds,
            "max_pages": max_pages,
            "max_characters": max_characters,
            "ocr": asdict(ocr),
            "modules": {name: spec.module for name, spec in parsers.items() if not spec.plugin},
            "plugins": {name: spec.module for name, spec in parsers.items() if spec.plugin},
        }
        self._processes = processes
        self._slots = asyncio.Semaphore(processes + spare)
        self._idle: list[SandboxedProcess] = []
        self._closed = False
        self._confinement: Confinement | None = None

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
        request: dict[str, Any] = {"media_type": media_type, "encoding": encoding, "pictures": pictures}
        async with self._slots, _opened(path) as descriptor:
            if descriptor is None:
                request["path"] = str(path)
            descriptors = () if descriptor is None else (descriptor,)
            child = self._idle.pop() if self._idle else await self._spawn()
            try:
                answer = await self._ask(child, encode(request), descriptors, on_pages)
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

    @property
    def confinement(self) -> Confinement | None:
        """The measures that are in force for the children, None before the first one has started."""
        return self._confinement

    async def _start_idle(self) -> None:
        self._idle.append(await self._spawn())

    async def _spawn(self) -> SandboxedProcess:
        try:
            child = await SandboxedProcess.start("app.ingestion.parsers.child", self._setup)
        except SandboxUnavailable as exc:
            raise ParserUnavailable from exc
        try:
            async with asyncio.timeout(START_SECONDS):
                ready = await child.line(_PIECE)
        except (TimeoutError, AnswerTooLong) as exc:
            await child.kill()
            raise ParserUnavailable from exc
        except BaseException:
            await child.kill()
            raise
        if ready is None:
            await child.kill()
            raise ParserUnavailable
        self._note(child.confinement)
        return child

    def _note(self, confinement: Confinement) -> None:
        """Log the measures that are in force, once, and again whenever they differ."""
        if confinement != self._confinement:
            self._confinement = confinement
            log = logger.info if confinement.level == "full" else logger.warning
            log("parser.confinement", in_force=confinement.level, **asdict(confinement))

    async def _ask(
        self, child: SandboxedProcess, request: bytes, descriptors: Sequence[int], on_pages: OnPages
    ) -> Answer:
        answer = Answer(max_characters=self._max_characters)
        limit = line_limit(self._max_characters)
        try:
            async with asyncio.timeout(self._wall_seconds):
                await child.send(request, descriptors)
                while (line := await child.line(limit)) is not None:
                    if answer.feed(line):
                        return answer
                    if answer.pages is not None:
                        on_pages(*answer.pages)
                status = await child.process.wait()
        except TimeoutError as exc:
            raise ParserTimeout from exc
        except AnswerTooLong as exc:
            raise ParserCrashed("The parser process gave too long an answer.") from exc
        if status == -signal.SIGXCPU:
            raise ParserTimeout
        if status == -signal.SIGKILL:  # nobody here did it: the kernel was out of memory, and others may have used it
            raise ParserKilled
        if status == -signal.SIGSYS:  # no parser makes such a call by itself
            logger.warning("parser.forbidden_call")
            raise ParserCrashed("The parser process made a forbidden system call and was ended.")
        raise ParserCrashed(status=status)

    async def _settle(self, child: SandboxedProcess, answer: Answer) -> None:
        """Keep the child for the next document, unless it is worn out."""
        child.calls += 1
        worn = child.calls >= self._recycle_after_calls or answer.resident_mb > RECYCLE_ABOVE_MB
        is_spare = len(self._idle) >= self._processes
        if worn or is_spare or self._closed or isinstance(answer.error, ParserMemory):
            await child.kill()
        else:
            self._idle.append(child)


@asynccontextmanager
async def _opened(path: Path) -> AsyncIterator[int | None]:
    """The file as a descriptor for the child. Raises Corrupt for one that cannot be read, ParserUnavailable."""
    async with AsyncExitStack() as stack:
        try:
            descriptor = await stack.enter_async_context(sealed_copy(path))
        except (FileNotFoundError, IsADirectoryError, PermissionError) as exc:
            raise Corrupt from exc
        except OSError as exc:  # no memory or no descriptor is left
            raise ParserUnavailable from exc
        yield descriptor
