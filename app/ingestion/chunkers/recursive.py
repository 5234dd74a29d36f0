"""The recursive chunker: paragraphs, sentences and words are packed up to the limit, and headings like other text."""

from itertools import groupby

from app.ingestion.chunkers.spec import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools, PageOptions
from app.ingestion.chunkers.toolkit.drafts import collect_leaves
from app.ingestion.chunkers.toolkit.packer import pack_regions
from app.ingestion.chunkers.toolkit.regions import has_page_regions, isolate_records
from app.ingestion.types import DocumentTree


def chunk(tree: DocumentTree, sizes: ChunkSizes, options: PageOptions, tools: ChunkTools) -> ChunkerOutput:
    """Pack the paragraphs that have the same parent node. Every section has a chunk, even one with only a heading."""
    siblings = groupby(collect_leaves(tree.root), key=lambda leaf: leaf.path[:-1])
    pages = has_page_regions(tree.root, options.pages)
    regions = isolate_records([list(leaves) for _, leaves in siblings], pages=pages)
    return ChunkerOutput(pack_regions(tree, regions, sizes, tools.count_tokens))


CHUNKER = ChunkerSpec(
    "recursive",
    "Packs the paragraphs, sentences and words of one section; a heading without text makes a chunk too.",
    PageOptions,
    chunk,
)
