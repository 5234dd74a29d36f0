"""Transformers by name: one file and one line each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from app.errors import InvalidInput
from app.logging import get_logger
from app.retrieval.course import Course
from app.retrieval.transformers import (
    decompose,
    hyde,
    keywords,
    multi_query,
    prompt_rewrite,
    reformulate,
    translate,
)
from app.retrieval.transformers.context import Transformer
from app.retrieval.types import NamedTransformer

logger = get_logger(__name__)
DEFAULT_TRANSFORMER = "reformulate"
TRANSFORMERS: dict[str, Transformer[Any]] = {
    module.TRANSFORMER.name: module.TRANSFORMER
    for module in (reformulate, prompt_rewrite, translate, keywords, multi_query, hyde, decompose)
}


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
    transformer = TRANSFORMERS.get(name)
    if transformer is None:
        raise InvalidInput(f"No transformer is named {name!r}; there are: {', '.join(TRANSFORMERS)}.", loc=loc)
    try:
        return Step(transformer, transformer.options.model_validate(dict(given)))
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        raise InvalidInput(f"{first['msg']}.", loc=(*loc, "options", *first["loc"])) from exc


def _ordered(steps: Sequence[Step]) -> list[Step]:
    return sorted(steps, key=lambda step: step.transformer.fans_out)
