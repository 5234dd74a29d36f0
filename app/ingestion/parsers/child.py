"""The parser process: requests on standard input, answers on standard output; only here untrusted files are opened.

``python -I -m app.ingestion.parsers.child``; the conversation is described in ``protocol``, the confinement in
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
from app.ingestion.parsers.protocol import encode, encode_document, encode_error
from app.ingestion.types import Corrupt, IngestionError, NoText, ParsedDocument, ParserMemory, UnsupportedFormat
from app.sandbox.channel import Channel
from app.sandbox.confinement import Confined, Limits

REPORT_SECONDS = 0.25


def main() -> None:
    """Set up, say ready, and answer until the input ends."""
    channel = Channel()
    setup = channel.setup
    # Imported before the limits: the files that fill an import are ours, and later requests find them warm.
    modules = {media_type: importlib.import_module(name) for media_type, name in setup["modules"].items()}
    tessdata = setup["ocr"]["directory"]
    confined = channel.confine(
        Limits(
            memory_mb=setup["memory_mb"],
            readable=(Path(tessdata),) if tessdata else (),
            modules=tuple(setup["plugins"].values()),
        )
    )
    modules |= _plugins(setup["plugins"])
    channel.write(encode({"ready": True, "resident_mb": resident_mb()}))
    for request, descriptors in channel.requests():
        _limit_cpu(setup["cpu_seconds"])
        path = f"/proc/self/fd/{descriptors[0]}" if descriptors else request["path"]
        _answer(_Request(Path(path), request, setup, confined), modules, channel)


@dataclass(frozen=True, slots=True)
class _Request:
    """One file to parse, and what the service said about it and about all files."""

    path: Path
    message: Mapping[str, Any]
    setup: Mapping[str, Any]
    confined: Confined


def _plugins(names: Mapping[str, str]) -> dict[str, Any]:
    """Imported under the limits. One that cannot be imported stops no other: its files have no parser then."""
    found = {}
    for media_type, name in names.items():
        with contextlib.suppress(Exception):  # what a stranger's module may raise
            found[media_type] = importlib.import_module(name)
    return found


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


def _answer(request: _Request, modules: Mapping[str, Any], channel: Channel) -> None:
    try:
        document = _parse(request, modules, channel)
    except IngestionError as exc:
        channel.write(encode_error(exc, resident_mb=resident_mb()))
    except MemoryError:
        channel.write(encode_error(ParserMemory(), resident_mb=resident_mb()))
    except Exception:  # a parser library that trips over a damaged file may raise anything
        channel.write(encode_error(Corrupt(), resident_mb=resident_mb()))
    else:
        for line in encode_document(document, resident_mb=resident_mb()):
            channel.write(line)


def _parse(request: _Request, modules: Mapping[str, Any], channel: Channel) -> ParsedDocument:
    parser: Parser | None = modules.get(request.message["media_type"])
    if parser is None:
        raise UnsupportedFormat
    document = parser.parse(request.path, _options(request, channel))
    if not document.blocks:
        raise NoText
    return document


def _options(request: _Request, channel: Channel) -> ParseOptions:
    setup, told = request.setup, time.monotonic()
    ocr = setup["ocr"]

    def report(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told >= REPORT_SECONDS:
            told = time.monotonic()
            channel.write(encode({"pages": [done, total]}))

    return ParseOptions(
        encoding=request.message["encoding"],
        max_pages=setup["max_pages"],
        max_characters=setup["max_characters"],
        ocr=LanguageData(request.confined.path(ocr["directory"]), tuple(ocr["languages"]), tuple(ocr["missing"])),
        cpu_seconds=setup["cpu_seconds"],
        wall_seconds=setup["wall_seconds"],
        report=report,
        pictures=request.message["pictures"],
    )


if __name__ == "__main__":
    main()
