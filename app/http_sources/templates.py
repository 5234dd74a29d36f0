"""Templates of requests: values are put into strings alone, so a query never changes what a request is made of."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from app.http_sources.types import SourceQuery

_PLACEHOLDER = re.compile(r"\{(query|top_k)\}")
TOP_K_PLACEHOLDER = "{top_k}"


def render_template(template: Any, source_query: SourceQuery) -> Any:
    """The same JSON with its places filled, once: what a query says is not looked at again.

    A string that is ``{top_k}`` and nothing else becomes the number. Names are left as they are.
    """
    if isinstance(template, str):
        return source_query.top_k if template == TOP_K_PLACEHOLDER else render_text(template, source_query)
    if isinstance(template, Mapping):
        return {name: render_template(value, source_query) for name, value in template.items()}
    if isinstance(template, list):
        return [render_template(value, source_query) for value in template]
    return template


def render_text(template: str, source_query: SourceQuery) -> str:
    """The same for a string."""
    values = {"query": source_query.query, "top_k": str(source_query.top_k)}
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def iterate_strings(template: Any) -> Iterator[str]:
    """Every string that places are looked for in."""
    if isinstance(template, str):
        yield template
    elif isinstance(template, Mapping):
        for value in template.values():
            yield from iterate_strings(value)
    elif isinstance(template, list):
        for value in template:
            yield from iterate_strings(value)
