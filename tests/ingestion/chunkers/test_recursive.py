"""The recursive chunker accepts all sections, including headings without text."""

import pytest

from app.ingestion.chunkers import ChunkSizes
from app.ingestion.tree import build_tree
from app.ingestion.types import Block, BlockKind, ParsedDocument
from tests.ingestion.chunkers.chunk_texts import drafts
from tests.ingestion.documents import words


@pytest.mark.capability("chunker-recursive")
def test_recursive_every_section_has_a_chunk() -> None:
    blocks = [
        Block(BlockKind.PARAGRAPH, "Before."),
        Block(BlockKind.HEADING, "A", 1),
        Block(BlockKind.HEADING, "B", 2),
        Block(BlockKind.PARAGRAPH, "Two."),
        Block(BlockKind.HEADING, "C", 1),
    ]
    found = drafts("recursive", build_tree(ParsedDocument(blocks)), ChunkSizes(), words)
    assert [(draft.text, draft.section_titles) for draft in found] == [
        ("Before.", ()),
        ("A", ("A",)),
        ("B\n\nTwo.", ("A", "B")),
        ("C", ("C",)),
    ]
