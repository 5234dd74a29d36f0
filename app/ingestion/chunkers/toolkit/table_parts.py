"""Parts of tables: rows with their labels, and the head that each part of a table repeats."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from app.documents.table_heads import MAX_LABEL_ROWS, TableHead, find_table_head, is_label_row, list_head_variants
from app.ingestion.chunkers.spec import TokenCounter
from app.ingestion.chunkers.toolkit.drafts import LeafIndex
from app.ingestion.types import BlockKind, ChunkDraft, DocumentTree
from app.warnings import ServiceWarning, WarningCode

HEAD_SHARE = 2
"""A repeated head has at most one token of every ``HEAD_SHARE`` tokens of a chunk."""

_LINE_END = re.compile(r"\n+")


@dataclass(slots=True)
class RowLabel:
    """Adjacent label rows above other rows.

    Attributes:
        text: Lines of the label rows.
        tokens: Number of tokens of the lines.
    """

    text: str
    tokens: int = 0


@dataclass(slots=True)
class RowRange:
    """Row of a table, as a range of the stored text.

    Attributes:
        start: First character.
        end: Offset behind the last character and the line break.
        label: Label rows above the row; None for a label row and for a row without a label.
        is_label: Whether the row is a label for the rows below it.
        begins_group: Whether the row is a label row, and the row above it is none.
        is_note: Whether the line is not a row of cells, such as a footnote of the table.
    """

    start: int
    end: int
    label: RowLabel | None = None
    is_label: bool = False
    begins_group: bool = False
    is_note: bool = False

    @property
    def is_data(self) -> bool:
        """Whether the line is a row of cells that is no label."""
        return not self.is_label and not self.is_note


@dataclass(slots=True)
class PieceTable:
    """Table whose head and rows are pieces of the text.

    Attributes:
        start: First character of the table.
        end: Offset behind the table.
        head_end: Offset behind the head; equal to ``start`` for a table without a head.
        variants: Forms of the head, the longest first. ``measure_heads`` drops the forms that are too long.
        tokens: Number of tokens of each form.
        max_tokens: Maximum number of tokens of a repeated head with its label.
        used_variants: Number of the form by the start of a row, if a longer form does not fit.
    """

    start: int
    end: int
    head_end: int
    variants: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    max_tokens: int = 0
    used_variants: dict[int, int] = field(default_factory=dict)

    @classmethod
    def from_text(cls, text: str, start: int, end: int) -> "PieceTable":
        """Find the head of the table in a range of the stored text."""
        head = find_table_head(text, start, end)
        if head is None:
            return cls(start, end, start)
        return cls(start, end, head.end, list_head_variants(text, head))

    def count_head_tokens(self, row: RowRange) -> int:
        """Return the number of tokens of the head that a chunk repeats if it begins with ``row``."""
        variant = self.used_variants.get(row.start, 0)
        if variant >= len(self.tokens):
            return 0
        label = self._get_label(row, variant)
        return self.tokens[variant] + (0 if label is None else label.tokens)

    def format_head(self, row: RowRange) -> str | None:
        """Return the head that a chunk repeats if it begins with ``row``; None if no form of the head fits."""
        variant = self.used_variants.get(row.start, 0)
        if variant >= len(self.tokens):
            return None
        label = self._get_label(row, variant)
        return self.variants[variant] if label is None else f"{self.variants[variant]}\n{label.text}"

    def shorten_head(self, row: RowRange) -> bool:
        """Use the next shorter form of the head for a chunk that begins with ``row``. Return False without any form."""
        variant = self.used_variants.get(row.start, 0)
        if variant >= len(self.tokens):
            return False
        self.used_variants[row.start] = variant + 1
        return True

    def _get_label(self, row: RowRange, variant: int) -> RowLabel | None:
        """Return the label of the row if it fits. A head that was shortened for the row has no label."""
        label = row.label
        if label is None or variant > 0 or self.tokens[variant] + label.tokens > self.max_tokens:
            return None
        return label


def find_table_rows(text: str, start: int, end: int) -> Iterator[RowRange]:
    """Yield the rows of a table, each with the label rows above it.

    Args:
        text: Stored text of a document.
        start: First character of the first row.
        end: Offset behind the last row.
    """
    ranges = []
    position = start
    for match in _LINE_END.finditer(text, start, end):
        ranges.append((position, match.end()))
        position = match.end()
    ranges.append((position, end))
    lines = [text[first:last].strip() for first, last in ranges]
    label: RowLabel | None = None
    labels: list[str] = []
    for number, (first, last) in enumerate(ranges):
        next_line = lines[number + 1] if number + 1 < len(lines) else ""
        if is_label_row(lines[number], next_line):
            yield RowRange(first, last, is_label=True, begins_group=not labels)
            labels.append(lines[number])
            continue
        if labels:
            label = RowLabel("\n".join(labels[-MAX_LABEL_ROWS:]))
            labels = []
        yield RowRange(first, last, label, is_note=not lines[number].startswith("|"))


def measure_heads(
    tables: Sequence[PieceTable], rows: Sequence[RowRange], *, max_tokens: int, count_tokens: TokenCounter
) -> None:
    """Count the tokens of the heads and labels of tables, and drop the forms of a head that are too long.

    Args:
        tables: Tables, which are changed in place.
        rows: Rows of the tables, whose labels are changed in place.
        max_tokens: Maximum number of tokens of a chunk.
        count_tokens: Function that counts tokens.
    """
    variants = [variant for table in tables for variant in table.variants]
    labels = list({id(row.label): row.label for row in rows if row.label is not None}.values())
    counts = count_tokens([*variants, *(label.text for label in labels)]) if variants else []
    remaining = iter(counts)
    for table in tables:
        table.max_tokens = max_tokens // HEAD_SHARE
        counted = [(variant, next(remaining)) for variant in table.variants]
        fitting = [(variant, tokens) for variant, tokens in counted if tokens <= table.max_tokens]
        table.variants = [variant for variant, _ in fitting]
        table.tokens = [tokens for _, tokens in fitting]
    for label, tokens in zip(labels, remaining, strict=False):
        label.tokens = tokens


def list_table_warnings(tree: DocumentTree, drafts: Sequence[ChunkDraft]) -> list[ServiceWarning]:
    """Return a warning if chunks begin inside a table and do not repeat its head.

    Args:
        tree: Tree of the document.
        drafts: Chunks of the document.
    """
    leaves = LeafIndex.from_tree(tree)
    heads: dict[int, TableHead | None] = {}
    count = 0
    for draft in drafts:
        leaf = next(iter(leaves.find_overlapping(draft.start, draft.start + 1)), None)
        if draft.table_head is not None or leaf is None or leaf.block is not BlockKind.TABLE:
            continue
        if draft.start > leaf.start and leaf.start not in heads:
            heads[leaf.start] = find_table_head(tree.text, leaf.start, leaf.end)
        head = heads.get(leaf.start)
        count += head is not None and draft.start > head.end
    if not count:
        return []
    subject = f"{count} parts of tables do" if count > 1 else "A part of a table does"
    message = f"{subject} not repeat the column names, because the names or the row are too long for a chunk."
    return [ServiceWarning(WarningCode.TABLE_HEADS_OMITTED, message, count)]
