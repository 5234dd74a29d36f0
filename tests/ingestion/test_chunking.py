"""Chunking of a document: from a knowledge base's settings to validated chunks, and embedding calls of a chunker's
thread.
"""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
import pytest

from app.errors import InvalidInputError
from app.inference.embedding import EmbeddingIdentity, Embeddings, EmbeddingUnavailable, Vectors
from app.ingestion.chunkers import CHUNKERS, ChunkTools
from app.ingestion.chunking import chunk_document, create_chunk_tools, parse_chunker_options
from app.ingestion.tree import build_tree
from app.ingestion.types import (
    MAX_CHUNKS,
    MAX_PIECES,
    Block,
    BlockKind,
    ChunkerFailed,
    NodeKind,
    ParsedDocument,
    TooManyChunks,
    TooManyPieces,
)
from app.knowledge_bases.types import Chunking
from tests.ingestion.chunkers.chunk_texts import embed
from tests.ingestion.documents import random_document, walk, words


class SlowEmbedder:
    """Embedding model that answers when the test permits it."""

    identity = EmbeddingIdentity("slow", 32, "fp32", "", "")
    max_tokens = 100
    special_tokens = 2
    image_embedder = None

    def __init__(self) -> None:
        self.asked, self.go_on, self.calls, self.cancelled = asyncio.Event(), asyncio.Event(), 0, 0

    async def embed_documents(self, texts: Sequence[str], *, interactive: bool = False) -> Embeddings:
        self.calls += 1
        self.asked.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if "fail" in texts:
            raise EmbeddingUnavailable
        return Embeddings(embed(texts), sum(words(texts)))

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return (await self.embed_documents(texts)).vectors

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return words(texts)

    async def check(self) -> None:
        pass

    async def close(self) -> None:
        pass


def halves(texts: Sequence[str]) -> list[int]:
    return [len(text) // 2 for text in texts]


def test_chunk_document_too_many_chunks_is_refused() -> None:
    """Each record is a chunk, however short it is."""
    tree = build_tree(ParsedDocument([Block(BlockKind.RECORD, "a: b")] * (MAX_CHUNKS + 1)))
    with pytest.raises(TooManyChunks) as refused:
        chunk_document(tree, Chunking(), ChunkTools(halves, embed, 256))
    assert (refused.value.code, refused.value.fields) == ("too_large", {"limit": MAX_CHUNKS})


@pytest.mark.parametrize("part", ["Hi. ", "hi\n"])
def test_chunk_document_too_many_pieces_is_refused(part: str) -> None:
    kind = BlockKind.CODE if part.endswith("\n") else BlockKind.PARAGRAPH
    tree = build_tree(ParsedDocument([Block(kind, (part * (MAX_PIECES + 1)).strip())]))
    with pytest.raises(TooManyPieces) as refused:
        chunk_document(tree, Chunking(), ChunkTools(halves, embed, 256))
    assert (refused.value.code, refused.value.fields) == ("too_large", {"limit": MAX_PIECES})


async def test_chunk_tools_thread_gets_vectors_and_errors() -> None:
    embedder = SlowEmbedder()
    embedder.go_on.set()
    booked: list[int] = []

    async def book(tokens: int) -> None:
        booked.append(tokens)

    async with create_chunk_tools(embedder, record_tokens=book) as tools:
        assert tools.max_tokens == 98
        assert np.array_equal(await asyncio.to_thread(tools.embed, ["a", "b"]), embed(["a", "b"]))
        with pytest.raises(EmbeddingUnavailable):
            await asyncio.to_thread(tools.embed, ["fail"])
    assert booked == words(["a b"])


async def test_chunk_tools_cancelled_job_releases_thread() -> None:
    embedder = SlowEmbedder()
    ended = threading.Event()
    seen: list[type[BaseException]] = []

    def work(tools: ChunkTools) -> None:
        for _ in range(2):
            try:
                tools.embed(["a"])
            except CancelledError as exc:
                seen.append(type(exc))
        ended.set()

    async def job() -> None:
        async with create_chunk_tools(embedder) as tools:
            await asyncio.to_thread(work, tools)

    running = asyncio.create_task(job())
    await asyncio.wait_for(embedder.asked.wait(), 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await asyncio.to_thread(ended.wait, 10)
    assert seen == [CancelledError, CancelledError]
    assert (embedder.calls, embedder.cancelled) == (1, 1)


def tools_of(max_tokens: int = 200) -> ChunkTools:
    return ChunkTools(words, embed, max_tokens)


@pytest.mark.parametrize("strategy", CHUNKERS)
def test_chunk_document_every_chunker_passes_validation(strategy: str) -> None:
    for seed in range(3):
        tree = build_tree(random_document(seed))
        drafts, counts = chunk_document(tree, Chunking(strategy), tools_of())
        assert counts == words([draft.content for draft in drafts])
        kinds = {node.kind for node in walk(tree.root)}
        assert (NodeKind.TOPIC in kinds) == (strategy in ("semantic", "hierarchical"))
        assert (NodeKind.SENTENCE in kinds) == (strategy in ("semantic", "sentence"))


@pytest.mark.capability("chunker-model-limit")
def test_chunk_document_respects_smaller_model_limit() -> None:
    drafts, counts = chunk_document(build_tree(random_document(1)), Chunking("headered", 200, 50), tools_of(40))
    assert len(drafts) > 10
    assert max(counts) <= 40


@pytest.mark.parametrize(
    "chunking",
    [Chunking("gone"), Chunking("headered", options={"percentile": 5}), Chunking("semantic", options={"buffer": 9})],
)
def test_chunk_document_settings_no_longer_valid_fail(chunking: Chunking) -> None:
    with pytest.raises(ChunkerFailed):
        chunk_document(build_tree(random_document(1)), chunking, tools_of())


def test_chunking_settings_without_options_are_read() -> None:
    stored: dict[str, Any] = {"strategy": "recursive", "max_tokens": 100, "overlap_tokens": 0}
    assert Chunking(**stored).options == {}


@pytest.mark.parametrize(
    ("strategy", "options", "expected"),
    [
        ("headered", {}, {}),
        ("semantic", {"percentile": 80}, {"percentile": 80, "buffer": 1, "min_tokens": 50}),
        ("hierarchical", {}, {"parent_tokens": None}),
        ("sentence", {"sentences": 2}, {"sentences": 2}),
        ("unknown", {"a": 1}, {"a": 1}),
    ],
)
def test_parse_chunker_options_adds_defaults(
    strategy: str, options: dict[str, int], expected: dict[str, int | None]
) -> None:
    assert parse_chunker_options(strategy, options, loc=("body",)) == expected


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("headered", {"percentile": 80}),
        ("semantic", {"percentile": 100}),
        ("semantic", {"percentile": "most"}),
        ("semantic", {"buffer": -1}),
        ("hierarchical", {"parent_tokens": 1}),
        ("sentence", {"sentences": 0}),
        ("sentence", {"sentences": None}),
    ],
)
def test_parse_chunker_options_invalid_options_are_refused(strategy: str, options: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError) as refused:
        parse_chunker_options(strategy, options, loc=("body", "options"))
    assert refused.value.loc == ("body", "options", *options)
