"""Comma-separated values (CSV), and the same with semicolons, tabs or bars: rows into tables or records."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.read_text import read_text
from app.ingestion.parsers.toolkit.rows import add_rows
from app.ingestion.types import ParsedDocument, TextTooLong

DELIMITERS = "\t;|,"
"""The one that cuts most rows into as many columns wins; among equals the first, as commas stand in numbers too."""

SAMPLE_ROWS = 100
SAMPLE_CHARACTERS = 64 * 1024
_MAX_FIELD_CHARACTERS = (1 << 31) - 1
_DELIMITER_DECLARATION = re.compile(r'"?sep=([^\w\n"])"?(?:\n|\Z)', re.IGNORECASE)


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """A line ``sep=;`` at the beginning names the delimiter, else it is detected. Raises CorruptFile, TextTooLong."""
    decoded = read_text(path, options)
    text = decoded.text
    blocks = BlockList(options)
    # The limit is the csv module's own, for all readers; the child reads one file at a time.
    csv.field_size_limit(min(max(options.max_characters, SAMPLE_CHARACTERS), _MAX_FIELD_CHARACTERS))
    declaration = _DELIMITER_DECLARATION.match(text)
    delimiter = declaration[1] if declaration else _detect_delimiter(text[:SAMPLE_CHARACTERS])
    try:
        add_rows(_read_rows(text[declaration.end() :] if declaration else text, delimiter), blocks)
    except csv.Error as exc:  # a reader that is not strict complains of nothing else
        raise TextTooLong("A field holds more than the limit allows.", limit=options.max_characters) from exc
    return ParsedDocument(blocks.blocks, warnings=list(decoded.warnings))


def _read_rows(text: str, delimiter: str) -> Iterator[list[str]]:
    for row in csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True):
        yield [cell.strip() for cell in row]


def _detect_delimiter(sample: str) -> str:
    return max(DELIMITERS, key=lambda delimiter: _score_delimiter(sample, delimiter))


def _score_delimiter(sample: str, delimiter: str) -> float:
    """The share of rows that have the most common number of columns; one column is none."""
    rows = [row for row in islice(_read_rows(sample, delimiter), SAMPLE_ROWS) if row]
    widths = Counter(len(row) for row in rows if len(row) > 1)
    return max(widths.values(), default=0) / max(1, len(rows))
