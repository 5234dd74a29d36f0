"""The chunkers of this installation: ours, and those of plugins."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any

from pydantic import BaseModel

from app.ingestion.chunkers import CHUNKERS, ChunkerSpec
from app.plugins import CHUNKERS as GROUP
from app.plugins import InvalidPlugin, merge_plugins

_VALID_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@cache
def load_chunkers() -> Mapping[str, ChunkerSpec[Any]]:
    """By the name that a knowledge base gives; found once."""
    return merge_plugins(GROUP, CHUNKERS, _validate_entry)


def _validate_entry(
    _entry: EntryPoint, spec: Any, _existing: Mapping[str, ChunkerSpec[Any]]
) -> dict[str, ChunkerSpec[Any]]:
    if not isinstance(spec, ChunkerSpec):
        raise InvalidPlugin("The entry point of a chunker names a ChunkerSpec.")
    if not isinstance(spec.name, str) or not _VALID_NAME.fullmatch(spec.name):
        raise InvalidPlugin("A chunker's name is a word in small letters.")
    if not (isinstance(spec.options, type) and issubclass(spec.options, BaseModel) and callable(spec.chunk)):
        raise InvalidPlugin("A chunker has options, a pydantic model, and a function chunk.")
    return {spec.name: spec}
