"""Validation of chunks: a chunker that breaks a rule fails the document, with the rule's name."""

from dataclasses import replace

import pytest

from app.ingestion.chunkers import ChunkSizes
from app.ingestion.chunkers.toolkit.chunk_validation import validate_chunks
from app.ingestion.tree import add_topics, build_tree
from app.ingestion.types import Block, BlockKind, ChunkDraft, ChunkerFailed, NodeKind, ParsedDocument, TreeNode
from tests.ingestion.chunkers.chunk_texts import drafts
from tests.ingestion.documents import words

TREE = build_tree(
    ParsedDocument(
        [
            Block(BlockKind.PARAGRAPH, "Before."),
            Block(BlockKind.HEADING, "A", 1),
            Block(BlockKind.PARAGRAPH, "One. Two."),
            Block(BlockKind.RECORD, "Question: what? Answer: that."),
            Block(BlockKind.HEADING, "B", 2),
            Block(BlockKind.HEADING, "C", 2),
            Block(BlockKind.PARAGRAPH, "Sheet one.", sheet=1),
            Block(BlockKind.PARAGRAPH, "Sheet two.", sheet=2),
        ]
    )
)
GOOD = drafts("recursive", TREE, ChunkSizes(), words)


def ranged(start: str, end: str, path: tuple[int, ...] = ()) -> ChunkDraft:
    """Return a chunk from the beginning of one text to the end of another."""
    first = TREE.text.index(start)
    last = TREE.text.index(end, first) + len(end)
    return ChunkDraft(TREE.text[first:last], first, last, node_path=path)


def check(found: list[ChunkDraft], max_tokens: int = 200) -> None:
    validate_chunks(TREE, found, words([draft.text for draft in found]), max_tokens=max_tokens)


def test_validate_chunks_accepts_valid_chunks() -> None:
    check(GOOD)
    check([])
    check([ranged("B\n\nC", "C", (1,))])


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ([replace(GOOD[0], text="Before")], "another text"),
        ([replace(GOOD[0], start=-3, end=-1)], "not a range"),
        ([replace(GOOD[0], end=10_000)], "not a range"),
        ([replace(GOOD[0], end=0)], "not a range"),
        ([ChunkDraft("\n\n", 7, 9)], "has no text"),
        ([GOOD[1], GOOD[0]], "reading order"),
        ([GOOD[0], GOOD[0]], "reading order"),
        ([replace(GOOD[0], node_path=(9,))], "does not contain the chunk"),
        ([replace(GOOD[0], node_path=(-1,))], "does not contain the chunk"),
        ([replace(GOOD[0], node_path=(1,))], "does not contain the chunk"),
        ([ranged("Before.", "One.")], "crosses a section"),
        ([ranged("Before.", "A")], "crosses a section"),
        ([ranged("Two.", "Question: what?", (1,))], "together with other text"),
        ([ranged("Sheet one.", "Sheet two.")], "crosses a slide or a sheet"),
    ],
    ids=range(14),
)
def test_validate_chunks_broken_rule_fails_document(found: list[ChunkDraft], reason: str) -> None:
    with pytest.raises(ChunkerFailed, match=reason) as failed:
        check(found)
    assert failed.value.fields == {"chunk": len(found) - 1}
    assert (failed.value.code, failed.value.retryable) == ("chunker_failed", False)


def test_validate_chunks_above_model_limit_fails_document() -> None:
    with pytest.raises(ChunkerFailed, match="has 5 tokens, but the embedding model reads 4"):
        check(GOOD, max_tokens=4)


@pytest.mark.parametrize(
    "topic",
    [
        TreeNode(NodeKind.TOPIC, 0, 0, 7, path=(0, 0)),
        TreeNode(NodeKind.TOPIC, 0, 0, 7, path=(7,)),
        TreeNode(NodeKind.TOPIC, 0, 0, 7, path=(9, 0)),
        TreeNode(NodeKind.TOPIC, 0, 0, 7, path=()),
        TreeNode(NodeKind.TOPIC, 0, 5, 5, path=(4,)),
        TreeNode(NodeKind.TOPIC, 0, 0, 10_000, path=(4,)),
        TreeNode(NodeKind.SECTION, 0, 0, 7, path=(4,)),
    ],
    ids=range(7),
)
def test_add_topics_without_place_is_refused(topic: TreeNode) -> None:
    with pytest.raises(ChunkerFailed):
        add_topics(TREE, [topic])
    assert len(TREE.root.children) == 4
