"""Preview: what ingestion would make of a file, shown and not stored."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import UUID

from app.db.session import TenantDatabase
from app.documents.types import ReceivedFile
from app.documents.upload.media_type import detect_media_type
from app.documents.upload.multipart import receive_form, spool_text
from app.errors import InvalidInputError, UnavailableError
from app.inference.embedding import Embedder
from app.inference.embedding.model_registry import Embedders
from app.ingestion.chunkers import ChunkTools
from app.ingestion.chunkers.registry import load_chunkers
from app.ingestion.chunking import chunk_document, create_chunk_tools
from app.ingestion.embedding import record_chunker_usage
from app.ingestion.parsers.sandbox.pool import ParserPool
from app.ingestion.preview.parse_quality import ParseQuality, measure_quality
from app.ingestion.tree import build_tree
from app.ingestion.types import Block, ChunkDraft, DocumentTree, NoTextFound, ParsedDocument, ParserTimeout
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import Chunking
from app.quotas.token_budget import TokenBudget
from app.threads import run_in_thread
from app.warnings import ServiceWarning

MAX_FILE_BYTES = 50 * 1024 * 1024
# Of a longer text only so much is cut into chunks: the API process, which answers searches, does it.
MAX_CHARACTERS = 200_000
PARSER_TIMEOUT_SECONDS = 30
PARSER_PROCESSES = 2
MAX_CONCURRENT_PREVIEWS = 4
MAX_PREVIEWS_PER_TENANT = 2
RETRY_AFTER_SECONDS = 5.0


class PreviewBusy(UnavailableError):
    """Enough previews are being made at this moment; try again."""

    code = "preview_busy"


@dataclass(frozen=True, slots=True)
class PreviewOptions:
    """What a caller may say: the chunking itself, or the knowledge base whose chunking is meant, or neither."""

    encoding: str | None = None
    knowledge_base: str | None = None
    chunking: Chunking | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """What ingestion would make of a file; ``token_counts`` are the chunks' tokens.

    ``truncated`` says that the tree and the chunks are of the text's beginning alone; ``tokens`` are those of that
    part, while ``quality`` is of the whole.
    """

    media_type: str
    title: str | None
    page_count: int | None
    warnings: Sequence[ServiceWarning]
    quality: ParseQuality
    tokens: int
    tree: DocumentTree
    drafts: Sequence[ChunkDraft]
    token_counts: Sequence[int]
    truncated: bool


class PreviewSlots:
    """How many previews are being made: no tenant has all the places."""

    def __init__(self) -> None:
        self._used: Counter[UUID] = Counter()

    @contextmanager
    def acquire(self, tenant_id: UUID) -> Iterator[None]:
        """Hold a place while the block runs. Raises PreviewBusy."""
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
    """What all previews of a process share: parsers of their own, which are started when they are asked for.

    ``describes_images`` says that ingestion has a model that puts them into words.
    """

    parsers: ParserPool
    embedders: Embedders
    parseable_types: Collection[str]
    plugin_types: Mapping[str, Collection[str]]
    describes_images: bool = False
    slots: PreviewSlots = field(default_factory=PreviewSlots)


@dataclass(frozen=True, slots=True)
class PreviewService:
    """How a tenant looks at a file before it is stored."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    context: PreviewContext

    async def preview_upload(
        self, body: AsyncIterator[bytes], boundary: bytes, parse_options: Callable[[Mapping[str, str]], PreviewOptions]
    ) -> Preview:
        """Of a streamed form's file.

        Raises UploadTooLarge, EmptyUpload, EncryptedUpload, UnsupportedFileType, KnowledgeBaseNotFound,
        InvalidInputError, IndexMismatch, PreviewBusy, DailyTokenLimitReached; IngestionError for what would fail the
        document; the embedder's errors.
        """
        async with receive_form(body, boundary, max_bytes=MAX_FILE_BYTES) as form:
            return await self._create_preview(form.files[0], parse_options(form.fields), None)

    async def preview_text(self, text: str, options: PreviewOptions, *, media_type: str | None) -> Preview:
        """The same of a text in hand."""
        async with spool_text(text, filename="text", media_type=media_type) as received:
            return await self._create_preview(received, replace(options, encoding="utf-8"), received.declared_type)

    async def _create_preview(self, received: ReceivedFile, options: PreviewOptions, media_type: str | None) -> Preview:
        chunking, embedder = await self._resolve_settings(options)
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
                    f"Parsing took longer than a preview may: {PARSER_TIMEOUT_SECONDS} seconds."
                ) from exc
            parsed.images.clear()  # only how many there are is told: up to 64 MB that the API process need not keep
            budget = TokenBudget.from_principal(self.db, self.knowledge_bases.principal)
            record_tokens = partial(record_chunker_usage, budget, embedder)  # what it costs is not forgotten
            async with create_chunk_tools(embedder, record_tokens=record_tokens, check_budget=budget.check) as tools:
                return await run_in_thread(_build_preview, parsed, media_type, chunking, tools)

    async def _resolve_settings(self, options: PreviewOptions) -> tuple[Chunking, Embedder]:
        """A knowledge base brings its model too; its tokens are what is counted."""
        if options.knowledge_base is not None:
            kb = await self.knowledge_bases.find(options.knowledge_base)
            return kb.chunking, kb.get_embedder(self.context.embedders)
        chunking = options.chunking or Chunking()
        if chunking.strategy not in load_chunkers():
            available = ", ".join(sorted(load_chunkers()))
            message = f"No chunker is named {chunking.strategy!r}; there are: {available}."
            raise InvalidInputError(message, loc=("body", "chunking", "strategy"))
        return chunking, self.context.embedders.default


def _build_preview(parsed: ParsedDocument, media_type: str, chunking: Chunking, tools: ChunkTools) -> Preview:
    blocks = take_first_blocks(parsed.blocks, MAX_CHARACTERS)
    tree = build_tree(replace(parsed, blocks=blocks))
    drafts, token_counts = chunk_document(tree, chunking, tools)
    if not drafts:
        raise NoTextFound
    return Preview(
        media_type=media_type,
        title=tree.root.title,
        page_count=parsed.page_count,
        warnings=[*parsed.warnings, *tree.warnings],
        quality=measure_quality(parsed, media_type=media_type),
        tokens=sum(tools.count_tokens([block.text for block in blocks])),
        tree=tree,
        drafts=drafts,
        token_counts=token_counts,
        truncated=blocks != parsed.blocks,
    )


def take_first_blocks(blocks: Sequence[Block], characters: int) -> list[Block]:
    """As many as hold so many characters; the last of them may be a part of one."""
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
