"""A document tree into chunks by the knowledge base's chunker, whose work is checked."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel, ValidationError

from app.errors import AppError
from app.inference.embedding import Embedder, Vectors
from app.ingestion.chunkers import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools
from app.ingestion.chunkers.registry import load_chunkers
from app.ingestion.chunkers.toolkit.chunk_validation import validate_chunks
from app.ingestion.title_limits import limit_section_titles
from app.ingestion.tree import add_sentences, add_topics
from app.ingestion.types import MAX_CHUNKS, ChunkDraft, ChunkerFailed, DocumentTree, TooManyChunks, TreeNode
from app.knowledge_bases.types import Chunking
from app.plugins import parse_options
from app.warnings import normalize_warning


@asynccontextmanager
async def create_chunk_tools(
    embedder: Embedder,
    *,
    record_tokens: Callable[[int], Awaitable[None]] | None = None,
    check_budget: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[ChunkTools]:
    """The embedder's tools for a chunker that runs in a thread meanwhile; ``record_tokens`` is told the tokens of each
    call.

    ``check_budget`` raises where a call is one too many.

    ``embed`` runs on the event loop, and ends with the block: a thread that is left over when the job is cancelled
    gets no more vectors.
    """
    loop = asyncio.get_running_loop()
    calls: set[asyncio.Task[Any]] = set()
    is_open = True

    async def embed(texts: Sequence[str]) -> Vectors:
        call = asyncio.current_task()
        if call is None or not is_open:
            raise asyncio.CancelledError
        calls.add(call)
        try:
            if check_budget is not None:
                await check_budget()
            embedded = await embedder.embed_documents(texts)
            if record_tokens is not None:
                await record_tokens(embedded.tokens)
            return embedded.vectors
        finally:
            calls.discard(call)

    def embed_from_thread(texts: Sequence[str]) -> Vectors:
        return asyncio.run_coroutine_threadsafe(embed(texts), loop).result()

    try:
        yield ChunkTools(embedder.count_tokens, embed_from_thread, embedder.max_tokens - embedder.special_tokens)
    finally:
        is_open = False
        for call in calls:
            call.cancel()


def chunk_document(tree: DocumentTree, chunking: Chunking, tools: ChunkTools) -> tuple[list[ChunkDraft], list[int]]:
    """The chunks and their own sizes in tokens; adds the nodes to the tree that the chunker works with. Blocking.

    Raises ChunkerFailed where the chunker fails or a chunk breaks a rule, TooManyNodes, TooManyPieces, TooManyChunks,
    and the embedder's errors.
    """
    spec = load_chunkers().get(chunking.strategy)
    if spec is None:
        raise ChunkerFailed(f"No chunker is named {chunking.strategy!r} here.")
    try:
        options = spec.options.model_validate(chunking.options)
    except ValidationError as exc:
        raise ChunkerFailed(f"The options of the chunker {spec.name!r} are not valid any more.") from exc
    # What the model reads may have become less since the knowledge base was made.
    max_tokens = min(chunking.max_tokens, tools.max_tokens)
    sizes = ChunkSizes(max_tokens, min(chunking.overlap_tokens, max_tokens - 1))
    if spec.needs_sentences:
        add_sentences(tree)
    output = _run_chunker(spec, tree, sizes, options, tools)
    if len(output.drafts) > MAX_CHUNKS:
        raise TooManyChunks
    add_topics(tree, output.topics)
    token_counts = tools.count_tokens([draft.text for draft in output.drafts])
    validate_chunks(tree, output.drafts, token_counts, max_tokens=tools.max_tokens)
    drafts, warnings = limit_section_titles(output.drafts, len(tree.text))
    tree.warnings.extend(warnings)
    return drafts, token_counts


def _run_chunker(
    spec: ChunkerSpec[Any], tree: DocumentTree, sizes: ChunkSizes, options: BaseModel, tools: ChunkTools
) -> ChunkerOutput:
    """Whatever goes wrong in a chunker fails the document, and no other; the embedder's errors are not its own."""
    try:
        output = spec.chunk(tree, sizes, options, tools)
        tree.warnings[:] = map(normalize_warning, tree.warnings)  # a plugin may have added plain strings
        is_valid = all(map(_is_draft, output.drafts)) and all(isinstance(topic, TreeNode) for topic in output.topics)
    except (AppError, CancelledError):
        raise
    except Exception as exc:
        raise ChunkerFailed(f"The chunker {spec.name!r} failed ({type(exc).__name__}).") from exc
    if not is_valid:
        raise ChunkerFailed(f"The chunker {spec.name!r} made something that is no chunk.")
    return output


def _is_draft(draft: Any) -> bool:
    """As far as the database could not keep it else; what a chunk must be besides is looked at later."""
    if not isinstance(draft, ChunkDraft):
        return False
    numbers = (draft.start, draft.end, *draft.node_path)
    positions = (position for position in (draft.page, draft.page_end, draft.slide) if position is not None)
    texts = (draft.text, *draft.section_titles)
    return all(isinstance(value, int) for value in (*numbers, *positions)) and all(
        isinstance(value, str) for value in texts
    )


def parse_chunker_options(strategy: str, options: Mapping[str, Any], *, loc: tuple[str, ...]) -> dict[str, Any]:
    """A chunker's options with its defaults; those of an unknown one as they are.

    Raises InvalidInputError below ``loc``.
    """
    spec: ChunkerSpec[Any] | None = load_chunkers().get(strategy)
    if spec is None:
        return dict(options)
    parsed: BaseModel = parse_options(spec.options, options, loc=loc)
    return parsed.model_dump()
