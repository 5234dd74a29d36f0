"""Transformers by name: one file and one line each; those of plugins come after ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

from app.errors import InvalidInput
from app.logging import get_logger
from app.plugins import TRANSFORMERS as GROUP
from app.plugins import read_options, with_plugins
from app.retrieval.course import Course
from app.retrieval.transformers import (
    decompose,
    hyde,
    keywords,
    multi_query,
    prompt_rewrite,
    reformulate,
    retrieval_rewrite,
    translate,
)
from app.retrieval.transformers.context import Transformer
from app.retrieval.transformers.plugged import read_transformer
from app.retrieval.types import NamedTransformer

logger = get_logger(__name__)
DEFAULT_TRANSFORMER = "reformulate"
TRANSFORMERS: dict[str, Transformer[Any]] = {
    module.TRANSFORMER.name: module.TRANSFORMER
    for module in (
        reformulate, prompt_rewrite, translate, keywords, retrieval_rewrite, multi_query, hyde, decompose
    )
}  # fmt: skip


@cache
def installed_transformers() -> Mapping[str, Transformer[Any]]:
    """Ours, and those of plugins; found once."""
    return with_plugins(GROUP, TRANSFORMERS, read_transformer)


@dataclass(frozen=True, slots=True)
class Step:
    """A transformer with its options."""

    transformer: Transformer[Any]
    options: BaseModel


def find_steps(wished: Sequence[NamedTransformer], *, loc: tuple[str | int, ...]) -> list[Step]:
    """As they are run: those that fan out last. Raises InvalidInput with the names of those that are there."""
    return _ordered([_step(one, (*loc, number)) for number, one in enumerate(wished)])


def kept_steps(
    stored: Sequence[Mapping[str, Any]], course: Course, *, owner: str = "knowledge base"
) -> list[Step] | None:
    """The same for those that are stored; what is there no more is left out, and the caller is told.

    None where nothing is left of them: then it is as if none had been named.
    """
    steps = []
    for one in stored:
        try:
            steps.append(_step((one["name"], one["options"]), ()))
        except InvalidInput:
            logger.warning("search.transformer_unknown", transformer=one["name"], owner=owner)
            course.remark(f"The transformer {one['name']!r} of the {owner} was left out: it has changed or gone.")
    return _ordered(steps) if steps or not stored else None


def default_steps() -> list[Step]:
    """For a conversation."""
    return [_step(DEFAULT_TRANSFORMER, ())]


def _step(wished: NamedTransformer, loc: tuple[str | int, ...]) -> Step:
    name, given = (wished, {}) if isinstance(wished, str) else wished
    installed = installed_transformers()
    transformer = installed.get(name)
    if transformer is None:
        raise InvalidInput(f"No transformer is named {name!r}; there are: {', '.join(installed)}.", loc=loc)
    return Step(transformer, read_options(transformer.options, given, loc=(*loc, "options")))


def _ordered(steps: Sequence[Step]) -> list[Step]:
    return sorted(steps, key=lambda step: step.transformer.fans_out)


def strategy_steps(name: str, wished: Sequence[NamedTransformer], course: Course) -> list[Step]:
    """Those that a strategy of this name has."""
    named = [(one, {}) if isinstance(one, str) else one for one in wished]
    stored = [{"name": step, "options": options} for step, options in named]
    return kept_steps(stored, course, owner=f"strategy {name!r}") or []


def joined(steps: Sequence[Step], own: Sequence[Step]) -> list[Step]:
    """Those of a search and those of its strategy: each that fans out does so over what the one before has made."""
    return _ordered([*steps, *own])
