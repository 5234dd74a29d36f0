"""Text of shapes, table cells and notes of a slide, from paragraphs of DrawingML."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.ingestion.parsers.toolkit.list_numbers import format_list_number
from app.ingestion.parsers.toolkit.omml import format_equation
from app.ingestion.parsers.toolkit.ooxml import (
    Element,
    find_child,
    get_attribute,
    get_int_attribute,
    get_tag,
    iter_children,
    iter_texts,
)
from app.ingestion.parsers.toolkit.run_text import Position, RunText
from app.ingestion.parsers.toolkit.symbol_fonts import is_symbol_font, replace_symbols
from app.ingestion.parsers.toolkit.unread_content import UnreadContent
from app.warnings import WarningCode

_STRIKES = frozenset({"sngStrike", "dblStrike"})
_NUMBER_FORMATS = {
    "arabic": "decimal",
    "alphaLc": "lowerletter",
    "alphaUc": "upperletter",
    "romanLc": "lowerroman",
    "romanUc": "upperroman",
}
_BULLET_TAGS = frozenset({"a:buChar", "a:buBlip"})


@dataclass(frozen=True, slots=True)
class SlideParagraph:
    """Paragraph of a shape or a cell.

    Attributes:
        text: Text with its label, if the paragraph is numbered.
        is_item: Whether the paragraph has a bullet or a number.
        is_bold: Whether all of its text is bold.
    """

    text: str
    is_item: bool
    is_bold: bool


class SlideTextReader:
    """Reader of the paragraphs of one part: a slide, or its notes.

    Args:
        links: Addresses of links by relationship id.
        unread: Counter of the content that is not read.
    """

    def __init__(self, links: Mapping[str, str], unread: UnreadContent) -> None:
        self._links = links
        self._unread = unread
        self._numbers: dict[int, int] = {}

    def read_paragraphs(self, body: Element | None) -> list[SlideParagraph]:
        """Return the paragraphs of a text body that have text.

        Args:
            body: The element ``p:txBody`` or ``a:txBody``; None has no paragraphs.
        """
        self._numbers.clear()
        paragraphs = (self._read_paragraph(element) for element in iter_children(body, "a:p"))
        return [paragraph for paragraph in paragraphs if paragraph.text]

    def read_cell(self, body: Element | None) -> tuple[str, bool]:
        """Return the text of a cell and whether it is bold. Semicolons divide items of a list, and spaces paragraphs.

        Args:
            body: Text body of the cell.
        """
        paragraphs = self.read_paragraphs(body)
        text = ""
        for previous, paragraph in zip([None, *paragraphs], paragraphs, strict=False):
            divider = "" if previous is None else "; " if previous.is_item and paragraph.is_item else "\n"
            text += divider + paragraph.text
        return text, bool(paragraphs) and all(paragraph.is_bold for paragraph in paragraphs)

    def get_address(self, element: Element | None) -> str:
        """Return the address of the link of a run or a shape; empty if it has none, or a link to a slide.

        Args:
            element: The properties that may have a child ``a:hlinkClick``.
        """
        return self._links.get(get_attribute(find_child(element, "a:hlinkClick"), "id"), "")

    def _read_paragraph(self, element: Element) -> SlideParagraph:
        text, address, has_text, is_bold = RunText(), "", False, True
        for run in _list_runs(element):
            tag = get_tag(run)
            properties = find_child(run, "a:rPr")
            run_address = self.get_address(properties)
            if run_address != address:
                text.close_links()
                if run_address:
                    text.open_link(run_address)
                address = run_address
            if tag == "a:br":
                text.add("\n")
            elif tag in ("a14:m", "m:oMath", "m:oMathPara"):
                text.add_apart(format_equation(run))
                has_text = True
            elif content := self._read_run(run, properties):
                text.add(content, _find_position(properties))
                has_text = has_text or not content.isspace()
                is_bold = is_bold and (content.isspace() or get_attribute(properties, "b") in ("1", "true"))
        label, is_item = self._count_label(find_child(element, "a:pPr"), has_text=has_text)
        return SlideParagraph(label + text.finish().strip(), is_item, has_text and is_bold)

    def _read_run(self, run: Element, properties: Element | None) -> str:
        content = "".join(iter_texts(run, "a:t"))
        if get_attribute(properties, "strike") in _STRIKES:
            self._unread.add(WarningCode.STRUCK_TEXT_NOT_READ, len(content.split()))
            return ""
        latin = get_attribute(find_child(properties, "a:latin"), "typeface")
        symbol = get_attribute(find_child(properties, "a:sym"), "typeface")
        if symbol and not is_symbol_font(latin):
            content, unknown_count = _replace_private(content, symbol)
        else:
            content, unknown_count = replace_symbols(content, latin)
        if unknown_count:
            self._unread.add(WarningCode.SYMBOLS_NOT_READ, unknown_count)
        return content

    def _count_label(self, properties: Element | None, *, has_text: bool) -> tuple[str, bool]:
        """Count a paragraph, and return its label and whether it is an item of a list."""
        if not has_text:
            return "", False
        if properties is None:
            self._numbers.clear()
            return "", False
        level = get_int_attribute(properties, "lvl") or 0
        numbering = find_child(properties, "a:buAutoNum")
        for deeper in [number for number in self._numbers if number > level]:
            del self._numbers[deeper]
        if numbering is None:
            self._numbers.pop(level, None)
            return "", any(get_tag(child) in _BULLET_TAGS for child in properties)
        start = get_int_attribute(numbering, "startAt") or 1
        number = self._numbers[level] = self._numbers.get(level, start - 1) + 1
        return f"{_format_auto_number(number, get_attribute(numbering, 'type'))} ", True


def _list_runs(paragraph: Element) -> list[Element]:
    """Return the runs, breaks, fields and equations of a paragraph; of alternatives, those of the first."""
    runs = []
    for child in paragraph:
        if get_tag(child) == "mc:AlternateContent":
            choice = find_child(child, "mc:Choice")
            runs += list(choice if choice is not None else iter_children(find_child(child, "mc:Fallback")))
        else:
            runs.append(child)
    return [run for run in runs if get_tag(run) in ("a:r", "a:br", "a:fld", "a14:m", "m:oMath", "m:oMathPara")]


def _find_position(properties: Element | None) -> Position:
    baseline = get_attribute(properties, "baseline").rstrip("%").partition(".")[0]
    if not baseline.lstrip("-").isdecimal() or not baseline.strip("-0"):
        return Position.NORMAL
    return Position.LOWERED if baseline.startswith("-") else Position.RAISED


def _replace_private(text: str, font: str) -> tuple[str, int]:
    """Replace only the private characters of a symbol font. The font ``a:sym`` does not apply to letters."""
    parts, unknown_count = [], 0
    for character in text:
        is_private = "\uf020" <= character <= "\uf0ff"
        converted, count = replace_symbols(character, font) if is_private else (character, 0)
        parts.append(converted)
        unknown_count += count
    return "".join(parts), unknown_count


def _format_auto_number(number: int, kind: str) -> str:
    """Return the label of an automatic number, such as 2. or (b)."""
    name = next((prefix for prefix in _NUMBER_FORMATS if kind.startswith(prefix)), "")
    text = format_list_number(number, _NUMBER_FORMATS.get(name, "decimal"))
    if kind.endswith("ParenBoth"):
        return f"({text})"
    return f"{text})" if kind.endswith("ParenR") else text if kind.endswith("Plain") else f"{text}."
