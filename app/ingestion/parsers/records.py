"""Rows of a sheet or of a CSV file → blocks: tables that repeat their header, or a record for each row."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice

from app.ingestion.parsers.blocks import BlockList
from app.ingestion.parsers.cleaning import clean_line
from app.ingestion.parsers.tables import markdown_table
from app.ingestion.types import BlockKind

Row = Sequence[str]

TABLE_CHARACTERS = 350
TABLE_ROWS = 3
"""A long table is cut where it reaches so many characters, but not below so many rows: then nearly every chunk of the
usual size says what its columns are."""

RECORD_COLUMNS = 8
RECORD_CHARACTERS = 300
"""A row with more columns, or longer on the average, reads better as ``Name: value`` lines than between pipes."""

_SAMPLE_ROWS = 40
_NUMBER = re.compile(r"[-+(]?[$€£¥]?\s?\d[\d.,'\s]*(?:[eE][-+]?\d+)?\s?[%$€£¥]?\)?")
_YEAR = re.compile(r"(?:19|20)\d\d")
_LETTERS = re.compile(r"[^\W\d_]+")
_QUESTION = frozenset(
    {
        "q", "question", "questions", "query", "prompt", "instruction", "title", "faq", "frage", "fragen",
        "pregunta", "domanda", "pergunta", "vraag", "pytanie", "soru", "вопрос", "سؤال", "السؤال", "问",
        "问题", "問題", "質問", "질문",
    }
)  # fmt: skip
_ANSWER = frozenset(
    {
        "a", "answer", "answers", "response", "reply", "completion", "content", "antwort", "antworten",
        "respuesta", "réponse", "risposta", "resposta", "antwoord", "odpowiedź", "cevap", "ответ", "جواب",
        "الجواب", "إجابة", "الإجابة", "答", "答案", "回答", "답변",
    }
)  # fmt: skip


def add_rows(rows: Iterable[Row], blocks: BlockList, *, sheet: int | None = None) -> None:
    """Add the blocks of a grid of stripped cells, row by row, so that a sheet of any length takes little memory.

    Blank rows part tables. Rows of a single cell above a table are paragraphs; the next row names the columns, unless
    it holds numbers or goes on with questions and answers: then the columns are those of the table before, if any.
    """
    header: Row = ()
    for blank, run in groupby(rows, key=lambda row: not any(row)):
        if not blank:
            header = _add_region(run, blocks, header, sheet=sheet)


def _add_region(rows: Iterator[Row], blocks: BlockList, header: Row, *, sheet: int | None) -> Row:
    """One run of rows without a blank one; returns the names of its columns."""
    for row in rows:
        cells = [cell for cell in row if cell]
        if len(cells) > 1:
            break
        blocks.add(BlockKind.PARAGRAPH, cells[0], sheet=sheet)
    else:
        return header
    rows = chain([row], rows)
    head = list(islice(rows, _SAMPLE_ROWS))
    if _begins_table(head, header):
        header, *head = head
    elif _width(row) > _width(header):
        header = ()
    rows = chain(head, rows)
    order = _record_order(header, head)
    if not head:
        blocks.add(BlockKind.PARAGRAPH, _table([header]), sheet=sheet)
    elif order:
        for row in rows:
            blocks.add(BlockKind.RECORD, _record(header, row, order), sheet=sheet)
    else:
        _add_tables(rows, blocks, header, sheet=sheet)
    return header


def _begins_table(head: Sequence[Row], header: Row) -> bool:
    """Whether the first row names columns, and does not go on with the table above."""
    row = head[0]
    fits = _width(row) <= _width(header)
    if fits and (len(head) == 1 or (_asking(header) and not _asking(row))):
        return False
    return _names_columns(row)


def _names_columns(row: Row) -> bool:
    """Numbers are data, but for the years that a column may be about."""
    return not any(_NUMBER.fullmatch(cell) and not _YEAR.fullmatch(cell) for cell in row)


def _width(row: Row) -> int:
    """The number of columns up to the last with text."""
    return max((number for number, cell in enumerate(row, start=1) if cell), default=0)


def _record_order(header: Row, head: Sequence[Row]) -> list[int]:
    """The columns in the order in which a record names them; none where the rows make a table."""
    columns = list(range(len(header)))
    asked = _questions_and_answers(header, head)
    if asked:
        return [*asked, *(column for column in columns if column not in asked)]
    length = sum(len(cell) for row in head for cell in row)
    wide = sum(map(bool, header)) > RECORD_COLUMNS or length > RECORD_CHARACTERS * len(head)
    return columns if wide and head else []


def _questions_and_answers(header: Row, head: Sequence[Row]) -> tuple[int, int] | None:
    """The columns of a question-and-answer table: named so, every question a text, and most of the answers."""
    found = _asking(header)
    if found is None or not head:
        return None
    questions, answers = (_cells(head, column) for column in found)
    numbers = [text for text in answers if _NUMBER.fullmatch(text)]
    if any(_NUMBER.fullmatch(text) for text in questions) or 2 * len(numbers) >= len(answers):
        return None
    return found


def _asking(header: Row) -> tuple[int, int] | None:
    """The columns that are named like a question and like an answer."""
    question, answer = _column(header, _QUESTION), _column(header, _ANSWER)
    return None if question is None or answer is None else (question, answer)


def _column(header: Row, words: frozenset[str]) -> int | None:
    """The first column whose name is, or ends with, one of the words; a single letter must be the whole name."""
    for column, name in enumerate(header):
        found = _LETTERS.findall(clean_line(name).casefold())
        if found and found[-1] in words and (len(found) == 1 or len(found[-1]) > 1):
            return column
    return None


def _cells(rows: Sequence[Row], column: int) -> list[str]:
    return [row[column] for row in rows if column < len(row) and row[column]]


def _record(header: Row, row: Row, order: Sequence[int]) -> str:
    """A line for each cell with text; the cells beyond the header come last and have no name."""
    lines = []
    for column in chain(order, range(len(header), len(row))):
        if column < len(row) and row[column]:
            name = clean_line(header[column]).rstrip(" :") if column < len(header) else ""
            lines.append(f"{name[:1].upper()}{name[1:]}: {row[column]}" if name else row[column])
    return "\n".join(lines)


def _add_tables(rows: Iterable[Row], blocks: BlockList, header: Row, *, sheet: int | None) -> None:
    names = [header] if header else []
    part: list[Row] = []
    length = _length(header)
    for row in rows:
        length += _length(row)
        if length > TABLE_CHARACTERS and len(part) >= TABLE_ROWS:
            blocks.add(BlockKind.TABLE, _table([*names, *part]), sheet=sheet)
            part, length = [], _length(header) + _length(row)
        part.append(row)
    blocks.add(BlockKind.TABLE, _table([*names, *part]), sheet=sheet)


def _length(row: Row) -> int:
    return sum(len(cell) + 3 for cell in row)


def _table(rows: Sequence[Row]) -> str:
    """Markdown without the columns that are empty in all of these rows."""
    width = max(map(len, rows))
    kept = [column for column in range(width) if _cells(rows, column)]
    return markdown_table([[row[column] if column < len(row) else "" for column in kept] for row in rows])
