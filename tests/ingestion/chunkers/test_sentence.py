"""The sentence chunker: whole sentences, a fixed number for each chunk."""

import pytest

from app.ingestion.chunkers import ChunkSizes
from app.ingestion.tree import build_tree, find_node
from app.ingestion.types import Block, BlockKind, NodeKind, ParsedDocument
from tests.ingestion.chunkers.chunk_texts import drafts
from tests.ingestion.documents import words

BLOCKS = [
    Block(BlockKind.HEADING, "A", 1),
    Block(BlockKind.PARAGRAPH, "One is here. Two is here. Three is here."),
    Block(BlockKind.LIST_ITEM, "Four is here"),
    Block(BlockKind.TABLE, "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |"),
    Block(BlockKind.HEADING, "B", 1),
    Block(BlockKind.PARAGRAPH, "Five is here."),
]


@pytest.mark.capability("chunker-sentence")
@pytest.mark.parametrize(
    ("sentences", "expected"),
    [
        (
            1,
            [
                "A\n\nOne is here.",
                "Two is here.",
                "Three is here.",
                "Four is here",
                BLOCKS[3].text,
                "B\n\nFive is here.",
            ],
        ),
        (
            3,
            [
                "A\n\nOne is here. Two is here. Three is here.",
                f"Four is here\n\n{BLOCKS[3].text}",
                "B\n\nFive is here.",
            ],
        ),
    ],
)
def test_sentence_chunk_has_fixed_number_of_sentences(sentences: int, expected: list[str]) -> None:
    found = drafts("sentence", build_tree(ParsedDocument(BLOCKS)), ChunkSizes(), words, sentences=sentences)
    assert [draft.text for draft in found] == expected


def test_sentence_chunk_names_sentence_node() -> None:
    tree = build_tree(ParsedDocument(BLOCKS))
    node = find_node(tree, drafts("sentence", tree, ChunkSizes(), words)[1].node_path)
    assert node is not None
    assert (node.kind, tree.text[node.start : node.end]) == (NodeKind.SENTENCE, "Two is here.")


def test_sentence_too_long_is_cut_with_overlap() -> None:
    tree = build_tree(ParsedDocument([Block(BlockKind.PARAGRAPH, "Short. " + "Word " * 100 + "end. Short.")]))
    found = [draft.text for draft in drafts("sentence", tree, ChunkSizes(20, 5), words)]
    assert (found[0], found[-1]) == ("Short.", "Short.")
    assert all(15 < size <= 20 for size in words(found[1:-2]))
    assert sum(words(found[1:-1])) > 101 + len(found) - 3
