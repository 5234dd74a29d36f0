"""Completion of the OpenAPI document: error responses with codes, and examples of every body and parameter."""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from app.api.api_docs.examples import add_examples
from app.api.api_docs.problem_responses import add_problem_responses, describe_problem
from app.api.http.problems import PROBLEM_SCHEMA

OPENAI_PREFIX = "/openai/v1/"
# These operations describe their errors in their routes: they need no API key, or their API has error numbers.
UNCHANGED_PATHS = frozenset({"/healthz", "/readyz", "/dify/retrieval"})
# The OpenAI API uses 400 in place of these statuses.
OPENAI_STATUSES = {415: 400, 422: 400}
OPENAI_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 409: "conflict_error"}
OPENAI_ERROR_TYPES |= {429: "rate_limit_error"}


def complete_document(document: dict[str, Any], *, schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the document that FastAPI has made; it is changed in place and returned.

    Markup of docstrings becomes Markdown. Each operation gets a response for every status that it may answer with.
    Each parameter and each JSON body gets an example.

    Args:
        document: Document of the application.
        schemas: Schemas by name that FastAPI does not know, but that operations refer to.
    """
    components = document["components"]
    components["schemas"] = {**deepcopy(dict(schemas)), "Problem": deepcopy(PROBLEM_SCHEMA), **components["schemas"]}
    examples: dict[str, Any] = components.setdefault("examples", {})
    for path, operation in _iterate_operations(document):
        if path in UNCHANGED_PATHS:
            continue
        if path.startswith(OPENAI_PREFIX):
            add_problem_responses(
                operation, examples, describe_response=describe_openai_error, statuses=OPENAI_STATUSES, prefix="openai_"
            )
        else:
            add_problem_responses(operation, examples, describe_response=describe_problem)
    _replace_markup(document)
    add_examples(document)
    return document


def _iterate_operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            yield path, operation


def describe_openai_error(status: int, code: str, detail: str) -> tuple[str, dict[str, Any], Any]:
    """Return media type, schema and example of an error of the OpenAI API.

    Args:
        status: HTTP status.
        code: Error code.
        detail: Message for people.
    """
    kind = "server_error" if status >= 500 else OPENAI_ERROR_TYPES.get(status, "invalid_request_error")
    example = {"error": {"message": detail, "type": kind, "param": None, "code": code}}
    return "application/json", {"$ref": "#/components/schemas/OpenAiError"}, example


def _replace_markup(part: Any) -> None:
    """Replace double backticks and line breaks within paragraphs, in all descriptions of a part of the document."""
    if isinstance(part, list):
        for item in part:
            _replace_markup(item)
    if isinstance(part, dict):
        for name, value in part.items():
            if name == "description" and isinstance(value, str):
                part[name] = re.sub(r"(?<!\n)\n(?![\n*-])", " ", value.replace("``", "`")).strip()
            elif name not in ("example", "examples"):
                _replace_markup(value)
