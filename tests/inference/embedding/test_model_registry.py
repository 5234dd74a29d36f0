"""Models of a process: lookup, the named model, and faults that prevent the start."""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors import InvalidInputError
from app.inference.embedding import Embedder, EmbeddingMismatch, EmbeddingRejected, EmbeddingUnavailable
from app.inference.embedding.factory import DuplicateEmbeddingModel, UnknownLocalModel, create_embedders
from app.inference.embedding.lazy_embedder import LazyEmbedder
from app.inference.embedding.local_embedder import LocalEmbedder
from app.inference.embedding.local_loader import get_identity, load_local_embedder
from app.inference.embedding.local_models import LOCAL_MODELS
from app.inference.embedding.model_registry import Embedders, compute_model_key
from app.settings import load_settings
from harness.protocol_servers.embedding import EmbeddingServer
from tests.inference.embedding.conftest import EmbedderOpener, find

NOBODY: Any = None  # the store of rate limits, which these embedders do not have
CLOSED_PORT = "http://127.0.0.1:9/v1"


def embedders(server: EmbeddingServer, *models: dict[str, Any]) -> Embedders:
    """Return embedders of the server:

    ``first`` by default, and models that use the server unless they name another one.
    """
    given = [{"base_url": server.base_url, **model} if "provider" not in model else model for model in models]
    embedding = {
        "CARREL_EMBEDDING_BASE_URL": server.base_url,
        "CARREL_EMBEDDING_MODEL": "first",
        "CARREL_EMBEDDING_DIMENSIONS": 64,
        "CARREL_EMBEDDING_MODELS": json.dumps(given),
    }
    return create_embedders(load_settings(embedding=embedding).embedding, bulk_threads=1, rate_limit_store=NOBODY)


@pytest.fixture
async def opened(server: EmbeddingServer) -> AsyncIterator[Embedders]:
    made = embedders(
        server,
        {"model": "second", "dimensions": 8, "query_prefix": "query: "},
        {"model": "second", "dimensions": 16, "max_tokens": 64},
        {"provider": "embedded", "model": "all-MiniLM-L6-v2", "precision": "int8"},
    )
    yield made
    await made.close()


def names(models: Embedders) -> list[tuple[str, int]]:
    return [(identity.model, identity.dimensions) for identity in models.identities]


def test_model_registry_entries_have_their_settings(opened: Embedders) -> None:
    assert names(opened) == [("first", 64), ("second", 8), ("second", 16), ("all-MiniLM-L6-v2", 384)]
    assert [embedder.max_tokens for embedder in opened.all] == [8191, 8191, 64, 256]
    assert opened.identities[1].query_prefix == "query: "
    assert opened.identities[3].precision == "int8"


@pytest.mark.parametrize(
    ("model", "dimensions", "found"),
    [(None, None, 0), (None, 64, 0), ("first", None, 0), ("second", None, 1), ("second", 8, 1), ("second", 16, 2)],
)
def test_get_by_name_finds_model_by_name_and_dimensions(
    opened: Embedders, model: str | None, dimensions: int | None, found: int
) -> None:
    assert opened.get_by_name(model, dimensions) is opened.all[found]


