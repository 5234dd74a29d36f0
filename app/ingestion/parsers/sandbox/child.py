"""Program of a parser process, the only process that opens untrusted files.

It reads requests from standard input and writes replies to standard output. ``protocol`` describes the messages, and
``app.sandbox`` the confinement. The program runs as ``python -I -m app.ingestion.parsers.sandbox.child``.
"""

import contextlib
import importlib
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.ingestion.parsers import LanguageData, ParseOptions, Parser
from app.ingestion.parsers.sandbox.protocol import encode_document, encode_error, encode_message
from app.ingestion.types import (
    CorruptFile,
    IngestionError,
    NoTextFound,
    ParsedDocument,
    ParserOutOfMemory,
    UnsupportedFormat,
)
from app.sandbox.channel import Channel
from app.sandbox.confinement import ConfinedProcess, SandboxLimits, limit_cpu_time

REPORT_INTERVAL_SECONDS = 0.25

PUBLIC_PACKAGE = "carrel"
"""Package that plugins import after the confinement.

``SandboxLimits`` must name it, because in a checkout it is not part of the Python installation.
"""


def main() -> None:
    """Confine this process, report that it is ready, and answer requests until the input ends."""
    channel = Channel()
    setup = channel.setup
    # The parsers of this package are trusted: they are imported before the confinement, once for all requests.
    modules = {media_type: importlib.import_module(name) for media_type, name in setup["modules"].items()}
    tessdata = setup["ocr"]["directory"]
    confined_process = channel.confine(
        SandboxLimits(
            memory_mb=setup["memory_mb"],
            readable_paths=(Path(tessdata),) if tessdata else (),
            modules=(PUBLIC_PACKAGE, *setup["plugins"].values()),
        )
    )
    modules |= _import_plugins(setup["plugins"])
    channel.write(encode_message({"ready": True, "resident_mb": get_resident_mb()}))
    for request, descriptors in channel.iter_requests():
        limit_cpu_time(setup["cpu_timeout_seconds"])
        path = f"/proc/self/fd/{descriptors[0]}" if descriptors else request["path"]
        _handle_request(_ParseRequest(Path(path), request, setup, confined_process), modules, channel)


@dataclass(frozen=True, slots=True)
class _ParseRequest:
    """File to parse, with the message that requests it and the settings of all requests."""

    path: Path
    message: Mapping[str, Any]
    setup: Mapping[str, Any]
    confined_process: ConfinedProcess


def _import_plugins(names: Mapping[str, str]) -> dict[str, Any]:
    """Import the parsers of plugins and return the modules by media type.

    A plugin that cannot be imported is left out: its files then fail with ``UnsupportedFormat``.
    """
    modules = {}
    for media_type, name in names.items():
        with contextlib.suppress(Exception):  # a plugin may raise any exception
            modules[media_type] = importlib.import_module(name)
    return modules


def get_resident_mb() -> int:
    """Return the resident memory of this process in MiB; 0 on a platform without /proc.

    ``ru_maxrss`` cannot replace it: after an exec it still includes the memory of the parent process.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * resource.getpagesize() >> 20


def _handle_request(request: _ParseRequest, modules: Mapping[str, Any], channel: Channel) -> None:
    try:
        document = _parse_file(request, modules, channel)
    except IngestionError as exc:
        channel.write(encode_error(exc, resident_mb=get_resident_mb()))
    except MemoryError:
        channel.write(encode_error(ParserOutOfMemory(), resident_mb=get_resident_mb()))
    except Exception:  # a parser library may raise any exception for a damaged file
        channel.write(encode_error(CorruptFile(), resident_mb=get_resident_mb()))
    else:
        for line in encode_document(document, resident_mb=get_resident_mb()):
            channel.write(line)


def _parse_file(request: _ParseRequest, modules: Mapping[str, Any], channel: Channel) -> ParsedDocument:
    parser: Parser | None = modules.get(request.message["media_type"])
    if parser is None:
        raise UnsupportedFormat
    document = parser.parse(request.path, _build_options(request, channel))
    if not document.blocks:
        raise NoTextFound
    return document


def _build_options(request: _ParseRequest, channel: Channel) -> ParseOptions:
    setup, reported_at = request.setup, time.monotonic()
    ocr = setup["ocr"]

    def report(done: int, total: int) -> None:
        nonlocal reported_at
        if time.monotonic() - reported_at >= REPORT_INTERVAL_SECONDS:
            reported_at = time.monotonic()
            channel.write(encode_message({"pages": [done, total]}))

    return ParseOptions(
        encoding=request.message["encoding"],
        max_pages=setup["max_pages"],
        max_characters=setup["max_characters"],
        ocr=LanguageData(
            request.confined_process.resolve_path(ocr["directory"]), tuple(ocr["languages"]), tuple(ocr["missing"])
        ),
        cpu_timeout_seconds=setup["cpu_timeout_seconds"],
        wall_clock_timeout_seconds=setup["wall_clock_timeout_seconds"],
        on_progress=report,
        needs_images=request.message["needs_images"],
    )


if __name__ == "__main__":
    main()
