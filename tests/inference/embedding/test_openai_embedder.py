"""The endpoint embedder against a real HTTP server with correct and faulty replies."""

import asyncio
import logging

import numpy as np
import pytest

from app.inference.embedding import (
    EmbeddingIdentity,
    EmbeddingMismatch,
    EmbeddingRejected,
    EmbeddingUnavailable,
)
from harness.protocol_servers.embedding import EmbeddingServer
from harness.wait_until import wait_until
from harness.word_vectors import compute_text_vector
from tests.inference.embedding.conftest import EmbedderOpener

SOON = "0.01"


def unit(text: str, dimensions: int = 64) -> np.ndarray:
    vector = np.array(compute_text_vector(text, dimensions))
    return np.asarray(vector / np.linalg.norm(vector))


def numbered(count: int) -> list[str]:
    return [f"text number {i}" for i in range(count)]


@pytest.mark.capability("model-endpoint")
@pytest.mark.parametrize("ignores_base64", [False, True])
@pytest.mark.parametrize("shuffles", [False, True])
async def test_openai_vectors_are_in_order_and_of_unit_length(
    server: EmbeddingServer, open_embedder: EmbedderOpener, ignores_base64: bool, shuffles: bool
) -> None:
    server.ignores_base64, server.shuffles_results = ignores_base64, shuffles
    texts = numbered(150)
    vectors = (await open_embedder().embed_documents(texts)).vectors
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, [unit(text) for text in texts], atol=1e-6)
    assert server.batch_sizes == [64, 64, 22]
    assert server.received[0].body["encoding_format"] == "base64"


async def test_openai_without_texts_sends_no_request(server: EmbeddingServer, open_embedder: EmbedderOpener) -> None:
    embedded = await open_embedder().embed_documents([])
    assert (embedded.vectors.shape, embedded.tokens) == ((0, 64), 0)
    assert server.request_count == 0


@pytest.mark.capability("model-prefixes")
async def test_openai_prefixes_model_and_key_are_sent(server: EmbeddingServer, open_embedder: EmbedderOpener) -> None:
    server.api_key = "key-of-the-test"
    embedder = open_embedder(query_prefix="query: ", document_prefix="passage: ")
    await embedder.embed_queries(["desk"])
    await embedder.embed_documents(["desk"])
    await embedder.check()
    assert [request.inputs for request in server.received] == [["query: desk"], ["passage: desk"], ["query: word"]]
    assert {request.body["model"] for request in server.received} == {"a-model"}
    assert "dimensions" not in server.received[0].body
    assert embedder.identity == EmbeddingIdentity("a-model", 64, "remote", "query: ", "passage: ")


async def test_openai_dimensions_are_sent_on_request(server: EmbeddingServer, open_embedder: EmbedderOpener) -> None:
    (vector,) = await open_embedder(dimensions=16, send_dimensions=True).embed_queries(["desk"])
    assert server.received[0].body["dimensions"] == 16
    assert vector.shape == (16,)


async def test_openai_package_environment_is_not_used(
    server: EmbeddingServer, open_embedder: EmbedderOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "from-elsewhere")
    await open_embedder(api_key=None).embed_queries(["desk"])
    assert "authorization" not in server.received[0].headers
    assert "from-elsewhere" not in str(server.received[0].headers)


async def test_openai_empty_text_and_lone_surrogates_can_be_sent(
    server: EmbeddingServer, open_embedder: EmbedderOpener
) -> None:
    vectors = (await open_embedder().embed_documents(["", "half a \ud83e pair"])).vectors
    assert np.isfinite(vectors).all()
    assert server.received[0].inputs == [" ", "half a ? pair"]


async def test_openai_largest_batch_is_remembered(server: EmbeddingServer, open_embedder: EmbedderOpener) -> None:
    server.max_batch = 10
    embedder = open_embedder()
    texts = numbered(100)
    vectors = (await embedder.embed_documents(texts)).vectors
    assert np.allclose(vectors, [unit(text) for text in texts], atol=1e-6)
    assert server.batch_sizes[:4] == [64, 32, 16, 8]
    assert max(server.batch_sizes[4:]) == 8
    server.reset()
    await embedder.embed_documents(numbered(40))
    assert server.batch_sizes == [8] * 5