@pytest.mark.parametrize(
    ("model", "dimensions", "said"),
    [
        ("third", None, "The embedding models are: first, second, all-MiniLM-L6-v2."),
        ("Second", 8, "The embedding models are: first, second, all-MiniLM-L6-v2."),
        ("second", 64, "second has 8 or 16 dimensions."),
        (None, 8, "first has 64 dimensions."),
    ],
)
def test_get_by_name_unknown_model_lists_models(
    opened: Embedders, model: str | None, dimensions: int | None, said: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        opened.get_by_name(model, dimensions)
    assert caught.value.message == said


def test_find_by_identity_returns_only_the_same_model(opened: Embedders) -> None:
    for embedder in opened.all:
        assert opened.find_by_identity({**asdict(embedder.identity), "analyzer": "english-3", "k1": 1.2}) is embedder
        for changes in ({"model": "x"}, {"dimensions": 5}, {"precision": "x"}, {"document_prefix": "x"}):
            assert opened.find_by_identity(asdict(replace(embedder.identity, **changes))) is None
    assert opened.find_by_identity({}) is None


@pytest.mark.parametrize(
    "models",
    [
        [{"model": "first", "dimensions": 64}],
        [{"model": "second", "dimensions": 8}, {"model": "second", "dimensions": 8, "query_prefix": "query: "}],
        [{"provider": "embedded"}, {"provider": "embedded", "precision": "int8"}],
        [{"provider": "embedded"}, {"model": "bge-small-en-v1.5", "dimensions": 384}],
    ],
)
def test_model_configured_twice_stops_start(server: EmbeddingServer, models: list[dict[str, Any]]) -> None:
    with pytest.raises(DuplicateEmbeddingModel, match=r"CARREL_EMBEDDING_MODELS: .* is configured twice"):
        embedders(server, *models)


@pytest.mark.parametrize(
    ("embedding", "message"),
    [
        (
            {"CARREL_EMBEDDING_MODEL": "bge-large"},
            "CARREL_EMBEDDING_MODEL without an endpoint is one of bge-small-en-v1.5",
        ),
        ({"CARREL_EMBEDDING_PRECISION": "fp32"}, "PRECISION is fp32, but bge-small-en-v1.5 has int8"),
        ({"CARREL_EMBEDDING_MODELS": '[{"provider": "embedded", "model": "m"}]'}, "model of 'm' in CARREL_EMBEDDING_M"),
    ],
)
def test_unknown_local_model_stops_start(embedding: dict[str, str], message: str) -> None:
    with pytest.raises(UnknownLocalModel, match=message):
        create_embedders(load_settings(embedding=embedding).embedding, bulk_threads=1, rate_limit_store=NOBODY)


async def test_local_models_on_the_machine_are_found(bge: LocalEmbedder, fp32: LocalEmbedder) -> None:
    """Search indexes keep their model when the default changes, and callers can name every local model."""
    made = create_embedders(load_settings(embedding={}).embedding, bulk_threads=1, rate_limit_store=NOBODY)
    try:
        assert made.default.identity == bge.identity
        assert made.get_by_name("all-MiniLM-L6-v2", None).identity.precision == "int8"
        found = made.find_by_identity(asdict(fp32.identity))
        assert found is not None
        assert found.identity == fp32.identity
        assert found not in made.all
        assert (found.max_tokens, found.special_tokens) == (fp32.max_tokens, fp32.special_tokens)
        await found.check()
        assert np.array_equal(await found.embed_queries(["desk"]), await fp32.embed_queries(["desk"]))
        assert found.count_tokens(["two words"]) == [2]
        assert made.find_by_key(compute_model_key(fp32.identity)) is found
    finally:
        await made.close()
    with pytest.raises(EmbeddingUnavailable):
        await found.embed_queries(["desk"])
    with pytest.raises(EmbeddingUnavailable):
        await made.get_by_name("all-MiniLM-L6-v2", None).embed_queries(["desk"])


@pytest.mark.parametrize("settings", [{}, {"CARREL_EMBEDDING_MODEL": "multilingual-e5-small"}], ids=["lazy", "loaded"])
async def test_prefix_leaves_the_end_of_a_chunk_of_the_maximum_size(settings: dict[str, str]) -> None:
    """The model reads the prefix, the special tokens and the whole chunk."""
    made = create_embedders(load_settings(embedding=settings).embedding, bulk_threads=1, rate_limit_store=NOBODY)
    try:
        embedder = made.get_by_name("multilingual-e5-small", None)
        assert embedder.special_tokens == 5
        chunk = "Haus " * (embedder.max_tokens - embedder.special_tokens)
        assert embedder.count_tokens([chunk.strip()]) == [embedder.max_tokens - embedder.special_tokens]
        assert (await embedder.embed_documents([chunk.strip()])).tokens < embedder.max_tokens
    finally:
        await made.close()


async def test_prefix_longer_than_the_model_reads_leaves_half_for_a_chunk() -> None:
    settings = {"CARREL_EMBEDDING_DOCUMENT_PREFIX": "desk " * 600}
    made = create_embedders(load_settings(embedding=settings).embedding, bulk_threads=1, rate_limit_store=NOBODY)
    assert (made.default.max_tokens, made.default.special_tokens) == (512, 256)
    await made.close()


async def test_close_waits_for_a_load_that_has_begun() -> None:
    """Otherwise its threads would stay, and it could be used after the close."""
    begun, may_end = threading.Event(), threading.Event()

    def load() -> LocalEmbedder:
        begun.set()
        may_end.wait(60)
        return load_local_embedder(find("all-MiniLM-L6-v2"), identity, bulk_threads=1)

    model = LOCAL_MODELS["all-MiniLM-L6-v2"]
    identity = get_identity(model)
    lazy = LazyEmbedder(model, identity, load)
    use = asyncio.create_task(lazy.embed_queries(["desk"]))
    await asyncio.to_thread(begun.wait, 60)
    close = asyncio.create_task(lazy.close())
    done, _ = await asyncio.wait([close], timeout=0.1)
    assert not done
    may_end.set()
    await asyncio.gather(use, close, return_exceptions=True)
    with pytest.raises(EmbeddingUnavailable):
        await lazy.embed_queries(["desk"])


async def test_damaged_local_model_is_unavailable(tmp_path: Path) -> None:
    """A damaged model that is not the default one does not stop the start."""
    (tmp_path / "bge-small-en-v1.5").symlink_to(find("bge-small-en-v1.5"))
    (tmp_path / "all-MiniLM-L6-v2").mkdir()
    for name in ("tokenizer.json", "model.safetensors"):
        (tmp_path / "all-MiniLM-L6-v2" / name).write_bytes(b"damaged")
    settings = load_settings(embedding={"CARREL_EMBEDDING_WEIGHTS_DIR": str(tmp_path)}).embedding
    made = create_embedders(settings, bulk_threads=1, rate_limit_store=NOBODY)
    await made.check()
    with pytest.raises(EmbeddingUnavailable, match=r"tokenizer\.json"):
        await made.get_by_name("all-MiniLM-L6-v2", None).embed_queries(["desk"])
    await made.close()


async def test_unavailable_model_at_start_is_a_warning(
    server: EmbeddingServer, caplog: pytest.LogCaptureFixture
) -> None:
    made = embedders(server, {"model": "gone", "dimensions": 8, "base_url": CLOSED_PORT})
    with caplog.at_level(logging.WARNING):
        await made.check()
    await made.close()
    assert "embedding.unavailable_at_start" in caplog.text
    assert server.request_count == 1


async def test_model_with_other_dimensions_stops_start(server: EmbeddingServer) -> None:
    made = embedders(server, {"model": "second", "dimensions": 8})
    with pytest.raises(EmbeddingMismatch, match="dimensions of 'second' in CARREL_EMBEDDING_MODELS is 8"):
        await made.check()
    await made.close()


@pytest.mark.parametrize(
    ("status", "named"),
    [(401, "api_key_env of 'second'"), (403, "api_key_env of 'second'"), (404, "base_url of 'second'")],
)
async def test_rejected_model_names_its_settings(server: EmbeddingServer, status: int, named: str) -> None:
    made = embedders(server, {"model": "second", "dimensions": 64})
    server.fail(status, times=2)
    with pytest.raises(EmbeddingRejected, match=f"check {named} in CARREL_EMBEDDING_MODELS"):
        await made.all[1].check()
    with pytest.raises(EmbeddingRejected, match="check CARREL_EMBEDDING_"):
        await made.all[0].check()
    await made.close()


async def test_close_closes_all_models(server: EmbeddingServer, open_embedder: EmbedderOpener) -> None:
    one: Embedder = open_embedder()
    other: Embedder = open_embedder(dimensions=64)
    await Embedders(one, [other]).close()
    for embedder in (one, other):
        with pytest.raises(RuntimeError):
            await embedder.embed_queries(["desk"])
