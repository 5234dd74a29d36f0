"""Rerankers of plugins: found by name, and validated at every call."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from app.errors import InvalidInputError
from app.inference.rerank import RerankFailureReason, RerankUnavailable
from app.inference.rerank.factory import create_reranker
from app.inference.rerank.plugin_reranker import (
    PluginReranker,
    RerankerMissing,
    RerankerRefused,
    create_plugin_reranker,
)
from app.settings import RerankSettings
from tests.fixtures.plugins import Plugins, plugins

__all__ = ["plugins"]
SOURCE = """
class Longest:
    def __init__(self, settings):
        self.model = settings.model
    async def rerank(self, query, texts, *, top_n, timeout_seconds):
        return {place: len(text) for place, text in enumerate(texts)}
    async def close(self):
        pass

def nothing(settings):
    return None

def failing(settings):
    raise RuntimeError("no such model")
"""


class ScriptedReranker:
    """Returns or raises the value of the test."""

    name = "scripted"
    closed = False

    def __init__(self, gives: Any) -> None:
        self.gives = gives

    async def rerank(self, query: str, texts: Sequence[str], *, top_n: int, timeout_seconds: float) -> Any:
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives

    async def close(self) -> None:
        self.closed = True


class Sleeping(ScriptedReranker):
    async def rerank(self, query: str, texts: Sequence[str], *, top_n: int, timeout_seconds: float) -> Any:
        await asyncio.sleep(60)


def settings(**given: Any) -> RerankSettings:
    return RerankSettings(**{f"CARREL_RERANK_{name.upper()}": value for name, value in given.items()})


@pytest.mark.capability("rerank-plugin")
async def test_plugin_reranker_is_created_by_name(plugins: Plugins) -> None:
    plugins.add("reranking", SOURCE, rerankers={"longest": "reranking:Longest"})
    made = create_reranker(settings(provider="longest", model="m"))
    assert made is not None
    assert made.name == "longest"
    assert await made.rerank("q", ["a", "abc"], top_n=1, timeout_seconds=5) == {0: 1.0, 1: 3.0}
    await made.close()


@pytest.mark.parametrize(
    ("function", "told"),
    [("nothing", "has no rerank"), ("failing", "no such model"), ("missing", "AttributeError")],
)
def test_plugin_reranker_invalid_factory_stops_start(plugins: Plugins, function: str, told: str) -> None:
    plugins.add(f"reranking_{function}", SOURCE, rerankers={"it": f"reranking_{function}:{function}"})
    with pytest.raises(RerankerRefused, match=told) as refused:
        create_plugin_reranker("it", settings())
    assert "CARREL_RERANK_PROVIDER" in refused.value.message


def test_plugin_reranker_unknown_name_lists_names(plugins: Plugins) -> None:
    plugins.add("reranking_two", SOURCE, rerankers={"one": "reranking_two:Longest", "two": "reranking_two:Longest"})
    with pytest.raises(RerankerMissing, match=r"'three'\. Available names: one, two"):
        create_plugin_reranker("three", settings())


async def test_plugin_reranker_scores_are_validated() -> None:
    plugged = PluginReranker("it", ScriptedReranker({np.int64(1): np.float32(0.5), 0: float("nan")}))
    assert await plugged.rerank("q", ["a", "b"], top_n=2, timeout_seconds=5) == {1: 0.5}
    assert await plugged.rerank("q", [], top_n=2, timeout_seconds=5) == {}


@pytest.mark.parametrize(
    ("gives", "reason"),
    [
        ({2: 0.5}, "invalid_response"),
        ({}, "invalid_response"),
        ({0: "high"}, "invalid_response"),
        ([0.5, 0.1], "failed"),
        (None, "failed"),
        (RuntimeError("whatever"), "failed"),
        (InvalidInputError("whatever"), "failed"),
        (TimeoutError(), "timeout"),
        (RerankUnavailable(reason="rate_limited"), "rate_limited"),
    ],
)
async def test_plugin_reranker_failure_is_unavailable_with_reason(gives: Any, reason: RerankFailureReason) -> None:
    with pytest.raises(RerankUnavailable) as raised:
        await PluginReranker("it", ScriptedReranker(gives)).rerank("q", ["a", "b"], top_n=2, timeout_seconds=5)
    assert raised.value.reason == reason


async def test_plugin_reranker_slow_call_is_timeout() -> None:
    with pytest.raises(RerankUnavailable) as raised:
        await PluginReranker("it", Sleeping(None)).rerank("q", ["a"], top_n=1, timeout_seconds=0.05)
    assert raised.value.reason == "timeout"


async def test_plugin_reranker_close_closes_plugin() -> None:
    inner = ScriptedReranker({})
    await PluginReranker("it", inner).close()
    assert inner.closed
