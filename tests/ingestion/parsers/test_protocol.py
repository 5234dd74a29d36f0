"""Messages of the parser child: valid ones arrive unchanged, and invalid ones are refused."""

import json
from array import array
from pathlib import Path
from typing import Any

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.pdf import pdf_parser
from app.ingestion.parsers.sandbox.protocol import (
    MAX_BLOCK_LINES,
    MAX_LINES,
    MAX_PAGE_SIDE,
    ResponseDecoder,
    compute_max_line_bytes,
    encode_document,
    encode_error,
)
from app.ingestion.types import MAX_NODES, Block, BlockKind, CorruptFile, LineLayout, ParsedDocument, ParserCrashed
from app.warnings import ServiceWarning

PAGE = (6000, 8000)
TEXT = "one two six"


def received(document: ParsedDocument, *, max_characters: int = 200_000) -> ParsedDocument | None:
    answer = ResponseDecoder(max_characters=max_characters)
    for line in encode_document(document, resident_mb=1):
        assert len(line) <= compute_max_line_bytes(max_characters)
        answer.feed_line(line)
    return answer.document


def block(places: Any, *, text: str = TEXT, page: int = 1) -> bytes:
    return json.dumps({"blocks": [["paragraph", text, 0, page, None, None, None, places]]}).encode()


def test_decoder_document_with_line_layouts_arrives_unchanged(demo: Path, options: ParseOptions) -> None:
    document = pdf_parser.parse(demo / "handbook.pdf", options)
    assert sum(len(block.line_layout.lines) for block in document.blocks if block.line_layout) > 600
    assert received(document) == document


def test_decoder_largest_blocks_fit_line_limit() -> None:
    """The last block has the maximum number of lines with the longest numbers, after a batch that is nearly full."""
    numbers = [
        number
        for line in range(MAX_BLOCK_LINES)
        for number in (line, line + 1, MAX_PAGE_SIDE - 1, MAX_PAGE_SIDE - 1, MAX_PAGE_SIDE, MAX_PAGE_SIDE)
    ]
    full = LineLayout(MAX_PAGE_SIDE, MAX_PAGE_SIDE, array("i", numbers))
    half = LineLayout(MAX_PAGE_SIDE, MAX_PAGE_SIDE, full.lines[: 6 * 5000])
    blocks = [Block(BlockKind.PARAGRAPH, "x" * 5000, page=1, line_layout=half)]
    blocks += [Block(BlockKind.PARAGRAPH, "x" * MAX_BLOCK_LINES, page=1, line_layout=full)]
    document = ParsedDocument(blocks)
    assert received(document, max_characters=15_004) == document


def test_decoder_blocks_above_node_limit_are_refused() -> None:
    """A heading is two nodes. The service counts them itself and ignores the child's count."""
    answer = ResponseDecoder(max_characters=20_000_000)
    line = json.dumps({"blocks": [["heading", "a", 1, None, None, None, None, None]] * 1000}).encode()
    for _ in range(MAX_NODES // 2000):
        answer.feed_line(line)
    with pytest.raises(ParserCrashed):
        answer.feed_line(line)


@pytest.mark.parametrize(
    "places",
    [
        [*PAGE, 0, 3, 0, 0, 10, 10],
        [*PAGE, 0, 3, 0, 0, 10, 10, 3, 11, 5990, 7990, 6000, 8000],
        [MAX_PAGE_SIDE, MAX_PAGE_SIDE, 4, 7, 1, 1, MAX_PAGE_SIDE, MAX_PAGE_SIDE],
    ],
)
def test_decoder_valid_line_layouts_are_accepted(places: list[int]) -> None:
    answer = ResponseDecoder(max_characters=1000)
    assert answer.feed_line(block(places)) is False
    assert (
        answer.feed_line(b'{"done":{"title":null,"page_count":1,"warnings":[],"words_left_out":0},"resident_mb":1}')
        is True
    )
    assert answer.document is not None
    assert answer.document.blocks[0].line_layout == LineLayout(places[0], places[1], array("i", places[2:]))


@pytest.mark.parametrize(
    "places",
    [
        [], [*PAGE], {}, "box", 7, True, [*PAGE, 0, 3, 0, 0, 10], [*PAGE, 0, 3, 0, 0, 10, 10, 11],
        [0, 8000, 0, 3, 0, 0, 10, 10], [-1, 8000, 0, 3, 0, 0, 10, 10], [6000, MAX_PAGE_SIDE + 1, 0, 3, 0, 0, 10, 10],
        [*PAGE, -1, 3, 0, 0, 10, 10], [*PAGE, 0, 12, 0, 0, 10, 10], [*PAGE, 3, 3, 0, 0, 10, 10],
        [*PAGE, 0, 3, 0, 0, 10, 10, 2, 5, 0, 0, 10, 10], [*PAGE, 4, 7, 0, 0, 10, 10, 0, 3, 0, 0, 10, 10],
        [*PAGE, 0, 3, -1, 0, 10, 10], [*PAGE, 0, 3, 0, -1, 10, 10], [*PAGE, 0, 3, 10, 0, 10, 10],
        [*PAGE, 0, 3, 0, 10, 10, 10], [*PAGE, 0, 3, 0, 0, 6001, 10], [*PAGE, 0, 3, 0, 0, 10, 8001],
        [*PAGE, 0, 3, 0, 0, 10, 1 << 40], [*PAGE, 0, 3, 0, 0, 10, 9.5], [*PAGE, 0, 3, 0, 0, 10, "10"],
        [*PAGE, 0, 3, 0, 0, 10, None], [*PAGE, [0], [3], [0, 0, 10, 10]],
    ],
    ids=ascii,
)  # fmt: skip
def test_decoder_invalid_line_layouts_are_refused(places: Any) -> None:
    with pytest.raises(ParserCrashed):
        ResponseDecoder(max_characters=1000).feed_line(block(places))


def test_decoder_lines_above_document_limit_are_refused() -> None:
    lines = [number for line in range(MAX_BLOCK_LINES) for number in (line, line + 1, 0, 0, 1, 1)]
    whole, text = [1, 1, *lines], "x" * (MAX_BLOCK_LINES + 1)
    answer = ResponseDecoder(max_characters=10**9)
    message = block(whole, text=text)
    for _ in range(MAX_LINES // MAX_BLOCK_LINES):
        answer.feed_line(message)
    with pytest.raises(ParserCrashed):
        answer.feed_line(block([1, 1, 0, 1, 0, 0, 1, 1]))
    with pytest.raises(ParserCrashed):
        ResponseDecoder(max_characters=10**9).feed_line(
            block([*whole, MAX_BLOCK_LINES, MAX_BLOCK_LINES + 1, 0, 0, 1, 1], text=text)
        )


def test_decoder_unstorable_characters_are_removed() -> None:
    document = ParsedDocument(
        [Block(BlockKind.PARAGRAPH, "x")],
        title="a\0b",
        warnings=[ServiceWarning("damaged_sheets_not_read", "\0 sheets", 2)],
        words_left_out=3,
    )
    answered = received(document)
    assert answered is not None
    assert (answered.title, answered.warnings) == ("ab", [ServiceWarning("damaged_sheets_not_read", " sheets", 2)])
    assert answered.words_left_out == 3
    answer = ResponseDecoder(max_characters=100)
    answer.feed_line(encode_error(CorruptFile("no \0 table"), resident_mb=1))
    assert answer.error is not None
    assert answer.error.message == "no  table"
