"""Rerankers of plugins: made by the name of their entry point, and nothing they give is believed unchecked."""

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
    """No installed plugin brings the reranker that CARREL_RERANK_PROVIDER names."""

    code = "reranker_missing"


class RerankerRefused(AppError):
    """The reranker that CARREL_RERANK_PROVIDER names cannot be made."""

    code = "reranker_refused"


def create_plugin_reranker(name: str, settings: RerankSettings) -> Reranker:
    """Create the plugin's reranker from the settings; blocking. Raises RerankerMissing, RerankerRefused."""
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
    """Return the missing parts of a reranker, or an empty text."""
    missing = [part for part in ("rerank", "close") if not callable(getattr(reranker, part, None))]
    return f"has no {missing[0]}" if missing else ""


@dataclass(frozen=True, slots=True)
class PluginReranker:
    """A Reranker around another's: errors become ours, scores are checked, and time has an end."""

    name: str
    inner: Reranker

    async def rerank(
        self, query: str, texts: Sequence[str], *, top_n: int, timeout_seconds: float
    ) -> Mapping[int, float]:
        """Raises RerankUnavailable, whatever the plugin raises."""
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
