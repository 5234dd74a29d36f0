"""Strategies by name: one file and one line each."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from app.errors import InvalidInput
from app.retrieval.strategies import hybrid, lexical, simple
from app.retrieval.strategies.context import Strategy

DEFAULT_STRATEGY = "hybrid"
STRATEGIES: dict[str, Strategy[Any]] = {
    strategy.name: strategy for strategy in (hybrid.STRATEGY, simple.STRATEGY, lexical.STRATEGY)
}


def find_strategy(name: str, *, loc: tuple[str, ...]) -> Strategy[Any]:
    """Raises InvalidInput with the names of those that are there."""
    strategy = STRATEGIES.get(name)
    if strategy is None:
        raise InvalidInput(f"No strategy is named {name!r}; there are: {', '.join(STRATEGIES)}.", loc=loc)
    return strategy


def strategy_options(strategy: Strategy[Any], given: Mapping[str, Any], *, loc: tuple[str, ...]) -> BaseModel:
    """Its options, those that are not given as they are by default. Raises InvalidInput."""
    try:
        options: BaseModel = strategy.options.model_validate(dict(given))
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        raise InvalidInput(f"{first['msg']}.", loc=(*loc, *first["loc"])) from exc
    return options
