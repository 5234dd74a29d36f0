"""Rerankers of plugins: made by the name of their entry point, and nothing they give is believed unchecked."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.errors import AppError
from app.inference.breaker import EndpointFailed
from app.inference.rerank import Reranker, RerankUnavailable
from app.inference.rerank.reading import checked_scores
from app.plugins import RERANKERS, find_plugins
from app.settings.rerank import RerankSettings


class RerankerMissing(AppError):
    """No installed plugin brings the reranker that CARREL_RERANK_PROVIDER names."""

    code = "reranker_missing"


class RerankerRefused(AppError):
    """The reranker that CARREL_RERANK_PROVIDER names cannot be made."""

    code = "reranker_refused"


def open_plugged(name: str, settings: RerankSettings) -> Reranker:
    """What the plugin's factory makes of the settings; blocking. Raises RerankerMissing, RerankerRefused."""
    plugins = {entry.name: entry for entry in reversed(find_plugins(RERANKERS))}
    if name not in plugins:
        there = ", ".join(sorted(plugins)) or "none"
        raise RerankerMissing(f"CARREL_RERANK_PROVIDER: no plugin brings {name!r}; there are: {there}.")
    try:
        made = plugins[name].load()(settings)
    except AppError:
        raise
    except Exception as exc:  # what a stranger's module may raise
        raise RerankerRefused(f"CARREL_RERANK_PROVIDER: {name!r} failed ({type(exc).__name__}: {exc}).") from exc
    missing = [part for part in ("rerank", "close") if not callable(getattr(made, part, None))]
    if missing:
        raise RerankerRefused(f"CARREL_RERANK_PROVIDER: {name!r} has no {missing[0]}.")
    return PluggedReranker(name, made)


@dataclass(frozen=True, slots=True)
class PluggedReranker:
    """A Reranker around another's: errors become ours, scores are checked, and time has an end."""

    name: str
    inner: Reranker

    async def rerank(self, query: str, texts: Sequence[str], *, top_n: int, seconds: float) -> Mapping[int, float]:
        """Raises RerankUnavailable, whatever the plugin raises."""
        if not texts:
            return {}
        try:
            async with asyncio.timeout(seconds):
                given = await self.inner.rerank(query, texts, top_n=top_n, seconds=seconds)
            return checked_scores(given.items(), len(texts))
        except RerankUnavailable:
            raise
        except TimeoutError as exc:
            raise RerankUnavailable("The reranker gave no answer in time.", reason="timeout") from exc
        except EndpointFailed as exc:
            raise RerankUnavailable(f"The reranker {self.name!r} failed: {exc}.", reason=exc.kind) from exc
        except Exception as exc:
            raise RerankUnavailable(f"The reranker {self.name!r} failed.", reason="failed") from exc

    async def close(self) -> None:
        """The plugin's own end."""
        await self.inner.close()
