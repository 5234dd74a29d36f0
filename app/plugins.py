"""What other distributions bring along: parsers, chunkers, embedders, rerankers, found by their Python entry points."""

import re
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from app.errors import AppError, InvalidInput
from app.logging import get_logger

logger = get_logger(__name__)

PARSERS, CHUNKERS, EMBEDDERS = "carrel.parsers", "carrel.chunkers", "carrel.embedders"
RERANKERS = "carrel.rerankers"
STRATEGIES, TRANSFORMERS = "carrel.strategies", "carrel.transformers"

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")

LineT = TypeVar("LineT")
OptionsT = TypeVar("OptionsT", bound=BaseModel)
Read = Callable[[EntryPoint, Any, Mapping[str, LineT]], Mapping[str, LineT]]


class PluginRefused(AppError):
    """The plugin is not what its entry point says it is."""

    code = "plugin_refused"


def find_plugins(group: str) -> list[EntryPoint]:
    """The entry points of a group, in an order that does not hang on how they were installed; nothing is imported."""
    return sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value))


def make_provider(
    group: str,
    name: str,
    settings: object,
    *,
    problem: Callable[[Any], str],
    missing: type[AppError],
    refused: type[AppError],
    variable: str,
) -> Any:
    """What the factory of the named plugin makes of the settings; blocking.

    ``problem`` says what is wrong with it, or nothing. Raises ``missing`` where no plugin has that name,
    ``refused`` where it fails or has a problem; the message names ``variable``, the setting.
    """
    plugins = {entry.name: entry for entry in reversed(find_plugins(group))}
    if name not in plugins:
        there = ", ".join(sorted(plugins)) or "none"
        raise missing(f"{variable}: no plugin brings {name!r}; there are: {there}.")
    try:
        made = plugins[name].load()(settings)
        wrong = problem(made)
    except AppError:
        raise
    except Exception as exc:  # what a stranger's module may raise
        raise refused(f"{variable}: {name!r} failed ({type(exc).__name__}: {exc}).") from exc
    if wrong:
        raise refused(f"{variable}: {name!r} {wrong}.")
    return made


def with_plugins(group: str, ours: Mapping[str, LineT], read: Read[LineT]) -> Mapping[str, LineT]:
    """A registry and the lines that plugins add to it; what is there already wins.

    ``read`` makes the lines of one loaded plugin, given all that there are so far. It raises PluginRefused for a plugin
    that is none: like one that cannot be imported, it is left out and logged.
    """
    joined = dict(ours)
    for entry in find_plugins(group):
        try:
            joined |= _added(read(entry, entry.load(), joined), joined)
        except Exception as exc:  # what a stranger's module may raise while it is imported
            reason = exc.message if isinstance(exc, PluginRefused) else "It cannot be loaded."
            logger.warning("plugin.left_out", group=group, plugin=entry.name, reason=reason, error=exc)
    return MappingProxyType(joined)


def _added(lines: Mapping[str, LineT], joined: Mapping[str, LineT]) -> Mapping[str, LineT]:
    for name in lines:
        if name in joined:
            raise PluginRefused(f"There is one for {name} already.")
    return lines


def check_choice(name: object, options: object) -> None:
    """Raises PluginRefused for what a request could not choose by this name, or without saying an option."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise PluginRefused("Its name is a word in small letters.")
    if not (isinstance(options, type) and issubclass(options, BaseModel)):
        raise PluginRefused("Its options are a pydantic model.")
    if options.model_config.get("extra") != "forbid":
        raise PluginRefused('Its options refuse what they do not know (extra="forbid").')
    try:
        options()
    except ValidationError as exc:
        raise PluginRefused("Its options have defaults, every one.") from exc
    options.model_json_schema()


def read_options(kind: type[OptionsT], given: Mapping[str, Any], *, loc: tuple[str | int, ...]) -> OptionsT:
    """What a caller says of a strategy, a transformer or a chunker, ours or a plugin's, and the defaults of the rest.

    Raises InvalidInput below ``loc``; where there is no such option, with the names of those that there are.
    """
    try:
        return kind.model_validate(dict(given))
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        message, place = f"{first['msg']}.", first["loc"]
        if first["type"] == "extra_forbidden" and len(place) == 1:
            known = ", ".join(kind.model_fields)
            message = f"No option is named {place[0]!r}; there are{f': {known}' if known else ' none'}."
        raise InvalidInput(message, loc=(*loc, *place)) from exc
