"""The sentence chunker: each chunk is one sentence, or a fixed number of sentences."""

from pydantic import Field

from app.ingestion.chunkers.spec import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools, PageOptions
from app.ingestion.chunkers.toolkit.drafts import build_drafts
from app.ingestion.chunkers.toolkit.packer import pack_pieces
from app.ingestion.chunkers.toolkit.regions import find_section_regions, has_page_regions
from app.ingestion.chunkers.toolkit.splitter import group_by_sentence, split_regions
from app.ingestion.types import DocumentTree


class SentenceOptions(PageOptions):
    """Options of the sentence chunker: the number of sentences of a chunk."""

    sentences: int = Field(1, ge=1, le=20, description="Number of sentences of a chunk.")


def chunk(tree: DocumentTree, sizes: ChunkSizes, options: SentenceOptions, tools: ChunkTools) -> ChunkerOutput:
    """Group the sentences of each section into chunks.

    The heading belongs to the first sentence. A table or a code block counts as one sentence. A group with more than
    ``max_tokens`` tokens is cut, and only its parts overlap.

    Args:
        tree: Tree of the document, with sentences.
        sizes: Sizes of the chunks.
        options: Number of sentences of a chunk.
        tools: Token counter of the embedding model.

    Returns:
        The chunks.
    """
    regions = find_section_regions(tree.root, pages=has_page_regions(tree.root, options.pages))
    pieces = split_regions(tree.text, regions, max_tokens=sizes.max_tokens, count_tokens=tools.count_tokens)
    groups = []
    for leaves, region in zip(regions, pieces, strict=True):
        units = group_by_sentence(leaves, region)
        for first in range(0, len(units), options.sentences):
            groups.append([piece for unit in units[first : first + options.sentences] for piece in unit])
    packed = pack_pieces(tree.text, groups, sizes, tools.count_tokens)
    return ChunkerOutput(build_drafts(tree, [text_range for ranges in packed for text_range in ranges]))


CHUNKER = ChunkerSpec(
    "sentence",
    "Makes a chunk of each sentence, or of a fixed number of sentences of one section.",
    SentenceOptions,
    chunk,
    needs_sentences=True,
)
