"""The sentence chunker: a chunk for every sentence, or for every few of them."""

from pydantic import BaseModel, Field

from app.ingestion.chunkers.drafting import drafts_of
from app.ingestion.chunkers.packing import pack_pieces
from app.ingestion.chunkers.regions import section_regions
from app.ingestion.chunkers.spec import Chunked, ChunkerSpec, ChunkSizes, ChunkTools
from app.ingestion.chunkers.splitting import sentence_units, split_regions
from app.ingestion.types import DocumentTree


class SentenceOptions(BaseModel, extra="forbid"):
    """How many sentences make a chunk."""

    sentences: int = Field(1, ge=1, le=20, description="The sentences of a chunk.")


def chunk(tree: DocumentTree, sizes: ChunkSizes, options: SentenceOptions, tools: ChunkTools) -> Chunked:
    """Sentences of one section, the first with its heading; a table or a listing is packed as a whole.

    What counts over ``max_tokens`` is cut, and only there an overlap is repeated.
    """
    regions = section_regions(tree.root)
    pieces = split_regions(tree.text, regions, max_tokens=sizes.max_tokens, count_tokens=tools.count_tokens)
    groups = []
    for leaves, region in zip(regions, pieces, strict=True):
        units = sentence_units(leaves, region)
        for first in range(0, len(units), options.sentences):
            groups.append([piece for unit in units[first : first + options.sentences] for piece in unit])
    packed = pack_pieces(tree.text, groups, sizes, tools.count_tokens)
    return Chunked(drafts_of(tree, [place for ranges in packed for place in ranges]))


CHUNKER = ChunkerSpec(
    "sentence",
    "Makes a chunk of every sentence, or of every few, inside one section.",
    SentenceOptions,
    chunk,
    sentences=True,
)
