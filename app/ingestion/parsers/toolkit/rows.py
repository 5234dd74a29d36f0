"""Conversion of the rows of a sheet or a CSV file into blocks: tables with their captions, or a record per row."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby, islice

from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.places import get_row_number, locate_rows
from app.ingestion.parsers.toolkit.tables import format_markdown_table
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import BlockKind

Row = Sequence[str]

MAX_TABLE_CHARACTERS = 20_000
"""Number of characters at which a long table becomes several blocks. Each block has the caption and the header."""

MAX_TABLE_COLUMNS = 12
MAX_TABLE_ROW_CHARACTERS = 300
"""Limits of a Markdown table: columns, and average characters of a row.

Rows beyond one of the limits become records with ``Name: value`` lines, which are easier to read.
"""

MAX_CAPTION_ROWS = 3
MAX_CAPTION_CHARACTERS = 200
"""Limits of the rows with a single cell above a table that become its caption. Other rows become paragraphs."""

MAX_HEADER_ROWS = 3
_SAMPLE_ROWS = 40
_NUMBER = re.compile(r"[-+(]?[$€£¥]?\s?\d[\d.,'\s]*(?:[eE][-+]?\d+)?\s?[%$€£¥]?\)?")
_YEAR = re.compile(r"(?:19|20)\d\d")
_DIGIT = re.compile(r"\d")
_NOTE = re.compile(r"[(*†‡¹²³\d]|.{60}")
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

    Blank rows separate tables. Up to three short rows with a single cell above a table are its caption, other rows with
    a single cell become paragraphs. The next row is the header, unless it contains numbers or continues the questions
    and answers of the previous table. The header may have several lines. A table without a header keeps the header of
    the previous table, if that header is wide enough.

    Args:
        rows: Rows of cells without white space at their ends.
        blocks: Blocks of the document.
        sheet: Sheet number from 1; None if the format has no sheets.

    Raises:
        TextTooLong: The document has more characters or nodes than the limits allow.
    """
    header: Row = ()
    caption: list[str] = []
    for is_blank, run in groupby(rows, key=lambda row: not any(row)):
        if not is_blank:
            header, caption = _add_region(run, blocks, header, caption, sheet=sheet)
    _add_paragraphs(caption, blocks, sheet=sheet)


def _add_region(
    rows: Iterator[Row], blocks: BlockList, header: Row, caption: list[str], *, sheet: int | None
) -> tuple[Row, list[str]]:
    """Add the blocks of a run of rows that contains no blank row.

    Return the header and the rows above the next table, which may become its caption.
    """
    sample, caption = _read_caption(rows, blocks, caption, sheet=sheet)
    if not sample:
        return header, caption
    row = sample[0]
    sample += islice(rows, _SAMPLE_ROWS - 1)
    if _is_table_start(sample, header):
        header, sample = _join_header_rows(sample)
    elif _count_columns(row) > _count_columns(header):
        header = ()
    rows = chain(sample, rows)
    order = _choose_record_order(header, sample)
    if order or not sample:
        _add_paragraphs(caption, blocks, sheet=sheet)
    if not sample:
        blocks.add(BlockKind.PARAGRAPH, _format_table([header]), sheet=sheet)
    elif order:
        for row in rows:
            number = get_row_number(row)
            text = _format_record(header, row, order)
            blocks.add(BlockKind.RECORD, text, sheet=sheet, locate_places=partial(locate_rows, numbers=[number]))
    else:
        _add_tables(rows, blocks, header, caption, sheet=sheet)
    return header, []


def _read_caption(
    rows: Iterator[Row], blocks: BlockList, caption: list[str], *, sheet: int | None
) -> tuple[list[Row], list[str]]:
    """Read the rows with a single cell at the start of a run. Return the row behind them, if any, and the caption.

    Rows that are no caption become paragraphs. ``caption`` has the rows of the run before, which had no other rows.
    """
    lines: list[str] = []
    for row in rows:
        title = _get_title(row)
        if title is None:
            return [row], lines or caption
        if not lines:
            _add_paragraphs(caption, blocks, sheet=sheet)
            caption = []
        lines.append(title)
        if len(lines) > MAX_CAPTION_ROWS or len(title) > MAX_CAPTION_CHARACTERS:
            _add_paragraphs(lines, blocks, sheet=sheet)
            lines = []
    return [], lines


def _add_paragraphs(lines: Iterable[str], blocks: BlockList, *, sheet: int | None) -> None:
    for line in lines:
        blocks.add(BlockKind.PARAGRAPH, line, sheet=sheet)


