"""State of a group of an RTF file: formats that end with the group, and the use of its text."""

from enum import Enum
from typing import NamedTuple

from app.ingestion.parsers.formats.rtf.stories import ParagraphFormat
from app.ingestion.parsers.toolkit.ooxml import Element
from app.ingestion.parsers.toolkit.run_text import Position


class Sink(Enum):
    """Use of the text of a group."""

    STORY = "story"
    CAPTURE = "capture"
    LABEL = "label"
    MATH = "math"
    SKIPPED = "skipped"


class GroupState(NamedTuple):
    """Formats of a group; an inner group begins with those of the outer group.

    Attributes:
        sink: Use of the text.
        font: Number of the font; None for the default font.
        fallback_length: Number of characters after a Unicode character that replace it in old programs.
        position: Position relative to the base line.
        is_hidden: Whether the text is hidden.
        is_deleted: Whether the text is a deleted revision.
        is_struck: Whether the text is struck through.
        is_object: Whether the group belongs to an embedded object.
        equation: Element of the open equation; None outside of equations.
        paragraph: Format of the paragraph.
    """

    sink: Sink = Sink.STORY
    font: int | None = None
    fallback_length: int = 1
    position: Position = Position.NORMAL
    is_hidden: bool = False
    is_deleted: bool = False
    is_struck: bool = False
    is_object: bool = False
    equation: Element | None = None
    paragraph: ParagraphFormat = ParagraphFormat()
