"""The headered chunker: the text of one section at a time, its heading first."""

from app.ingestion.chunkers.packing import pack_regions
from app.ingestion.chunkers.regions import section_regions
from app.ingestion.chunkers.spec import Chunked, ChunkerSpec, ChunkSizes, ChunkTools, NoOptions
from app.ingestion.types import DocumentTree


def chunk(tree: DocumentTree, sizes: ChunkSizes, _options: NoOptions, tools: ChunkTools) -> Chunked:
    """Packs paragraphs and sentences of one section; a bare heading goes with what is below it."""
    return Chunked(pack_regions(tree, section_regions(tree.root), sizes, tools.count_tokens))


CHUNKER = ChunkerSpec(
    "headered",
    "Packs the paragraphs and sentences of one section, its heading first; a bare heading makes no chunk.",
    NoOptions,
    chunk,
)
