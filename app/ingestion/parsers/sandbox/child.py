"""The parser process: requests on standard input, answers on standard output; only here untrusted files are opened.

``python -I -m app.ingestion.parsers.sandbox.child``; the conversation is described in ``protocol``, the confinement in
``app.sandbox``.
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
from app.sandbox.confinement import ConfinedProcess, SandboxLimits

REPORT_INTERVAL_SECONDS = 0.25

PUBLIC_PACKAGE = "carrel"
"""Plugins import it after the confinement; in a checkout it is readable only if it is named here."""


def main() -> None:
    """Set up, say ready, and answer until the input ends."""
    channel = Channel()
    setup = channel.setup
    # Imported before the limits: the files that fill an import are ours, and later requests find them warm.
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
        _limit_cpu_time(setup["cpu_timeout_seconds"])
        path = f"/proc/self/fd/{descriptors[0]}" if descriptors else request["path"]
        _handle_request(_ParseRequest(Path(path), request, setup, confined_process), modules, channel)


@dataclass(frozen=True, slots=True)
class _ParseRequest:
    """One file to parse, and what the service said about it and about all files."""

    path: Path
    message: Mapping[str, Any]
    setup: Mapping[str, Any]
    confined_process: ConfinedProcess


def _import_plugins(names: Mapping[str, str]) -> dict[str, Any]:
    """Imported under the limits. One that cannot be imported stops no other: its files have no parser then."""
    modules = {}
    for media_type, name in names.items():
        with contextlib.suppress(Exception):  # what a stranger's module may raise
            modules[media_type] = importlib.import_module(name)
    return modules


def _limit_cpu_time(seconds: int) -> None:
    """The soft limit alone, so that the next request can raise it again."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def get_resident_mb() -> int:
    """Resident memory in MiB, 0 without /proc. ``ru_maxrss`` is no use: it survives exec from a large parent."""
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
    except Exception:  # a parser library that trips over a damaged file may raise anything
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
