"""The approx_tokens chunker: sizes by the bytes of the text, four to a token, as long as the model can read them."""

from collections.abc import Sequence

from app.ingestion.chunkers.spec import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools, NoChunkerOptions
from app.ingestion.chunkers.toolkit.packer import pack_regions
from app.ingestion.chunkers.toolkit.regions import find_section_regions
from app.ingestion.types import DocumentTree

BYTES_PER_TOKEN = 4


def approximate_tokens(texts: Sequence[str]) -> list[int]:
    """A quarter of each text's length in UTF-8, rounded up."""
    return [-(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN) for text in texts]


def chunk(tree: DocumentTree, sizes: ChunkSizes, _options: NoChunkerOptions, tools: ChunkTools) -> ChunkerOutput:
    """Packs as the headered chunker does, and counts with the model only where a chunk is too long for it."""
    regions = find_section_regions(tree.root)

    def count_tokens(texts: Sequence[str]) -> list[int]:
        # The model's own count in proportion: what fills the model fills a chunk.
        exact = (-(-tokens * sizes.max_tokens // tools.max_tokens) for tokens in tools.count_tokens(texts))
        return list(map(max, approximate_tokens(texts), exact))

    drafts = pack_regions(tree, regions, sizes, approximate_tokens)
    if any(tokens > tools.max_tokens for tokens in tools.count_tokens([draft.text for draft in drafts])):
        drafts = pack_regions(tree, regions, sizes, count_tokens)
    return ChunkerOutput(drafts)


CHUNKER = ChunkerSpec(
    "approx_tokens",
    "Packs as headered does, with sizes in bytes: four to a token, whatever the tokenizer says.",
    NoChunkerOptions,
    chunk,
)
