"""Pool of sandboxed parser processes, which have limits, can be killed, and are not trusted."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.errors import UnavailableError
from app.ingestion.parsers import NO_OCR, PARSERS, LanguageData, ParserSpec
from app.ingestion.parsers.sandbox.office_conversion import (
    ConversionLimits,
    convert_office_file,
    find_office_program,
)
from app.ingestion.parsers.sandbox.parse_identity import compute_parse_identity
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
    """Discard a progress report."""


class ParserUnavailable(UnavailableError):
    """A parser process cannot be started. Try again later."""

    code = "parser_unavailable"


class ParserPool:
    """Pool of parser processes. If all of them are busy, further callers wait.

    The limits apply to each document.

    Args:
        processes: Number of processes that the pool keeps.
        spare_processes: Maximum number of further processes. They start when they are needed and end after one
            document. A worker needs them for the jobs that it runs in addition to its usual number.
        memory_mb: Maximum address space of a process in MiB.
        cpu_timeout_seconds: Processor time until a process is killed.
        wall_clock_timeout_seconds: Elapsed time until a process is killed.
        max_pages: Maximum number of pages or slides.
        max_characters: Maximum number of characters of text.
        ocr: Language data for optical character recognition.
        parsers: Parsers that the processes import, by media type. A process cannot use any other parser.
        recycle_after_requests: Number of documents after which a process is replaced.
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
        self._shorter_timeout_seconds = min(wall_clock_timeout_seconds, cpu_timeout_seconds)
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
        self._conversion_limits = ConversionLimits(memory_mb, cpu_timeout_seconds, wall_clock_timeout_seconds)
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
        """Parse one file in a parser process.

        If the caller is cancelled or ``on_progress`` raises an error, the parser process is killed.

        Args:
            path: File to parse.
            media_type: Media type of the file, which selects the parser.
            encoding: Encoding of the text as the uploader declared it; None if the uploader declared none.
            needs_images: Whether the result must include the images of the document.
            on_progress: Callback for progress: the number of pages read, and the number of all pages.

        Returns:
            The blocks of the document in reading order, with title, warnings and images.

        Raises:
            UnsupportedFormat: No parser reads this media type.
            EncryptedFile: The file is encrypted.
            CorruptFile: The file is damaged or cannot be read.
            NoTextFound: The file has no text.
            TextTooLong: The file has more text or more blocks than the limits allow.
            TooManyPages: The file has more pages or slides than the limit allows.
            ParserTimeout: Parsing took longer than one of the timeouts.
            ParserOutOfMemory: Parsing needed more memory than the limit allows.
            ParserKilled: The process was killed from outside; parsing the file again may succeed.
            ParserCrashed: The process ended unexpectedly or sent an invalid reply.
            ParserUnavailable: No parser process can be started.
        """
        spec = self._parsers.get(media_type)
        if spec is None:
            raise UnsupportedFormat(media_type=media_type)
        request = _build_request(media_type, encoding, needs_images=needs_images)
        async with self._slots, self._convert(path, spec) as readable, open_sealed_copy(readable) as descriptor:
            if descriptor is None:
                request["path"] = str(readable)
            descriptors = () if descriptor is None else (descriptor,)
            child = self._idle.pop() if self._idle else await self._spawn()
            try:
                decoder = await self._send_request(child, encode_message(request), descriptors, on_progress)
            except BaseException:  # after any error or a cancellation, the state of the process is unknown
                await child.kill()
                raise
            await self._release_child(child, decoder)
        if decoder.error is not None:
            raise decoder.error
        assert decoder.document is not None
        return decoder.document

    @property
    def max_characters(self) -> int:
        """Maximum number of characters of text of one document."""
        return self._max_characters

    @property
    def shorter_timeout_seconds(self) -> float:
        """The shorter of the timeouts of elapsed time and of processor time."""
        return self._shorter_timeout_seconds

    def find_parser(self, media_type: str) -> ParserSpec | None:
        """Return the registry entry of the parser of a media type; None if no parser reads it."""
        return self._parsers.get(media_type)

    def compute_identity(self, media_type: str, *, encoding: str | None, needs_images: bool) -> bytes | None:
        """Return the identity of a parse with these options. The call blocks.

        Two parses of the same bytes with the same identity have the same result. The identity is None if no parser
        reads the media type, or if a file that belongs to the identity cannot be read.
        """
        spec = self.find_parser(media_type)
        if spec is None:
            return None
        limits = {name: value for name, value in self._setup.items() if name not in ("modules", "plugins")}
        try:
            return compute_parse_identity(spec, _build_request(media_type, encoding, needs_images=needs_images), limits)
        except (OSError, ValueError) as exc:
            logger.warning("parser.identity_unknown", media_type=media_type, error=exc)
            return None

    async def start_processes(self) -> None:
        """Start all processes, so that the first documents do not wait for a start. Raises ParserUnavailable."""
        missing = self._processes - len(self._idle)
        results = await asyncio.gather(*(self._start_idle() for _ in range(missing)), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def close(self) -> None:
        """Kill the idle processes. A busy process ends after it has answered its caller."""
        self._closed = True
        idle, self._idle = self._idle, []
        for child in idle:
            await child.kill()

    @property
    def confinement(self) -> Confinement | None:
        """Confinement measures that are in force for the processes; None before the first process has started."""
        return self._confinement

    @asynccontextmanager
    async def _convert(self, path: Path, spec: ParserSpec) -> AsyncIterator[Path]:
        """Yield the file that the parser reads: the file itself, or its conversion by LibreOffice."""
        if not spec.conversion:
            yield path
            return
        program = find_office_program()
        if not program:
            raise UnsupportedFormat(
                "LibreOffice is not installed on this server; convert the file and upload the copy."
            )
        async with convert_office_file(
            path, spec.conversion, program=program, limits=self._conversion_limits
        ) as converted:
            yield converted

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
        """Log the measures that are in force for the first process, and for each process with other measures."""
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
            raise ParserCrashed("The parser process sent too long a reply; the file may be damaged.") from exc
        if status == -signal.SIGXCPU:
            raise ParserTimeout
        if status == -signal.SIGKILL:  # by the kernel: out of memory, perhaps because of other processes
            raise ParserKilled
        if status == -signal.SIGSYS:  # parsers make no such calls, so the file may have exploited one
            logger.warning("parser.forbidden_call")
            raise ParserCrashed("The parser process was killed for a forbidden system call; the file may be malicious.")
        raise ParserCrashed(status=status)

    async def _release_child(self, child: SandboxedProcess, decoder: ResponseDecoder) -> None:
        """Keep the process for the next document, or kill it.

        A process is killed if it is spare, has parsed many documents, uses much memory or has run out of memory.
        """
        child.request_count += 1
        is_worn_out = child.request_count >= self._recycle_after_requests or decoder.resident_mb > RECYCLE_ABOVE_MB
        is_spare = len(self._idle) >= self._processes
        if is_worn_out or is_spare or self._closed or isinstance(decoder.error, ParserOutOfMemory):
            await child.kill()
        else:
            self._idle.append(child)


def _build_request(media_type: str, encoding: str | None, *, needs_images: bool) -> dict[str, Any]:
    return {"media_type": media_type, "encoding": encoding, "needs_images": needs_images}


@asynccontextmanager
async def open_sealed_copy(path: Path) -> AsyncIterator[int | None]:
    """Open a sealed copy of a file for the parser process, and yield its descriptor.

    Raises CorruptFile if the file cannot be read, ParserUnavailable if memory or descriptors are exhausted.
    """
    async with AsyncExitStack() as stack:
        try:
            descriptor = await stack.enter_async_context(create_sealed_copy(path))
        except (FileNotFoundError, IsADirectoryError, PermissionError) as exc:
            raise CorruptFile from exc
        except OSError as exc:  # memory or descriptors are exhausted
            raise ParserUnavailable from exc
        yield descriptor