def _get_title(row: Row) -> str | None:
    """Return the text of a row with a single cell, or with the text of a merged cell in all its cells; else None."""
    cells = [cell for cell in row if cell]
    is_merged = len(cells) > 1 and len(cells) == len(row) and len(set(cells)) == 1 and not _DIGIT.match(cells[0])
    return cells[0] if len(cells) == 1 or is_merged else None


def _join_header_rows(sample: list[Row]) -> tuple[Row, list[Row]]:
    """Join the lines of a header, and return the header and the rows below it. A spanned name is repeated."""
    header, rows = sample[0], sample[1:]
    for _ in range(MAX_HEADER_ROWS - 1):
        if not _is_header_line(header, rows):
            break
        line, rows = rows[0], rows[1:]
        header = _join_header_line(header, line)
    return header, rows


def _is_header_line(header: Row, rows: Sequence[Row]) -> bool:
    """Return whether the first row is a further line of the header, such as names below spanned names, or units.

    A further line leaves its first cell empty or names columns that the header leaves empty. In at least half of its
    columns, the rows below have digits where the line has none, or a year.
    """
    if len(rows) < 2:
        return False
    line, below = rows[0], rows[1:]
    columns = [column for column, cell in enumerate(line) if cell and (column > 0 or not _get_cell(header, 0))]
    has_gap = any(_is_spanned(header, column) for column in columns if column > 0)
    if not columns or not _is_header(line) or not (has_gap or not line[0]):
        return False
    numeric = 0
    for column in columns:
        cells = _list_cells(below, column)
        is_plain = not _DIGIT.search(line[column]) or _YEAR.search(line[column]) is not None
        numeric += is_plain and bool(cells) and 2 * sum(bool(_DIGIT.search(cell)) for cell in cells) >= len(cells)
    return numeric > 0 and 2 * numeric >= len([column for column in columns if column > 0])


def _is_spanned(header: Row, column: int) -> bool:
    cell = _get_cell(header, column)
    return not cell or (column > 0 and cell == _get_cell(header, column - 1))


def _join_header_line(header: Row, line: Row) -> Row:
    joined = []
    for column in range(max(len(header), len(line))):
        name, below = _get_cell(header, column), _get_cell(line, column)
        if not name and below:
            name = next((header[left] for left in range(min(column, len(header)) - 1, 0, -1) if header[left]), "")
        joined.append(name if below in ("", name) else f"{name} {below}".strip())
    return joined


def _get_cell(row: Row, column: int) -> str:
    return row[column] if column < len(row) else ""


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


def _add_tables(
    rows: Iterable[Row], blocks: BlockList, header: Row, caption: Sequence[str], *, sheet: int | None
) -> None:
    """Add the rows as one table, or as several if they are long. Each has the caption and the header."""
    part: list[Row] = []
    length = 0
    for row in rows:
        length += _measure_row(row)
        if length > MAX_TABLE_CHARACTERS and part:
            _add_table(part, blocks, header, caption, sheet=sheet)
            part, length = [], _measure_row(row)
        part.append(row)
    _add_table(part, blocks, header, caption, sheet=sheet)


def _add_table(rows: list[Row], blocks: BlockList, header: Row, caption: Sequence[str], *, sheet: int | None) -> None:
    """Add a table. Last rows with a single cell that look like footnotes become lines below the table."""
    end = len(rows)
    while end > 1 and _is_note(rows[end - 1]):
        end -= 1
    notes = [clean_line(cell) for row in rows[end:] for cell in row if cell]
    table = _format_table([*([header] if header else []), *rows[:end]])
    lines = [*map(clean_line, caption), table, *notes]
    numbers = [None for _ in caption] + _number_lines(table, header, rows[:end]) + [*map(get_row_number, rows[end:])]
    blocks.add(BlockKind.TABLE, "\n".join(lines), sheet=sheet, locate_places=partial(locate_rows, numbers=numbers))


def _number_lines(table: str, header: Row, rows: Sequence[Row]) -> list[int | None]:
    """Return the number of the row for each line of a table; None for the header and the rule below it."""
    numbers = [None for _ in range(bool(header))] + [get_row_number(row) for row in rows]
    has_rule = table.count("\n") == len(numbers)
    return [*numbers[:1], None, *numbers[1:]] if has_rule else numbers


def _is_note(row: Row) -> bool:
    cells = [cell for cell in row if cell]
    return len(cells) == 1 and _NOTE.match(cells[0]) is not None and not _NUMBER.fullmatch(cells[0])


def _measure_row(row: Row) -> int:
    return sum(len(cell) + 3 for cell in row)


def _format_table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table, without the columns that are empty in all rows."""
    width = max(map(len, rows))
    columns = [column for column in range(width) if _list_cells(rows, column)]
    return format_markdown_table([[row[column] if column < len(row) else "" for column in columns] for row in rows])
