"""Shared strings of an XLSX workbook with superscripts, subscripts or struck text."""

import html
import re
from collections.abc import Iterator, Mapping

from app.ingestion.parsers.toolkit.ooxml import Package
from app.ingestion.parsers.toolkit.superscripts import format_subscript, format_superscript
from app.ingestion.types import CorruptFile

MAX_BYTES = 64 << 20
_ITEM = re.compile(r"<(?:\w+:)?si>(.*?)</(?:\w+:)?si>", re.DOTALL)
_RUN = re.compile(r"<(?:\w+:)?t(?:\s[^<>]*)?>([^<]*)<|(<(?:\w+:)?r>)|<(?:\w+:)?(vertAlign|strike|rPh)\b([^<>]*)>")
_MARKS = re.compile(r"<(?:\w+:)?(?:vertAlign|strike)\b")


def read_rich_texts(package: Package, part: str = "/xl/sharedstrings.xml") -> Mapping[str, str]:
    """Return the texts that change by their marks, by the text without marks.

    Struck text is left out. A text that also occurs without marks stays as it is.

    Args:
        package: Parts of the workbook.
        part: Name of the part with the shared strings.
    """
    try:
        data = package.read_part(part)
    except CorruptFile:
        return {}
    if len(data) > MAX_BYTES or not (b"vertAlign" in data or b"strike" in data):
        return {}
    texts: dict[str, str] = {}
    plain = set()
    for match in _ITEM.finditer(data.decode("utf-8", "replace")):
        if _MARKS.search(match[1]):
            runs = list(_iter_runs(match[1]))
            texts["".join(text for text, _ in runs).strip()] = _join_runs(runs)
        else:
            plain.add("".join(text for text, _ in _iter_runs(match[1])).strip())
    return {text: shown for text, shown in texts.items() if text not in plain and text != shown}


def _iter_runs(item: str) -> Iterator[tuple[str, str]]:
    """Yield the runs of a string as their text and their mark: superscript, subscript, strike or none."""
    mark = ""
    for match in _RUN.finditer(item):
        if match[2]:
            mark = ""
        elif match[3] == "strike":
            mark = "" if 'val="0"' in match[4] or 'val="false"' in match[4] else "strike"
        elif match[3] == "vertAlign":
            mark = "superscript" if "superscript" in match[4] else "subscript" if "subscript" in match[4] else mark
        elif match[3] == "rPh":
            mark = "strike"  # the reading of Japanese signs, which the library leaves out too
        else:
            yield html.unescape(match[1]), mark


def _join_runs(runs: list[tuple[str, str]]) -> str:
    joined = ""
    for text, mark in runs:
        if mark == "superscript":
            joined += format_superscript(text, before=joined[-1:])
        elif mark == "subscript":
            joined += format_subscript(text, before=joined[-1:])
        elif mark != "strike":
            joined += text
    return joined.strip()
