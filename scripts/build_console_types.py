"""Write the TypeScript types of the console from the OpenAPI document: ``python -m scripts.build_console_types``."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.unopened_app import build_openapi_document

TARGET = Path(__file__).parents[1] / "console/src/api/schema.d.ts"
# Schemas that the console reads. The schemas that these refer to are added.
ROOTS = (
    "AgentBindingList",
    "AnswerOut",
    "ApiKeyList",
    "AuditEventList",
    "CallerOut",
    "CapabilitiesOut",
    "ChunkDetailOut",
    "ChunkList",
    "DeletionList",
    "DeletionOut",
    "DocumentDetailOut",
    "DocumentList",
    "DocumentsDeletedOut",
    "EvaluationList",
    "EvaluationResultList",
    "GoldenItemList",
    "GoldenItemsOut",
    "GoldenSetList",
    "HealthOut",
    "JobList",
    "JobsRetriedOut",
    "KnowledgeBaseList",
    "NewApiKeyOut",
    "NewTenantOut",
    "PreviewOut",
    "Problem",
    "SearchOut",
    "StatusOut",
    "TenantDetailOut",
    "TenantList",
    "UsageOut",
)
HEADER = "// Types of the API, made from /openapi.json by `make console`. Do not edit.\n"
_PRIMITIVES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def build_types() -> str:
    """Return the declarations of all schemas that the console reads, in the order of their names."""
    schemas: dict[str, Any] = build_openapi_document()["components"]["schemas"]
    used, pending = set[str](), list(ROOTS)
    while pending:
        name = pending.pop()
        if name not in used:
            used.add(name)
            pending.extend(_iterate_references(schemas[name]))
    return HEADER + "".join(f"\n{_format_declaration(name, schemas[name])}" for name in sorted(used))


def _iterate_references(schema: Any) -> Iterator[str]:
    yield from re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schema))


def _format_declaration(name: str, schema: dict[str, Any]) -> str:
    if "properties" not in schema:
        return f"export type {name} = {_format_type(schema)};\n"
    required = set(schema.get("required", ()))
    lines = [
        f"  {field}{'' if field in required else '?'}: {_format_type(part)};\n"
        for field, part in schema["properties"].items()
    ]
    return f"export interface {name} {{\n{''.join(lines)}}}\n"


def _format_type(schema: dict[str, Any]) -> str:
    """Return the TypeScript type of a schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema or "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " | ".join(dict.fromkeys(_format_type(part) for part in schema[union]))
    if schema.get("type") == "array":
        item = _format_type(schema.get("items", {}))
        return f"({item})[]" if " " in item else f"{item}[]"
    if schema.get("type") == "object":
        return _format_object(schema)
    return _PRIMITIVES.get(str(schema.get("type")), "unknown")


def _format_object(schema: dict[str, Any]) -> str:
    if "properties" in schema:
        required = set(schema.get("required", ()))
        fields = [
            f"{name}{'' if name in required else '?'}: {_format_type(part)}"
            for name, part in schema["properties"].items()
        ]
        return f"{{ {'; '.join(fields)} }}"
    values = schema.get("additionalProperties", True)
    return f"Record<string, {_format_type(values) if isinstance(values, dict) else 'unknown'}>"


if __name__ == "__main__":
    TARGET.write_text(build_types())
