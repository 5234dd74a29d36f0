"""Strategies by name: one file and one line each; those of plugins come after ours."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from app.errors import InvalidInput
from app.logging import get_logger
from app.plugins import STRATEGIES as GROUP
from app.plugins import read_options, with_plugins
from app.retrieval.course import Course
from app.retrieval.strategies import graph_rag, hybrid, hyde, lexical, multi_query, simple
from app.retrieval.strategies.context import Strategy
from app.retrieval.strategies.plugged import read_strategy

logger = get_logger(__name__)

DEFAULT_STRATEGY = "hybrid"
STRATEGIES: dict[str, Strategy[Any]] = {
    module.STRATEGY.name: module.STRATEGY for module in (hybrid, simple, lexical, multi_query, hyde, graph_rag)
}


@cache
def installed_strategies() -> Mapping[str, Strategy[Any]]:
    """Ours, and those of plugins; found once."""
    return with_plugins(GROUP, STRATEGIES, read_strategy)


def find_strategy(name: str, *, loc: tuple[str, ...]) -> Strategy[Any]:
    """Raises InvalidInput with the names of those that are there."""
    installed = installed_strategies()
    if name not in installed:
        raise InvalidInput(f"No strategy is named {name!r}; there are: {', '.join(installed)}.", loc=loc)
    return installed[name]


def kept_strategy(name: str, course: Course) -> Strategy[Any]:
    """That of a knowledge base; where it has gone with its plugin the default one, and the caller is told."""
    installed = installed_strategies()
    if name not in installed:
        logger.warning("search.strategy_unknown", strategy=name)
        course.remark(
            f"The strategy {name!r} of the knowledge base is not there any more: it was searched as {DEFAULT_STRATEGY}."
        )
    return installed.get(name, installed[DEFAULT_STRATEGY])


def strategy_options(strategy: Strategy[Any], given: Mapping[str, Any], *, loc: tuple[str, ...]) -> BaseModel:
    """Its options, those that are not given as they are by default. Raises InvalidInput."""
    options: BaseModel = read_options(strategy.options, given, loc=loc)
    return options


def kept_options(strategy: Strategy[Any], kept: Mapping[str, Any], course: Course) -> Mapping[str, Any]:
    """Those that a knowledge base gives; none, and the caller is told, where the strategy has others by now."""
    if not kept:
        return kept
    try:
        strategy_options(strategy, kept, loc=())
    except InvalidInput:
        logger.warning("search.strategy_options_unknown", strategy=strategy.name)
        course.remark(f"The knowledge base's options of {strategy.name!r} were left out: the strategy has others now.")
        return {}
    return kept
