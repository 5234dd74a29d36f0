"""The parser process: requests on standard input, answers on standard output; only here untrusted files are opened.

``python -I -m app.ingestion.parsers.child``; the conversation is described in ``protocol.py``.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from app.ingestion.parsers import LanguageData, ParseOptions, Parser
from app.ingestion.parsers.protocol import encode, encode_document, encode_error
from app.ingestion.types import Corrupt, IngestionError, NoText, ParsedDocument, ParserMemory, UnsupportedFormat

OPEN_FILES = 64
REPORT_SECONDS = 0.25
NICENESS = 10
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_FORBIDDEN_EVENTS = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn"}
)


def main() -> None:
    """Set up, say ready, and answer until the input ends."""
    replies = _claim_stdout()
    setup = json.loads(sys.stdin.buffer.readline())
    _detach(parent=setup["parent"])
    # Imported before the limits: the files that fill an import are ours, and later requests find them warm.
    modules = {media_type: importlib.import_module(name) for media_type, name in setup["modules"].items()}
    gc.freeze()
    _limit(memory_mb=setup["memory_mb"])
    modules |= _plugins(setup["plugins"])
    replies.write(encode({"ready": True, "resident_mb": resident_mb()}))
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _limit_cpu(setup["cpu_seconds"])
        _answer(request, modules, replies)


def _plugins(names: Mapping[str, str]) -> dict[str, Any]:
    """Imported under the limits. One that cannot be imported stops no other: its files have no parser then."""
    found = {}
    for media_type, name in names.items():
        with contextlib.suppress(Exception):  # what a stranger's module may raise
            found[media_type] = importlib.import_module(name)
    return found


def _claim_stdout() -> FileIO:
    """Libraries that print must not break the protocol: they get standard error."""
    replies = FileIO(os.dup(1), "w")
    os.dup2(2, 1)
    return replies


def _detach(*, parent: int) -> None:
    """Die with the service and never gain rights."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above took effect
        sys.exit(1)


def _limit(*, memory_mb: int) -> None:
    os.nice(NICENESS)  # interactive work goes first
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
    sys.addaudithook(_refuse)


def _refuse(event: str, _arguments: tuple[Any, ...]) -> None:
    """Nothing is fetched and nothing is started while parsing."""
    if event.startswith("socket.") or event in _FORBIDDEN_EVENTS:
        raise PermissionError(f"{event} is not allowed while parsing")


def _limit_cpu(seconds: int) -> None:
    """The soft limit alone, so that the next request can raise it again."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def resident_mb() -> int:
    """Resident memory in MiB, 0 without /proc. ``ru_maxrss`` is no use: it survives exec from a large parent."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * resource.getpagesize() >> 20


def _answer(request: dict[str, Any], modules: Mapping[str, Any], replies: FileIO) -> None:
    try:
        document = _parse(request, modules, replies)
    except IngestionError as exc:
        _send(replies, encode_error(exc, resident_mb=resident_mb()))
    except MemoryError:
        _send(replies, encode_error(ParserMemory(), resident_mb=resident_mb()))
    except Exception:  # a parser library that trips over a damaged file may raise anything
        _send(replies, encode_error(Corrupt(), resident_mb=resident_mb()))
    else:
        for line in encode_document(document, resident_mb=resident_mb()):
            _send(replies, line)


def _parse(request: dict[str, Any], modules: Mapping[str, Any], replies: FileIO) -> ParsedDocument:
    parser: Parser | None = modules.get(request["media_type"])
    if parser is None:
        raise UnsupportedFormat
    document = parser.parse(Path(request["path"]), _options(request, replies))
    if not document.blocks:
        raise NoText
    return document


def _options(request: dict[str, Any], replies: FileIO) -> ParseOptions:
    ocr, told = request["ocr"], time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told >= REPORT_SECONDS:
            told = time.monotonic()
            _send(replies, encode({"pages": [done, total]}))

    return ParseOptions(
        encoding=request["encoding"],
        max_pages=request["max_pages"],
        max_characters=request["max_characters"],
        ocr=LanguageData(ocr["directory"], tuple(ocr["languages"]), tuple(ocr["missing"])),
        cpu_seconds=request["cpu_seconds"],
        wall_seconds=request["wall_seconds"],
        report=report,
        pictures=request["pictures"],
    )


def _send(replies: FileIO, line: bytes) -> None:
    """A raw write to a pipe may be short."""
    view = memoryview(line)
    while view:
        view = view[replies.write(view) :]


if __name__ == "__main__":
    main()
