"""Registry of the parsers of this installation: the built-in parsers and the parsers of plugins."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any

from app.documents.types import CHUNKS_TYPE
from app.ingestion.parsers import PARSERS, ParserSpec
from app.ingestion.parsers.sandbox.office_conversion import find_office_program
from app.plugins import PARSERS as GROUP
from app.plugins import InvalidPlugin, merge_plugins

_MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
_EXTENSION = re.compile(r"[a-z0-9][a-z0-9_+-]{0,31}")


@cache
def load_installed_parsers() -> Mapping[str, ParserSpec]:
    """Return all parsers by media type; the result is cached.

    Formats that LibreOffice converts are left out if LibreOffice is not installed. The modules of plugins are imported
    into this process only to read their declarations. They parse files in the parser processes, like the built-in
    parsers.
    """
    return merge_plugins(GROUP, select_available_parsers(find_office_program()), _read_plugin_specs)


def select_available_parsers(office_program: str) -> Mapping[str, ParserSpec]:
    """Return the built-in parsers that this server can use.

    Args:
        office_program: Path of LibreOffice; empty if it is not installed.
    """
    return {name: spec for name, spec in PARSERS.items() if office_program or not spec.conversion}


def list_plugin_types(parsers: Mapping[str, ParserSpec]) -> dict[str, tuple[str, ...]]:
    """Return the media types of plugins, each with the file name extensions that select it."""
    return {spec.media_type: spec.extensions for spec in parsers.values() if spec.is_plugin}


def _read_plugin_specs(entry: EntryPoint, module: Any, existing: Mapping[str, ParserSpec]) -> dict[str, ParserSpec]:
    """Return the registry entries of a plugin's module. Its extensions select the first of its media types."""
    if entry.attr:
        raise InvalidPlugin("The entry point of a parser must name a module, not an object in a module.")
    if not callable(getattr(module, "parse", None)):
        raise InvalidPlugin("The module has no function parse; define parse(path, options).")
    types = _read_declared_words(module, "supported_media_types", _MEDIA_TYPE)
    extensions = _read_declared_words(module, "supported_extensions", _EXTENSION)
    if not types or CHUNKS_TYPE in types:
        raise InvalidPlugin(f"supported_media_types must name at least one media type, and not {CHUNKS_TYPE}.")
    for spec in existing.values():
        if conflicts := sorted(set(extensions).intersection(spec.extensions)):
            raise InvalidPlugin(f"Files named .{conflicts[0]} are read by {spec.module} already; choose another.")
    first, *others = types
    specs = [ParserSpec(first, extensions, entry.module, is_plugin=True)]
    specs += [ParserSpec(name, (), entry.module, is_plugin=True) for name in others]
    return {parser_spec.media_type: parser_spec for parser_spec in specs}


def _read_declared_words(module: Any, name: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Return a plugin's list of media types or extensions in lower case, without duplicates and leading dots."""
    declared = getattr(module, name, None)
    if not isinstance(declared, list | tuple) or not all(isinstance(word, str) for word in declared):
        raise InvalidPlugin(f"The module has no {name}; define it as a list of strings.")
    words = tuple(dict.fromkeys(word.lower().removeprefix(".") for word in declared))
    for word in words:
        if not pattern.fullmatch(word):
            raise InvalidPlugin(f"{name} contains {word[:60]!r}, which is not valid; correct it.")
    return words
