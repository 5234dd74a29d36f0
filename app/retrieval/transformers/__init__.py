"""Registry of transformers: a file and a line of this module for each built-in one, and the transformers of plugins."""

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
    """Load the built-in transformers and the transformers of plugins, once in a process."""
    return merge_plugins(GROUP, TRANSFORMERS, wrap_plugin_transformer)


@dataclass(frozen=True, slots=True)
class TransformerStep:
    """A transformer with its options."""

    transformer: Transformer[Any]
    options: BaseModel


def resolve_steps(requested: Sequence[NamedTransformer], *, loc: tuple[str | int, ...]) -> list[TransformerStep]:
    """Resolve requested transformers to steps; transformers that add queries come last.

    Raises:
        InvalidInputError: A transformer is not installed, or an option is invalid. The error lists the installed ones.
    """
    return _sort_steps([_resolve_step(item, (*loc, number)) for number, item in enumerate(requested)])


def resolve_stored_steps(
    stored: Sequence[Mapping[str, Any]], search_run: SearchRun, *, owner: str = "knowledge base"
) -> list[TransformerStep] | None:
    """Resolve stored transformers to steps.

    Args:
        stored: Objects with ``name`` and ``options``.
        search_run: Collector of a notice for each transformer that is not installed or has other options.
        owner: Owner of the stored transformers, for the notice.

    Returns:
        The steps; transformers that add queries come last. None if transformers are stored and none of them is usable:
        the search then uses its default transformers.
    """
    steps = []
    for entry in stored:
        try:
            steps.append(_resolve_step((entry["name"], entry["options"]), ()))
        except InvalidInputError:
            logger.warning("search.transformer_unknown", transformer=entry["name"], owner=owner)
            message = (
                f"The transformer {entry['name']!r} of the {owner} was skipped: it is missing or has other options."
            )
            search_run.add_notice(ServiceWarning(WarningCode.TRANSFORMER_UNAVAILABLE, message))
    return _sort_steps(steps) if steps or not stored else None


def create_default_steps() -> list[TransformerStep]:
    """Create the default steps of a search with a conversation."""
    return [_resolve_step(DEFAULT_TRANSFORMER, ())]


def _resolve_step(requested: NamedTransformer, loc: tuple[str | int, ...]) -> TransformerStep:
    name, provided = (requested, {}) if isinstance(requested, str) else requested
    installed = load_transformers()
    transformer = installed.get(name)
    if transformer is None:
        raise InvalidInputError(f"Unknown transformer {name!r}. Use one of {', '.join(installed)}.", loc=loc)
    return TransformerStep(transformer, parse_options(transformer.options, provided, loc=(*loc, "options")))


def _sort_steps(steps: Sequence[TransformerStep]) -> list[TransformerStep]:
    return sorted(steps, key=lambda step: step.transformer.fans_out)


def resolve_strategy_steps(
    name: str, requested: Sequence[NamedTransformer], search_run: SearchRun
) -> list[TransformerStep]:
    """Resolve the transformers of a strategy to steps. Leave out unusable transformers, with a notice."""
    named = [(item, {}) if isinstance(item, str) else item for item in requested]
    stored = [{"name": step, "options": options} for step, options in named]
    return resolve_stored_steps(stored, search_run, owner=f"strategy {name!r}") or []


def merge_steps(steps: Sequence[TransformerStep], extra_steps: Sequence[TransformerStep]) -> list[TransformerStep]:
    """Merge the steps of a search and of its strategy.

    Steps that add queries come last, so each of them works on the result of the steps before it.
    """
    return _sort_steps([*steps, *extra_steps])
