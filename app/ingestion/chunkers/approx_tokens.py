"""The approx_tokens chunker: sizes are estimated from the bytes of the text, four to a token."""

from collections.abc import Sequence

from app.ingestion.chunkers.spec import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools, PageOptions
from app.ingestion.chunkers.toolkit.packer import pack_regions
from app.ingestion.chunkers.toolkit.regions import find_section_regions, has_page_regions
from app.ingestion.types import DocumentTree

BYTES_PER_TOKEN = 4


def approximate_tokens(texts: Sequence[str]) -> list[int]:
    """Return a quarter of the length of each text in UTF-8 bytes, rounded up."""
    return [-(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN) for text in texts]


def chunk(tree: DocumentTree, sizes: ChunkSizes, options: PageOptions, tools: ChunkTools) -> ChunkerOutput:
    """Pack chunks like the headered chunker, with estimated sizes.

    If a chunk has more tokens than the model reads, all chunks are packed again. The size of a text is then its
    estimate, or its scaled exact number of tokens if that is greater. The scale maps the model's limit to
    ``max_tokens``.

    Args:
        tree: Tree of the document.
        sizes: Sizes of the chunks.
        options: Whether chunks may cross pages.
        tools: Token counter of the embedding model.

    Returns:
        The chunks.
    """
    regions = find_section_regions(tree.root, pages=has_page_regions(tree.root, options.pages))

    def count_tokens(texts: Sequence[str]) -> list[int]:
        # After scaling, a text that reaches the limit of the model has exactly ``max_tokens``.
        exact = (-(-tokens * sizes.max_tokens // tools.max_tokens) for tokens in tools.count_tokens(texts))
        return list(map(max, approximate_tokens(texts), exact))

    drafts = pack_regions(tree, regions, sizes, approximate_tokens)
    if any(tokens > tools.max_tokens for tokens in tools.count_tokens([draft.content for draft in drafts])):
        drafts = pack_regions(tree, regions, sizes, count_tokens)
    return ChunkerOutput(drafts)


CHUNKER = ChunkerSpec(
    "approx_tokens",
    "Works like headered, but estimates sizes from bytes, four to a token, instead of using the tokenizer.",
    PageOptions,
    chunk,
)
