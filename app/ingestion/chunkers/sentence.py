"""The sentence chunker: a chunk for every sentence, or for every few of them."""

from pydantic import BaseModel, Field

from app.ingestion.chunkers.spec import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools
from app.ingestion.chunkers.toolkit.drafts import build_drafts
from app.ingestion.chunkers.toolkit.packer import pack_pieces
from app.ingestion.chunkers.toolkit.regions import find_section_regions
from app.ingestion.chunkers.toolkit.splitter import group_by_sentence, split_regions
from app.ingestion.types import DocumentTree


class SentenceOptions(BaseModel, extra="forbid"):
    """How many sentences make a chunk."""

    sentences: int = Field(1, ge=1, le=20, description="The sentences of a chunk.")


def chunk(tree: DocumentTree, sizes: ChunkSizes, options: SentenceOptions, tools: ChunkTools) -> ChunkerOutput:
    """Sentences of one section, the first with its heading; a table or a listing is packed as a whole.

    What counts over ``max_tokens`` is cut, and only there an overlap is repeated.
    """
    regions = find_section_regions(tree.root)
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
    "Makes a chunk of every sentence, or of every few, inside one section.",
    SentenceOptions,
    chunk,
    needs_sentences=True,
)
