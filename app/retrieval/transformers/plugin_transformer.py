"""Transformers of plugins, guarded so that the queries stay unchanged if a plugin fails."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

from pydantic import BaseModel

from app.logging import get_logger
from app.plugins import InvalidPlugin, validate_choice
from app.retrieval import time_budget
from app.retrieval.explain import Reformulation
from app.retrieval.search_run import get_failure_reason
from app.retrieval.transformers.transformer import TransformContext, Transformer, TransformResult, normalize_queries
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)


def wrap_plugin_transformer(
    _entry: EntryPoint, plugin: Any, _existing: Mapping[str, Transformer[Any]]
) -> dict[str, Transformer[Any]]:
    """Check the transformer of a plugin, and wrap it with a guard against its failures.

    Returns:
        The guarded transformer by its name.

    Raises:
        InvalidPlugin: The entry point is no valid transformer.
    """
    if not isinstance(plugin, Transformer):
        raise InvalidPlugin("The entry point of a transformer must be a Transformer.")
    validate_choice(plugin.name, plugin.options)
    if not callable(plugin.run):
        raise InvalidPlugin("A transformer needs a function run.")
    return {plugin.name: replace(plugin, run=_guard_run(plugin))}


def _guard_run(transformer: Transformer[Any]) -> Callable[[TransformContext, BaseModel], Awaitable[TransformResult]]:
    async def run(context: TransformContext, options: BaseModel) -> TransformResult:
        try:
            async with asyncio.timeout(max(context.search_run.remaining_seconds, time_budget.MIN_REWRITE_SECONDS)):
                return _check_result(await transformer.run(context, options), max_queries=context.max_queries)
        except Exception as exc:  # a plugin may raise anything
            logger.warning("search.transformer_failed", transformer=transformer.name, error=exc)
            context.search_run.degrade(context.degradable_step, get_failure_reason(exc))
        message = f"The transformer {transformer.name!r} failed and was skipped."
        context.search_run.add_notice(ServiceWarning(WarningCode.TRANSFORMER_FAILED, message))
        return TransformResult(context.queries)

    return run


def _check_result(result: Any, *, max_queries: int) -> TransformResult:
    """Return the result of a plugin with normalized queries. Raises TypeError if it has no valid query."""
    queries = list(dict.fromkeys(normalize_queries(result.queries)))[:max_queries]
    if not queries or isinstance(result.queries, str):
        raise TypeError
    return TransformResult(queries, result.reformulation if isinstance(result.reformulation, Reformulation) else None)
