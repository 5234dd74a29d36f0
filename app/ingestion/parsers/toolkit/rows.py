"""Rows of a sheet or of a CSV file → blocks: tables that repeat their header, or a record for each row."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice

from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.tables import format_markdown_table
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import BlockKind

Row = Sequence[str]

MAX_TABLE_CHARACTERS = 350
MIN_TABLE_ROWS = 3
"""A long table is cut where it reaches so many characters, but not below so many rows: then nearly every chunk of the
usual size says what its columns are."""

MAX_TABLE_COLUMNS = 8
MAX_TABLE_ROW_CHARACTERS = 300
"""A row with more columns, or longer on the average, reads better as ``Name: value`` lines than between pipes."""

_SAMPLE_ROWS = 40
_NUMBER = re.compile(r"[-+(]?[$€£¥]?\s?\d[\d.,'\s]*(?:[eE][-+]?\d+)?\s?[%$€£¥]?\)?")
_YEAR = re.compile(r"(?:19|20)\d\d")
_LETTERS = re.compile(r"[^\W\d_]+")
_QUESTION_WORDS = frozenset(
    {
        "q", "question", "questions", "query", "prompt", "instruction", "title", "faq", "frage", "fragen",
        "pregunta", "domanda", "pergunta", "vraag", "pytanie", "soru", "вопрос", "سؤال", "السؤال", "问",
        "问题", "問題", "質問", "질문",
    }
)  # fmt: skip
_ANSWER_WORDS = frozenset(
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
    for is_blank, run in groupby(rows, key=lambda row: not any(row)):
        if not is_blank:
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
    sample = list(islice(rows, _SAMPLE_ROWS))
    if _is_table_start(sample, header):
        header, *sample = sample
    elif _count_columns(row) > _count_columns(header):
        header = ()
    rows = chain(sample, rows)
    order = _choose_record_order(header, sample)
    if not sample:
        blocks.add(BlockKind.PARAGRAPH, _format_table([header]), sheet=sheet)
    elif order:
        for row in rows:
            blocks.add(BlockKind.RECORD, _format_record(header, row, order), sheet=sheet)
    else:
        _add_tables(rows, blocks, header, sheet=sheet)
    return header


def _is_table_start(sample: Sequence[Row], header: Row) -> bool:
    """Whether the first row names columns, and does not go on with the table above."""
    row = sample[0]
    is_narrow_enough = _count_columns(row) <= _count_columns(header)
    if is_narrow_enough and (len(sample) == 1 or (_find_question_columns(header) and not _find_question_columns(row))):
        return False
    return _is_header(row)


def _is_header(row: Row) -> bool:
    """Numbers are data, but for the years that a column may be about."""
    return not any(_NUMBER.fullmatch(cell) and not _YEAR.fullmatch(cell) for cell in row)


def _count_columns(row: Row) -> int:
    """The number of columns up to the last with text."""
    return max((number for number, cell in enumerate(row, start=1) if cell), default=0)


def _choose_record_order(header: Row, sample: Sequence[Row]) -> list[int]:
    """The columns in the order in which a record names them; none where the rows make a table."""
    columns = list(range(len(header)))
    question_columns = _find_question_answer_columns(header, sample)
    if question_columns:
        return [*question_columns, *(column for column in columns if column not in question_columns)]
    length = sum(len(cell) for row in sample for cell in row)
    is_wide = sum(map(bool, header)) > MAX_TABLE_COLUMNS or length > MAX_TABLE_ROW_CHARACTERS * len(sample)
    return columns if is_wide and sample else []


def _find_question_answer_columns(header: Row, sample: Sequence[Row]) -> tuple[int, int] | None:
    """The columns of a question-and-answer table: named so, every question a text, and most of the answers."""
    columns = _find_question_columns(header)
    if columns is None or not sample:
        return None
    questions, answers = (_list_cells(sample, column) for column in columns)
    numbers = [text for text in answers if _NUMBER.fullmatch(text)]
    if any(_NUMBER.fullmatch(text) for text in questions) or 2 * len(numbers) >= len(answers):
        return None
    return columns


def _find_question_columns(header: Row) -> tuple[int, int] | None:
    """The columns that are named like a question and like an answer."""
    question, answer = _find_column(header, _QUESTION_WORDS), _find_column(header, _ANSWER_WORDS)
    return None if question is None or answer is None else (question, answer)


def _find_column(header: Row, words: frozenset[str]) -> int | None:
    """The first column whose name is, or ends with, one of the words; a single letter must be the whole name."""
    for column, name in enumerate(header):
        name_words = _LETTERS.findall(clean_line(name).casefold())
        if name_words and name_words[-1] in words and (len(name_words) == 1 or len(name_words[-1]) > 1):
            return column
    return None


def _list_cells(rows: Sequence[Row], column: int) -> list[str]:
    return [row[column] for row in rows if column < len(row) and row[column]]


def _format_record(header: Row, row: Row, order: Sequence[int]) -> str:
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
    length = _measure_row(header)
    for row in rows:
        length += _measure_row(row)
        if length > MAX_TABLE_CHARACTERS and len(part) >= MIN_TABLE_ROWS:
            blocks.add(BlockKind.TABLE, _format_table([*names, *part]), sheet=sheet)
            part, length = [], _measure_row(header) + _measure_row(row)
        part.append(row)
    blocks.add(BlockKind.TABLE, _format_table([*names, *part]), sheet=sheet)


def _measure_row(row: Row) -> int:
    return sum(len(cell) + 3 for cell in row)


def _format_table(rows: Sequence[Row]) -> str:
    """Markdown without the columns that are empty in all of these rows."""
    width = max(map(len, rows))
    columns = [column for column in range(width) if _list_cells(rows, column)]
    return format_markdown_table([[row[column] if column < len(row) else "" for column in columns] for row in rows])
