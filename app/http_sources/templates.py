"""Templates of requests: values are put into strings alone, so a query never changes what a request is made of."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from app.http_sources.types import Asked

_PLACE = re.compile(r"\{(query|top_k)\}")
TOP_K = "{top_k}"


def filled(template: Any, asked: Asked) -> Any:
    """The same JSON with its places filled, once: what a query says is not looked at again.

    A string that is ``{top_k}`` and nothing else becomes the number. Names are left as they are.
    """
    if isinstance(template, str):
        return asked.top_k if template == TOP_K else filled_text(template, asked)
    if isinstance(template, Mapping):
        return {name: filled(value, asked) for name, value in template.items()}
    if isinstance(template, list):
        return [filled(value, asked) for value in template]
    return template


def filled_text(template: str, asked: Asked) -> str:
    """The same for a string."""
    values = {"query": asked.query, "top_k": str(asked.top_k)}
    return _PLACE.sub(lambda place: values[place[1]], template)


def strings_of(template: Any) -> Iterator[str]:
    """Every string that places are looked for in."""
    if isinstance(template, str):
        yield template
    elif isinstance(template, Mapping):
        for value in template.values():
            yield from strings_of(value)
    elif isinstance(template, list):
        for value in template:
            yield from strings_of(value)
