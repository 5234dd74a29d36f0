"""Strategies of plugins: whatever goes wrong in one, the search is answered as hybrid."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

from pydantic import BaseModel

from app.db.driver import Outdated
from app.logging import get_logger
from app.plugins import PluginRefused, check_choice
from app.retrieval import shares
from app.retrieval.course import reason_of
from app.retrieval.strategies import hybrid
from app.retrieval.strategies.context import SearchContext, Strategy
from app.retrieval.types import Hit, NamedTransformer

logger = get_logger(__name__)


def read_strategy(_entry: EntryPoint, found: Any, _known: Mapping[str, Strategy[Any]]) -> dict[str, Strategy[Any]]:
    """The line of one plugin. Raises PluginRefused."""
    if not isinstance(found, Strategy):
        raise PluginRefused("The entry point of a strategy names a Strategy.")
    check_choice(found.name, found.options)
    if not (callable(found.run) and callable(found.transformers)):
        raise PluginRefused("A strategy has a function run.")
    return {found.name: replace(found, run=_guarded(found), transformers=_named(found))}


def _guarded(strategy: Strategy[Any]) -> Callable[[SearchContext, BaseModel], Awaitable[list[Hit]]]:
    async def run(context: SearchContext, options: BaseModel) -> list[Hit]:
        try:
            async with asyncio.timeout(context.course.remaining * shares.PLUGGED):
                return _ordered(await strategy.run(context, options))[: context.finder.top_k]
        except Outdated:  # it is the search that begins again
            raise
        except Exception as exc:  # what a stranger's module may raise; what hybrid cannot mend, it raises again
            logger.warning("search.strategy_failed", strategy=strategy.name, error=exc)
            context.course.drop("strategy", reason_of(exc))
        context.course.remark(f"The strategy {strategy.name!r} failed: it was searched as hybrid.")
        return await hybrid.run(context, hybrid.HybridOptions.model_validate({}))

    return run


def _named(strategy: Strategy[Any]) -> Callable[[BaseModel], Sequence[NamedTransformer]]:
    def transformers(options: BaseModel) -> Sequence[NamedTransformer]:
        try:
            named = [(one, {}) if isinstance(one, str) else one for one in strategy.transformers(options)]
            return [(str(name), dict(given)) for name, given in named]
        except Exception as exc:  # as above: the strategy has none then
            logger.warning("search.strategy_failed", strategy=strategy.name, error=exc)
            return ()

    return transformers


def _ordered(hits: Any) -> list[Hit]:
    """As every strategy gives them. Raises TypeError for what are no hits, ValueError for a score that is no number."""
    found = list(hits)
    if not all(isinstance(hit, Hit) for hit in found):
        raise TypeError
    if not all(math.isfinite(hit.score) for hit in found):
        raise ValueError
    return sorted(found, key=lambda hit: (-hit.score, hit.document.id, hit.chunk.ordinal))
