"""Titles and headings have a limit in every document, and their repetition in chunks is linear in the text."""

from array import array
from pathlib import Path

import pytest

from app.ingestion.chunkers import ChunkTools
from app.ingestion.chunking import chunk_document
from app.ingestion.parsers import NO_OCR, ParseOptions
from app.ingestion.parsers.formats import markdown
from app.ingestion.title_limits import (
    FREE_TITLE_CHARACTERS,
    MAX_TITLE_CHARACTERS,
    MAX_TITLE_RATIO,
    SECTION_TITLES_OMITTED,
    TITLE_SHORTENED,
)
from app.ingestion.tree import build_tree, walk_nodes
from app.ingestion.types import Block, BlockKind, LineLayout, ParsedDocument
from app.knowledge_bases.types import Chunking
from app.warnings import ServiceWarning

LONG = " ".join(f"word{number}" for number in range(2000))
WORDS = ChunkTools(lambda texts: [len(text.split()) for text in texts], lambda texts: None, 256)  # type: ignore[arg-type,return-value]


def heading(text: str, level: int = 1, **place: int) -> Block:
    return Block(BlockKind.HEADING, text, level=level, **place)  # type: ignore[arg-type]


def paragraph(text: str) -> Block:
    return Block(BlockKind.PARAGRAPH, text)


@pytest.mark.parametrize("place", [{}, {"page": 3}, {"slide": 2}, {"sheet": 1}])
def test_build_tree_long_heading_becomes_title_and_paragraph(place: dict[str, int]) -> None:
    tree = build_tree(ParsedDocument([heading(LONG, **place), paragraph("body")]))

    titles = [node.title for node in walk_nodes(tree.root) if node.title]
    assert len(titles) == 1
    assert MAX_TITLE_CHARACTERS - 100 < len(titles[0]) <= MAX_TITLE_CHARACTERS
    assert LONG.startswith(titles[0] + " ")
    assert tree.text.split() == [*LONG.split(), "body"]
    assert tree.warnings == [
        ServiceWarning(
            "headings_shortened",
            f"A heading has more than {MAX_TITLE_CHARACTERS} characters: the rest of each became a paragraph.",
        )
    ]


def test_build_tree_heading_without_spaces_is_cut_at_the_limit() -> None:
    tree = build_tree(ParsedDocument([heading("x" * 100_000)]))

    assert max(len(node.title or "") for node in walk_nodes(tree.root)) == MAX_TITLE_CHARACTERS
    assert tree.text.replace("\n\n", "") == "x" * 100_000


def test_build_tree_short_heading_stays_without_warning() -> None:
    tree = build_tree(
        ParsedDocument([heading("a" * MAX_TITLE_CHARACTERS), paragraph("body")], title="t" * MAX_TITLE_CHARACTERS)
    )

    assert tree.root.title == "t" * MAX_TITLE_CHARACTERS
    assert tree.root.children[0].title == "a" * MAX_TITLE_CHARACTERS
    assert tree.warnings == []


def test_build_tree_long_title_loses_no_word() -> None:
    tree = build_tree(ParsedDocument([paragraph("body")], title=LONG))

    assert tree.root.title is not None
    assert len(tree.root.title) <= MAX_TITLE_CHARACTERS
    assert [*tree.root.title.split(), *tree.text.split()] == [*LONG.split(), "body"]
    assert tree.warnings == [TITLE_SHORTENED]


def test_build_tree_title_that_is_the_first_heading_is_not_repeated() -> None:
    tree = build_tree(ParsedDocument([heading(LONG)], title=LONG))

    assert tree.text.split() == LONG.split()


def test_build_tree_long_heading_preserves_its_printed_lines() -> None:
    text = "a" * 400 + " " + "b" * 400
    lines = array("i", [0, 400, 1, 1, 90, 9, 401, 801, 1, 11, 90, 19])
    block = Block(BlockKind.HEADING, text, level=1, page=1, line_layout=LineLayout(100, 100, lines))

    tree = build_tree(ParsedDocument([block]))

    found = tree.line_layouts[1].lines
    assert [tree.text[found[at] : found[at + 1]] for at in range(0, len(found), 6)] == ["a" * 400, "b" * 400]


def test_chunk_document_section_titles_are_linear_in_the_text() -> None:
    deep = [heading(f"{level} " + "t" * 490, level=level) for level in range(1, 6)]
    small = [block for number in range(5000) for block in (heading(f"s{number}", 6), paragraph(f"body {number}"))]
    tree = build_tree(ParsedDocument([*deep, *small]))

    drafts, _ = chunk_document(tree, Chunking(), WORDS)

    stored = sum(len(title) for draft in drafts for title in draft.section_titles)
    assert len(drafts) == 5000
    assert stored <= FREE_TITLE_CHARACTERS + MAX_TITLE_RATIO * len(tree.text)
    assert all(draft.section_titles[-1].startswith("s") for draft in drafts)
    assert SECTION_TITLES_OMITTED in tree.warnings


def test_chunk_document_usual_headings_stay_whole() -> None:
    blocks = [heading("Chapter"), heading("Part", 2), *(paragraph(f"sentence {number}.") for number in range(500))]
    tree = build_tree(ParsedDocument(blocks))

    drafts, _ = chunk_document(tree, Chunking(), WORDS)

    assert {draft.section_titles for draft in drafts} == {("Chapter", "Part")}
    assert tree.warnings == []


def test_markdown_heading_of_a_hundred_kilobytes_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "long.md"
    file.write_text("# " + "word " * 20_000 + "\n\nbody\n")
    options = ParseOptions(encoding=None, max_pages=10, max_characters=1_000_000, ocr=NO_OCR)

    tree = build_tree(markdown.parse(file, options))
    drafts, _ = chunk_document(tree, Chunking(), WORDS)

    assert tree.root.title is not None
    assert len(tree.root.title) <= MAX_TITLE_CHARACTERS
    assert sum(len(title) for draft in drafts for title in draft.section_titles) <= len(drafts) * MAX_TITLE_CHARACTERS
    assert tree.text.count("word") == 20_000
