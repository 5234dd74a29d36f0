"""Transformers of plugins: whatever goes wrong in one, the queries stay as they were."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

from pydantic import BaseModel

from app.logging import get_logger
from app.plugins import PluginRefused, check_choice
from app.retrieval import shares
from app.retrieval.course import reason_of
from app.retrieval.transformers.context import Rewritten, TransformContext, Transformer, tidied
from app.retrieval.types import Reformulation

logger = get_logger(__name__)


def read_transformer(
    _entry: EntryPoint, found: Any, _known: Mapping[str, Transformer[Any]]
) -> dict[str, Transformer[Any]]:
    """The line of one plugin. Raises PluginRefused."""
    if not isinstance(found, Transformer):
        raise PluginRefused("The entry point of a transformer names a Transformer.")
    check_choice(found.name, found.options)
    if not callable(found.run):
        raise PluginRefused("A transformer has a function run.")
    return {found.name: replace(found, run=_guarded(found))}


def _guarded(transformer: Transformer[Any]) -> Callable[[TransformContext, BaseModel], Awaitable[Rewritten]]:
    async def run(context: TransformContext, options: BaseModel) -> Rewritten:
        try:
            async with asyncio.timeout(max(context.course.remaining, shares.REWRITE_LEAST_SECONDS)):
                return _checked(await transformer.run(context, options), most=context.most)
        except Exception as exc:  # what a stranger's module may raise
            logger.warning("search.transformer_failed", transformer=transformer.name, error=exc)
            context.course.drop(context.part, reason_of(exc))
        context.course.remark(f"The transformer {transformer.name!r} failed: it was left out.")
        return Rewritten(context.queries)

    return run


def _checked(made: Any, *, most: int) -> Rewritten:
    """What can be searched for. Raises TypeError where that is nothing."""
    queries = list(dict.fromkeys(tidied(made.queries)))[:most]
    if not queries or isinstance(made.queries, str):
        raise TypeError
    return Rewritten(queries, made.reformulation if isinstance(made.reformulation, Reformulation) else None)