async def test_openai_rejected_text_is_named_and_leaves_batch_size(
    server: EmbeddingServer, open_embedder: EmbedderOpener
) -> None:
    server.refused_word = "poison"
    embedder = open_embedder()
    texts = numbered(100)
    texts[77] = "poison here"
    with pytest.raises(EmbeddingRejected) as raised:
        await embedder.embed_documents(texts)
    assert raised.value.fields["index"] == 77
    assert "context_length_exceeded" in raised.value.message
    assert "poison" not in raised.value.message
    assert "repeat the input" not in raised.value.message
    server.reset()
    await embedder.embed_documents(numbered(64))
    assert server.batch_sizes == [64]


async def test_openai_batches_respect_token_limit(server: EmbeddingServer, open_embedder: EmbedderOpener) -> None:
    await open_embedder().embed_documents(["x " * 60_000, "y " * 60_000, "z", "long " * 80_000])
    assert server.batch_sizes == [3, 1]


@pytest.mark.parametrize("status", [429, 500, 503, 408])
async def test_openai_documents_are_retried(
    server: EmbeddingServer, open_embedder: EmbedderOpener, status: int
) -> None:
    server.fail(status, times=3, retry_after=SOON)
    assert (await open_embedder().embed_documents(["desk"])).vectors.shape == (1, 64)
    assert server.request_count == 4


async def test_openai_documents_fail_after_all_attempts(server: EmbeddingServer, open_embedder: EmbedderOpener) -> None:
    server.fail(503, times=None, retry_after=SOON)
    with pytest.raises(EmbeddingUnavailable, match="HTTP 503"):
        await open_embedder().embed_documents(["desk"])
    assert server.request_count == 5


@pytest.mark.parametrize("retry_after", ["3600", "Wed, 21 Oct 2099 07:28:00 GMT"])
async def test_openai_long_retry_after_is_left_to_caller(
    server: EmbeddingServer, open_embedder: EmbedderOpener, retry_after: str
) -> None:
    server.fail(429, times=None, retry_after=retry_after)
    with pytest.raises(EmbeddingUnavailable, match="HTTP 429") as raised:
        await open_embedder().embed_documents(["desk"])
    assert server.request_count == 1
    assert raised.value.retry_after >= 3599


@pytest.mark.parametrize("retry_after", ["soon", "-1", "nan", "Wed, 21 Oct 2015 07:28:00 GMT"])
async def test_openai_invalid_retry_after_is_ignored(
    server: EmbeddingServer, open_embedder: EmbedderOpener, retry_after: str
) -> None:
    server.fail(429, retry_after=retry_after)
    assert (await open_embedder().embed_queries(["desk"])).shape == (1, 64)


async def test_openai_query_is_retried_once(server: EmbeddingServer, open_embedder: EmbedderOpener) -> None:
    embedder = open_embedder()
    server.fail(500)
    assert (await embedder.embed_queries(["desk"])).shape == (1, 64)
    assert server.request_count == 2
    server.fail(500, times=None)
    with pytest.raises(EmbeddingUnavailable):
        await embedder.embed_queries(["desk"])
    assert server.request_count == 4


async def test_openai_query_does_not_wait_for_long_retry_after(
    server: EmbeddingServer, open_embedder: EmbedderOpener
) -> None:
    server.fail(429, times=None, retry_after="5")
    with pytest.raises(EmbeddingUnavailable) as raised:
        await open_embedder().embed_queries(["desk"])
    assert server.request_count == 1
    assert raised.value.retry_after == 5.0


