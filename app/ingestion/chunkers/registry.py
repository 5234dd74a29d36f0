"""Registry of all chunkers of this installation: the built-in chunkers and the chunkers of plugins."""

import re
from collections.abc import Mapping
from copy import copy
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any

from pydantic import BaseModel, create_model

from app.ingestion.chunkers import CHUNKERS, ChunkerSpec
from app.ingestion.chunkers.spec import PAGES_OPTION, PageOptions
from app.plugins import CHUNKERS as GROUP
from app.plugins import InvalidPlugin, merge_plugins

_VALID_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@cache
def load_chunkers() -> Mapping[str, ChunkerSpec[Any]]:
    """Return all chunkers by name. The plugins are loaded once per process."""
    return merge_plugins(GROUP, CHUNKERS, _validate_entry)


def build_request_options(options: type[BaseModel]) -> type[BaseModel]:
    """Build the model of the options that requests may have for a chunker.

    Args:
        options: Options of the chunker.

    Returns:
        The options and ``pages``, which every chunker has. A chunker that declares ``pages`` applies it by itself.
    """
    if PAGES_OPTION in options.model_fields:
        return options
    field = copy(PageOptions.model_fields[PAGES_OPTION])
    return create_model(options.__name__, __base__=options, __doc__=options.__doc__, pages=(bool | None, field))


def _validate_entry(
    _entry: EntryPoint, spec: Any, _existing: Mapping[str, ChunkerSpec[Any]]
) -> dict[str, ChunkerSpec[Any]]:
    if not isinstance(spec, ChunkerSpec):
        raise InvalidPlugin("The entry point of a chunker must name a ChunkerSpec.")
    if not isinstance(spec.name, str) or not _VALID_NAME.fullmatch(spec.name):
        raise InvalidPlugin("The name of a chunker must be small letters, digits, _ and -, and begin with a letter.")
    if not (isinstance(spec.options, type) and issubclass(spec.options, BaseModel) and callable(spec.chunk)):
        raise InvalidPlugin("A ChunkerSpec must have a Pydantic model as options and a function as chunk.")
    build_request_options(spec.options)  # fails for a model that takes no further field
    return {spec.name: spec}
