"""The headered chunker: each chunk has text of one section. The first chunk of a section begins with the heading."""

from app.ingestion.chunkers.spec import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools, NoChunkerOptions
from app.ingestion.chunkers.toolkit.packer import pack_regions
from app.ingestion.chunkers.toolkit.regions import find_section_regions
from app.ingestion.types import DocumentTree


def chunk(tree: DocumentTree, sizes: ChunkSizes, _options: NoChunkerOptions, tools: ChunkTools) -> ChunkerOutput:
    """Pack the paragraphs and sentences of each section into chunks.

    A heading makes no chunk if only the sections below it have text.
    """
    return ChunkerOutput(pack_regions(tree, find_section_regions(tree.root), sizes, tools.count_tokens))


CHUNKER = ChunkerSpec(
    "headered",
    "Packs the heading, paragraphs and sentences of one section; a heading makes no chunk if only sections below it "
    "have text.",
    NoChunkerOptions,
    chunk,
)
