"""Rerankers over HTTP: requests of each dialect, validation of replies, and failures."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, get_args

import pytest

from app.inference.circuit_breaker import MAX_FAILURES
from app.inference.rerank import RerankFailureReason, RerankUnavailable
from app.inference.rerank.dialects import DIALECTS
from app.inference.rerank.http_reranker import HANG_TIMEOUT_SECONDS, HttpReranker, RerankInputTooLarge
from app.settings.rerank import RerankApi
from harness.protocol_servers.rerank import RerankFailure, RerankServer

STYLES: list[RerankApi] = ["tei", "cohere", "jina", "vllm"]
QUERY = "red desk lamp"
TEXTS = ["a green chair", "the red lamp", "a red desk lamp", "a lamp"]
SCORES = {0: 0.0, 1: 2 / 3, 2: 1.0, 3: 1 / 3}
GUARD_SECONDS = 30.0


@pytest.fixture
def server() -> Iterator[RerankServer]:
    with RerankServer() as running:
        yield running


@asynccontextmanager
async def opened(server: RerankServer, *, url: str | None = None, **changed: Any) -> AsyncIterator[HttpReranker]:
    options: dict[str, Any] = {"model": "a-model", "max_documents": None, "max_characters": 4000, **changed}
    reranker = HttpReranker(url or server.url, options.pop("api_key", None), DIALECTS[server.style], **options)
    try:
        yield reranker
    finally:
        await reranker.close()


async def scores(server: RerankServer, *, seconds: float = GUARD_SECONDS, **changed: Any) -> Mapping[int, float]:
    async with opened(server, **changed) as reranker:
        return await reranker.rerank(QUERY, TEXTS, top_n=4, timeout_seconds=seconds)


def test_rerank_dialects_equal_settings_values() -> None:
    assert set(DIALECTS) == set(get_args(RerankApi)) == set(STYLES)


@pytest.mark.capability("rerank-dialects")
@pytest.mark.parametrize("style", STYLES)
async def test_http_reranker_reads_scores_of_every_dialect(style: RerankApi) -> None:
    with RerankServer(style, api_key="a-key") as server:
        assert await scores(server, api_key="a-key") == SCORES
    (asked,) = server.received
    assert (asked.query, asked.texts) == (QUERY, TEXTS)
    assert asked.body.get("model") == (None if style == "tei" else "a-model")


@pytest.mark.parametrize("style", STYLES)
async def test_http_reranker_sends_only_fields_of_dialect(style: RerankApi) -> None:
    with RerankServer(style) as server:
        await scores(server, model=None)
    (asked,) = server.received
    said = {name: asked.body.get(name) for name in ("model", "truncate", "truncate_prompt_tokens", "return_documents")}
    only = {"tei": {"truncate": True}, "vllm": {"truncate_prompt_tokens": -1}, "jina": {"return_documents": False}}
    assert {name: value for name, value in said.items() if value is not None} == only.get(style, {})


async def test_http_reranker_without_key_sends_no_authorization(server: RerankServer) -> None:
    await scores(server)
    assert "authorization" not in server.received[0].headers


@pytest.mark.parametrize(("top_n", "best"), [(1, {2}), (2, {2, 1}), (9, {0, 1, 2, 3})])
async def test_http_reranker_returns_top_n_scores(server: RerankServer, top_n: int, best: set[int]) -> None:
    async with opened(server) as reranker:
        assert set(await reranker.rerank(QUERY, TEXTS, top_n=top_n, timeout_seconds=GUARD_SECONDS)) == best
    assert server.received[0].body["top_n"] == min(top_n, 4)


@pytest.mark.parametrize(("query", "texts"), [(QUERY, []), (QUERY, ["", " \n"]), ("  ", TEXTS), ("", TEXTS)])
async def test_http_reranker_without_query_or_texts_sends_nothing(
    server: RerankServer, query: str, texts: list[str]
) -> None:
    async with opened(server) as reranker:
        assert await reranker.rerank(query, texts, top_n=3, timeout_seconds=GUARD_SECONDS) == {}
    assert server.received == []


async def test_http_reranker_skips_blank_texts(server: RerankServer) -> None:
    async with opened(server, max_documents=2) as reranker:
        found = await reranker.rerank(QUERY, ["", *TEXTS[:2], "\t", *TEXTS[2:]], top_n=6, timeout_seconds=GUARD_SECONDS)
    assert found == {1: SCORES[0], 2: SCORES[1], 4: SCORES[2], 5: SCORES[3]}
    assert server.request_sizes == [2, 2]


async def test_http_reranker_cuts_query_and_texts(server: RerankServer) -> None:
    server.max_characters = 100
    async with opened(server, max_characters=100) as reranker:
        await reranker.rerank("q" * 300, ["\n" + "x" * 300, "y\ud800"], top_n=2, timeout_seconds=GUARD_SECONDS)
    (asked,) = server.received
    assert (asked.query, asked.texts) == ("q" * 100, ["x" * 100, "y?"])


@pytest.mark.parametrize("status", [413, 422])
async def test_http_reranker_too_large_batch_is_halved_and_remembered(server: RerankServer, status: int) -> None:
    server.max_documents, server.too_large_status = 3, status
    async with opened(server) as reranker:
        texts = [*TEXTS, "red"]
        found = await reranker.rerank(QUERY, texts, top_n=5, timeout_seconds=GUARD_SECONDS)
        assert found == {**SCORES, 4: 1 / 3}
        assert server.request_sizes == [5, 3, 2]
        assert await reranker.rerank(QUERY, texts, top_n=5, timeout_seconds=GUARD_SECONDS) == found
    assert server.request_sizes == [5, 3, 2, 3, 2]


async def test_http_reranker_batch_is_halved_once(server: RerankServer) -> None:
    server.max_documents = 1
    async with opened(server) as reranker:
        for _ in range(2):
            with pytest.raises(RerankInputTooLarge, match="CARREL_RERANK_MAX_DOCUMENTS") as raised:
                await reranker.rerank(QUERY, TEXTS, top_n=4, timeout_seconds=GUARD_SECONDS)
    assert raised.value.reason == "refused"
    assert server.request_sizes == [4, 2, 4, 2]


async def test_http_reranker_refused_text_leaves_batch_size(server: RerankServer) -> None:
    server.max_characters = 50
    async with opened(server) as reranker:
        with pytest.raises(RerankInputTooLarge):
            await reranker.rerank(QUERY, [*TEXTS, "x" * 60], top_n=5, timeout_seconds=GUARD_SECONDS)
        with pytest.raises(RerankInputTooLarge):
            await reranker.rerank(QUERY, ["x" * 60], top_n=1, timeout_seconds=GUARD_SECONDS)
        assert await reranker.rerank(QUERY, TEXTS, top_n=4, timeout_seconds=GUARD_SECONDS) == SCORES
    assert server.request_sizes == [5, 3, 2, 1, 4]


async def test_http_reranker_batch_size_follows_dialect_or_setting() -> None:
    texts = [f"lamp {number}" for number in range(70)]
    with RerankServer("tei") as server:
        for most in (None, 50):
            async with opened(server, max_documents=most) as reranker:
                found = await reranker.rerank("lamp 69", texts, top_n=3, timeout_seconds=GUARD_SECONDS)
            assert set(found) == set(range(70))
            assert max(found, key=lambda place: found[place]) == 69
    assert server.request_sizes == [32, 32, 6, 50, 20]


@pytest.mark.parametrize(
    ("how", "left"),
    [
        ("nan", {0, 1, 3}),
        ("infinity", {0, 1, 3}),
        ("null", {0, 1, 3}),
        ("enormous", {0, 1, 3}),
        ("short", {2}),
    ],
)
async def test_http_reranker_unusable_scores_are_missing(
    server: RerankServer, how: RerankFailure, left: set[int]
) -> None:
    server.fail(how)
    assert await scores(server) == {place: SCORES[place] for place in left}


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("indexes", "indexes"),
        ("from_one", "indexes"),
        ("negative", "indexes"),
        ("duplicates", "repeats an index"),
        ("text_scores", "not a number"),
        ("all_null", "nothing is scored"),
        ("empty", "nothing is scored"),
        ("not_json", "not JSON"),
        ("deep", "not JSON"),
        ("wrong_shape", "not a list"),
        ("huge", "too long"),
    ],
)
async def test_http_reranker_malformed_reply_is_unavailable(
    server: RerankServer, how: RerankFailure, told: str
) -> None:
    server.fail(how)
    async with opened(server) as reranker:
        with pytest.raises(RerankUnavailable, match=told) as raised:
            await reranker.rerank(QUERY, TEXTS, top_n=4, timeout_seconds=GUARD_SECONDS)
        assert raised.value.reason == "invalid_response"
        assert await reranker.rerank(QUERY, TEXTS, top_n=4, timeout_seconds=GUARD_SECONDS) == SCORES


@pytest.mark.parametrize(
    ("how", "retry_after", "reason", "told", "wait"),
    [
        (429, "7", "rate_limited", "HTTP 429", 7.0),
        (429, "soon", "rate_limited", "HTTP 429", 2.0),
        (500, None, "failed", "HTTP 500", 2.0),
        (503, "0", "failed", "HTTP 503", 2.0),
        (424, None, "failed", "HTTP 424", 2.0),
        (400, None, "refused", "CARREL_RERANK_API", 2.0),
        (401, None, "refused", "CARREL_RERANK_API_KEY", 2.0),
        (404, None, "refused", "CARREL_RERANK_URL", 2.0),
        ("redirect", None, "refused", "HTTP 307", 2.0),
    ],
)
async def test_http_reranker_failures_have_reason_and_retry_after(
    server: RerankServer,
    how: RerankFailure | int,
    retry_after: str | None,
    reason: RerankFailureReason,
    told: str,
    wait: float,
) -> None:
    server.fail(how, retry_after=retry_after)
    with pytest.raises(RerankUnavailable, match=told) as raised:
        await scores(server)
    assert (raised.value.reason, raised.value.retry_after) == (reason, wait)
    assert "repeat the input" not in str(raised.value)
    assert len(server.received) == 1


async def test_http_reranker_unknown_path_names_setting(server: RerankServer) -> None:
    with pytest.raises(RerankUnavailable, match="CARREL_RERANK_URL"):
        await scores(server, url=server.url + "/else")


async def test_http_reranker_broken_connection_is_retried_once(server: RerankServer) -> None:
    server.fail("disconnect")
    assert await scores(server) == SCORES
    server.fail("disconnect", times=2)
    with pytest.raises(RerankUnavailable, match="no connection"):
        await scores(server)
    assert len(server.received) == 4


async def test_http_reranker_closed_port_is_unreachable(server: RerankServer) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}/rerank"
    with pytest.raises(RerankUnavailable, match="no connection") as raised:
        await scores(server, url=url)
    assert raised.value.reason == "unreachable"


async def arrived(event: threading.Event) -> bool:
    return await asyncio.to_thread(event.wait, GUARD_SECONDS)


@pytest.mark.parametrize("how", ["never", "drip"])
async def test_http_reranker_timeout_closes_connection(server: RerankServer, how: RerankFailure) -> None:
    server.fail(how)
    async with opened(server) as reranker:
        with pytest.raises(RerankUnavailable, match="in time") as raised:
            await reranker.rerank(QUERY, TEXTS, top_n=4, timeout_seconds=0.2)
        assert raised.value.reason == "timeout"
        assert await arrived(server.client_left)
        assert await reranker.rerank(QUERY, TEXTS, top_n=4, timeout_seconds=GUARD_SECONDS) == SCORES


@pytest.mark.parametrize("seconds", [0.0, -1.0])
async def test_http_reranker_without_time_is_timeout(server: RerankServer, seconds: float) -> None:
    with pytest.raises(RerankUnavailable) as raised:
        await scores(server, seconds=seconds)
    assert raised.value.reason == "timeout"


async def test_http_reranker_batches_share_time_limit(server: RerankServer) -> None:
    async with opened(server, max_documents=1) as reranker:
        await reranker.rerank(QUERY, TEXTS[:1], top_n=1, timeout_seconds=GUARD_SECONDS)
        server.fail("never")
        with pytest.raises(RerankUnavailable) as raised:
            await reranker.rerank(QUERY, TEXTS, top_n=4, timeout_seconds=0.2)
    assert raised.value.reason == "timeout"


@pytest.mark.parametrize("how", [503, 429, "not_json", "indexes", "disconnect", "never"])
async def test_http_reranker_repeated_failures_open_circuit(server: RerankServer, how: RerankFailure | int) -> None:
    server.fail(how, times=2 * MAX_FAILURES)
    seconds = HANG_TIMEOUT_SECONDS + 0.1 if how == "never" else GUARD_SECONDS
    async with opened(server) as reranker:
        calls = [reranker.rerank(QUERY, TEXTS, top_n=4, timeout_seconds=seconds) for _ in range(MAX_FAILURES)]
        failed = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(one) for one in failed} == {RerankUnavailable}
        asked = len(server.received)
        with pytest.raises(RerankUnavailable, match="gets no calls") as raised:
            await reranker.rerank(QUERY, TEXTS, top_n=4, timeout_seconds=GUARD_SECONDS)
    assert raised.value.reason == "circuit_open"
    assert len(server.received) == asked


@pytest.mark.parametrize("how", [400, 401, 422])
async def test_http_reranker_refusals_do_not_open_circuit(server: RerankServer, how: int) -> None:
    server.fail(how, times=MAX_FAILURES + 2)
    async with opened(server) as reranker:
        for _ in range(MAX_FAILURES + 2):
            with pytest.raises(RerankUnavailable) as raised:
                await reranker.rerank(QUERY, TEXTS[:1], top_n=4, timeout_seconds=GUARD_SECONDS)
            assert raised.value.reason == "refused"
        assert await reranker.rerank(QUERY, TEXTS, top_n=4, timeout_seconds=GUARD_SECONDS) == SCORES


async def test_http_reranker_late_reply_is_not_used_for_next_call(server: RerankServer) -> None:
    server.fail("late")
    async with opened(server) as reranker:
        with pytest.raises(RerankUnavailable, match="in time"):
            await reranker.rerank("green", TEXTS, top_n=4, timeout_seconds=0.2)
        server.released.set()
        assert await reranker.rerank(QUERY, TEXTS, top_n=4, timeout_seconds=GUARD_SECONDS) == SCORES


async def test_http_reranker_cancelled_call_closes_connection(server: RerankServer) -> None:
    server.fail("never")
    async with opened(server) as reranker:
        task = asyncio.create_task(reranker.rerank(QUERY, TEXTS, top_n=4, timeout_seconds=GUARD_SECONDS))
        async with asyncio.timeout(GUARD_SECONDS):
            while not server.received:
                await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await arrived(server.client_left)


async def test_http_reranker_concurrent_calls_succeed(server: RerankServer) -> None:
    async with opened(server) as reranker:
        calls = [reranker.rerank(QUERY, TEXTS, top_n=4, timeout_seconds=GUARD_SECONDS) for _ in range(20)]
        assert await asyncio.gather(*calls) == [SCORES] * 20


@pytest.mark.parametrize(("model", "name"), [("a-model", "a-model"), (None, "127.0.0.1")])
async def test_http_reranker_name_is_model_or_host(server: RerankServer, model: str | None, name: str) -> None:
    async with opened(server, model=model) as reranker:
        assert reranker.name == name
