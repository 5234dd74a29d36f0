"""Strategies by name: one file and one line each; those of plugins come after ours."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from app.errors import InvalidInputError
from app.logging import get_logger
from app.plugins import STRATEGIES as GROUP
from app.plugins import merge_plugins, parse_options
from app.retrieval.search_run import SearchRun
from app.retrieval.strategies import dense, graph_rag, hybrid, hyde, lexical, multi_query
from app.retrieval.strategies.plugin_strategy import wrap_plugin_strategy
from app.retrieval.strategies.strategy import Strategy
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)

DEFAULT_STRATEGY = "hybrid"
# Names that requests may use too. Replies and stored settings have the name on the right.
STRATEGY_ALIASES = {"simple": "dense"}
STRATEGIES: dict[str, Strategy[Any]] = {
    module.STRATEGY.name: module.STRATEGY for module in (hybrid, dense, lexical, multi_query, hyde, graph_rag)
}


@cache
def load_strategies() -> Mapping[str, Strategy[Any]]:
    """Ours, and those of plugins; found once."""
    return merge_plugins(GROUP, STRATEGIES, wrap_plugin_strategy, reserved=STRATEGY_ALIASES)


def find_strategy(name: str, *, loc: tuple[str, ...]) -> Strategy[Any]:
    """Return the strategy with this name or alias. Raises InvalidInputError, which lists the installed strategies."""
    installed, name = load_strategies(), STRATEGY_ALIASES.get(name, name)
    if name not in installed:
        raise InvalidInputError(f"No strategy is named {name!r}; there are: {', '.join(installed)}.", loc=loc)
    return installed[name]


def resolve_stored_strategy(name: str, search_run: SearchRun) -> Strategy[Any]:
    """That of a knowledge base; where it has gone with its plugin the default one, and the caller is told."""
    installed = load_strategies()
    if name not in installed:
        logger.warning("search.strategy_unknown", strategy=name)
        message = (
            f"The strategy {name!r} of the knowledge base is not there any more: it was searched as {DEFAULT_STRATEGY}."
        )
        search_run.add_notice(ServiceWarning(WarningCode.STRATEGY_UNAVAILABLE, message))
    return installed.get(name, installed[DEFAULT_STRATEGY])


def parse_strategy_options(strategy: Strategy[Any], provided: Mapping[str, Any], *, loc: tuple[str, ...]) -> BaseModel:
    """Its options, those that are not given as they are by default. Raises InvalidInputError."""
    options: BaseModel = parse_options(strategy.options, provided, loc=loc)
    return options


def resolve_stored_options(
    strategy: Strategy[Any], stored: Mapping[str, Any], search_run: SearchRun
) -> Mapping[str, Any]:
    """Those that a knowledge base gives; none, and the caller is told, where the strategy has others by now."""
    if not stored:
        return stored
    try:
        parse_strategy_options(strategy, stored, loc=())
    except InvalidInputError:
        logger.warning("search.strategy_options_unknown", strategy=strategy.name)
        message = f"The knowledge base's options of {strategy.name!r} were left out: the strategy has others now."
        search_run.add_notice(ServiceWarning(WarningCode.STRATEGY_OPTIONS_IGNORED, message))
        return {}
    return stored
