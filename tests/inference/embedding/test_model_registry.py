"""Models of a process: lookup, the named model, and faults that prevent the start."""

import json
import logging
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from typing import Any

import pytest

from app.errors import InvalidInputError
from app.inference.embedding import Embedder, EmbeddingMismatch, EmbeddingRejected
from app.inference.embedding.factory import DuplicateEmbeddingModel, create_embedders
from app.inference.embedding.model_registry import Embedders
from app.settings import load_settings
from harness.protocol_servers.embedding import EmbeddingServer
from tests.inference.embedding.conftest import EmbedderOpener

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
