"""Conversion of the rows of a sheet or a CSV file into blocks: tables with repeated headers, or a record per row."""

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
"""Limits at which a long table is split: the number of characters, but only if the part has enough rows.

Each part repeats the header, so that nearly every chunk of the default size names its columns.
"""

MAX_TABLE_COLUMNS = 8
MAX_TABLE_ROW_CHARACTERS = 300
"""Limits of a Markdown table: columns, and average characters of a row.

Rows beyond one of the limits become records with ``Name: value`` lines, which are easier to read.
"""

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
    """Add the blocks of rows of cells. The rows are read one by one, so that a long sheet needs little memory.

    Blank rows separate tables. Rows with a single cell before a table become paragraphs. The next row is the header,
    unless it contains numbers or continues the questions and answers of the previous table. A table without a header
    keeps the header of the previous table, if that header is wide enough.

    Args:
        rows: Rows of cells without white space at their ends.
        blocks: Blocks of the document.
        sheet: Sheet number from 1; None if the format has no sheets.

    Raises:
        TextTooLong: The document has more characters or nodes than the limits allow.
    """
    header: Row = ()
    for is_blank, run in groupby(rows, key=lambda row: not any(row)):
        if not is_blank:
            header = _add_region(run, blocks, header, sheet=sheet)


def _add_region(rows: Iterator[Row], blocks: BlockList, header: Row, *, sheet: int | None) -> Row:
    """Add the blocks of a run of rows that contains no blank row, and return the header for the next run."""
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
    """Return whether the first row is the header of a new table, and does not continue the previous table."""
    row = sample[0]
    is_narrow_enough = _count_columns(row) <= _count_columns(header)
    if is_narrow_enough and (len(sample) == 1 or (_find_question_columns(header) and not _find_question_columns(row))):
        return False
    return _is_header(row)


def _is_header(row: Row) -> bool:
    """Return whether a row may be a header: it contains no numbers, except years, which may be names of columns."""
    return not any(_NUMBER.fullmatch(cell) and not _YEAR.fullmatch(cell) for cell in row)


def _count_columns(row: Row) -> int:
    """Return the number of the last column with text, from 1; 0 if the row has none."""
    return max((number for number, cell in enumerate(row, start=1) if cell), default=0)


def _choose_record_order(header: Row, sample: Sequence[Row]) -> list[int]:
    """Return the columns in the order of the lines of a record; an empty list if the rows become tables."""
    columns = list(range(len(header)))
    question_columns = _find_question_answer_columns(header, sample)
    if question_columns:
        return [*question_columns, *(column for column in columns if column not in question_columns)]
    length = sum(len(cell) for row in sample for cell in row)
    is_wide = sum(map(bool, header)) > MAX_TABLE_COLUMNS or length > MAX_TABLE_ROW_CHARACTERS * len(sample)
    return columns if is_wide and sample else []


def _find_question_answer_columns(header: Row, sample: Sequence[Row]) -> tuple[int, int] | None:
    """Return the question column and the answer column; None if the table has no such columns.

    The header must name both columns. Questions must not be numbers, and less than half of the answers may be numbers.
    """
    columns = _find_question_columns(header)
    if columns is None or not sample:
        return None
    questions, answers = (_list_cells(sample, column) for column in columns)
    numbers = [text for text in answers if _NUMBER.fullmatch(text)]
    if any(_NUMBER.fullmatch(text) for text in questions) or 2 * len(numbers) >= len(answers):
        return None
    return columns


def _find_question_columns(header: Row) -> tuple[int, int] | None:
    """Return the columns that are named like a question and like an answer; None if one of them is missing."""
    question, answer = _find_column(header, _QUESTION_WORDS), _find_column(header, _ANSWER_WORDS)
    return None if question is None or answer is None else (question, answer)


def _find_column(header: Row, words: frozenset[str]) -> int | None:
    """Return the first column whose name ends with one of the words. A single letter must be the whole name."""
    for column, name in enumerate(header):
        name_words = _LETTERS.findall(clean_line(name).casefold())
        if name_words and name_words[-1] in words and (len(name_words) == 1 or len(name_words[-1]) > 1):
            return column
    return None


def _list_cells(rows: Sequence[Row], column: int) -> list[str]:
    return [row[column] for row in rows if column < len(row) and row[column]]


def _format_record(header: Row, row: Row, order: Sequence[int]) -> str:
    """Return a line for each cell with text. Cells beyond the header come last, without a name."""
    lines = []
    for column in chain(order, range(len(header), len(row))):
        if column < len(row) and row[column]:
            name = clean_line(header[column]).rstrip(" :：") if column < len(header) else ""
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
    """Return the rows as a Markdown table, without the columns that are empty in all rows."""
    width = max(map(len, rows))
    columns = [column for column in range(width) if _list_cells(rows, column)]
    return format_markdown_table([[row[column] if column < len(row) else "" for column in columns] for row in rows])
