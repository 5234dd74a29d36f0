"""Replies in YAML for callers whose header ``Accept`` prefers it: blocks for the configuration of agent platforms."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from fastapi import Request, Response

from app.warnings import ServiceWarning

YAML_TYPE = "application/yaml"
_YAML_TYPES = frozenset({YAML_TYPE, "application/x-yaml", "text/yaml", "text/x-yaml"})
MAX_ACCEPT_CHARACTERS = 1000


def needs_yaml(request: Request) -> bool:
    """Return whether the header ``Accept`` of a request prefers YAML to JSON."""
    yaml_quality = json_quality = 0.0
    for item in request.headers.get("accept", "")[:MAX_ACCEPT_CHARACTERS].split(","):
        media_type, *parameters = (part.strip().lower() for part in item.split(";"))
        quality = _parse_quality(parameters)
        if media_type in _YAML_TYPES:
            yaml_quality = max(yaml_quality, quality)
        elif media_type == "application/json":
            json_quality = max(json_quality, quality)
    return yaml_quality > json_quality


def _parse_quality(parameters: Sequence[str]) -> float:
    """Return the parameter ``q`` of an item of ``Accept``, between 0 and 1; 1 if it is missing or no number."""
    values = [text.removeprefix("q=") for text in parameters if text.startswith("q=")]
    try:
        return min(max(float(values[0]), 0.0), 1.0) if values else 1.0
    except ValueError:
        return 1.0


def build_yaml_response(block: Mapping[str, Any], warnings: Sequence[ServiceWarning] = ()) -> Response:
    """Return a block as YAML.

    Args:
        block: The fields in their order. Fields that are None are left out.
        warnings: Warnings, which become comments before the block.

    Returns:
        The response, with the media type ``application/yaml``.
    """
    comments = [f"# {warning.code}: {warning.message}\n" for warning in warnings]
    fields = {name: value for name, value in block.items() if value is not None}
    text = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)
    return Response("".join(comments) + text, media_type=YAML_TYPE)


def describe_yaml_response(description: str, example: str) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of a reply that exists in YAML too.

    Args:
        description: Description of the reply.
        example: The reply in YAML.
    """
    content = {YAML_TYPE: {"schema": {"type": "string"}, "example": example}}
    return {200: {"description": description, "content": content}}
