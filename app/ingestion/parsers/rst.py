"""reStructuredText by a light reader of our own: headings, paragraphs, lists, literal blocks, tables, directives."""

import re
from collections.abc import Sequence
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.blocks import BlockList
from app.ingestion.parsers.reading import read_text
from app.ingestion.parsers.rst_tables import GRID_BORDER, SIMPLE_BORDER, grid_rows, list_rows, simple_rows
from app.ingestion.parsers.tables import markdown_table
from app.ingestion.types import BlockKind, ParsedDocument

MAX_LEVEL = 6
_MANY_BREAKS = re.compile(r"\n{4,}")
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}+")
_EXPLICIT = re.compile(r"(\s*+)\.\.(?:\s++|$)")
_DIRECTIVE = re.compile(r"(?:\|[^|]*+\|\s)?([A-Za-z][\w:.+-]*?)::(?:\s++|$)(.*)")
_FOOTNOTE = re.compile(r"\[[^\]]{1,80}+\]\s")
_OPTION = re.compile(r"\s*+:[\w-][\w -]*+:(?:\s|$)")
_FIELD = re.compile(r":([A-Za-z][^:`\n]{0,80}+):(?:\s++|$)(.*)")
_BULLET = re.compile(r"[-*+•‣]\s++(?=\S)")
_NUMBER = re.compile(r"\(?(\d{1,4}|#|[A-Za-z])[.)]\s++(?=\S)")
_CODE = frozenset(
    {"code", "code-block", "sourcecode", "parsed-literal", "math", "prompt", "doctest", "testcode", "productionlist"}
)
# What they hold is for the machine or stands somewhere else.
_DROPPED = frozenset(
    {
        "contents", "toctree", "raw", "include", "literalinclude", "image", "index", "meta", "highlight", "role",
        "default-role", "currentmodule", "module", "autosummary", "testsetup", "testcleanup", "tabularcolumns",
    }
)  # fmt: skip
_INLINE = (
    (re.compile(r"(?<![\w`]):[a-zA-Z][\w:+.-]{0,40}:`[~!]?([^`<]{1,500}?)(?:\s*<[^`<>]{1,500}>)?`"), r"\1"),
    (re.compile(r"(?<![\w`])`([^`<]{1,500}?)\s*<[^`<>]{1,1000}>`__?"), r"\1"),
    (re.compile(r"(?<![\w`])`([^`]{1,500})`(?:__?)?"), r"\1"),
    (re.compile(r"(?<![\w*\\])\*\*(?=\S)([^*\n]{1,500})(?<=\S)\*\*(?![\w*])"), r"\1"),
    (re.compile(r"(?<![\w*\\])\*(?=\S)([^*\n]{1,500})(?<=\S)\*(?![\w*])"), r"\1"),
    (re.compile(r"\\([*`|_\\])"), r"\1"),
)


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """The title is the first heading. Nothing is included or run. Raises Corrupt for a binary file, TooMuchText."""
    decoded = read_text(path, options)
    blocks = BlockList(options)
    text = _MANY_BREAKS.sub("\n\n\n", decoded.text.rstrip()).expandtabs(8)
    _Reader([line.rstrip() for line in text.split("\n")], blocks).read()
    return ParsedDocument(blocks.blocks, title=blocks.first_heading(level=1), warnings=decoded.warnings)


