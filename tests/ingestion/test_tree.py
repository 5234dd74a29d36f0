"""The document tree is well-formed for any blocks."""

from itertools import pairwise
from typing import Any

import pytest

from app.ingestion.tree import add_sentences, build_tree, find_node
from app.ingestion.types import MAX_NODES, Block, BlockKind, NodeKind, ParsedDocument, TooManyNodes, TreeNode
from tests.ingestion.documents import random_document, walk


def heading(text: str, level: int, **place: Any) -> Block:
    return Block(BlockKind.HEADING, text, level, **place)


def paragraph(text: str, **place: Any) -> Block:
    return Block(BlockKind.PARAGRAPH, text, **place)


def outline(node: TreeNode) -> list[object]:
    """Return sections as [title, ...children], and leaves as their kind."""
    return [
        [child.title, *outline(child)] if child.kind is NodeKind.SECTION else str(child.block)
        for child in node.children
    ]


def test_add_sentences_beyond_the_limit_of_nodes_is_refused() -> None:
    tree = build_tree(ParsedDocument([paragraph("Hi. " * (MAX_NODES // 2)), paragraph("Hi. " * (MAX_NODES // 2))]))
    with pytest.raises(TooManyNodes, match="250,000"):
        add_sentences(tree)


@pytest.mark.parametrize("slides", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_build_tree_invariants_hold_for_random_documents(seed: int, slides: bool) -> None:
    parsed = random_document(seed, slides=slides)
    tree = build_tree(parsed)
    assert tree.text == "\n\n".join(block.text for block in parsed.blocks)
    leaves = [node for node in walk(tree.root) if node.kind is NodeKind.PARAGRAPH]
    assert [(leaf.block, tree.text[leaf.start : leaf.end], leaf.page, leaf.slide) for leaf in leaves] == [
        (block.kind, block.text, block.page, block.slide) for block in parsed.blocks
    ]
    for node in walk(tree.root):
        for index, child in enumerate(node.children):
            assert child.path == (*node.path, index)
            assert node.start <= child.start < child.end <= node.end
        for left, right in pairwise(node.children):
            assert left.end < right.start
        if node.kind is NodeKind.SECTION:
            assert node.start == node.children[0].start
            assert node.end == node.children[-1].end
            assert {leaf.slide for leaf in walk(node)} == {node.slide}
            if node.title is not None:
                assert tree.text[node.start : node.children[0].end] == node.title
        pages = [leaf.page for leaf in walk(node) if leaf.block is not None and leaf.page is not None]
        assert (node.page, node.page_end) == (min(pages, default=None), max(pages, default=None))
    if slides:
        tops = tree.root.children
        assert all(top.kind is NodeKind.SECTION for top in tops)
        assert [top.slide for top in tops] == sorted(top.slide or 0 for top in tops)


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([], []),
        ([paragraph("a"), paragraph("b")], ["paragraph", "paragraph"]),
        (
            [paragraph("before"), heading("A", 1), paragraph("a"), heading("B", 1)],
            ["paragraph", ["A", "heading", "paragraph"], ["B", "heading"]],
        ),
        (
            [heading("A", 1), heading("deep", 4), heading("up", 2), paragraph("x"), heading("B", 1)],
            [["A", "heading", ["deep", "heading"], ["up", "heading", "paragraph"]], ["B", "heading"]],
        ),
        ([heading("low", 3), heading("high", 1)], [["low", "heading"], ["high", "heading"]]),
        (
            [paragraph("x", slide=1), heading("T", 1, slide=2), paragraph("y", slide=2), paragraph("z", slide=3)],
            [[None, "paragraph"], ["T", "heading", "paragraph"], [None, "paragraph"]],
        ),
        (
            [paragraph("x", slide=1), heading("late", 1, slide=1), paragraph("y", slide=1), paragraph("loose")],
            [[None, "paragraph", ["late", "heading", "paragraph"]], "paragraph"],
        ),
    ],
)
def test_build_tree_returns_expected_outline(blocks: list[Block], expected: list[object]) -> None:
    assert outline(build_tree(ParsedDocument(blocks)).root) == expected


def test_build_tree_offsets_are_code_points() -> None:
    tree = build_tree(ParsedDocument([paragraph("𝔸🙂"), paragraph("é")]))
    assert [(leaf.start, leaf.end) for leaf in tree.root.children] == [(0, 2), (4, 5)]


def test_build_tree_root_has_title_and_page_span() -> None:
    blocks = [heading("A", 1, page=2), paragraph("a", page=2), paragraph("b", page=5)]
    root = build_tree(ParsedDocument(blocks, title="Report")).root
    assert (root.title, root.page, root.page_end) == ("Report", 2, 5)
    assert (root.children[0].level, root.children[0].page, root.children[0].page_end) == (1, 2, 5)


def test_add_sentences_adds_sentences_of_prose() -> None:
    blocks = [
        heading("One. Two.", 1),
        paragraph(" Dr. Who came.\nHe left! ", page=3),
        Block(BlockKind.TABLE, "| a. B. |"),
        Block(BlockKind.RECORD, "Question. Answer."),
        Block(BlockKind.LIST_ITEM, "今日は晴れ。"),
    ]
    tree = build_tree(ParsedDocument(blocks))
    add_sentences(tree)
    found = [node for node in walk(tree.root) if node.kind is NodeKind.SENTENCE]
    assert [(tree.text[node.start : node.end], node.path, node.page) for node in found] == [
        ("Dr. Who came.", (0, 1, 0), 3),
        ("He left!", (0, 1, 1), 3),
        ("今日は晴れ。", (0, 4, 0), None),
    ]
    assert all(find_node(tree, node.path) is node for node in walk(tree.root))


@pytest.mark.parametrize("seed", range(10))
def test_add_sentences_cover_their_paragraph(seed: int) -> None:
    tree = build_tree(random_document(seed))
    add_sentences(tree)
    for node in walk(tree.root):
        texts = [tree.text[child.start : child.end] for child in node.children]
        if node.kind is NodeKind.PARAGRAPH and texts:
            assert "".join("".join(texts).split()) == "".join(tree.text[node.start : node.end].split())
            assert all(left.end <= right.start for left, right in pairwise(node.children))
