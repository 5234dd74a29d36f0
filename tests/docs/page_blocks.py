"""Fenced blocks of a Markdown page with their markers.

A marker is a comment alone on the line before the block: ``<!-- run -->``. CONTRIBUTING.md lists the markers.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"^(?: *<!-- (?P<marker>[^\n]*?) -->\n+)?"
    r"(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w-]*)\n(?P<text>.*?)^ *(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
_MARKERS = ("run", "run fails", "serve", "output", "output json", "file", "tested by", "skip")
_FIRST_WORDS = {marker.split()[0] for marker in _MARKERS}
_COMMAND_LANGUAGES = {"sh", "bash", "shell", "console", "python", "sql", "psql", "powershell"}


@dataclass(frozen=True)
class PageBlock:
    """One fenced block: its marker and the marker's argument, language, text and place in the page."""

    page: Path
    line: int
    marker: str
    argument: str
    language: str
    text: str
    start: int
    end: int

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def is_command(self) -> bool:
        """Return whether a reader would type this block, or take it for a command with its output."""
        return self.language in _COMMAND_LANGUAGES or (not self.language and self.text.startswith("$ "))


def read_blocks(page: Path) -> Iterator[PageBlock]:
    """Yield the blocks of a page in their order.

    Raises:
        ValueError: A marker is unknown, or lacks its argument.
    """
    text = page.read_text("utf-8")
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("fence")) + 1
        marker, argument = _parse_marker(match["marker"] or "", f"{page.name}:{line}")
        body = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        yield PageBlock(page, line, marker, argument, match["language"], body, match.start("text"), match.end("text"))


def _parse_marker(text: str, place: str) -> tuple[str, str]:
    marker, _, argument = (part.strip() for part in text.partition(":"))
    if not marker or marker.split()[0] not in _FIRST_WORDS:
        return "", ""  # no comment, or a comment for people
    if marker not in _MARKERS:
        raise ValueError(f"{place}: unknown marker {marker!r}; use one of {', '.join(_MARKERS)}")
    if marker in {"file", "tested by", "skip"} and not argument:
        raise ValueError(f"{place}: the marker needs an argument: <!-- {marker}: … -->")
    if marker == "skip" and len(argument.split()) < 3:
        raise ValueError(f"{place}: say in some words why the block cannot be run")
    return marker, argument
