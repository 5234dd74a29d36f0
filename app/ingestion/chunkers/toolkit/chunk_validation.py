"""Validation of the chunks of every chunker, built-in or of a plugin."""

from collections.abc import Sequence

from app.ingestion.chunkers.toolkit.drafts import LeafIndex
from app.ingestion.chunkers.toolkit.regions import STANDALONE_KINDS
from app.ingestion.tree import find_node
from app.ingestion.types import BlockKind, ChunkDraft, ChunkerFailed, DocumentTree, TreeNode


def validate_chunks(
    tree: DocumentTree, drafts: Sequence[ChunkDraft], token_counts: Sequence[int], *, max_tokens: int
) -> None:
    """Check the chunks of a document against the rules for every chunker.

    A chunk is a slice of the stored text and not blank. Chunks are in reading order, without duplicates. No chunk has
    more than ``max_tokens`` tokens, or crosses a section, a slide or a sheet. No chunk contains a record or an image
    together with other text. Only headings of sections without other text share a chunk across sections. ``node_path``
    names a node that contains the chunk.

    Args:
        tree: Tree of the document.
        drafts: Chunks of the document.
        token_counts: Number of tokens of each chunk, with the repeated head of a table.
        max_tokens: Maximum number of tokens that the embedding model reads.

    Raises:
        ChunkerFailed: A chunk breaks a rule; the message names the first such chunk and the rule.
    """
    leaves = LeafIndex.from_tree(tree)
    previous_range = (-1, -1)
    for index, (draft, tokens) in enumerate(zip(drafts, token_counts, strict=True)):
        text_range = (draft.start, draft.end)
        problem = _find_range_problem(tree, draft)
        if problem is None and text_range <= previous_range:
            problem = "is not in reading order"
        if problem is None and tokens > max_tokens:
            problem = f"has {tokens} tokens, but the embedding model reads {max_tokens}"
        if problem is None:
            problem = _find_crossed_boundary(leaves.find_overlapping(*text_range))
        if problem is not None:
            raise ChunkerFailed(f"The chunker returned an invalid chunk: chunk {index} {problem}.", chunk=index)
        previous_range = text_range


def _find_range_problem(tree: DocumentTree, draft: ChunkDraft) -> str | None:
    if not 0 <= draft.start < draft.end <= len(tree.text):
        return "is not a range of the document's text"
    if draft.text != tree.text[draft.start : draft.end] or draft.text.isspace():
        return "has no text, or another text than its range"
    node = find_node(tree, draft.node_path)
    if node is None or not node.start <= draft.start < draft.end <= node.end:
        return "names a node that does not contain the chunk"
    return None


def _find_crossed_boundary(leaves: Sequence[TreeNode]) -> str | None:
    if len({(leaf.slide, leaf.sheet) for leaf in leaves}) > 1:
        return "crosses a slide or a sheet"
    if len(leaves) > 1 and any(leaf.block in STANDALONE_KINDS for leaf in leaves):
        return "contains a record or an image together with other text"
    sections = {leaf.path[:-1] for leaf in leaves}
    if len(sections) > 1 and any(leaf.block is not BlockKind.HEADING for leaf in leaves):
        return "crosses a section"
    return None
