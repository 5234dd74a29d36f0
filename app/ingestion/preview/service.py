"""Preview of ingestion: parse and chunk a file without storing anything."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import UUID

from app.db.session import TenantDatabase
from app.documents.types import ReceivedFile
from app.documents.upload.media_type import detect_media_type, require_text_type
from app.documents.upload.multipart import receive_form, spool_text
from app.errors import InvalidInputError, UnavailableError
from app.inference.embedding import Embedder
from app.inference.embedding.model_registry import Embedders
from app.ingestion.chunkers import ChunkTools
from app.ingestion.chunkers.registry import load_chunkers
from app.ingestion.chunking import chunk_document, create_chunk_tools
from app.ingestion.embedding import record_chunker_usage
from app.ingestion.loss import Loss, measure_loss
from app.ingestion.parsers.sandbox.pool import ParserPool
from app.ingestion.preview.parse_quality import ParseQuality, measure_quality
from app.ingestion.tree import build_tree
from app.ingestion.types import Block, ChunkDraft, DocumentTree, NoTextFound, ParsedDocument, ParserTimeout
from app.knowledge_bases.index_settings import resolve_chunking
from app.knowledge_bases.model_language import build_document_warning
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import Chunking, KnowledgeBaseView, RequestedChunking
from app.quotas.token_budget import TokenBudget
from app.threads import run_in_thread
from app.warnings import ServiceWarning

MAX_FILE_BYTES = 50 * 1024 * 1024
MAX_CHARACTERS = 200_000
"""Number of characters of a text that are chunked, because the work is done in the API process, which also searches."""

PARSER_TIMEOUT_SECONDS = 30
PARSER_PROCESSES = 2
MAX_CONCURRENT_PREVIEWS = 4
MAX_PREVIEWS_PER_TENANT = 2
RETRY_AFTER_SECONDS = 5.0


class PreviewBusy(UnavailableError):
    """Too many previews are running; try again."""

    code = "preview_busy"


@dataclass(frozen=True, slots=True)
class PreviewOptions:
    """Options of a preview.

    Attributes:
        encoding: Encoding of a text file; None detects it.
        knowledge_base: Id or name of a knowledge base, whose chunking and embedding model are used.
        chunking: Chunking settings, if no knowledge base is named; None uses the defaults.
    """

    encoding: str | None = None
    knowledge_base: str | None = None
    chunking: RequestedChunking | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """Result of a preview.

    Attributes:
        media_type: Media type of the file.
        title: Title that the parser found.
        page_count: Number of pages or slides.
        warnings: Warnings of the parser and the chunker.
        loss: What the parser did not read.
        quality: Quality of the complete parse.
        tokens: Number of tokens of the text that was chunked.
        tree: Tree of the text that was chunked.
        drafts: Chunks.
        token_counts: Number of tokens of each chunk.
        truncated: Whether only the beginning of the text was chunked, because the text is too long.
    """

    media_type: str
    title: str | None
    page_count: int | None
    warnings: Sequence[ServiceWarning]
    loss: Loss
    quality: ParseQuality
    tokens: int
    tree: DocumentTree
    drafts: Sequence[ChunkDraft]
    token_counts: Sequence[int]
    truncated: bool


class PreviewSlots:
    """Limit of concurrent previews: four per process, two per tenant."""

    def __init__(self) -> None:
        self._used: Counter[UUID] = Counter()

    @contextmanager
    def acquire(self, tenant_id: UUID) -> Iterator[None]:
        """Occupy a slot while the block runs.

        Args:
            tenant_id: Tenant of the preview.

        Raises:
            PreviewBusy: The process or the tenant has no free slot.
        """
        if self._used.total() >= MAX_CONCURRENT_PREVIEWS or self._used[tenant_id] >= MAX_PREVIEWS_PER_TENANT:
            raise PreviewBusy(retry_after=RETRY_AFTER_SECONDS)
        self._used[tenant_id] += 1
        try:
            yield
        finally:
            self._used[tenant_id] -= 1
            if not self._used[tenant_id]:
                del self._used[tenant_id]


@dataclass(frozen=True, slots=True)
class PreviewContext:
    """Collaborators that all previews of a process share.

    Attributes:
        parsers: Pool of parser processes for previews only, which are started at the first preview.
        embedders: Configured embedders.
        parseable_types: Media types that the parsers read.
        plugin_types: Media types that the parsers of plugins read, by plugin.
        describes_images: Whether ingestion has a vision model.
        slots: Limit of concurrent previews.
    """

    parsers: ParserPool
    embedders: Embedders
    parseable_types: Collection[str]
    plugin_types: Mapping[str, Collection[str]]
    describes_images: bool = False
    slots: PreviewSlots = field(default_factory=PreviewSlots)


@dataclass(frozen=True, slots=True)
class PreviewService:
    """Service that previews files for one tenant."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    context: PreviewContext

    async def preview_upload(
        self, body: AsyncIterator[bytes], boundary: bytes, parse_options: Callable[[Mapping[str, str]], PreviewOptions]
    ) -> Preview:
        """Preview the file of a streamed form.

        Args:
            body: Body of the request.
            boundary: Boundary of the multipart form.
            parse_options: Function that parses the other fields of the form.

        Returns:
            The preview.

        Raises:
            UploadTooLarge: The file has more than 50 MiB.
            EmptyUpload: The file is empty.
            EncryptedUpload: The file is encrypted.
            UnsupportedFileType: No parser reads the file.
            KnowledgeBaseNotFound: The knowledge base does not exist.
            InvalidInputError: An option is invalid.
            IndexMismatch: No configured model fits the knowledge base.
            PreviewBusy: Too many previews are running.
            DailyTokenLimitReached: The daily token budget is used up.
            IngestionError: The ingestion of the file would fail.
            AppError: The embedder fails.
        """
        async with receive_form(body, boundary, max_bytes=MAX_FILE_BYTES) as form:
            return await self._create_preview(form.files[0], parse_options(form.fields), None)

    async def preview_text(self, text: str, options: PreviewOptions, *, media_type: str | None) -> Preview:
        """Preview a text. Raises the errors of ``preview_upload``.

        Args:
            text: The text.
            options: Options; the encoding is ignored.
            media_type: Media type of the text.
        """
        if media_type is not None:
            media_type = require_text_type(media_type, self.context.parseable_types, self.context.plugin_types)
        async with spool_text(text, filename="text", media_type=media_type) as received:
            return await self._create_preview(received, replace(options, encoding="utf-8"), received.declared_type)

    async def _create_preview(self, received: ReceivedFile, options: PreviewOptions, media_type: str | None) -> Preview:
        kb = None if options.knowledge_base is None else await self.knowledge_bases.find(options.knowledge_base)
        chunking, embedder = self._resolve_settings(options, kb)
        context = self.context
        needs_images = context.describes_images or embedder.image_embedder is not None
        with context.slots.acquire(self.db.tenant_id):
            if media_type is None:
                media_type = await asyncio.to_thread(
                    detect_media_type, received, context.parseable_types, context.plugin_types
                )
            try:
                parsed = await context.parsers.parse(
                    received.path, media_type, encoding=options.encoding, needs_images=needs_images
                )
            except ParserTimeout as exc:
                raise ParserTimeout(
                    f"Parsing took longer than {PARSER_TIMEOUT_SECONDS} seconds, the limit of a preview. "
                    "Upload the file instead."
                ) from exc
            parsed.images.clear()  # up to 64 MB; a preview only counts the images, by their blocks
            budget = TokenBudget.from_principal(self.db, self.knowledge_bases.principal)
            record_tokens = partial(record_chunker_usage, budget, embedder)
            async with create_chunk_tools(embedder, record_tokens=record_tokens, check_budget=budget.check) as tools:
                preview = await run_in_thread(_build_preview, parsed, media_type, chunking, tools)
        warning = await run_in_thread(
            build_document_warning, preview.tree.text, embedder.identity, context.embedders, kb
        )
        return preview if warning is None else replace(preview, warnings=[*preview.warnings, warning])

    def _resolve_settings(self, options: PreviewOptions, kb: KnowledgeBaseView | None) -> tuple[Chunking, Embedder]:
        """Return the chunking and the embedder, both of the knowledge base if one is named."""
        if kb is not None:
            return kb.chunking, kb.get_embedder(self.context.embedders)
        chunking = resolve_chunking(options.chunking or RequestedChunking(), self.context.embedders.default)
        if chunking.strategy not in load_chunkers():
            available = ", ".join(sorted(load_chunkers()))
            message = f"Unknown chunker {chunking.strategy!r}. Available chunkers: {available}."
            raise InvalidInputError(message, loc=("body", "chunking", "strategy"))
        return chunking, self.context.embedders.default


