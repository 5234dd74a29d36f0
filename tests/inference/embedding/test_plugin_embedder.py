"""Embedders of plugins: found by name, and validated at every call."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from app.errors import AppError
from app.inference.embedding import (
    EmbeddingIdentity,
    EmbeddingMismatch,
    EmbeddingRejected,
    Embeddings,
    EmbeddingUnavailable,
    ImageFile,
)
from app.inference.embedding.plugin_embedder import (
    EmbedderMissing,
    EmbedderRefused,
    PluginEmbedder,
    create_plugin_embedder,
)
from app.settings import EmbeddingSettings
from tests.fixtures.plugins import Plugins, plugins

__all__ = ["plugins"]
SOURCE = """
from types import SimpleNamespace
from carrel.plugins.embedders import EmbeddingIdentity

class Model:
    max_tokens, special_tokens = 100, 2
    def __init__(self, settings, dimensions=3):
        self.identity = EmbeddingIdentity(settings.query_prefix, dimensions, "fp32", "", "")

def long(settings):
    return Model(settings, 4001)

def empty(settings):
    return Model(settings, 0)

def short(settings):
    made = Model(settings)
    made.max_tokens = 17
    return made

def nameless(settings):
    return SimpleNamespace(identity="me", max_tokens=100, special_tokens=0)

def blind(settings):
    made = Model(settings)
    made.image_embedder = made
    return made

def nothing(settings):
    return None

def failing(settings):
    raise RuntimeError("no such model")
