"""Transformers by name: one file and one line each; those of plugins come after ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

from app.errors import InvalidInputError
from app.logging import get_logger
from app.plugins import TRANSFORMERS as GROUP
from app.plugins import merge_plugins, parse_options
from app.retrieval.search_run import SearchRun
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
from app.retrieval.transformers.plugin_transformer import wrap_plugin_transformer
from app.retrieval.transformers.transformer import Transformer
from app.retrieval.types import NamedTransformer
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)
DEFAULT_TRANSFORMER = "reformulate"
TRANSFORMERS: dict[str, Transformer[Any]] = {
    module.TRANSFORMER.name: module.TRANSFORMER
    for module in (
        reformulate, prompt_rewrite, translate, keywords, retrieval_rewrite, multi_query, hyde, decompose
    )
}  # fmt: skip


@cache
def load_transformers() -> Mapping[str, Transformer[Any]]:
    """Ours, and those of plugins; found once."""
    return merge_plugins(GROUP, TRANSFORMERS, wrap_plugin_transformer)


@dataclass(frozen=True, slots=True)
class TransformerStep:
    """A transformer with its options."""

    transformer: Transformer[Any]
    options: BaseModel


def resolve_steps(requested: Sequence[NamedTransformer], *, loc: tuple[str | int, ...]) -> list[TransformerStep]:
    """As they are run: those that fan out last. Raises InvalidInputError with the names of those that are there."""
    return _sort_steps([_resolve_step(item, (*loc, number)) for number, item in enumerate(requested)])


def resolve_stored_steps(
    stored: Sequence[Mapping[str, Any]], search_run: SearchRun, *, owner: str = "knowledge base"
) -> list[TransformerStep] | None:
    """The same for those that are stored; what is there no more is left out, and the caller is told.

    None where nothing is left of them: then it is as if none had been named.
    """
    steps = []
    for entry in stored:
        try:
            steps.append(_resolve_step((entry["name"], entry["options"]), ()))
        except InvalidInputError:
            logger.warning("search.transformer_unknown", transformer=entry["name"], owner=owner)
            message = f"The transformer {entry['name']!r} of the {owner} was left out: it has changed or gone."
            search_run.add_notice(ServiceWarning(WarningCode.TRANSFORMER_UNAVAILABLE, message))
    return _sort_steps(steps) if steps or not stored else None


def create_default_steps() -> list[TransformerStep]:
    """For a conversation."""
    return [_resolve_step(DEFAULT_TRANSFORMER, ())]


def _resolve_step(requested: NamedTransformer, loc: tuple[str | int, ...]) -> TransformerStep:
    name, provided = (requested, {}) if isinstance(requested, str) else requested
    installed = load_transformers()
    transformer = installed.get(name)
    if transformer is None:
        raise InvalidInputError(f"No transformer is named {name!r}; there are: {', '.join(installed)}.", loc=loc)
    return TransformerStep(transformer, parse_options(transformer.options, provided, loc=(*loc, "options")))


def _sort_steps(steps: Sequence[TransformerStep]) -> list[TransformerStep]:
    return sorted(steps, key=lambda step: step.transformer.fans_out)


def resolve_strategy_steps(
    name: str, requested: Sequence[NamedTransformer], search_run: SearchRun
) -> list[TransformerStep]:
    """Those that a strategy of this name has."""
    named = [(item, {}) if isinstance(item, str) else item for item in requested]
    stored = [{"name": step, "options": options} for step, options in named]
    return resolve_stored_steps(stored, search_run, owner=f"strategy {name!r}") or []


def merge_steps(steps: Sequence[TransformerStep], extra_steps: Sequence[TransformerStep]) -> list[TransformerStep]:
    """Those of a search and those of its strategy: each that fans out does so over what the one before has made."""
    return _sort_steps([*steps, *extra_steps])
