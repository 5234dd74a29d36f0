"""The headered chunker: the text of one section at a time, its heading first."""

from app.ingestion.chunkers.spec import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools, NoChunkerOptions
from app.ingestion.chunkers.toolkit.packer import pack_regions
from app.ingestion.chunkers.toolkit.regions import find_section_regions
from app.ingestion.types import DocumentTree


def chunk(tree: DocumentTree, sizes: ChunkSizes, _options: NoChunkerOptions, tools: ChunkTools) -> ChunkerOutput:
    """Packs paragraphs and sentences of one section; a bare heading goes with what is below it."""
    return ChunkerOutput(pack_regions(tree, find_section_regions(tree.root), sizes, tools.count_tokens))


CHUNKER = ChunkerSpec(
    "headered",
    "Packs the paragraphs and sentences of one section, its heading first; a bare heading makes no chunk.",
    NoChunkerOptions,
    chunk,
)
