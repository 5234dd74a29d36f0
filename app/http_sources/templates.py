"""Templates of requests. Values replace placeholders only in strings, so a query cannot change the structure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from app.http_sources.types import SourceQuery

_PLACEHOLDER = re.compile(r"\{(query|top_k)\}")
TOP_K_PLACEHOLDER = "{top_k}"


def render_template(template: Any, source_query: SourceQuery) -> Any:
    """Return a JSON value with the placeholders replaced.

    Placeholders in the query itself are not replaced. A string that is only ``{top_k}`` becomes the number. Names of
    fields do not change.

    Args:
        template: JSON value with ``{query}`` and ``{top_k}`` in strings.
        source_query: The values.
    """
    if isinstance(template, str):
        return source_query.top_k if template == TOP_K_PLACEHOLDER else render_text(template, source_query)
    if isinstance(template, Mapping):
        return {name: render_template(value, source_query) for name, value in template.items()}
    if isinstance(template, list):
        return [render_template(value, source_query) for value in template]
    return template


def render_text(template: str, source_query: SourceQuery) -> str:
    """Return a string with the placeholders replaced."""
    values = {"query": source_query.query, "top_k": str(source_query.top_k)}
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def iterate_strings(template: Any) -> Iterator[str]:
    """Yield every string of a template that may contain placeholders."""
    if isinstance(template, str):
        yield template
    elif isinstance(template, Mapping):
        for value in template.values():
            yield from iterate_strings(value)
    elif isinstance(template, list):
        for value in template:
            yield from iterate_strings(value)
