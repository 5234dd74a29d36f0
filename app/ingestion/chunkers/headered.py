"""The headered chunker: each chunk has text of one section, and its first chunk begins with the heading."""

from app.ingestion.chunkers.spec import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools, NoChunkerOptions
from app.ingestion.chunkers.toolkit.packer import pack_regions
from app.ingestion.chunkers.toolkit.regions import find_section_regions
from app.ingestion.types import DocumentTree


def chunk(tree: DocumentTree, sizes: ChunkSizes, _options: NoChunkerOptions, tools: ChunkTools) -> ChunkerOutput:
    """Pack the paragraphs and sentences of each section. A heading without text of its section makes no chunk."""
    return ChunkerOutput(pack_regions(tree, find_section_regions(tree.root), sizes, tools.count_tokens))


CHUNKER = ChunkerSpec(
    "headered",
    "Packs the heading, paragraphs and sentences of one section; a heading without text makes no chunk.",
    NoChunkerOptions,
    chunk,
)
