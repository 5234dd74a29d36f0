"""Parser of CSV files, with commas, semicolons, tabs or bars as delimiters: rows become tables or records."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.places import number_rows
from app.ingestion.parsers.toolkit.read_text import read_text
from app.ingestion.parsers.toolkit.rows import add_rows
from app.ingestion.types import ParsedDocument, TextTooLong

DELIMITERS = "\t;|,"
"""Candidates for the delimiter: the one that splits most rows into the same number of columns is used.

If several are equal, the first one is used. The comma is last, because numbers contain commas too.
"""

SAMPLE_ROWS = 100
SAMPLE_CHARACTERS = 64 * 1024
_MAX_FIELD_CHARACTERS = (1 << 31) - 1
_DELIMITER_DECLARATION = re.compile(r'"?sep=([^\w\n"])"?(?:\n|\Z)', re.IGNORECASE)


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a CSV file. A first line such as ``sep=;`` declares the delimiter; otherwise it is detected.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The rows as tables or records.

    Raises:
        CorruptFile: The file is binary.
        TextTooLong: The text, or a single field, is longer than the limit allows.
    """
    decoded = read_text(path, options)
    text = decoded.text
    blocks = BlockList(options)
    # The csv module has one limit for the whole process; a parser process reads one file at a time.
    csv.field_size_limit(min(max(options.max_characters, SAMPLE_CHARACTERS), _MAX_FIELD_CHARACTERS))
    declaration = _DELIMITER_DECLARATION.match(text)
    delimiter = declaration[1] if declaration else _detect_delimiter(text[:SAMPLE_CHARACTERS])
    try:
        rows = _read_rows(text[declaration.end() :] if declaration else text, delimiter)
        add_rows(number_rows(rows), blocks)
    except csv.Error as exc:  # without ``strict``, the reader raises no other error
        raise TextTooLong("A field has too many characters; shorten it.", limit=options.max_characters) from exc
    return ParsedDocument(blocks.blocks, warnings=list(decoded.warnings))


def _read_rows(text: str, delimiter: str) -> Iterator[list[str]]:
    for row in csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True):
        yield [cell.strip() for cell in row]


def _detect_delimiter(sample: str) -> str:
    return max(DELIMITERS, key=lambda delimiter: _score_delimiter(sample, delimiter))


def _score_delimiter(sample: str, delimiter: str) -> float:
    """Return the share of all rows that have the most common number of columns, which is two or more."""
    rows = [row for row in islice(_read_rows(sample, delimiter), SAMPLE_ROWS) if row]
    widths = Counter(len(row) for row in rows if len(row) > 1)
    return max(widths.values(), default=0) / max(1, len(rows))
