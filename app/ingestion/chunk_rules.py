"""The rules that every chunker's chunks keep, ours and those of others."""

from collections.abc import Sequence

from app.ingestion.chunkers.drafting import Leaves
from app.ingestion.chunkers.regions import ALONE
from app.ingestion.tree import find_node
from app.ingestion.types import BlockKind, ChunkDraft, ChunkerFailed, DocumentTree, TreeNode


def check_drafts(tree: DocumentTree, drafts: Sequence[ChunkDraft], counts: Sequence[int], *, max_tokens: int) -> None:
    """Raises ChunkerFailed, which names the first chunk that breaks a rule; ``counts`` are the chunks' sizes.

    A chunk is a slice of the stored text and not blank; chunks come in reading order and none comes twice; none counts
    over ``max_tokens``, crosses a section, a slide or a sheet, or holds more than one record or picture; each names a
    node that holds it. Only headings stand together across sections: those of sections without any other text.
    """
    leaves = Leaves.of(tree)
    before = (-1, -1)
    for index, (draft, tokens) in enumerate(zip(drafts, counts, strict=True)):
        place = (draft.start, draft.end)
        broken = _broken_by_itself(tree, draft)
        if broken is None and place <= before:
            broken = "is not in reading order"
        if broken is None and tokens > max_tokens:
            broken = f"has {tokens} tokens, but the embedding model reads {max_tokens}"
        if broken is None:
            broken = _crossed(leaves.touched(*place))
        if broken is not None:
            raise ChunkerFailed(f"The chunker broke a rule: chunk {index} {broken}.", chunk=index)
        before = place


def _broken_by_itself(tree: DocumentTree, draft: ChunkDraft) -> str | None:
    if not 0 <= draft.start < draft.end <= len(tree.text):
        return "is no range of the document's text"
    if draft.text != tree.text[draft.start : draft.end] or draft.text.isspace():
        return "has another text than its range, or none"
    node = find_node(tree, draft.node_path)
    if node is None or not node.start <= draft.start < draft.end <= node.end:
        return "names a node that does not hold it"
    return None


def _crossed(touched: Sequence[TreeNode]) -> str | None:
    if len({(leaf.slide, leaf.sheet) for leaf in touched}) > 1:
        return "crosses a slide or a sheet"
    if len(touched) > 1 and any(leaf.block in ALONE for leaf in touched):
        return "holds more than a record or a picture"
    sections = {leaf.path[:-1] for leaf in touched}
    if len(sections) > 1 and any(leaf.block is not BlockKind.HEADING for leaf in touched):
        return "crosses a section"
    return None
