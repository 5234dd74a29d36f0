"""What other distributions bring along: parsers, chunkers, embedders, rerankers, found by their Python entry points."""

import re
from collections.abc import Callable, Collection, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from app.errors import AppError, InvalidInputError
from app.logging import get_logger

logger = get_logger(__name__)

PARSERS, CHUNKERS, EMBEDDERS = "carrel.parsers", "carrel.chunkers", "carrel.embedders"
RERANKERS = "carrel.rerankers"
STRATEGIES, TRANSFORMERS = "carrel.strategies", "carrel.transformers"

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")

LineT = TypeVar("LineT")
OptionsT = TypeVar("OptionsT", bound=BaseModel)
PluginReader = Callable[[EntryPoint, Any, Mapping[str, LineT]], Mapping[str, LineT]]


class InvalidPlugin(AppError):
    """The plugin is not what its entry point says it is."""

    code = "invalid_plugin"


def find_entry_points(group: str) -> list[EntryPoint]:
    """The entry points of a group, in an order that does not hang on how they were installed; nothing is imported."""
    return sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value))


def load_provider(
    group: str,
    name: str,
    settings: object,
    *,
    find_problem: Callable[[Any], str],
    missing_error: type[AppError],
    invalid_error: type[AppError],
    setting_name: str,
) -> Any:
    """What the factory of the named plugin makes of the settings; blocking.

    ``find_problem`` says what is wrong with it, or nothing. Raises ``missing_error`` where no plugin has that name,
    ``invalid_error`` where it fails or has a problem; the message names ``setting_name``, the setting.
    """
    plugins = {entry.name: entry for entry in reversed(find_entry_points(group))}
    if name not in plugins:
        available = ", ".join(sorted(plugins)) or "none"
        raise missing_error(f"{setting_name}: no plugin brings {name!r}; there are: {available}.")
    try:
        provider = plugins[name].load()(settings)
        defect = find_problem(provider)
    except AppError:
        raise
    except Exception as exc:  # what a stranger's module may raise
        raise invalid_error(f"{setting_name}: {name!r} failed ({type(exc).__name__}: {exc}).") from exc
    if defect:
        raise invalid_error(f"{setting_name}: {name!r} {defect}.")
    return provider


def merge_plugins(
    group: str,
    builtin_entries: Mapping[str, LineT],
    read_plugin: PluginReader[LineT],
    *,
    reserved: Collection[str] = (),
) -> Mapping[str, LineT]:
    """A registry and the lines that plugins add to it; what is there already wins, and so do ``reserved`` names.

    ``read_plugin`` makes the lines of one loaded plugin, given all that there are so far. It raises InvalidPlugin for a
    plugin that is none: like one that cannot be imported, it is left out and logged.
    """
    merged = dict(builtin_entries)
    for entry in find_entry_points(group):
        try:
            merged |= _require_new_names(read_plugin(entry, entry.load(), merged), {*merged, *reserved})
        except Exception as exc:  # what a stranger's module may raise while it is imported
            reason = exc.message if isinstance(exc, InvalidPlugin) else "It cannot be loaded."
            logger.warning("plugin.skipped", group=group, plugin=entry.name, reason=reason, error=exc)
    return MappingProxyType(merged)


def _require_new_names(entries: Mapping[str, LineT], existing: Collection[str]) -> Mapping[str, LineT]:
    for name in entries:
        if name in existing:
            raise InvalidPlugin(f"There is one for {name} already.")
    return entries


def validate_choice(name: object, options: object) -> None:
    """Raises InvalidPlugin for what a request could not choose by this name, or without saying an option."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidPlugin("Its name is a word in small letters.")
    if not (isinstance(options, type) and issubclass(options, BaseModel)):
        raise InvalidPlugin("Its options are a pydantic model.")
    if options.model_config.get("extra") != "forbid":
        raise InvalidPlugin('Its options refuse what they do not know (extra="forbid").')
    try:
        options()
    except ValidationError as exc:
        raise InvalidPlugin("Its options have defaults, every one.") from exc
    options.model_json_schema()


def parse_options(options_type: type[OptionsT], provided: Mapping[str, Any], *, loc: tuple[str | int, ...]) -> OptionsT:
    """What a caller says of a strategy, a transformer or a chunker, ours or a plugin's, and the defaults of the rest.

    Raises InvalidInputError below ``loc``; where there is no such option, with the names of those that there are.
    """
    try:
        return options_type.model_validate(dict(provided))
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        message, location = f"{first['msg']}.", first["loc"]
        if first["type"] == "extra_forbidden" and len(location) == 1:
            option_names = ", ".join(options_type.model_fields)
            message = (
                f"No option is named {location[0]!r}; there are{f': {option_names}' if option_names else ' none'}."
            )
        raise InvalidInputError(message, loc=(*loc, *location)) from exc
