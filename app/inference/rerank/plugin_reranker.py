"""Rerankers of plugins: created by the name of their entry point; every result is checked."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.errors import AppError
from app.inference.circuit_breaker import EndpointFailed
from app.inference.rerank import Reranker, RerankUnavailable
from app.inference.rerank.response import check_scores
from app.plugins import RERANKERS, load_provider
from app.settings.rerank import RerankSettings


class RerankerMissing(AppError):
    """No installed plugin has the reranker that CARREL_RERANK_PROVIDER names; install the plugin."""

    code = "reranker_missing"


class RerankerRefused(AppError):
    """The reranker that CARREL_RERANK_PROVIDER names cannot be created."""

    code = "reranker_refused"


def create_plugin_reranker(name: str, settings: RerankSettings) -> Reranker:
    """Create the reranker of a plugin. The call blocks.

    Args:
        name: Name of the entry point.
        settings: Settings of the reranker.

    Raises:
        RerankerMissing: No installed plugin has the reranker.
        RerankerRefused: The reranker cannot be created, or lacks a method.
    """
    reranker = load_provider(
        RERANKERS,
        name,
        settings,
        find_problem=_find_problem,
        missing_error=RerankerMissing,
        invalid_error=RerankerRefused,
        setting_name="CARREL_RERANK_PROVIDER",
    )
    return PluginReranker(name, reranker)


def _find_problem(reranker: Any) -> str:
    """Return the reason why a reranker is not usable, or an empty text if it is usable."""
    missing = [part for part in ("rerank", "close") if not callable(getattr(reranker, part, None))]
    return f"has no {missing[0]}" if missing else ""


@dataclass(frozen=True, slots=True)
class PluginReranker:
    """Reranker that wraps the reranker of a plugin: it translates errors, checks scores and enforces the timeout."""

    name: str
    inner: Reranker

    async def rerank(
        self, query: str, texts: Sequence[str], *, top_n: int, timeout_seconds: float
    ) -> Mapping[int, float]:
        """Score texts as ``Reranker.rerank`` does. Every exception of the plugin becomes RerankUnavailable."""
        if not texts:
            return {}
        try:
            async with asyncio.timeout(timeout_seconds):
                scores = await self.inner.rerank(query, texts, top_n=top_n, timeout_seconds=timeout_seconds)
            return check_scores(scores.items(), len(texts))
        except RerankUnavailable:
            raise
        except TimeoutError as exc:
            raise RerankUnavailable("The reranker gave no answer in time.", reason="timeout") from exc
        except EndpointFailed as exc:
            raise RerankUnavailable(f"The reranker {self.name!r} failed: {exc}.", reason=exc.kind) from exc
        except Exception as exc:
            raise RerankUnavailable(f"The reranker {self.name!r} failed.", reason="failed") from exc

    async def close(self) -> None:
        """Close the plugin's reranker."""
        await self.inner.close()
