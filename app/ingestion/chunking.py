"""Split a document tree into chunks with the chunker of the knowledge base, and validate the chunks."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel, ValidationError

from app.errors import AppError
from app.inference.embedding import Embedder, Vectors
from app.ingestion.chunkers import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools
from app.ingestion.chunkers.registry import build_request_options, load_chunkers
from app.ingestion.chunkers.spec import PAGES_OPTION
from app.ingestion.chunkers.toolkit.chunk_validation import validate_chunks
from app.ingestion.chunkers.toolkit.page_parts import divide_at_pages
from app.ingestion.chunkers.toolkit.regions import has_page_regions
from app.ingestion.chunkers.toolkit.table_parts import list_table_warnings
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
    """Create the tools for a chunker that runs in a thread: token counts and embeddings of the embedder.

    The tools embed on the event loop of the caller, and stop at the end of the context. The thread of the chunker can
    run on after its job was cancelled, but it gets no more vectors.

    Args:
        embedder: Embedder of the knowledge base.
        record_tokens: Called with the number of tokens of each embedding call.
        check_budget: Called before each embedding call; raises an error if the tokens of the day are used up.
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
    """Split a document tree into chunks. The call blocks.

    Args:
        tree: Tree of the document. The function adds the sentences that the chunker needs and the topics that it finds,
            and appends warnings.
        chunking: Chunking settings of the knowledge base.
        tools: Tools of the embedder, from ``create_chunk_tools``.

    Returns:
        The chunks, and the number of tokens of each chunk's text with the repeated head of its table.

    Raises:
        ChunkerFailed: The chunker is missing or fails, or one of its chunks is invalid.
        TooManyNodes: The tree has too many sentences.
        TooManyPieces: The chunker packs too many pieces of text.
        TooManyChunks: The chunker makes too many chunks.
        AppError: The embedder fails.
    """
    spec = load_chunkers().get(chunking.strategy)
    if spec is None:
        raise ChunkerFailed(
            f"The chunker {chunking.strategy!r} is not installed. Install its plugin, or choose another chunker."
        )
    values = dict(chunking.options)
    divides_pages = PAGES_OPTION not in spec.options.model_fields and has_page_regions(
        tree.root, values.pop(PAGES_OPTION, None)
    )
    try:
        options = spec.options.model_validate(values)
    except ValidationError as exc:
        raise ChunkerFailed(
            f"The stored options of the chunker {spec.name!r} are invalid. Change the chunking of the knowledge base."
        ) from exc
    # The limit of the model may have become smaller since the knowledge base was created.
    max_tokens = min(chunking.max_tokens, tools.max_tokens)
    sizes = ChunkSizes(max_tokens, min(chunking.overlap_tokens, max_tokens - 1))
    if spec.needs_sentences:
        add_sentences(tree)
    output = _run_chunker(spec, tree, sizes, options, tools)
    if len(output.drafts) > MAX_CHUNKS:
        raise TooManyChunks
    add_topics(tree, output.topics)
    drafts, token_counts = output.drafts, _validate_drafts(tree, output.drafts, tools)
    if divides_pages and (divided := divide_at_pages(tree, drafts)) != drafts:
        drafts, token_counts = divided, _validate_drafts(tree, divided, tools)
    tree.warnings.extend(list_table_warnings(tree, drafts))
    drafts, warnings = limit_section_titles(drafts, len(tree.text))
    tree.warnings.extend(warnings)
    return drafts, token_counts


def _validate_drafts(tree: DocumentTree, drafts: Sequence[ChunkDraft], tools: ChunkTools) -> list[int]:
    """Check the chunks, and return their numbers of tokens. Raises ChunkerFailed, TooManyChunks."""
    if len(drafts) > MAX_CHUNKS:
        raise TooManyChunks
    token_counts = tools.count_tokens([draft.content for draft in drafts])
    validate_chunks(tree, drafts, token_counts, max_tokens=tools.max_tokens)
    return token_counts


def _run_chunker(
    spec: ChunkerSpec[Any], tree: DocumentTree, sizes: ChunkSizes, options: BaseModel, tools: ChunkTools
) -> ChunkerOutput:
    """Run a chunker. Its exceptions become ChunkerFailed, except the errors of the service, such as of the embedder."""
    try:
        output = spec.chunk(tree, sizes, options, tools)
        tree.warnings[:] = map(normalize_warning, tree.warnings)  # a plugin may have added plain strings
        is_valid = all(map(_is_draft, output.drafts)) and all(isinstance(topic, TreeNode) for topic in output.topics)
    except (AppError, CancelledError):
        raise
    except Exception as exc:
        raise ChunkerFailed(f"The chunker {spec.name!r} failed ({type(exc).__name__}).") from exc
    if not is_valid:
        raise ChunkerFailed(f"The chunker {spec.name!r} returned a value that is not a chunk. Report it to its author.")
    return output


def _is_draft(draft: Any) -> bool:
    """Return whether a value has the types that the database can store. ``validate_chunks`` checks the values later."""
    if not isinstance(draft, ChunkDraft):
        return False
    numbers = (draft.start, draft.end, *draft.node_path)
    positions = (position for position in (draft.page, draft.page_end, draft.slide) if position is not None)
    texts = (draft.text, *draft.section_titles, *([] if draft.table_head is None else [draft.table_head]))
    return all(isinstance(value, int) for value in (*numbers, *positions)) and all(
        isinstance(value, str) for value in texts
    )


def parse_chunker_options(strategy: str, options: Mapping[str, Any], *, loc: tuple[str, ...]) -> dict[str, Any]:
    """Validate the options of a chunker and add their defaults.

    Args:
        strategy: Name of the chunker.
        options: Options of a request.
        loc: Path of the options in the request, for the error.

    Returns:
        All options of the chunker. The options of an unknown chunker are returned unchanged.

    Raises:
        InvalidInputError: An option is invalid.
    """
    spec: ChunkerSpec[Any] | None = load_chunkers().get(strategy)
    if spec is None:
        return dict(options)
    parsed: BaseModel = parse_options(build_request_options(spec.options), options, loc=loc)
    values = parsed.model_dump()
    # Without a value, the document decides.
    return {name: value for name, value in values.items() if (name, value) != (PAGES_OPTION, None)}