def _build_preview(parsed: ParsedDocument, media_type: str, chunking: Chunking, tools: ChunkTools) -> Preview:
    blocks = take_first_blocks(parsed.blocks, MAX_CHARACTERS)
    tree = build_tree(replace(parsed, blocks=blocks))
    drafts, token_counts = chunk_document(tree, chunking, tools)
    if not drafts:
        raise NoTextFound
    loss = measure_loss(parsed)
    return Preview(
        media_type=media_type,
        title=tree.root.title,
        page_count=parsed.page_count,
        warnings=[*parsed.warnings, *tree.warnings, *loss.list_warnings()],
        loss=loss,
        quality=measure_quality(parsed, media_type=media_type),
        tokens=sum(tools.count_tokens([block.text for block in blocks])),
        tree=tree,
        drafts=drafts,
        token_counts=token_counts,
        truncated=blocks != parsed.blocks,
    )


def take_first_blocks(blocks: Sequence[Block], characters: int) -> list[Block]:
    """Return the first blocks up to a number of characters. The last block is cut if necessary.

    Args:
        blocks: Blocks of a document.
        characters: Maximum number of characters.
    """
    selected: list[Block] = []
    for block in blocks:
        text = block.text[:characters].strip()
        if not text:
            break
        selected.append(block if text == block.text else replace(block, text=text))
        characters -= len(block.text)
        if characters <= 0:
            break
    return selected
