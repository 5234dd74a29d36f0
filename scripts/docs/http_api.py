"""The pages of the HTTP API, from the service's OpenAPI document."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from harness.unopened_app import build_openapi_document
from scripts.docs.markdown import GENERATED, format_table, format_text

JsonObject = Mapping[str, Any]
_ACRONYMS = {"api": "API", "dify": "Dify", "mcp": "MCP", "openai": "OpenAI", "sql": "SQL"}
_METHODS = ("get", "post", "put", "patch", "delete")
_FIELD_HEAD = ("field", "type", "default", "meaning")
_PROBLEM_TYPE = "application/problem+json"


def build_pages(document: JsonObject | None = None) -> dict[str, str]:
    """Return the pages of the API by their names: one for each tag, and one for all schemas."""
    document = document or build_openapi_document()
    tags = {tag["name"]: tag.get("description", "") for tag in document.get("tags", ())}
    groups: dict[str, list[tuple[str, str, JsonObject]]] = defaultdict(list)
    for path, operations in document["paths"].items():
        for method in _METHODS:
            if operation := operations.get(method):
                groups[next(iter(operation.get("tags", ())), "other")].append((method, path, operation))
    names = [name for name in tags if name in groups] + [name for name in groups if name not in tags]
    pages = {_make_slug(name): _build_tag_page(name, tags.get(name, ""), groups[name], document) for name in names}
    return pages | {"schemas": _build_schema_page(document)}


def _make_slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _build_tag_page(
    name: str, description: str, operations: list[tuple[str, str, JsonObject]], document: JsonObject
) -> str:
    title = " ".join(_ACRONYMS.get(word, word) for word in name.replace("-", " ").split())
    lines = [GENERATED, "", f"# {title[0].upper()}{title[1:]}", "", format_text(description), ""]
    lines += format_table(
        ("operation", "summary"),
        (
            (f"`{method.upper()} {path}`", format_text(operation.get("summary", "")))
            for method, path, operation in operations
        ),
    )
    for method, path, operation in operations:
        lines += _format_operation(method, path, operation, document)
    return "\n".join(lines).rstrip() + "\n"


def _format_operation(method: str, path: str, operation: JsonObject, document: JsonObject) -> Iterator[str]:
    yield from (f"## {operation.get('summary') or operation['operationId']}", "")
    yield from ("```text", f"{method.upper()} {path}", "```", "", format_text(operation.get("description", "")), "")
    parameters = [_resolve(parameter, document) for parameter in operation.get("parameters", ())]
    yield from format_table(
        ("parameter", "in", "type", "default", "meaning"),
        (
            (
                f"`{parameter['name']}`",
                parameter["in"],
                describe_type(parameter["schema"]),
                "required" if parameter.get("required") else _format_default(parameter["schema"]),
                format_text(parameter.get("description") or parameter["schema"].get("description", "")),
            )
            for parameter in parameters
        ),
    )
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        yield from (f"**Request body**: `{media_type}`, {describe_type(content.get('schema', {}))}", "")
        yield from _format_fields(content.get("schema", {}), document)
        yield from _format_examples(content, document)
    yield from _format_responses(operation.get("responses", {}), document)


def _format_responses(responses: JsonObject, document: JsonObject) -> Iterator[str]:
    errors = []
    for status, described in responses.items():
        response = _resolve(described, document)
        if status >= "400":
            errors.append((status, format_text(response.get("description", ""))))
            continue
        for media_type, content in response.get("content", {}).items() or [("", {})]:
            kind = f": `{media_type}`, {describe_type(content.get('schema', {}))}" if media_type else ""
            yield from (f"**Response {status}**{kind}", "", *_format_description(response))
            yield from _format_examples(content, document)
    yield from format_table(("error", "meaning"), errors)


def _format_description(response: JsonObject) -> tuple[str, ...]:
    """Return the description of a response, unless it is the framework's default."""
    description = response.get("description", "")
    return () if description == "Successful Response" else (format_text(description), "")


def _format_fields(schema: JsonObject, document: JsonObject) -> Iterator[str]:
    """Yield the table of an object's fields; nothing for other types."""
    resolved = _resolve(schema, document)
    required = set(resolved.get("required", ()))
    yield from format_table(
        _FIELD_HEAD,
        (
            (
                f"`{name}`",
                describe_type(field),
                "required" if name in required else _format_default(field),
                format_text(field.get("description", "")),
            )
            for name, field in resolved.get("properties", {}).items()
        ),
    )


def _format_examples(content: JsonObject, document: JsonObject) -> Iterator[str]:
    schema = _resolve(content.get("schema", {}), document)
    examples = [example.get("value") for example in content.get("examples", {}).values()]
    examples = examples or ([content["example"]] if "example" in content else schema.get("examples", []))
    for example in examples:
        if isinstance(example, str):
            yield from ("```text", example.rstrip("\n"), "```", "")
        else:
            yield from ("```json", json.dumps(example, indent=2, ensure_ascii=False), "```", "")


def _build_schema_page(document: JsonObject) -> str:
    lines = [
        GENERATED,
        "",
        "# Schemas",
        "",
        "The objects that requests and responses contain, in alphabetical order.",
        "",
    ]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += [f"## {name}", "", format_text(schema.get("description", "")), ""]
        if "properties" in schema:
            lines += _format_fields(schema, document)
        else:
            lines += [f"Type: {describe_type({**schema, 'description': ''})}", ""]
    return "\n".join(lines).rstrip() + "\n"


def _resolve(schema: JsonObject, document: JsonObject) -> JsonObject:
    """Return the target of a reference, or the schema itself."""
    while "$ref" in schema:
        target: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        schema = target
    return schema


def describe_type(schema: JsonObject) -> str:
    """Return a schema's type with its limits, for example ``array of string (at most 16 items)``."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](schemas.md#{name.lower()})"
    for combination in ("anyOf", "oneOf", "allOf"):
        if combination in schema:
            return " or ".join(dict.fromkeys(describe_type(part) for part in schema[combination]))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return f"one of {', '.join(f'`{value}`' for value in schema['enum'])}"
    limits = ", ".join(_describe_limits(schema))
    return _describe_plain_type(schema) + (f" ({limits})" if limits else "")


def _describe_plain_type(schema: JsonObject) -> str:
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"array of {describe_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {describe_type(schema['additionalProperties'])}"
    if kind == "string" and (schema.get("format") or schema.get("contentMediaType")):
        return f"string ({schema.get('format') or schema['contentMediaType']})"
    return str(kind)


def _describe_limits(schema: JsonObject) -> Iterator[str]:
    labels = {
        "minimum": "at least {}",
        "exclusiveMinimum": "more than {}",
        "maximum": "at most {}",
        "exclusiveMaximum": "less than {}",
        "minLength": "at least {} characters",
        "maxLength": "at most {} characters",
        "minItems": "at least {} items",
        "maxItems": "at most {} items",
        "maxProperties": "at most {} members",
    }
    for name, label in labels.items():
        if name in schema:
            limit = schema[name]
            count = f"{int(limit):,}" if limit == int(limit) else str(limit)
            yield label.format(count).replace(" 1 characters", " 1 character").replace(" 1 items", " 1 item")


def _format_default(schema: JsonObject) -> str:
    return f"`{json.dumps(schema['default'], ensure_ascii=False)}`" if "default" in schema else ""
