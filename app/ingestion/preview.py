"""Preview: what ingestion would make of a file, shown and not stored."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import UUID

from app.db.session import TenantDatabase
from app.documents.inspection import inspect_upload
from app.documents.types import ReceivedFile
from app.documents.uploads import receive, spool_text
from app.errors import InvalidInput, Unavailable
from app.inference.embedding import Embedder
from app.inference.embedding.registry import Embedders
from app.ingestion.chunkers import ChunkTools
from app.ingestion.chunkers.installed import installed_chunkers
from app.ingestion.chunking import chunk_document, open_tools
from app.ingestion.embedding import book_sentences
from app.ingestion.parsers.pool import ParserPool
from app.ingestion.quality import Quality, measure_quality
from app.ingestion.tree import build_tree
from app.ingestion.types import Block, ChunkDraft, DocumentTree, NoText, ParsedDocument, ParserTimeout
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import Chunking
from app.quotas.tokens import TokenBudget
from app.threads import run_in_thread

MOST_BYTES = 50 * 1024 * 1024
# Of a longer text only so much is cut into chunks: the API process, which answers searches, does it.
MOST_CHARACTERS = 200_000
WALL_SECONDS = 30
PARSER_PROCESSES = 2
AT_ONCE = 4
AT_ONCE_A_TENANT = 2
RETRY_SECONDS = 5.0


class PreviewBusy(Unavailable):
    """Enough previews are being made at this moment; try again."""

    code = "preview_busy"


@dataclass(frozen=True, slots=True)
class PreviewWishes:
    """What a caller may say: the chunking itself, or the knowledge base whose chunking is meant, or neither."""

    encoding: str | None = None
    knowledge_base: str | None = None
    chunking: Chunking | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """What ingestion would make of a file; ``counts`` are the chunks' tokens.

    ``truncated`` says that the tree and the chunks are of the text's beginning alone; ``tokens`` are those of that
    part, while ``quality`` is of the whole.
    """

    media_type: str
    title: str | None
    page_count: int | None
    warnings: Sequence[str]
    quality: Quality
    tokens: int
    tree: DocumentTree
    drafts: Sequence[ChunkDraft]
    counts: Sequence[int]
    truncated: bool


class Places:
    """How many previews are being made: no tenant has all the places."""

    def __init__(self) -> None:
        self._taken: Counter[UUID] = Counter()

    @contextmanager
    def take(self, tenant_id: UUID) -> Iterator[None]:
        """Hold a place while the block runs. Raises PreviewBusy."""
        if self._taken.total() >= AT_ONCE or self._taken[tenant_id] >= AT_ONCE_A_TENANT:
            raise PreviewBusy(retry_after=RETRY_SECONDS)
        self._taken[tenant_id] += 1
        try:
            yield
        finally:
            self._taken[tenant_id] -= 1
            if not self._taken[tenant_id]:
                del self._taken[tenant_id]


@dataclass(frozen=True, slots=True)
class PreviewDesk:
    """What all previews of a process share: parsers of their own, which are started when they are asked for.

    ``describes_pictures`` says that ingestion has a model that puts them into words.
    """

    parsers: ParserPool
    embedders: Embedders
    parseable: Collection[str]
    plugin_types: Mapping[str, Collection[str]]
    describes_pictures: bool = False
    places: Places = field(default_factory=Places)


@dataclass(frozen=True, slots=True)
class PreviewService:
    """How a tenant looks at a file before it is stored."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    desk: PreviewDesk

    async def preview(
        self, body: AsyncIterator[bytes], boundary: bytes, read_wishes: Callable[[Mapping[str, str]], PreviewWishes]
    ) -> Preview:
        """Of a streamed form's file.

        Raises UploadTooLarge, EmptyUpload, EncryptedUpload, UnsupportedMediaType, KnowledgeBaseNotFound, InvalidInput,
        IndexMismatch, PreviewBusy, TokensSpent; IngestionError for what would fail the document; the embedder's errors.
        """
        async with receive(body, boundary, limit=MOST_BYTES) as form:
            return await self._make(form.files[0], read_wishes(form.fields), None)

    async def preview_text(self, text: str, wishes: PreviewWishes, *, media_type: str | None) -> Preview:
        """The same of a text in hand."""
        async with spool_text(text, filename="text", media_type=media_type) as received:
            return await self._make(received, replace(wishes, encoding="utf-8"), received.declared_type)

    async def _make(self, received: ReceivedFile, wishes: PreviewWishes, media_type: str | None) -> Preview:
        chunking, embedder = await self._settings(wishes)
        desk = self.desk
        pictures = desk.describes_pictures or embedder.pictures is not None
        with desk.places.take(self.db.tenant_id):
            if media_type is None:
                media_type = await asyncio.to_thread(inspect_upload, received, desk.parseable, desk.plugin_types)
            try:
                parsed = await desk.parsers.parse(
                    received.path, media_type, encoding=wishes.encoding, pictures=pictures
                )
            except ParserTimeout as exc:
                raise ParserTimeout(f"Parsing took longer than a preview may: {WALL_SECONDS} seconds.") from exc
            parsed.pictures.clear()  # only how many there are is told: up to 64 MB that the API process need not keep
            budget = TokenBudget.of(self.db, self.knowledge_bases.principal)
            book = partial(book_sentences, budget, embedder)  # what it costs is not forgotten
            async with open_tools(embedder, book=book, allow=budget.require) as tools:
                return await run_in_thread(_show, parsed, media_type, chunking, tools)

    async def _settings(self, wishes: PreviewWishes) -> tuple[Chunking, Embedder]:
        """A knowledge base brings its model too; its tokens are what is counted."""
        if wishes.knowledge_base is not None:
            kb = await self.knowledge_bases.find(wishes.knowledge_base)
            return kb.chunking, kb.embedder(self.desk.embedders)
        chunking = wishes.chunking or Chunking()
        if chunking.strategy not in installed_chunkers():
            there = ", ".join(sorted(installed_chunkers()))
            message = f"No chunker is named {chunking.strategy!r}; there are: {there}."
            raise InvalidInput(message, loc=("body", "chunking", "strategy"))
        return chunking, self.desk.embedders.default


def _show(parsed: ParsedDocument, media_type: str, chunking: Chunking, tools: ChunkTools) -> Preview:
    shown = first_blocks(parsed.blocks, MOST_CHARACTERS)
    tree = build_tree(replace(parsed, blocks=shown))
    drafts, counts = chunk_document(tree, chunking, tools)
    if not drafts:
        raise NoText
    return Preview(
        media_type=media_type,
        title=tree.root.title,
        page_count=parsed.page_count,
        warnings=[*parsed.warnings, *tree.warnings],
        quality=measure_quality(parsed, media_type=media_type),
        tokens=sum(tools.count_tokens([block.text for block in shown])),
        tree=tree,
        drafts=drafts,
        counts=counts,
        truncated=shown != parsed.blocks,
    )


def first_blocks(blocks: Sequence[Block], characters: int) -> list[Block]:
    """As many as hold so many characters; the last of them may be a part of one."""
    shown: list[Block] = []
    for block in blocks:
        text = block.text[:characters].strip()
        if not text:
            break
        shown.append(block if text == block.text else replace(block, text=text))
        characters -= len(block.text)
        if characters <= 0:
            break
    return shown