"""


class ScriptedEmbedder:
    """Returns or raises the value of the test."""

    identity = EmbeddingIdentity("scripted", 2, "fp32", "", "")
    max_tokens = 100
    special_tokens = 0
    image_embedder = None
    closed = False

    def __init__(self, gives: Any, counts: Any = (1, 1)) -> None:
        self.gives, self.counts = gives, counts

    async def embed_documents(self, texts: Sequence[str], **_: Any) -> Any:
        return self._give()

    async def embed_queries(self, texts: Sequence[str]) -> Any:
        return self._give()

    def count_tokens(self, texts: Sequence[str]) -> Any:
        if isinstance(self.counts, Exception):
            raise self.counts
        return self.counts

    async def check(self) -> None: ...

    async def close(self) -> None:
        self.closed = True

    def _give(self) -> Any:
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives


def settings(**given: Any) -> EmbeddingSettings:
    return EmbeddingSettings(**{f"CARREL_EMBEDDING_{name.upper()}": value for name, value in given.items()})


@pytest.mark.capability("model-plugin")
def test_plugin_embedder_is_created_from_settings(plugins: Plugins) -> None:
    plugins.add("modelled", SOURCE, embedders={"modelled": "modelled:Model"})
    made = create_plugin_embedder("modelled", settings(query_prefix="q"))
    assert (made.identity.model, made.identity.dimensions, made.max_tokens, made.special_tokens) == ("q", 3, 100, 2)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("long", "number of dimensions"),
        ("empty", "number of dimensions"),
        ("short", "fewer than"),
        ("nameless", "EmbeddingIdentity"),
        ("blind", "without embed_images"),
        ("nothing", "AttributeError"),
        ("failing", "no such model"),
        ("missing", "AttributeError"),
    ],
)
def test_plugin_embedder_invalid_factory_stops_start(plugins: Plugins, function: str, told: str) -> None:
    plugins.add(f"modelled_{function}", SOURCE, embedders={"it": f"modelled_{function}:{function}"})
    with pytest.raises(EmbedderRefused, match=told) as refused:
        create_plugin_embedder("it", settings())
    assert "CARREL_EMBEDDING_PROVIDER" in refused.value.message


def test_plugin_embedder_unknown_name_lists_names(plugins: Plugins) -> None:
    plugins.add("modelled_two", SOURCE, embedders={"one": "modelled_two:Model", "two": "modelled_two:Model"})
    with pytest.raises(EmbedderMissing, match=r"'three'\. Available names: one, two"):
        create_plugin_embedder("three", settings())


@pytest.mark.parametrize("gives", [np.array([[3, 4], [0, 1]], np.float32), [[3.0, 4.0], [0, 0.5]]])
async def test_plugin_embedder_vectors_become_unit_vectors(gives: Any) -> None:
    expected = np.array([[0.6, 0.8], [0, 1]], np.float32)
    queries = await PluginEmbedder("it", ScriptedEmbedder(gives)).embed_queries(["a", "b"])
    made = await PluginEmbedder("it", ScriptedEmbedder(Embeddings(gives, 7))).embed_documents(["a", "b"])
    for vectors in (queries, made.vectors):
        assert vectors.dtype == np.float32
        assert np.allclose(vectors, expected)
    assert made.tokens == 7


@pytest.mark.parametrize(
    ("gives", "error"),
    [
        ([[1.0, 0.0]], EmbeddingMismatch),
        ([[1.0, 0.0, 0.0]] * 2, EmbeddingMismatch),
        ([[1.0], [1.0, 0.0]], EmbeddingMismatch),
        (None, EmbeddingMismatch),
        ([["a", "b"], ["c", "d"]], EmbeddingMismatch),
        ([[1.0, 0.0], [0.0, 0.0]], EmbeddingRejected),
        ([[1.0, 0.0], [float("nan"), 0.0]], EmbeddingRejected),
        ([[1.0, 0.0], [float("inf"), 0.0]], EmbeddingRejected),
        (RuntimeError("whatever"), EmbeddingUnavailable),
        (EmbeddingRejected("too odd", index=1), EmbeddingRejected),
    ],
)
async def test_plugin_embedder_invalid_vectors_are_refused(gives: Any, error: type[AppError]) -> None:
    for wrapped in (gives, Embeddings(gives, 1)) if not isinstance(gives, Exception) else (gives, gives):
        plugged = PluginEmbedder("it", ScriptedEmbedder(wrapped))
        embed: Callable[[Sequence[str]], Any] = plugged.embed_queries
        if isinstance(wrapped, Embeddings):
            embed = plugged.embed_documents
        with pytest.raises(error):
            await embed(["a", "b"])


@pytest.mark.parametrize("gives", [[[1.0, 0.0], [0.0, 1.0]], Embeddings(np.eye(2, dtype=np.float32), None)])  # type: ignore[arg-type]
async def test_plugin_embedder_documents_without_embeddings_object_are_refused(gives: Any) -> None:
    with pytest.raises(EmbeddingRejected, match="not return Embeddings"):
        await PluginEmbedder("it", ScriptedEmbedder(gives)).embed_documents(["a", "b"])


@pytest.mark.parametrize("counts", [[1], [1, -1], ["a", "b"], None, RuntimeError("whatever")])
def test_plugin_embedder_invalid_counts_are_refused(counts: Any) -> None:
    with pytest.raises(EmbeddingRejected):
        PluginEmbedder("it", ScriptedEmbedder([], counts)).count_tokens(["a", "b"])


async def test_plugin_embedder_delegates_other_methods(plugins: Plugins) -> None:
    inner = ScriptedEmbedder([[1.0, 0.0]], counts=np.array([2, 3]))
    plugged = PluginEmbedder("it", inner)
    assert plugged.count_tokens(["a", "b"]) == [2, 3]
    await plugged.check()
    await plugged.close()
    assert inner.closed


class Seeing(ScriptedEmbedder):
    """Embeds images too."""

    @property
    def image_embedder(self) -> Any:  # type: ignore[override]  # the other has none
        return self

    async def embed_images(self, images: Sequence[ImageFile], *, interactive: bool = False) -> Any:
        return self._give()


async def test_plugin_embedder_image_vectors_are_validated() -> None:
    pictures = [ImageFile("image/png", b"1"), ImageFile("image/png", b"2")]
    plugged = PluginEmbedder("it", Seeing(Embeddings(np.array([[3, 4], [0, 1]], np.float32), 7)))
    assert plugged.image_embedder is plugged
    made = await plugged.embed_images(pictures)
    assert np.allclose(made.vectors, [[0.6, 0.8], [0.0, 1.0]])
    assert made.tokens == 7
    for gives, error in (
        (Embeddings(np.eye(3, dtype=np.float32), 7), EmbeddingMismatch),
        (Embeddings(np.zeros((2, 2), np.float32), 7), EmbeddingRejected),
        (np.eye(2), EmbeddingRejected),
        (RuntimeError("whatever"), EmbeddingUnavailable),
    ):
        with pytest.raises(error):
            await PluginEmbedder("it", Seeing(gives)).embed_images(pictures)


async def test_plugin_embedder_without_images_refuses_them() -> None:
    plugged = PluginEmbedder("it", ScriptedEmbedder([]))
    assert plugged.image_embedder is None
    with pytest.raises(EmbeddingRejected, match="takes no images"):
        await plugged.embed_images([])
