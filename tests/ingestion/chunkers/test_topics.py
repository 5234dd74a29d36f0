"""Chunkers by topic: semantic by meaning, hierarchical by size."""

from collections import Counter
from itertools import pairwise

import pytest

from app.ingestion.chunkers import ChunkSizes
from app.ingestion.tree import add_topics, build_tree, find_node
from app.ingestion.types import Block, BlockKind, DocumentTree, NodeKind, ParsedDocument
from tests.ingestion.chunkers.chunk_texts import cut
from tests.ingestion.documents import random_document, walk, words

BIRDS = "The heron hunts fish in the marsh. A heron and an egret hunt fish. The egret nests in the marsh."
TAXES = "The tax return is due in May. A late tax return costs a fee. The fee for the return grows in May."
BREAD = "Knead the dough with flour. The dough rests in flour. Bake the dough until the crust is brown."


def paragraphs(*texts: str) -> DocumentTree:
    return build_tree(ParsedDocument([Block(BlockKind.PARAGRAPH, text) for text in texts]))


def texts_of(tree: DocumentTree, kind: NodeKind) -> list[str]:
    return [tree.text[node.start : node.end] for node in walk(tree.root) if node.kind is kind]


@pytest.mark.capability("chunker-semantic")
def test_semantic_topic_ends_where_meaning_changes() -> None:
    tree = paragraphs(f"{BIRDS} {TAXES}", BREAD)
    made = cut("semantic", tree, ChunkSizes(100, 0), words, percentile=75, min_tokens=10)
    add_topics(tree, made.topics)
    assert texts_of(tree, NodeKind.TOPIC) == [BIRDS, TAXES, BREAD]
    assert [draft.text for draft in made.drafts] == [BIRDS, TAXES, BREAD]
    assert [draft.node_path for draft in made.drafts] == [(2,), (3,), (4,)]
    assert len(texts_of(tree, NodeKind.SENTENCE)) == 9


def test_topic_chunks_name_their_topic() -> None:
    tree = paragraphs(f"{BIRDS} {TAXES}")
    made = cut("semantic", tree, ChunkSizes(16, 0), words, percentile=75, min_tokens=10)
    assert [tree.text[topic.start : topic.end] for topic in made.topics] == [BIRDS, TAXES]
    assert [draft.node_path for draft in made.drafts] == [(1,), (1,), (2,), (2,)]


@pytest.mark.parametrize(("min_tokens", "topics"), [(0, 3), (21, 3), (22, 2), (35, 1), (1000, 1)])
def test_semantic_topic_has_minimum_size(min_tokens: int, topics: int) -> None:
    tree = paragraphs(BIRDS, TAXES, BREAD)
    made = cut("semantic", tree, ChunkSizes(200, 0), words, percentile=75, min_tokens=min_tokens)
    assert len(made.topics) == topics


def test_semantic_equal_sentences_are_one_topic() -> None:
    tree = paragraphs("The same again. " * 50)
    assert len(cut("semantic", tree, ChunkSizes(400, 0), words, min_tokens=0).topics) == 1


@pytest.mark.parametrize("buffer", [0, 1, 5])
def test_semantic_long_text_is_embedded_in_slices(buffer: int) -> None:
    """The text has three times as many sentences as an embedding batch, in a pattern that is visible across batches."""
    tree = paragraphs(*[BIRDS, TAXES, BREAD] * 90)
    made = cut("semantic", tree, ChunkSizes(200, 0), words, percentile=75, min_tokens=10, buffer=buffer)
    period = len("\n\n".join([BIRDS, TAXES, BREAD, ""]))
    counts = sorted(Counter(topic.start % period for topic in made.topics).values(), reverse=True)
    assert min(counts[:2]) >= 88
    assert sum(counts[2:]) <= 2


def test_semantic_heading_joins_next_topic_and_records_have_none() -> None:
    blocks = [
        Block(BlockKind.HEADING, "Birds", 1),
        Block(BlockKind.PARAGRAPH, BIRDS),
        Block(BlockKind.RECORD, "Question: why? Answer: so."),
        Block(BlockKind.HEADING, "Bread", 2),
        Block(BlockKind.PARAGRAPH, BREAD),
    ]
    for name in ("semantic", "hierarchical"):
        tree = build_tree(ParsedDocument(blocks))
        made = cut(name, tree, ChunkSizes(200, 0), words)
        add_topics(tree, made.topics)
        assert sorted(texts_of(tree, NodeKind.TOPIC)) == [f"Birds\n\n{BIRDS}", f"Bread\n\n{BREAD}"]
        nodes = [find_node(tree, draft.node_path) for draft in made.drafts]
        assert [node and node.kind for node in nodes] == [NodeKind.TOPIC, NodeKind.PARAGRAPH, NodeKind.TOPIC]
        assert [draft.node_path for draft in made.drafts] == [(0, 4), (0, 2), (0, 3, 2)]


@pytest.mark.parametrize("name", ["semantic", "hierarchical"])
def test_topics_leave_other_nodes_unchanged(name: str) -> None:
    for seed in range(5):
        tree, without = build_tree(random_document(seed)), build_tree(random_document(seed))
        add_topics(tree, cut(name, tree, ChunkSizes(60, 20), words).topics)
        kinds = (NodeKind.TOPIC, NodeKind.SENTENCE)
        kept = [(node.path, node.kind, node.start) for node in walk(tree.root) if node.kind not in kinds]
        assert kept == [(node.path, node.kind, node.start) for node in walk(without.root)]
        assert len({node.path for node in walk(tree.root)}) == sum(1 for _ in walk(tree.root))


@pytest.mark.capability("chunker-hierarchical")
@pytest.mark.parametrize(("options", "largest"), [({}, 160), ({"parent_tokens": 80}, 80), ({"parent_tokens": 16}, 40)])
def test_hierarchical_parents_contain_chunks_without_overlap(options: dict[str, int], largest: int) -> None:
    tree = paragraphs(*[f"{BIRDS} {TAXES} {BREAD}"] * 8)
    made = cut("hierarchical", tree, ChunkSizes(40, 10), words, **options)
    texts = [tree.text[topic.start : topic.end] for topic in made.topics]
    assert max(words(texts)) <= largest
    assert min(words(texts[:-1])) >= largest // 2
    assert all(before.end < after.start for before, after in pairwise(made.topics))
    for topic in made.topics:
        below = [draft for draft in made.drafts if draft.node_path == topic.path]
        assert (below[0].start, below[-1].end) == (topic.start, topic.end)
        assert all(after.start < before.end for before, after in pairwise(below)) or largest == 40
