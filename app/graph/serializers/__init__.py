"""Registry of serializers: a file and a line of this module for each built-in one, and the serializers of plugins."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any

from app.graph.serializers import json_serializer, text_serializer
from app.graph.serializers.serializer import GraphSerializer
from app.plugins import GRAPH_SERIALIZERS as GROUP
from app.plugins import InvalidPlugin, merge_plugins

DEFAULT_SERIALIZER = "text"
SERIALIZERS: dict[str, GraphSerializer] = {
    module.SERIALIZER.name: module.SERIALIZER for module in (text_serializer, json_serializer)
}
_VALID_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@cache
def load_serializers() -> Mapping[str, GraphSerializer]:
    """Load the built-in serializers and the serializers of plugins, once in a process."""
    return merge_plugins(GROUP, SERIALIZERS, _validate_entry)


def _validate_entry(
    _entry: EntryPoint, serializer: Any, _existing: Mapping[str, GraphSerializer]
) -> dict[str, GraphSerializer]:
    if not isinstance(serializer, GraphSerializer):
        raise InvalidPlugin("The entry point of a graph serializer must name a GraphSerializer.")
    if not isinstance(serializer.name, str) or not _VALID_NAME.fullmatch(serializer.name):
        raise InvalidPlugin("The name of a serializer must be small letters, digits, _ and -, and begin with a letter.")
    if not isinstance(serializer.description, str) or not callable(serializer.serialize):
        raise InvalidPlugin("A GraphSerializer must have a text as description and a function as serialize.")
    return {serializer.name: serializer}
