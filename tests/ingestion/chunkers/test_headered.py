"""The headered chunker stays inside sections; the recursive chunker does not."""

import pytest

from app.ingestion.chunkers import ChunkSizes
from app.ingestion.tree import build_tree
from app.ingestion.types import Block, BlockKind, NodeKind, ParsedDocument
from tests.ingestion.chunkers.chunk_texts import drafts
from tests.ingestion.documents import random_document, walk, words


def heading(text: str, level: int = 1, slide: int | None = None) -> Block:
    return Block(BlockKind.HEADING, text, level, slide=slide)


def paragraph(text: str, slide: int | None = None) -> Block:
    return Block(BlockKind.PARAGRAPH, text, slide=slide)


def chunked(blocks: list[Block], **options: int) -> list[tuple[str, tuple[str, ...]]]:
    found = drafts("headered", build_tree(ParsedDocument(blocks)), ChunkSizes(**options), words)
    return [(draft.text, draft.section_titles) for draft in found]


def test_headered_small_section_is_one_chunk_with_heading() -> None:
    blocks = [paragraph("Before."), heading("A"), paragraph("One."), heading("B", 2), paragraph("Two.")]
    assert chunked(blocks) == [("Before.", ()), ("A\n\nOne.", ("A",)), ("B\n\nTwo.", ("A", "B"))]


def test_headered_heading_without_text_joins_next_section() -> None:
    assert chunked([heading("A"), heading("B", 2), paragraph("Two.")]) == [("B\n\nTwo.", ("A", "B"))]


def test_headered_headings_without_body_are_chunks() -> None:
    blocks = [heading("A"), heading("B", 2), heading("C"), heading("D"), paragraph("Text.")]
    assert chunked(blocks) == [("A\n\nB", ("A",)), ("C", ("C",)), ("D\n\nText.", ("D",))]


def test_headered_long_sentence_is_not_preceded_by_heading_alone() -> None:
    sentence = "Long " + "and longer " * 9 + "still."
    found = chunked([heading("A heading of six whole words"), paragraph(sentence)], max_tokens=21, overlap_tokens=0)
    assert found == [(sentence, ("A heading of six whole words",))]


def test_headered_overlap_stays_in_section() -> None:
    text = " ".join(f"Sentence number {n} is here." for n in range(9))
    tree = build_tree(ParsedDocument([heading("A"), paragraph(text), heading("B"), paragraph(text)]))
    found = drafts("headered", tree, ChunkSizes(30, 12), words)
    first_of_b = next(draft for draft in found if draft.section_titles == ("B",))
    assert first_of_b.text.startswith("B\n\nSentence number 0")


def test_headered_slides_are_not_joined() -> None:
    blocks = [
        paragraph("One.", 1),
        paragraph("More.", 1),
        heading("T", 1, 2),
        paragraph("Two.", 2),
        heading("End", 1, 3),
    ]
    for name in ("headered", "recursive"):
        found = drafts(name, build_tree(ParsedDocument(blocks)), ChunkSizes(), words)
        assert [(draft.text, draft.slide) for draft in found] == [("One.\n\nMore.", 1), ("T\n\nTwo.", 2), ("End", 3)]


@pytest.mark.capability("chunker-headered")
@pytest.mark.parametrize("seed", range(12))
def test_headered_chunks_do_not_cross_sections(seed: int) -> None:
    tree = build_tree(random_document(seed))
    sections = [node for node in walk(tree.root) if node.kind is NodeKind.SECTION]
    for draft in drafts("headered", tree, ChunkSizes(60, 20), words):
        crossed = [s for s in sections if draft.start < s.start < draft.end or draft.start < s.end < draft.end]
        headings_only = all(
            leaf.block is BlockKind.HEADING
            for leaf in walk(tree.root)
            if leaf.block is not None and leaf.start < draft.end and draft.start < leaf.end
        )
        assert not crossed or headings_only
        assert not headings_only or not any(
            leaf.block not in (None, BlockKind.HEADING)
            for section in sections
            if section.path == draft.node_path
            for leaf in walk(section)
        )


def test_headered_too_long_headings_are_text() -> None:
    """A small heading is left out if it does not fit with the text after it: the section's title repeats it."""
    words_of = " ".join(f"word{number}" for number in range(40))
    alone = chunked([heading(words_of)], max_tokens=16, overlap_tokens=0)
    assert " ".join(text for text, _ in alone) == words_of
    texts = [text for text, _ in chunked([heading(words_of), paragraph(words_of)], max_tokens=16, overlap_tokens=0)]
    assert " ".join(texts).split() == words_of.split() * 2
