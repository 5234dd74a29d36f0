"""The recursive chunker: paragraphs, sentences and words packed up to the limit, and a heading like any text."""

from itertools import groupby

from app.ingestion.chunkers.spec import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools, NoChunkerOptions
from app.ingestion.chunkers.toolkit.drafts import collect_leaves
from app.ingestion.chunkers.toolkit.packer import pack_regions
from app.ingestion.chunkers.toolkit.regions import isolate_records
from app.ingestion.types import DocumentTree


def chunk(tree: DocumentTree, sizes: ChunkSizes, _options: NoChunkerOptions, tools: ChunkTools) -> ChunkerOutput:
    """Chunks of what stands together below one node of the tree, so that every section has one, a bare heading too."""
    siblings = groupby(collect_leaves(tree.root), key=lambda leaf: leaf.path[:-1])
    regions = isolate_records([list(leaves) for _, leaves in siblings])
    return ChunkerOutput(pack_regions(tree, regions, sizes, tools.count_tokens))


CHUNKER = ChunkerSpec(
    "recursive",
    "Packs the paragraphs, sentences and words of one section; every section has a chunk, a bare heading too.",
    NoChunkerOptions,
    chunk,
)