async def test_openai_slow_endpoint_is_unavailable(server: EmbeddingServer, open_embedder: EmbedderOpener) -> None:
    server.fail("slow", times=None)
    with pytest.raises(EmbeddingUnavailable, match="no answer in time"):
        await open_embedder(timeout_seconds=0.5).embed_queries(["desk"])
    await wait_until(lambda: server.request_count == 2)  # a busy server may read the second request later


async def test_openai_closed_port_is_unavailable(open_embedder: EmbedderOpener) -> None:
    with pytest.raises(EmbeddingUnavailable, match="no connection"):
        await open_embedder(base_url="http://127.0.0.1:9/v1").embed_queries(["desk"])


async def test_openai_cancelled_call_sends_no_more_requests(
    server: EmbeddingServer, open_embedder: EmbedderOpener
) -> None:
    server.fail("slow", times=None)
    call = asyncio.create_task(open_embedder().embed_documents(numbered(200)))
    async with asyncio.timeout(30):
        while not server.request_count:
            await asyncio.sleep(0.005)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert server.request_count == 1


@pytest.mark.parametrize(
    "how", ["short", "nan", "zero", "garbage", "not_json", "truncated", "cut_off", "indexes", "disconnect"]
)
async def test_openai_malformed_reply_is_retried(
    server: EmbeddingServer, open_embedder: EmbedderOpener, how: str
) -> None:
    embedder = open_embedder()
    server.fail(how)  # type: ignore[arg-type]  # a parameter cannot be a Literal
    assert np.allclose(await embedder.embed_queries(["desk", "chair"]), [unit("desk"), unit("chair")], atol=1e-6)
    server.fail(how, times=None)  # type: ignore[arg-type]  # as above
    with pytest.raises(EmbeddingUnavailable):
        await embedder.embed_queries(["desk", "chair"])


@pytest.mark.parametrize("ignores_base64", [False, True])
async def test_openai_nan_is_refused_in_either_encoding(
    server: EmbeddingServer, open_embedder: EmbedderOpener, ignores_base64: bool
) -> None:
    server.ignores_base64 = ignores_base64
    server.fail("nan", times=None)
    with pytest.raises(EmbeddingUnavailable, match="not finite"):
        await open_embedder().embed_queries(["desk"])


async def test_openai_other_dimension_is_mismatch_without_retry(
    server: EmbeddingServer, open_embedder: EmbedderOpener
) -> None:
    server.fail("dimension", times=None)
    embedder = open_embedder()
    for call in (embedder.check(), embedder.embed_documents(["desk"])):
        with pytest.raises(EmbeddingMismatch, match="65 dimensions, but CARREL_EMBEDDING_DIMENSIONS is 64"):
            await call
    assert server.request_count == 2


@pytest.mark.parametrize("status", [401, 403])
async def test_openai_refused_key_names_setting_and_not_key(
    server: EmbeddingServer, open_embedder: EmbedderOpener, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.fail(status, times=None)
    with pytest.raises(EmbeddingRejected, match="CARREL_EMBEDDING_API_KEY") as raised:
        await open_embedder().embed_documents(["a secret text", "another"])
    assert server.request_count == 1
    assert "key-of-the-test" not in raised.value.message
    assert "key-of-the-test" not in caplog.text
    assert "a secret text" not in caplog.text


async def test_openai_wrong_address_names_setting(server: EmbeddingServer, open_embedder: EmbedderOpener) -> None:
    embedder = open_embedder(base_url=server.base_url.replace("/v1", "/v2"))
    with pytest.raises(EmbeddingRejected, match="CARREL_EMBEDDING_BASE_URL"):
        await embedder.check()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("abc", 1), ("abcd", 2), ("éé", 2), ("中文", 3), ("\U0001f600", 2), ("a中", 2), ("\ud800", 1)],
)
def test_openai_token_estimate_is_an_upper_bound(open_embedder: EmbedderOpener, text: str, tokens: int) -> None:
    embedder = open_embedder(max_tokens=512)
    assert embedder.count_tokens([text, text]) == [tokens, tokens]
    assert (embedder.max_tokens, embedder.special_tokens) == (512, 2)
