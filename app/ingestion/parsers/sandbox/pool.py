"""Parsing in killable processes: a pool of children, each under limits, none of them trusted."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.errors import UnavailableError
from app.ingestion.parsers import NO_OCR, PARSERS, LanguageData, ParserSpec
from app.ingestion.parsers.sandbox.protocol import ResponseDecoder, compute_max_line_bytes, encode_message
from app.ingestion.types import (
    CorruptFile,
    ParsedDocument,
    ParserCrashed,
    ParserKilled,
    ParserOutOfMemory,
    ParserTimeout,
    UnsupportedFormat,
)
from app.logging import get_logger
from app.sandbox.confinement import Confinement
from app.sandbox.descriptors import create_sealed_copy
from app.sandbox.process import ReplyTooLong, SandboxedProcess, SandboxUnavailable

logger = get_logger(__name__)

RECYCLE_AFTER_REQUESTS = 200
RECYCLE_ABOVE_MB = 300
START_TIMEOUT_SECONDS = 60
_MAX_READY_LINE_BYTES = 64 * 1024


ProgressCallback = Callable[[int, int], None]


def _ignore_progress(done: int, total: int) -> None:
    """Nobody asked."""


class ParserUnavailable(UnavailableError):
    """A parser process cannot be started; try again."""

    code = "parser_unavailable"


class ParserPool:
    """At most ``processes`` and ``spare_processes`` children parse at a time; further callers wait.

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
        spare_processes: int = 0,
        memory_mb: int,
        cpu_timeout_seconds: int,
        wall_clock_timeout_seconds: int,
        max_pages: int,
        max_characters: int,
        ocr: LanguageData = NO_OCR,
        parsers: Mapping[str, ParserSpec] = PARSERS,
        recycle_after_requests: int = RECYCLE_AFTER_REQUESTS,
    ) -> None:
        self._wall_clock_timeout_seconds = wall_clock_timeout_seconds
        self._max_characters = max_characters
        self._parsers = parsers
        self._recycle_after_requests = recycle_after_requests
        self._setup = {
            "memory_mb": memory_mb,
            "cpu_timeout_seconds": cpu_timeout_seconds,
            "wall_clock_timeout_seconds": wall_clock_timeout_seconds,
            "max_pages": max_pages,
            "max_characters": max_characters,
            "ocr": asdict(ocr),
            "modules": {name: spec.module for name, spec in parsers.items() if not spec.is_plugin},
            "plugins": {name: spec.module for name, spec in parsers.items() if spec.is_plugin},
        }
        self._processes = processes
        self._slots = asyncio.Semaphore(processes + spare_processes)
        self._idle: list[SandboxedProcess] = []
        self._closed = False
        self._confinement: Confinement | None = None

    async def parse(
        self,
        path: Path,
        media_type: str,
        *,
        encoding: str | None = None,
        needs_images: bool = False,
        on_progress: ProgressCallback = _ignore_progress,
    ) -> ParsedDocument:
        """Parse one file, its ``needs_images`` too; cancelling, and whatever ``on_progress`` raises, kills the child.

        Raises EncryptedFile, CorruptFile, NoTextFound, TextTooLong, TooManyPages, ParserTimeout, ParserOutOfMemory,
        ParserCrashed, UnsupportedFormat; ParserUnavailable where no child can be started.
        """
        if media_type not in self._parsers:
            raise UnsupportedFormat(media_type=media_type)
        request: dict[str, Any] = {"media_type": media_type, "encoding": encoding, "needs_images": needs_images}
        async with self._slots, _open_sealed_copy(path) as descriptor:
            if descriptor is None:
                request["path"] = str(path)
            descriptors = () if descriptor is None else (descriptor,)
            child = self._idle.pop() if self._idle else await self._spawn()
            try:
                decoder = await self._send_request(child, encode_message(request), descriptors, on_progress)
            except BaseException:  # whatever happened, our cancellation included: the child's state is unknown
                await child.kill()
                raise
            await self._release_child(child, decoder)
        if decoder.error is not None:
            raise decoder.error
        assert decoder.document is not None
        return decoder.document

    async def start_processes(self) -> None:
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
            child = await SandboxedProcess.start("app.ingestion.parsers.sandbox.child", self._setup)
        except SandboxUnavailable as exc:
            raise ParserUnavailable from exc
        try:
            async with asyncio.timeout(START_TIMEOUT_SECONDS):
                ready = await child.read_line(_MAX_READY_LINE_BYTES)
        except (TimeoutError, ReplyTooLong) as exc:
            await child.kill()
            raise ParserUnavailable from exc
        except BaseException:
            await child.kill()
            raise
        if ready is None:
            await child.kill()
            raise ParserUnavailable
        self._log_confinement(child.confinement)
        return child

    def _log_confinement(self, confinement: Confinement) -> None:
        """Log the measures that are in force, once, and again whenever they differ."""
        if confinement != self._confinement:
            self._confinement = confinement
            log = logger.info if confinement.level == "full" else logger.warning
            log("parser.confinement", in_force=confinement.level, **asdict(confinement))

    async def _send_request(
        self, child: SandboxedProcess, request: bytes, descriptors: Sequence[int], on_progress: ProgressCallback
    ) -> ResponseDecoder:
        decoder = ResponseDecoder(max_characters=self._max_characters)
        limit = compute_max_line_bytes(self._max_characters)
        try:
            async with asyncio.timeout(self._wall_clock_timeout_seconds):
                await child.send(request, descriptors)
                while (line := await child.read_line(limit)) is not None:
                    if decoder.feed_line(line):
                        return decoder
                    if decoder.progress is not None:
                        on_progress(*decoder.progress)
                status = await child.process.wait()
        except TimeoutError as exc:
            raise ParserTimeout from exc
        except ReplyTooLong as exc:
            raise ParserCrashed("The parser process gave too long an answer.") from exc
        if status == -signal.SIGXCPU:
            raise ParserTimeout
        if status == -signal.SIGKILL:  # nobody here did it: the kernel was out of memory, and others may have used it
            raise ParserKilled
        if status == -signal.SIGSYS:  # no parser makes such a call by itself
            logger.warning("parser.forbidden_call")
            raise ParserCrashed("The parser process made a forbidden system call and was ended.")
        raise ParserCrashed(status=status)

    async def _release_child(self, child: SandboxedProcess, decoder: ResponseDecoder) -> None:
        """Keep the child for the next document, unless it is worn out."""
        child.request_count += 1
        is_worn_out = child.request_count >= self._recycle_after_requests or decoder.resident_mb > RECYCLE_ABOVE_MB
        is_spare = len(self._idle) >= self._processes
        if is_worn_out or is_spare or self._closed or isinstance(decoder.error, ParserOutOfMemory):
            await child.kill()
        else:
            self._idle.append(child)


@asynccontextmanager
async def _open_sealed_copy(path: Path) -> AsyncIterator[int | None]:
    """The file as a descriptor for the child. Raises CorruptFile for one that cannot be read, ParserUnavailable."""
    async with AsyncExitStack() as stack:
        try:
            descriptor = await stack.enter_async_context(create_sealed_copy(path))
        except (FileNotFoundError, IsADirectoryError, PermissionError) as exc:
            raise CorruptFile from exc
        except OSError as exc:  # no memory or no descriptor is left
            raise ParserUnavailable from exc
        yield descriptor
