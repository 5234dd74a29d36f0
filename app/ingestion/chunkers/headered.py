"""The headered chunker: each chunk has text of one section. The first chunk of a section begins with the heading."""

from app.ingestion.chunkers.spec import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools, PageOptions
from app.ingestion.chunkers.toolkit.packer import pack_regions
from app.ingestion.chunkers.toolkit.regions import find_section_regions, has_page_regions
from app.ingestion.types import DocumentTree


def chunk(tree: DocumentTree, sizes: ChunkSizes, options: PageOptions, tools: ChunkTools) -> ChunkerOutput:
    """Pack the paragraphs and sentences of each section into chunks.

    A heading makes no chunk if only the sections below it have text.

    Args:
        tree: Tree of the document.
        sizes: Sizes of the chunks.
        options: Whether chunks may cross pages.
        tools: Token counter of the embedding model.

    Returns:
        The chunks.
    """
    regions = find_section_regions(tree.root, pages=has_page_regions(tree.root, options.pages))
    return ChunkerOutput(pack_regions(tree, regions, sizes, tools.count_tokens))


CHUNKER = ChunkerSpec(
    "headered",
    "Packs the heading, paragraphs and sentences of one section; a heading makes no chunk if only sections below it "
    "have text.",
    PageOptions,
    chunk,
)
