"""Chunking strategies of requests. Sizes above what the embedding model reads are reduced, with a warning.

Programs state sizes for models that read more tokens, such as 800 and 400, the defaults of OpenAI.
"""

from app.api.openai.schemas import ChunkingStrategyRequest, StaticChunkingSizes
from app.errors import InvalidInputError
from app.inference.embedding import Embedder
from app.inference.embedding.model_registry import Embedders
from app.knowledge_bases.types import Chunking, IndexMismatch, KnowledgeBaseView, RequestedChunking
from app.warnings import ServiceWarning, WarningCode


def to_chunking(
    strategy: ChunkingStrategyRequest | None, embedders: Embedders
) -> tuple[RequestedChunking, list[ServiceWarning]]:
    """Return the chunking of a new vector store, which applies to all its files, and a warning if sizes were reduced.

    Without sizes in the request, the default size of the embedding model applies.

    Args:
        strategy: Chunking strategy in the request.
        embedders: Configured models. The default model embeds the chunks.
    """
    if strategy is None or strategy.static is None:
        return RequestedChunking(), []
    sizes, max_tokens = strategy.static, _get_max_tokens(embedders.default)
    size, overlap = sizes.max_chunk_size_tokens, sizes.chunk_overlap_tokens
    if size <= max_tokens:
        return RequestedChunking(max_tokens=size, overlap_tokens=overlap), []
    # The overlap keeps its share of the chunk.
    chunking = RequestedChunking(
        max_tokens=max_tokens, overlap_tokens=min(overlap * max_tokens // size, max_tokens - 1)
    )
    return chunking, [_create_warning(chunking, max_tokens)]


def check_file_chunking(
    view: KnowledgeBaseView, strategy: ChunkingStrategyRequest | None, embedders: Embedders
) -> list[ServiceWarning]:
    """Check that the chunking strategy of a file equals the chunking of its vector store.

    Args:
        view: Knowledge base of the vector store.
        strategy: Chunking strategy in the request.
        embedders: Configured models.

    Returns:
        A warning if the sizes are above what the model reads: the file gets the chunking of the vector store.

    Raises:
        InvalidInputError: The model reads chunks of these sizes, but the vector store has others.
    """
    if strategy is None or strategy.static is None or _is_equal(strategy.static, view.chunking):
        return []
    max_tokens = _find_max_tokens(view, embedders)
    if strategy.static.max_chunk_size_tokens > max_tokens:
        return [_create_warning(view.chunking, max_tokens)]
    message = (
        f"The chunks of this vector store have at most {view.chunking.max_tokens} tokens and an overlap of "
        f"{view.chunking.overlap_tokens}. A file must have the same chunking_strategy, or none."
    )
    raise InvalidInputError(message, loc=("body", "chunking_strategy"))


def _is_equal(sizes: StaticChunkingSizes, chunking: Chunking) -> bool:
    return (sizes.max_chunk_size_tokens, sizes.chunk_overlap_tokens) == (chunking.max_tokens, chunking.overlap_tokens)


def _find_max_tokens(view: KnowledgeBaseView, embedders: Embedders) -> int:
    try:
        return max(_get_max_tokens(view.get_embedder(embedders)), view.chunking.max_tokens)
    except IndexMismatch:  # the model is not configured, and the file waits for a reindex
        return view.chunking.max_tokens


def _get_max_tokens(embedder: Embedder) -> int:
    return embedder.max_tokens - embedder.special_tokens


def _create_warning(chunking: Chunking | RequestedChunking, max_tokens: int) -> ServiceWarning:
    message = (
        f"The embedding model reads at most {max_tokens} tokens of a chunk, so chunks have at most "
        f"{chunking.max_tokens} tokens and an overlap of {chunking.overlap_tokens}."
    )
    return ServiceWarning(WarningCode.CHUNK_SIZES_REDUCED, message)
