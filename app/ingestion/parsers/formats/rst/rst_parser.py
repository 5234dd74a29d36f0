"""Parser of reStructuredText: headings, paragraphs, lists, literal blocks, tables and directives."""

import re
from collections.abc import Sequence
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.html import add_fragment
from app.ingestion.parsers.formats.html.page_state import MarkupReport, list_markup_warnings
from app.ingestion.parsers.formats.html.table_text import format_table
from app.ingestion.parsers.formats.rst.definitions import find_definitions
from app.ingestion.parsers.formats.rst.inline_markup import InlineMarkup
from app.ingestion.parsers.formats.rst.tables import (
    GRID_BORDER,
    SIMPLE_BORDER,
    RstRows,
    parse_csv_rows,
    parse_grid_rows,
    parse_list_rows,
    parse_simple_rows,
)
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.read_text import read_text
from app.ingestion.types import BlockKind, ParsedDocument
from app.warnings import ServiceWarning, WarningCode

MAX_LEVEL = 6
_MANY_BREAKS = re.compile(r"\n{4,}")
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}+")
_EXPLICIT = re.compile(r"(\s*+)\.\.(?:\s++|$)")
_DIRECTIVE = re.compile(r"(?:\|[^|]*+\|\s)?([A-Za-z][\w:.+-]*?)::(?:\s++|$)(.*)")
_FOOTNOTE = re.compile(r"\[([^\]]{1,80}+)\]\s")
_OPTION = re.compile(r"\s*+:[\w-][\w -]*+:(?:\s|$)")
_FIELD = re.compile(r":([A-Za-z][^:`\n]{0,80}+):(?:\s++|$)(.*)")
_BULLET = re.compile(r"[-*+•‣]\s++(?=\S)")
_ENUMERATOR = re.compile(r"\(?(\d{1,4}|#|[A-Za-z])[.)]\s++(?=\S)")
_CODE_DIRECTIVES = frozenset(
    {"code", "code-block", "sourcecode", "parsed-literal", "math", "prompt", "doctest", "testcode", "productionlist"}
)
# Directives whose content is for the build tool, or is a copy of another part.
_DROPPED_DIRECTIVES = frozenset(
    {
        "contents", "toctree", "include", "literalinclude", "index", "meta", "highlight", "role", "default-role",
        "currentmodule", "module", "autosummary", "testsetup", "testcleanup", "tabularcolumns", "replace", "unicode",
        "date", "youtube", "video", "sectnum", "target-notes",
    }
)  # fmt: skip
# Directives whose argument is for the build tool, such as the class of a style sheet.
_HIDDEN_ARGUMENTS = frozenset({"class", "container", "cssclass", "ifconfig", "only", "rst-class"})
_DATA_DIRECTIVES = frozenset({"list-table", "csv-table"})
ADMONITIONS = {
    "attention": "Attention:", "caution": "Caution:", "danger": "Danger:", "error": "Error:", "hint": "Hint:",
    "important": "Important:", "note": "Note:", "tip": "Tip:", "warning": "Warning:", "seealso": "See also:",
    "versionadded": "New in version", "versionchanged": "Changed in version", "deprecated": "Deprecated since version",
    "todo": "To do:",
}  # fmt: skip
"""Labels that a reader sees in front of the text of a directive."""


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a file. The title is the first heading of level 1. Included files are not read, and no code is run.

    Raises CorruptFile if the file is binary, TextTooLong if it has more characters than the limit allows.
    """
    decoded = read_text(path, options)
    blocks = BlockList(options)
    text = _MANY_BREAKS.sub("\n\n\n", decoded.text.rstrip()).expandtabs(8)
    reader = _RstReader([line.rstrip() for line in text.split("\n")], blocks)
    reader.read_lines()
    return ParsedDocument(
        blocks.blocks,
        title=blocks.find_first_heading(level=1),
        warnings=[*decoded.warnings, *reader.list_warnings()],
        words_left_out=reader.words_left_out,
    )


class _RstReader:
    """Reader of the lines from first to last. It skips or copies some blocks as a whole, by their indentation."""

    def __init__(self, lines: Sequence[str], blocks: BlockList) -> None:
        self._lines = lines
        self._blocks = blocks
        self._position = 0
        self._heading_styles: list[str] = []
        self._can_find_table_end = True
        self._markup = InlineMarkup(find_definitions(lines))
        self._images = self._included = self._media = 0
        self._caption = ""
        self.words_left_out = 0

    def list_warnings(self) -> list[ServiceWarning]:
        """Return the warnings about images and files that were not read."""
        warnings = list_markup_warnings(MarkupReport(0, self._images, self._media))
        if self._included:
            count = "1 included file was" if self._included == 1 else f"{self._included} included files were"
            warnings.append(ServiceWarning(WarningCode.INCLUDED_FILES_NOT_READ, f"{count} not read.", self._included))
        return warnings

    def read_lines(self) -> None:
        while self._position < len(self._lines):
            line = self._lines[self._position]
            if not line:
                self._position += 1
            elif self._caption and self._read_table():
                continue
            elif not (self._read_heading() or self._read_table() or self._read_explicit_markup(line)):
                self._read_paragraph(line)

    def _get_line(self, offset: int) -> str:
        index = self._position + offset
        return self._lines[index] if index < len(self._lines) else ""

    def _read_heading(self) -> bool:
        """Read a heading with a line of punctuation below it, or above and below. Skip a line without a heading."""
        first, second = self._get_line(0), self._get_line(1)
        if _ADORNMENT.fullmatch(first):
            has_overline = bool(second) and self._get_line(2) == first
            if has_overline:
                self._add_heading(second, style=first[0] * 2)
            elif second:
                return False
            self._position += 3 if has_overline else 1
            return True
        if first[0] == " " or not _ADORNMENT.fullmatch(second) or len(second) < min(len(first), 4):
            return False
        self._add_heading(first, style=second[0])
        self._position += 2
        return True

    def _add_heading(self, text: str, *, style: str) -> None:
        """Add a heading. Its level is the position of its style in the order of first use."""
        if style not in self._heading_styles:
            self._heading_styles.append(style)
        level = min(self._heading_styles.index(style) + 1, MAX_LEVEL)
        self._blocks.add(BlockKind.HEADING, self._markup.strip(text.strip(), is_heading=True), level=level)

    def _read_table(self) -> bool:
        first = self._get_line(0).lstrip()
        indentation = len(self._get_line(0)) - len(first)
        if GRID_BORDER.fullmatch(first):
            end = self._position
            while end < len(self._lines) and self._lines[end].lstrip().startswith(("+", "|")):
                end += 1
            rows = parse_grid_rows([line.strip() for line in self._lines[self._position : end]])
        elif SIMPLE_BORDER.fullmatch(first) and (end := self._find_table_end()):
            rows = parse_simple_rows([line[indentation:] for line in self._lines[self._position : end]])
        else:
            return False
        self._add_table(rows, self._lines[self._position : end])
        self._position = end
        return True

    def _find_table_end(self) -> int:
        """Return the index after the first border that precedes an empty line; 0 if there is no such border.

        If the search fails once, it is not repeated: it would fail for all later lines too, in quadratic time.
        """
        index = self._position + 1 if self._can_find_table_end else len(self._lines)
        while index < len(self._lines):
            if SIMPLE_BORDER.fullmatch(self._lines[index].strip()) and not "".join(self._lines[index + 1 : index + 2]):
                return index + 1
            index += 1
        self._can_find_table_end = False
        return 0

    def _add_table(self, rows: RstRows, lines: Sequence[str], *, caption: str = "") -> None:
        if not rows.head and not rows.body:
            self._blocks.add(BlockKind.PARAGRAPH, caption)
            self._blocks.add(BlockKind.CODE, "\n".join(lines))
            return
        for row in (*rows.head, *rows.body):
            for cell in row:
                cell.text = self._markup.strip(cell.text)
        self._blocks.add(BlockKind.TABLE, format_table([caption or self._caption], rows.head, rows.body))
        self._caption = ""

    def _read_explicit_markup(self, line: str) -> bool:
        """Read a directive, a footnote, a target, a substitution or a comment."""
        start = _EXPLICIT.match(line)
        if start is None:
            return False
        remainder, indentation = line[start.end() :], len(start[1])
        directive = _DIRECTIVE.match(remainder)
        self._position += 1
        if directive is not None and remainder.startswith("|"):
            # A substitution: its text is read where the document refers to it.
            self._read_indented(indentation)
        elif directive is not None:
            self._read_directive(directive[1].lower(), directive[2], indentation)
        elif footnote := _FOOTNOTE.match(remainder):
            lines = [remainder[footnote.end() :], *(line.strip() for line in self._read_indented(indentation))]
            text = self._markup.strip(" ".join(lines))
            self._blocks.add(BlockKind.NOTE, f"[{self._markup.number_note(footnote[1])}] {text}")
        elif remainder or self._get_line(0):
            self._read_indented(indentation)
        return True

    def _read_directive(self, name: str, argument: str, indentation: int) -> None:
        """Read a directive. Its argument becomes a paragraph, and its content is read like the rest of the document.

        The content of a code directive becomes a code block. Directives without text, such as ``toctree``, are skipped.
        """
        while (
            argument and self._get_line(0).startswith(" " * (indentation + 1)) and not _OPTION.match(self._get_line(0))
        ):
            if name in _CODE_DIRECTIVES or name in _DATA_DIRECTIVES:
                break
            argument = f"{argument} {self._get_line(0).strip()}".strip()
            self._position += 1
        options = self._read_options()
        if name in ("image", "figure"):
            self._read_image(options)
        elif name in _DROPPED_DIRECTIVES:
            self._read_dropped(name, self._read_indented(indentation))
        elif name == "raw":
            self._read_raw(argument, self._read_indented(indentation))
        elif name in _CODE_DIRECTIVES:
            self._blocks.add(BlockKind.PARAGRAPH, self._markup.strip(options.get("caption", "")))
            self._add_code([argument] if name == "math" else [], self._read_indented(indentation))
        elif name in _DATA_DIRECTIVES:
            self._read_data(name, self._markup.strip(argument), options, self._read_indented(indentation))
        elif name == "table" and self._is_before_table():
            self._caption = self._markup.strip(argument)
        elif name not in _HIDDEN_ARGUMENTS:
            label = ADMONITIONS.get(name, "")
            argument = self._markup.strip(argument)
            self._blocks.add(BlockKind.PARAGRAPH, f"{label} {argument}".strip())
            self._blocks.add(BlockKind.PARAGRAPH, self._markup.strip(options.get("subtitle", "")))

    def _is_before_table(self) -> bool:
        while self._position < len(self._lines) and not self._lines[self._position]:
            self._position += 1
        line = self._get_line(0).lstrip()
        return GRID_BORDER.fullmatch(line) is not None or SIMPLE_BORDER.fullmatch(line) is not None

    def _read_options(self) -> dict[str, str]:
        options: dict[str, str] = {}
        name = ""
        while (match := _OPTION.match(self._get_line(0))) or (name and self._is_continued_option()):
            line = self._get_line(0)
            if match is not None:
                name = match[0].strip().strip(":")
                options[name] = line[match.end() :].strip()
            else:
                options[name] = f"{options[name]} {line.strip()}"
            self._position += 1
        return options

    def _is_continued_option(self) -> bool:
        line, above = self._get_line(0), self._get_line(-1)
        indentation = len(above) - len(above.lstrip())
        return bool(line) and _OPTION.match(above) is not None and len(line) - len(line.lstrip()) > indentation

    def _read_image(self, options: dict[str, str]) -> None:
        """Read the alternative text of an image. The caption of a figure is read as the next paragraph."""
        if options.get("alt"):
            self._blocks.add(BlockKind.PARAGRAPH, self._markup.strip(options["alt"]))
        else:
            self._images += 1

    def _read_dropped(self, name: str, lines: list[str]) -> None:
        self._included += name in ("include", "literalinclude")
        self._media += name in ("youtube", "video")
        if name in ("testsetup", "testcleanup", "toctree"):
            self.words_left_out += sum(len(line.split()) for line in lines)

    def _read_raw(self, output: str, lines: list[str]) -> None:
        """Read raw HTML. Raw text of another format is counted, because only that format shows it."""
        if "html" in output.lower():
            report = add_fragment("\n".join(lines), self._blocks)
            self.words_left_out += report.words_left_out
            self._images += report.images
            self._media += report.media
        else:
            self.words_left_out += sum(len(line.split()) for line in lines)

    def _read_data(self, name: str, caption: str, options: dict[str, str], lines: list[str]) -> None:
        """Read a table that is written as a list or as comma-separated values."""
        header = options.get("header", "")
        head_rows = options.get("header-rows", "")
        head_count = (
            min(int(head_rows), 9) if head_rows.isascii() and head_rows.isdecimal() and len(head_rows) < 4 else 0
        )
        if name == "list-table":
            rows = parse_list_rows(lines)
        else:
            self._included += "file" in options or "url" in options
            rows = parse_csv_rows([line for line in lines if line], header)
            head_count += bool(header)
        self._add_table(RstRows.from_texts(rows, head_count), lines, caption=caption)

    def _read_indented(self, indentation: int) -> list[str]:
        """Return the next lines with a deeper indentation, and the empty lines between them."""
        begin = end = self._position
        while self._position < len(self._lines):
            line = self._lines[self._position]
            if line and len(line) - len(line.lstrip(" ")) <= indentation:
                break
            self._position += 1
            if line:
                end = self._position
        return list(self._lines[begin:end])

    def _add_code(self, first: list[str], lines: list[str]) -> None:
        margin = min((len(line) - len(line.lstrip(" ")) for line in lines if line), default=0)
        self._blocks.add(BlockKind.CODE, "\n".join([*first, *(line[margin:] for line in lines)]))

    def _read_paragraph(self, line: str) -> None:
        """Read the lines up to an empty line or the next list item.

        If the last line ends with ``::``, the indented lines after it are a literal block.
        """
        text = line.lstrip()
        indentation = len(line) - len(text)
        lines = [text]
        self._position += 1
        while self._get_line(0) and not (_is_item_start(text) and _is_item_start(self._get_line(0).lstrip())):
            lines.append(self._get_line(0)[indentation:])
            self._position += 1
        if text.startswith(">>>"):
            self._add_code(lines, [])
            return
        is_literal = lines[-1].endswith("::")
        if is_literal:
            before = lines[-1][:-2]
            lines[-1] = before if before.rstrip() != before or not before else f"{before}:"
        self._add_text(lines)
        if is_literal:
            item = _match_item(text)
            self._add_code([], self._read_indented(indentation + (item.end() if item else 0)))

    def _add_text(self, lines: list[str]) -> None:
        """Add lines as a list item or a paragraph. Only definitions and line blocks keep their line breaks."""
        first = lines[0]
        if item := _match_item(first):
            marker = "-" if _BULLET.match(first) else first.split()[0]
            text = self._markup.strip(" ".join([first[item.end() :], *lines[1:]]))
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
        self._blocks.add(BlockKind.PARAGRAPH, self._markup.strip(text))


def _match_item(text: str) -> re.Match[str] | None:
    return _BULLET.match(text) or _ENUMERATOR.match(text)


def _is_item_start(text: str) -> bool:
    return _match_item(text) is not None or _FIELD.match(text) is not None
