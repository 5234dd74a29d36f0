"""Text of a paragraph of an OpenDocument file, with the notes and shapes that are anchored in it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from app.ingestion.parsers.formats.odf.forms import read_field_mark
from app.ingestion.parsers.formats.odf.names import get_attribute, get_name
from app.ingestion.parsers.formats.odf.styles import OdfStyles, TextFormat
from app.ingestion.parsers.toolkit.run_text import Position, RunText
from app.ingestion.parsers.toolkit.safe_xml import Element, iter_texts
from app.ingestion.parsers.toolkit.symbol_fonts import replace_symbols
from app.ingestion.parsers.toolkit.unread_content import UnreadContent
from app.warnings import WarningCode

SHAPES = frozenset(
    {
        "draw:frame", "draw:g", "draw:custom-shape", "draw:rect", "draw:ellipse", "draw:circle", "draw:line",
        "draw:polygon", "draw:polyline", "draw:path", "draw:connector", "draw:measure", "draw:caption", "draw:a",
        "draw:regular-polygon",
    }
)  # fmt: skip
LEFT_OUT = frozenset(
    {
        "text:tracked-changes", "text:change", "text:change-start", "text:change-end", "office:annotation-end",
        "text:script", "office:event-listeners", "text:variable-decls", "text:sequence-decls", "text:user-field-decls",
        "text:dde-connection-decls", "text:number", "office:scripts", "presentation:event-listener", "svg:title",
        "svg:desc", "draw:glue-point", "draw:enhanced-geometry", "text:soft-page-break",
    }
)  # fmt: skip
"""Elements without text that a reader sees. Tracked changes contain the deleted text."""

_WHOLE = frozenset(
    {
        "text:note",
        "office:annotation",
        "text:ruby",
        "draw:control",
        "text:hidden-text",
        "text:hidden-paragraph",
        "field:fieldmark",
    }
)
_CHARACTERS = {"text:s": " ", "text:tab": "\t", "text:line-break": "\n"}


@dataclass(slots=True)
class ParagraphContent:
    """Content of a paragraph.

    Attributes:
        text: The text.
        notes: Elements of its notes and comments.
        shapes: Elements of its shapes.
        has_sequence: Whether it has a number of a sequence, as captions have.
    """

    text: str = ""
    notes: list[Element] = field(default_factory=list)
    shapes: list[Element] = field(default_factory=list)
    has_sequence: bool = False


@dataclass(frozen=True, slots=True)
class _Open:
    """Element that is read, with its unread children, its format, and what happens at its end."""

    element: Element
    children: Iterator[Element]
    format: TextFormat
    end: Callable[[], None] | None = None


class ParagraphReader:
    """Reader of paragraphs. It uses a stack instead of recursion.

    Args:
        styles: Styles of the file.
        unread: Counter of the content that is not read.
        controls: Texts of form controls by id.
        read_equation: Function that returns the text of a frame that is an equation; empty for any other frame.
    """

    def __init__(
        self,
        styles: OdfStyles,
        unread: UnreadContent,
        controls: Mapping[str, str],
        read_equation: Callable[[Element], str],
    ) -> None:
        self._styles = styles
        self._unread = unread
        self._controls = controls
        self._read_equation = read_equation

    def read_paragraph(self, element: Element) -> ParagraphContent:
        """Read a paragraph or heading.

        Args:
            element: The element ``text:p`` or ``text:h``.

        Returns:
            Its text, and the elements of its notes and shapes.
        """
        content, runs = ParagraphContent(), RunText()
        base = self._styles.get_format("paragraph", get_attribute(element, "text:style-name"))
        stack = [_Open(element, iter(element), base)]
        self._add_text(element.text, base, runs)
        while stack:
            current = stack[-1]
            child = next(current.children, None)
            if child is None:
                stack.pop()
                if current.end is not None:
                    current.end()
                if stack:
                    self._add_text(current.element.tail, stack[-1].format, runs)
                continue
            opened = self._open_child(child, current.format, content, runs)
            if opened is None:
                self._add_text(child.tail, current.format, runs)
            else:
                stack.append(opened)
                self._add_text(child.text, opened.format, runs)
        content.text = runs.finish()
        return content

    def _open_child(self, child: Element, style: TextFormat, content: ParagraphContent, runs: RunText) -> _Open | None:
        """Return the child if its children must be read; None if it is read as a whole or left out."""
        name = get_name(child)
        if name == "text:span":
            return _Open(child, iter(child), self._merge_format(style, child))
        if name == "text:a":
            runs.open_link(get_attribute(child, "xlink:href"))
            return _Open(child, iter(child), style, runs.close_link)
        if name in _CHARACTERS:
            self._add_text(_CHARACTERS[name], style, runs)
        elif name in SHAPES:
            self._read_shape(child, content, runs)
        elif name in _WHOLE:
            self._read_whole(child, name, content, runs)
        elif name and name not in LEFT_OUT:
            content.has_sequence |= name == "text:sequence"
            return _Open(child, iter(child), style)
        return None

    def _read_shape(self, shape: Element, content: ParagraphContent, runs: RunText) -> None:
        equation = self._read_equation(shape) if get_name(shape) == "draw:frame" else ""
        if equation:
            runs.add_apart(equation)
        else:
            content.shapes.append(shape)

    def _read_whole(self, child: Element, name: str, content: ParagraphContent, runs: RunText) -> None:
        if name == "text:note":
            self._add_note(child, content, runs)
        elif name == "office:annotation":
            content.notes.append(child)
        elif name == "text:ruby":
            _add_ruby(child, runs)
        elif name == "draw:control":
            runs.add_apart(self._controls.get(get_attribute(child, "draw:control"), ""))
        elif name == "field:fieldmark":
            runs.add_apart(read_field_mark(child))
        else:
            self._unread.add(WarningCode.HIDDEN_TEXT_NOT_READ, len("".join(iter_texts(child)).split()))

    def _merge_format(self, style: TextFormat, span: Element) -> TextFormat:
        own = self._styles.get_format("text", get_attribute(span, "text:style-name"))
        return TextFormat(
            style.position if own.position is None else own.position,
            style.is_hidden if own.is_hidden is None else own.is_hidden,
            style.is_struck if own.is_struck is None else own.is_struck,
            own.font or style.font,
        )

    def _add_text(self, text: str | None, style: TextFormat, runs: RunText) -> None:
        if not text:
            return
        if style.is_hidden or style.is_struck:
            code = WarningCode.HIDDEN_TEXT_NOT_READ if style.is_hidden else WarningCode.STRUCK_TEXT_NOT_READ
            self._unread.add(code, len(text.split()))
            return
        text, unknown_count = replace_symbols(text, style.font or "")
        self._unread.add(WarningCode.SYMBOLS_NOT_READ, unknown_count)
        runs.add(text, style.position or Position.NORMAL)

    def _add_note(self, note: Element, content: ParagraphContent, runs: RunText) -> None:
        for part in note:
            if get_name(part) == "text:note-citation":
                runs.add_note_mark(get_attribute(part, "text:label") or "".join(iter_texts(part)))
            elif get_name(part) == "text:note-body":
                content.notes.append(note)


def _add_ruby(ruby: Element, runs: RunText) -> None:
    texts = {get_name(part): "".join(iter_texts(part)) for part in ruby}
    runs.add_ruby(texts.get("text:ruby-base", ""), texts.get("text:ruby-text", ""))
