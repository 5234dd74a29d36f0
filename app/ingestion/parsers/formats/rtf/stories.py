"""Stories of an RTF file: the body, a note, a comment, a text box, or a header, each with paragraphs and tables."""

from dataclasses import dataclass, field

from app.ingestion.parsers.formats.rtf.rows import MAX_CELLS_OF_ROW, Row, RowDefinition, format_rows
from app.ingestion.parsers.toolkit.run_text import RunText
from app.ingestion.types import BlockKind


@dataclass(frozen=True, slots=True)
class Item:
    """Block of a story before it is added to the document."""

    kind: BlockKind
    text: str
    level: int = 0


@dataclass(frozen=True, slots=True)
class ParagraphFormat:
    """Format of a paragraph.

    Attributes:
        style: Number of the style.
        outline: Outline level from 0; None if the paragraph itself has none.
        is_in_table: Whether the paragraph is in a cell.
        is_in_list: Whether the paragraph is an item of a list.
    """

    style: int = 0
    outline: int | None = None
    is_in_table: bool = False
    is_in_list: bool = False


@dataclass(slots=True)
class Story:
    """Text of a part of the document, as it is collected.

    Attributes:
        items: Finished blocks in reading order.
        following: Blocks that follow the open paragraph or table, such as its notes and text boxes.
        label: Label of the open paragraph, if it is an item of a list.
        definition: Definition of the open row of a table.
        is_note: Whether the story is a footnote or an endnote.
    """

    items: list[Item] = field(default_factory=list)
    following: list[Item] = field(default_factory=list)
    label: str = ""
    definition: RowDefinition = field(default_factory=RowDefinition)
    is_note: bool = False
    _runs: RunText | None = None
    _cell: list[str] = field(default_factory=list)
    _cells: list[str] = field(default_factory=list)
    _nested_cells: list[str] = field(default_factory=list)
    _rows: list[Row] = field(default_factory=list)

    @property
    def runs(self) -> RunText:
        """Collector of the text of the open paragraph."""
        if self._runs is None:
            self._runs = RunText()
        return self._runs

    @property
    def has_open_text(self) -> bool:
        """Whether the open paragraph has begun."""
        return self._runs is not None

    def end_paragraph(self, paragraph: ParagraphFormat, level: int) -> None:
        """End the open paragraph.

        Args:
            paragraph: Format of the paragraph.
            level: Level of a heading from 1; 0 for ordinary text.
        """
        text = self._take_text()
        if paragraph.is_in_table:
            self._cell.append(f"{self._take_label()} {text}".strip())
            return
        self.end_table()
        if text.strip():
            self._add_paragraph(text, level, is_item=paragraph.is_in_list)
        self._add_following()

    def end_cell(self) -> None:
        """End the open cell of a row."""
        self._cell.append(f"{self._take_label()} {self._take_text()}".strip())
        if len(self._cells) < MAX_CELLS_OF_ROW:
            self._cells.append("\n".join(text for text in self._cell if text))
            self._cell = []

    def end_nested_cell(self) -> None:
        """End a cell of a table in a cell."""
        self._nested_cells.append(self._take_text().strip())

    def end_nested_row(self) -> None:
        """End a row of a table in a cell. The row becomes a part of the text of the outer cell."""
        text = " ".join(cell for cell in self._nested_cells if cell)
        self._nested_cells = []
        self._cell.append(f"{text};" if text else "")

    def end_row(self) -> None:
        """End the open row of a table."""
        if self.has_open_text or any(self._cell):
            self.end_cell()
        self._cell = []
        if self._cells:
            self._rows.append(Row(self.definition, self._cells))
            self._cells = []

    def end_table(self) -> None:
        """End the open table, if there is one."""
        self.end_row()
        if self._rows:
            rows, self._rows = self._rows, []
            self.items.append(Item(BlockKind.TABLE, format_rows(rows)))
            self._add_following()

    def finish(self, paragraph: ParagraphFormat, level: int) -> list[Item]:
        """End all that is open, and return the blocks of the story."""
        if self.has_open_text:
            self.end_paragraph(paragraph, level)
        self.end_table()
        self._add_following()
        return self.items

    def _take_text(self) -> str:
        text = self._runs.finish() if self._runs is not None else ""
        self._runs = None
        return text

    def _take_label(self) -> str:
        label, self.label = self.label, ""
        return label

    def _add_paragraph(self, text: str, level: int, *, is_item: bool) -> None:
        label = self._take_label()
        if level:
            label = "" if label == "-" else label
            self.items.append(Item(BlockKind.HEADING, f"{label} {text}", level))
        elif label or is_item:
            self.items.append(Item(BlockKind.LIST_ITEM, f"{label or '-'} {text}"))
        else:
            self.items.append(Item(BlockKind.PARAGRAPH, text))

    def _add_following(self) -> None:
        self.items += self.following
        self.following = []
