"""Strategies of plugins, guarded so that a search uses hybrid if a plugin fails."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

from pydantic import BaseModel

from app.db.driver import StaleCacheError
from app.logging import get_logger
from app.plugins import InvalidPlugin, validate_choice
from app.retrieval import time_budget
from app.retrieval.search_run import get_failure_reason
from app.retrieval.strategies import hybrid
from app.retrieval.strategies.strategy import SearchContext, Strategy
from app.retrieval.types import Hit, NamedTransformer
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)


def wrap_plugin_strategy(
    _entry: EntryPoint, plugin: Any, _existing: Mapping[str, Strategy[Any]]
) -> dict[str, Strategy[Any]]:
    """Check the strategy of a plugin, and wrap it with guards against its failures.

    Returns:
        The guarded strategy by its name.

    Raises:
        InvalidPlugin: The entry point is no valid strategy.
    """
    if not isinstance(plugin, Strategy):
        raise InvalidPlugin("The entry point of a strategy must be a Strategy.")
    validate_choice(plugin.name, plugin.options)
    if not (callable(plugin.run) and callable(plugin.transformers)):
        raise InvalidPlugin("A strategy needs the functions run and transformers.")
    return {plugin.name: replace(plugin, run=_guard_run(plugin), transformers=_guard_transformers(plugin))}


def _guard_run(strategy: Strategy[Any]) -> Callable[[SearchContext, BaseModel], Awaitable[list[Hit]]]:
    async def run(context: SearchContext, options: BaseModel) -> list[Hit]:
        try:
            async with asyncio.timeout(context.search_run.remaining_seconds * time_budget.PLUGIN_STRATEGY):
                return _sort_hits(await strategy.run(context, options))[: context.retriever.top_k]
        except StaleCacheError:  # the search starts again with fresh knowledge bases
            raise
        except Exception as exc:  # a plugin may raise anything; hybrid raises a remaining failure again
            logger.warning("search.strategy_failed", strategy=strategy.name, error=exc)
            context.search_run.degrade("strategy", get_failure_reason(exc))
        message = f"The strategy {strategy.name!r} failed, so hybrid was used instead."
        context.search_run.add_notice(ServiceWarning(WarningCode.STRATEGY_FAILED, message))
        return await hybrid.run(context, hybrid.HybridOptions.model_validate({}))

    return run


def _guard_transformers(strategy: Strategy[Any]) -> Callable[[BaseModel], Sequence[NamedTransformer]]:
    def select_transformers(options: BaseModel) -> Sequence[NamedTransformer]:
        try:
            named = [(item, {}) if isinstance(item, str) else item for item in strategy.transformers(options)]
            return [(str(name), dict(provided)) for name, provided in named]
        except Exception as exc:  # a plugin may raise anything; the strategy then has no transformers
            logger.warning("search.strategy_failed", strategy=strategy.name, error=exc)
            return ()

    return select_transformers


def _sort_hits(hits: Any) -> list[Hit]:
    """Sort the hits of a plugin. Raises TypeError if an item is no hit, and ValueError if a score is not finite."""
    hit_list = list(hits)
    if not all(isinstance(hit, Hit) for hit in hit_list):
        raise TypeError
    if not all(math.isfinite(hit.score) for hit in hit_list):
        raise ValueError
    return sorted(hit_list, key=lambda hit: (-hit.score, hit.document.id, hit.chunk.ordinal))
