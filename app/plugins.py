"""Plugins of other distributions, found by their Python entry points: parsers, chunkers, embedders, rerankers,
extractors and others.
"""

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
EXTRACTORS, GRAPH_SERIALIZERS = "carrel.extractors", "carrel.graph_serializers"
STRATEGIES, TRANSFORMERS = "carrel.strategies", "carrel.transformers"

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")

LineT = TypeVar("LineT")
OptionsT = TypeVar("OptionsT", bound=BaseModel)
PluginReader = Callable[[EntryPoint, Any, Mapping[str, LineT]], Mapping[str, LineT]]


class InvalidPlugin(AppError):
    """The plugin does not implement the interface of its entry point. Correct or remove the plugin."""

    code = "invalid_plugin"


def find_entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group without importing them, sorted by name, so that the order of installation is
    irrelevant.
    """
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
    """Return the object that the factory of a plugin creates from the settings. The call blocks.

    Args:
        group: Group of entry points.
        name: Name of the plugin.
        settings: Argument of the factory.
        find_problem: Function that returns the defect of the created object, or an empty text.
        missing_error: Error if no plugin has this name.
        invalid_error: Error if the factory fails or the object has a defect.
        setting_name: Name of the setting that names the plugin, for error messages.

    Raises:
        AppError: ``missing_error`` or ``invalid_error``; an AppError of the factory passes unchanged.
    """
    plugins = {entry.name: entry for entry in reversed(find_entry_points(group))}
    if name not in plugins:
        available = ", ".join(sorted(plugins)) or "none"
        raise missing_error(f"{setting_name}: no plugin has the name {name!r}. Available names: {available}.")
    try:
        provider = plugins[name].load()(settings)
        defect = find_problem(provider)
    except AppError:
        raise
    except Exception as exc:  # a plugin may raise any exception
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
    """Return a registry with the entries of plugins added. Existing and reserved names cannot be replaced.

    A plugin that cannot be imported, or is not valid, is logged and left out.

    Args:
        group: Group of entry points.
        builtin_entries: The entries without plugins.
        read_plugin: Function that returns the entries of a loaded plugin. Its arguments are the entry point, the loaded
            object and the entries so far. It raises InvalidPlugin for a plugin that is not valid.
        reserved: Names that plugins may not use.
    """
    merged = dict(builtin_entries)
    for entry in find_entry_points(group):
        try:
            merged |= _require_new_names(read_plugin(entry, entry.load(), merged), {*merged, *reserved})
        except Exception as exc:  # a plugin may raise any exception when it is imported
            reason = exc.message if isinstance(exc, InvalidPlugin) else "It cannot be loaded."
            logger.warning("plugin.skipped", group=group, plugin=entry.name, reason=reason, error=exc)
    return MappingProxyType(merged)


def _require_new_names(entries: Mapping[str, LineT], existing: Collection[str]) -> Mapping[str, LineT]:
    for name in entries:
        if name in existing:
            raise InvalidPlugin(f"The name {name} is in use. Choose another name.")
    return entries


def validate_choice(name: object, options: object) -> None:
    """Check the name and the options of a plugin that requests can choose.

    Args:
        name: Name of the plugin.
        options: Class of its options.

    Raises:
        InvalidPlugin: The name or the class is not valid, or an option has no default.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidPlugin(
            "The name is not valid. Use lower-case letters, digits, `_` and `-`, and begin with a letter."
        )
    if not (isinstance(options, type) and issubclass(options, BaseModel)):
        raise InvalidPlugin("The class of the options is not valid. Use a pydantic model.")
    if options.model_config.get("extra") != "forbid":
        raise InvalidPlugin('The options accept unknown fields. Set extra="forbid" in their configuration.')
    try:
        options()
    except ValidationError as exc:
        raise InvalidPlugin("An option has no default. Give each option a default.") from exc
    options.model_json_schema()


def parse_options(options_type: type[OptionsT], provided: Mapping[str, Any], *, loc: tuple[str | int, ...]) -> OptionsT:
    """Return the options of a strategy, a transformer or a chunker, with defaults for missing ones.

    Args:
        options_type: Class of the options.
        provided: Options in the request.
        loc: Location of the options in the request, for the error.

    Raises:
        InvalidInputError: An option is unknown or not valid. For an unknown option, the message lists the known
            options.
    """
    try:
        return options_type.model_validate(dict(provided))
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        message, location = f"{first['msg']}.", first["loc"]
        if first["type"] == "extra_forbidden" and len(location) == 1:
            option_names = ", ".join(options_type.model_fields)
            advice = f"Choose one of: {option_names}." if option_names else "No options exist: leave them out."
            message = f"No option is named {location[0]!r}. {advice}"
        raise InvalidInputError(message, loc=(*loc, *location)) from exc
