"""The approx_tokens chunker: sizes are estimated from the bytes of the text, four to a token."""

from collections.abc import Sequence

from app.ingestion.chunkers.spec import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools, PageOptions
from app.ingestion.chunkers.toolkit.packer import pack_regions
from app.ingestion.chunkers.toolkit.regions import find_section_regions, has_page_regions
from app.ingestion.types import DocumentTree

BYTES_PER_TOKEN = 4


def count_bytes(texts: Sequence[str]) -> list[int]:
    """Return the length of each text in UTF-8 bytes."""
    return [len(text.encode(errors="replace")) for text in texts]


def chunk(tree: DocumentTree, sizes: ChunkSizes, options: PageOptions, tools: ChunkTools) -> ChunkerOutput:
    """Pack chunks like the headered chunker, with estimated sizes.

    The size of a chunk is a quarter of the UTF-8 bytes of its whole text, rounded down. If a chunk has more tokens than
    the model reads, all chunks are packed again. The size of a text is then its estimate, or its scaled exact number of
    tokens if that is greater. The scale maps the model's limit to ``max_tokens``.

    Args:
        tree: Tree of the document.
        sizes: Sizes of the chunks.
        options: Whether chunks may cross pages.
        tools: Token counter of the embedding model.

    Returns:
        The chunks.
    """
    regions = find_section_regions(tree.root, pages=has_page_regions(tree.root, options.pages))

    def count_scaled_bytes(texts: Sequence[str]) -> list[int]:
        # After scaling, a text that reaches the limit of the model has the most bytes of ``max_tokens``.
        scale = sizes.max_tokens * BYTES_PER_TOKEN + BYTES_PER_TOKEN - 1
        exact = (-(-tokens * scale // tools.max_tokens) for tokens in tools.count_tokens(texts))
        return list(map(max, count_bytes(texts), exact))

    drafts = pack_regions(tree, regions, sizes, count_bytes, units_per_token=BYTES_PER_TOKEN)
    if any(tokens > tools.max_tokens for tokens in tools.count_tokens([draft.content for draft in drafts])):
        drafts = pack_regions(tree, regions, sizes, count_scaled_bytes, units_per_token=BYTES_PER_TOKEN)
    return ChunkerOutput(drafts)


CHUNKER = ChunkerSpec(
    "approx_tokens",
    "Works like headered, but estimates sizes from bytes, four to a token, instead of using the tokenizer.",
    PageOptions,
    chunk,
)
