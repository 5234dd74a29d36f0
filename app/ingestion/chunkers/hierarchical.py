"""The hierarchical chunker: small chunks for the search, each inside a larger parent that results can return."""

from pydantic import Field

from app.ingestion.chunkers.spec import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools, PageOptions
from app.ingestion.chunkers.toolkit.packer import pack_within_budget
from app.ingestion.chunkers.toolkit.regions import find_section_regions, has_page_regions
from app.ingestion.chunkers.toolkit.splitter import split_regions
from app.ingestion.chunkers.toolkit.topics import pack_topics
from app.ingestion.types import DocumentTree

CHILDREN_PER_PARENT = 4


class HierarchicalOptions(PageOptions):
    """Options of the hierarchical chunker: the size of the parents."""

    parent_tokens: int | None = Field(
        None,
        ge=16,
        le=32_768,
        description="Maximum size of a parent in tokens, at least `max_tokens`; by default four times `max_tokens`.",
    )


def chunk(tree: DocumentTree, sizes: ChunkSizes, options: HierarchicalOptions, tools: ChunkTools) -> ChunkerOutput:
    """Divide each section into parents of up to ``parent_tokens`` tokens, and each parent into chunks.

    A parent is a topic node of the tree. Parents do not overlap. The ``node_path`` of a chunk is the path of its
    parent.

    Args:
        tree: Tree of the document.
        sizes: Sizes of the chunks.
        options: Size of the parents.
        tools: Token counter of the embedding model.

    Returns:
        The chunks and the parents.
    """
    regions = find_section_regions(tree.root, pages=has_page_regions(tree.root, options.pages))
    pieces = split_regions(tree.text, regions, max_tokens=sizes.max_tokens, count_tokens=tools.count_tokens)
    budget = max(sizes.max_tokens, options.parent_tokens or CHILDREN_PER_PARENT * sizes.max_tokens)
    parents = [parent for region in pieces for parent in pack_within_budget(region, budget, overlap=0)]
    return pack_topics(tree, parents, sizes, tools.count_tokens)


CHUNKER = ChunkerSpec(
    "hierarchical",
    "Packs small chunks inside larger parents of one section: the small ones are searched, results show the parent.",
    HierarchicalOptions,
    chunk,
)
