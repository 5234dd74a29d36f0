"""Outages of an endpoint: down, overloaded or back again, for the calls of one process and of several."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from uuid import uuid4

import numpy as np
import pytest

from app.db.control_plane import ControlPlaneDatabase
from app.db.session import Database
from app.embedded_postgres import DatabaseUrls
from app.inference.circuit_breaker import MAX_FAILURES
from app.inference.embedding import EmbeddingMismatch, EmbeddingRejected, EmbeddingUnavailable
from app.inference.embedding.openai_embedder import OpenAIEmbedder
from app.inference.embedding.rate_limit import SharedRateLimiter
from harness.protocol_servers.embedding import EmbeddingServer
from harness.word_vectors import count_text_tokens
from tests.inference.embedding.conftest import EmbedderOpener

SOON = "0.01"
HANG_SECONDS = 30.0


@pytest.fixture
async def system(database: DatabaseUrls) -> AsyncIterator[ControlPlaneDatabase]:
    pool = Database.connect(database.app, pool_size=4)
    yield ControlPlaneDatabase(pool)
    await pool.close()


def paces(
    system: ControlPlaneDatabase, count: int, *, requests: int | None = None, tokens: int | None = None
) -> list[SharedRateLimiter]:
    """Return the rate limiters of several processes."""
    provider = uuid4()
    return [
        SharedRateLimiter(system, provider, requests_per_minute=requests, tokens_per_minute=tokens)
        for _ in range(count)
    ]


async def break_down(server: EmbeddingServer, embedder: OpenAIEmbedder) -> None:
    """Embed documents until all attempts have failed."""
    server.fail(503, times=MAX_FAILURES, retry_after="0")
    with pytest.raises(EmbeddingUnavailable, match="HTTP 503"):
        await embedder.embed_documents(["desk"])


async def recovered(embedder: OpenAIEmbedder) -> None:
    """Embed a query repeatedly until it succeeds."""
    end = time.monotonic() + HANG_SECONDS
    while True:
        try:
            await embedder.embed_queries(["desk"])
        except EmbeddingUnavailable as exc:
            assert time.monotonic() < end, "it never recovered"
            await asyncio.sleep(min(0.05, exc.retry_after))
        else:
            return


@pytest.mark.capability("model-breaker")
async def test_failing_endpoint_opens_circuit(server: EmbeddingServer, open_embedder: EmbedderOpener) -> None:
    embedder = open_embedder()
    await break_down(server, embedder)
    before = server.request_count
    for call in (embedder.embed_queries, embedder.embed_documents):
        with pytest.raises(EmbeddingUnavailable, match="gets no calls") as raised:
            await call(["desk"])
        assert 0.0 < raised.value.retry_after <= 1.0
    assert server.request_count == before
    await recovered(embedder)
    assert (await embedder.embed_documents(["desk"])).vectors.shape == (1, 64)
    assert server.request_count == before + 2


async def test_open_circuit_allows_one_trial_call(server: EmbeddingServer, open_embedder: EmbedderOpener) -> None:
    embedder = open_embedder()
    await break_down(server, embedder)
    before = server.request_count
    server.latency_seconds = 0.3
    end = time.monotonic() + HANG_SECONDS
    answered = 0
    while not answered and time.monotonic() < end:
        results = await asyncio.gather(*(embedder.embed_queries(["desk"]) for _ in range(5)), return_exceptions=True)
        answered = sum(isinstance(result, np.ndarray) for result in results)
        await asyncio.sleep(0.05)
    assert answered == 1
    assert server.request_count == before + 1


async def test_failed_trial_extends_pause(server: EmbeddingServer, open_embedder: EmbedderOpener) -> None:
    embedder = open_embedder()
    await break_down(server, embedder)
    before = server.request_count
    server.fail(500)
    end = time.monotonic() + HANG_SECONDS
    while server.request_count == before and time.monotonic() < end:
        with pytest.raises(EmbeddingUnavailable) as raised:
            await embedder.embed_queries(["desk"])
        await asyncio.sleep(0.02)
    assert server.request_count == before + 1  # no second attempt: the circuit is open again
    assert raised.value.retry_after > 0.5


@pytest.mark.parametrize("kind", ["refused", "mismatch"])
async def test_refusal_does_not_open_circuit(server: EmbeddingServer, open_embedder: EmbedderOpener, kind: str) -> None:
    server.fail(401 if kind == "refused" else "dimension", times=None)
    embedder = open_embedder()
    for _ in range(MAX_FAILURES + 2):
        with pytest.raises((EmbeddingRejected, EmbeddingMismatch)):
            await embedder.embed_queries(["desk"])
    assert server.request_count == MAX_FAILURES + 2


async def test_searches_timing_out_on_hanging_endpoint_open_circuit(
    server: EmbeddingServer, open_embedder: EmbedderOpener
) -> None:
    """A search's time limit is much shorter than the endpoint's."""
    server.fail("slow", times=None)
    embedder = open_embedder(timeout_seconds=30.0)

    async def search() -> None:
        async with asyncio.timeout(1.5):
            await embedder.embed_queries(["desk"])

    given_up = await asyncio.gather(*(search() for _ in range(MAX_FAILURES)), return_exceptions=True)
    assert {type(error) for error in given_up} == {TimeoutError}
    with pytest.raises(EmbeddingUnavailable, match="gets no calls"):
        await search()


async def test_endpoint_after_closed_port_recovers(open_embedder: EmbedderOpener) -> None:
    with socket.socket() as reserved:  # reserves the port without listening
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        embedder = open_embedder(base_url=f"http://127.0.0.1:{port}/v1")
        for _ in range(3):
            with pytest.raises(EmbeddingUnavailable, match=r"no connection|gets no calls"):
                await embedder.embed_queries(["desk"])
    with EmbeddingServer(port=port):
        await recovered(embedder)


@pytest.mark.parametrize("as_date", [False, True])
async def test_pause_applies_to_other_processes(
    server: EmbeddingServer, open_embedder: EmbedderOpener, system: ControlPlaneDatabase, as_date: bool
) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    first, second = (open_embedder(rate_limiter=pace) for pace in paces(system, 2, requests=6000))
    await second.embed_queries(["desk"])
    server.fail(429, retry_after=later if as_date else "30")
    with pytest.raises(EmbeddingUnavailable, match="HTTP 429"):
        await first.embed_queries(["desk"])
    for embedder in (first, second):
        with pytest.raises(EmbeddingUnavailable, match="limit") as raised:
            await embedder.embed_queries(["desk"])
        assert 10.0 < raised.value.retry_after <= 30.1
    assert server.request_count == 2


async def test_documents_wait_during_short_pause(
    server: EmbeddingServer, open_embedder: EmbedderOpener, system: ControlPlaneDatabase
) -> None:
    first, second = (open_embedder(rate_limiter=pace) for pace in paces(system, 2, tokens=1_000_000))
    server.fail(429, retry_after="0.2")
    both = await asyncio.gather(first.embed_documents(["desk"]), second.embed_documents(["desk", "chair"]))
    assert [embedded.vectors.shape for embedded in both] == [(1, 64), (2, 64)]
    assert server.request_count == 3


async def test_processes_share_rate_limit(
    server: EmbeddingServer, open_embedder: EmbedderOpener, system: ControlPlaneDatabase
) -> None:
    embedders = [open_embedder(rate_limiter=pace) for pace in paces(system, 2, requests=12)]
    bulk = [asyncio.create_task(embedder.embed_documents(["desk"])) for embedder in embedders for _ in range(3)]
    async with asyncio.timeout(HANG_SECONDS):
        while sum(task.done() for task in bulk) < 2:
            await asyncio.sleep(0.01)
    assert server.request_count == 2
    await embedders[0].embed_queries(["a query passes them"])
    assert server.request_count == 3
    await embedders[1].embed_documents(["and a note"], interactive=True)
    assert server.request_count == 4
    for task in bulk:
        task.cancel()
    results = await asyncio.gather(*bulk, return_exceptions=True)
    assert sum(isinstance(result, asyncio.CancelledError) for result in results) == 4


async def test_batches_are_limited_to_share_of_token_limit(
    server: EmbeddingServer, open_embedder: EmbedderOpener, system: ControlPlaneDatabase
) -> None:
    (pace,) = paces(system, 1, tokens=60_000)
    await open_embedder(rate_limiter=pace).embed_documents(["x" * 12_000] * 3)
    assert server.batch_sizes == [2, 1]


@pytest.mark.parametrize("tells_usage", [False, True])
async def test_reported_tokens_equal_endpoint_usage(
    server: EmbeddingServer, open_embedder: EmbedderOpener, tells_usage: bool
) -> None:
    server.reports_usage, server.max_batch = tells_usage, 10
    texts = [f"text number {i}" for i in range(100)]
    embedder = open_embedder()
    embedded = await embedder.embed_documents(texts)
    assert embedded.tokens == sum(map(count_text_tokens, texts) if tells_usage else embedder.count_tokens(texts))


async def test_refused_text_error_reports_tokens_of_others(
    server: EmbeddingServer, open_embedder: EmbedderOpener
) -> None:
    server.refused_word = "poison"
    texts = [*(f"text number {i}" for i in range(3)), "poison"]
    with pytest.raises(EmbeddingRejected) as raised:
        await open_embedder().embed_documents(texts)
    assert raised.value.fields == {"index": 3, "tokens": 3 * count_text_tokens("text number 0")}