class _Reader:
    """Goes through the lines once; only what is verbatim or dropped is taken by its indentation."""

    def __init__(self, lines: Sequence[str], blocks: BlockList) -> None:
        self._lines = lines
        self._blocks = blocks
        self._at = 0
        self._styles: list[str] = []
        self._open_tables = True

    def read(self) -> None:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not line:
                self._at += 1
            elif not (self._heading() or self._table() or self._explicit(line)):
                self._paragraph(line)

    def _line(self, offset: int) -> str:
        index = self._at + offset
        return self._lines[index] if index < len(self._lines) else ""

    def _heading(self) -> bool:
        """A line of signs below the text, or above and below; by itself it is a mere rule."""
        first, second = self._line(0), self._line(1)
        if _ADORNMENT.fullmatch(first):
            over = bool(second) and self._line(2) == first
            if over:
                self._add_heading(second, style=first[0] * 2)
            elif second:
                return False
            self._at += 3 if over else 1
            return True
        if first[0] == " " or not _ADORNMENT.fullmatch(second) or len(second) < min(len(first), 4):
            return False
        self._add_heading(first, style=second[0])
        self._at += 2
        return True

    def _add_heading(self, text: str, *, style: str) -> None:
        """The order in which the styles come up makes their levels."""
        if style not in self._styles:
            self._styles.append(style)
        level = min(self._styles.index(style) + 1, MAX_LEVEL)
        self._blocks.add(BlockKind.HEADING, _plain(text.strip()), level=level)

    def _table(self) -> bool:
        first = self._line(0).lstrip()
        indentation = len(self._line(0)) - len(first)
        if GRID_BORDER.fullmatch(first):
            end = self._at
            while end < len(self._lines) and self._lines[end].lstrip().startswith(("+", "|")):
                end += 1
            rows = grid_rows([line.strip() for line in self._lines[self._at : end]])
        elif SIMPLE_BORDER.fullmatch(first) and (end := self._end_of_table()):
            rows = simple_rows([line[indentation:] for line in self._lines[self._at : end]])
        else:
            return False
        self._add_table(rows, self._lines[self._at : end])
        self._at = end
        return True

    def _end_of_table(self) -> int:
        """Behind the first border that an empty line follows; where there is none now, there is none further down."""
        index = self._at + 1 if self._open_tables else len(self._lines)
        while index < len(self._lines):
            if SIMPLE_BORDER.fullmatch(self._lines[index].strip()) and not "".join(self._lines[index + 1 : index + 2]):
                return index + 1
            index += 1
        self._open_tables = False
        return 0

    def _add_table(self, rows: list[list[str]], lines: Sequence[str]) -> None:
        if rows:
            self._blocks.add(BlockKind.TABLE, markdown_table([[_plain(cell) for cell in row] for row in rows]))
        else:
            self._blocks.add(BlockKind.CODE, "\n".join(lines))

    def _explicit(self, line: str) -> bool:
        """Directives, footnotes, targets, substitutions and comments."""
        start = _EXPLICIT.match(line)
        if start is None:
            return False
        rest, indentation = line[start.end() :], len(start[1])
        directive = _DIRECTIVE.match(rest)
        self._at += 1
        if directive is not None:
            self._directive(directive[1].lower(), directive[2], indentation)
        elif _FOOTNOTE.match(rest):
            text = " ".join([rest, *(line.strip() for line in self._indented(indentation))])
            self._blocks.add(BlockKind.NOTE, _plain(text))
        elif rest or self._line(0):
            self._indented(indentation)
        return True

    def _directive(self, name: str, argument: str, indentation: int) -> None:
        """The argument is text, and what is below is read on like any text, unless it is verbatim or dropped."""
        while _OPTION.match(self._line(0)):
            self._at += 1
        if name in _DROPPED:
            self._indented(indentation)
        elif name in _CODE:
            self._add_code([argument] if name == "math" else [], self._indented(indentation))
        else:
            while argument and self._line(0).startswith(" " * (indentation + 1)):
                argument = f"{argument} {self._line(0).strip()}"
                self._at += 1
            self._blocks.add(BlockKind.PARAGRAPH, "" if name == "figure" else _plain(argument))
            if name == "list-table":
                self._add_table(list_rows(self._indented(indentation)), [])
            elif name == "csv-table":
                self._add_code([], self._indented(indentation))

    def _indented(self, indentation: int) -> list[str]:
        """The lines from here that are indented deeper, empty ones between them included."""
        begin = end = self._at
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line and len(line) - len(line.lstrip(" ")) <= indentation:
                break
            self._at += 1
            if line:
                end = self._at
        return list(self._lines[begin:end])

    def _add_code(self, first: list[str], lines: list[str]) -> None:
        margin = min((len(line) - len(line.lstrip(" ")) for line in lines if line), default=0)
        self._blocks.add(BlockKind.CODE, "\n".join([*first, *(line[margin:] for line in lines)]))

    def _paragraph(self, line: str) -> None:
        """Lines up to an empty one, or to the next item of a list; ``::`` at the end announces a literal block."""
        text = line.lstrip()
        indentation = len(line) - len(text)
        lines = [text]
        self._at += 1
        while self._line(0) and not (_begins_item(text) and _begins_item(self._line(0).lstrip())):
            lines.append(self._line(0)[indentation:])
            self._at += 1
        if text.startswith(">>>"):
            self._add_code(lines, [])
            return
        literal = lines[-1].endswith("::")
        if literal:
            before = lines[-1][:-2]
            lines[-1] = before if before.rstrip() != before or not before else f"{before}:"
        self._add_text(lines)
        if literal:
            item = _item(text)
            self._add_code([], self._indented(indentation + (item.end() if item else 0)))

    def _add_text(self, lines: list[str]) -> None:
        """A definition and a block of lines keep their breaks; elsewhere they are mere spaces."""
        first = lines[0]
        if item := _item(first):
            marker = "-" if _BULLET.match(first) else first.split()[0]
            text = _plain(" ".join([first[item.end() :], *lines[1:]]))
            self._blocks.add(BlockKind.LIST_ITEM, f"{marker} {text}")
            return
        if field := _FIELD.match(first):
            text = " ".join([f"{field[1]}: {field[2]}", *lines[1:]])
        elif first.startswith("| "):
            text = "\n".join(line.removeprefix("| ") for line in lines)
        elif lines[1:2] and lines[1].startswith(" "):
            text = f"{first}\n{' '.join(lines[1:])}"
        else:
            text = " ".join(lines)
        self._blocks.add(BlockKind.PARAGRAPH, _plain(text))


def _item(text: str) -> re.Match[str] | None:
    return _BULLET.match(text) or _NUMBER.match(text)


def _begins_item(text: str) -> bool:
    return _item(text) is not None or _FIELD.match(text) is not None


def _plain(text: str) -> str:
    """Without the signs of inline markup; what stands in double backquotes is left alone."""
    parts = text.split("``")
    if len(parts) % 2 == 0:  # one of them has no partner
        parts[-2:] = ["``".join(parts[-2:])]
    for index in range(0, len(parts), 2):
        for pattern, kept in _INLINE:
            parts[index] = pattern.sub(kept, parts[index])
    return "".join(parts)
