"""The hierarchical chunker: small chunks that are searched, each below a larger parent that can be read instead."""

from pydantic import BaseModel, Field

from app.ingestion.chunkers.spec import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools
from app.ingestion.chunkers.toolkit.packer import pack_within_budget
from app.ingestion.chunkers.toolkit.regions import find_section_regions
from app.ingestion.chunkers.toolkit.splitter import split_regions
from app.ingestion.chunkers.toolkit.topics import pack_topics
from app.ingestion.types import DocumentTree

CHILDREN_PER_PARENT = 4


class HierarchicalOptions(BaseModel, extra="forbid"):
    """How large the parents are."""

    parent_tokens: int | None = Field(
        None, ge=16, le=32_768, description="The size of a parent; four times max_tokens without it, and never less."
    )


def chunk(tree: DocumentTree, sizes: ChunkSizes, options: HierarchicalOptions, tools: ChunkTools) -> ChunkerOutput:
    """Parents are parts of one section of up to ``parent_tokens``, and nodes of the tree; they do not overlap.

    A chunk lies in one parent and names it: the last of its ``node_path`` is the parent, whose range is its text.
    """
    regions = find_section_regions(tree.root)
    pieces = split_regions(tree.text, regions, max_tokens=sizes.max_tokens, count_tokens=tools.count_tokens)
    budget = max(sizes.max_tokens, options.parent_tokens or CHILDREN_PER_PARENT * sizes.max_tokens)
    parents = [parent for region in pieces for parent in pack_within_budget(region, budget, overlap=0)]
    return pack_topics(tree, parents, sizes, tools.count_tokens)


CHUNKER = ChunkerSpec(
    "hierarchical",
    "Packs small chunks below larger parents of one section: search the small ones, read the parent.",
    HierarchicalOptions,
    chunk,
)
