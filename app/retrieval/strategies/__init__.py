"""Registry of strategies: a file and a line of this module for each built-in one, and the strategies of plugins."""

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
# Aliases that requests may use. Responses and stored settings contain the name on the right.
STRATEGY_ALIASES = {"simple": "dense", "similarity": "dense"}
STRATEGIES: dict[str, Strategy[Any]] = {
    module.STRATEGY.name: module.STRATEGY for module in (hybrid, dense, lexical, multi_query, hyde, graph_rag)
}


@cache
def load_strategies() -> Mapping[str, Strategy[Any]]:
    """Load the built-in strategies and the strategies of plugins, once in a process."""
    return merge_plugins(GROUP, STRATEGIES, wrap_plugin_strategy, reserved=STRATEGY_ALIASES)


def find_strategy(name: str, *, loc: tuple[str | int, ...]) -> Strategy[Any]:
    """Return the strategy with this name or alias.

    Raises:
        InvalidInputError: No such strategy is installed. The error lists the installed strategies.
    """
    installed, name = load_strategies(), STRATEGY_ALIASES.get(name, name)
    if name not in installed:
        raise InvalidInputError(f"Unknown strategy {name!r}. Use one of {', '.join(installed)}.", loc=loc)
    return installed[name]


def resolve_stored_strategy(name: str, search_run: SearchRun) -> Strategy[Any]:
    """Return the stored strategy of a knowledge base.

    Args:
        name: Stored name of the strategy.
        search_run: Collector of the notice if the strategy is not installed, for example after its plugin was removed.

    Returns:
        The strategy, or the default strategy if it is not installed.
    """
    installed = load_strategies()
    if name not in installed:
        logger.warning("search.strategy_unknown", strategy=name)
        message = (
            f"The strategy {name!r} of the knowledge base is not installed, so {DEFAULT_STRATEGY} was used instead."
        )
        search_run.add_notice(ServiceWarning(WarningCode.STRATEGY_UNAVAILABLE, message))
    return installed.get(name, installed[DEFAULT_STRATEGY])


def parse_strategy_options(
    strategy: Strategy[Any], provided: Mapping[str, Any], *, loc: tuple[str | int, ...]
) -> BaseModel:
    """Parse the options of a strategy; missing options get their defaults.

    Raises:
        InvalidInputError: An option is unknown or invalid.
    """
    options: BaseModel = parse_options(strategy.options, provided, loc=loc)
    return options


def resolve_stored_options(
    strategy: Strategy[Any], stored: Mapping[str, Any], search_run: SearchRun
) -> Mapping[str, Any]:
    """Return the stored options of a knowledge base for its strategy.

    Args:
        strategy: Strategy of the knowledge base.
        stored: Stored options.
        search_run: Collector of the notice if the options are no longer valid.

    Returns:
        The stored options; none if they are no longer valid for the strategy.
    """
    if not stored:
        return stored
    try:
        parse_strategy_options(strategy, stored, loc=())
    except InvalidInputError:
        logger.warning("search.strategy_options_unknown", strategy=strategy.name)
        message = f"The stored options of the strategy {strategy.name!r} are no longer valid and were ignored."
        search_run.add_notice(ServiceWarning(WarningCode.STRATEGY_OPTIONS_IGNORED, message))
        return {}
    return stored
