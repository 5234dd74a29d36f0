"""Strategies by name: one file and one line each."""

from typing import Any

from app.retrieval.strategies import hybrid, lexical, simple
from app.retrieval.strategies.context import Strategy

STRATEGIES: dict[str, Strategy[Any]] = {
    strategy.name: strategy for strategy in (hybrid.STRATEGY, simple.STRATEGY, lexical.STRATEGY)
}
