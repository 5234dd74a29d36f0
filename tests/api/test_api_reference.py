"""API reference: every field, parameter and operation of the OpenAPI document has a description and an example."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from app.api.api_docs.problem_codes import EXCLUDED_CODES, OPERATION_CODES
from app.api.api_docs.problem_responses import find_problem
from harness.unopened_app import build_openapi_document

BINARY_MEDIA_TYPES = {"*/*", "application/octet-stream", "application/x-tar", "image/png", "image/jpeg"}
Field = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return build_openapi_document()


def iterate_operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def iterate_fields(schema: Any, name: str) -> Iterator[Field]:
    """Yield each field of a schema and of the schemas within, with the path to it."""
    if isinstance(schema, list):
        for part in schema:
            yield from iterate_fields(part, name)
    if not isinstance(schema, dict):
        return
    for field_name, field in schema.get("properties", {}).items():
        yield f"{name}.{field_name}", field
        yield from iterate_fields(field, f"{name}.{field_name}")
    for key in ("anyOf", "oneOf", "allOf", "items", "itemSchema", "additionalProperties", "schema", "contentSchema"):
        yield from iterate_fields(schema.get(key), name)


def list_fields(document: dict[str, Any]) -> list[Field]:
    """Return the fields of all named schemas, and of bodies whose schema has no name."""
    fields = [
        field for name, schema in document["components"]["schemas"].items() for field in iterate_fields(schema, name)
    ]
    for name, operation in iterate_operations(document):
        for body in (operation.get("requestBody", {}), *operation["responses"].values()):
            for media_type in body.get("content", {}).values():
                fields += iterate_fields(media_type, name)
    return fields


def has_example(document: dict[str, Any], schema: dict[str, Any]) -> bool:
    """Return whether a schema has an example, a constant, or only refers to objects, whose fields have theirs."""
    if schema.get("examples") or "const" in schema or schema.get("format") == "binary":
        return True
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        target = document["components"]["schemas"][name]
        return bool(target.get("properties")) or has_example(document, target)
    if "anyOf" in schema:
        return has_example(document, schema["anyOf"][0])
    if "oneOf" in schema:
        return all(has_example(document, variant) for variant in schema["oneOf"])
    if schema.get("type") == "array":
        return has_example(document, schema["items"])
    return bool(schema.get("properties"))


def find_faults(document: dict[str, Any], name: str, schema: dict[str, Any], described: dict[str, Any]) -> list[str]:
    faults = []
    if not re.fullmatch(r"[`A-Z].*[.:`]", described.get("description", ""), re.DOTALL):
        faults.append(f"{name}: description {described.get('description')!r}")
    if not has_example(document, schema):
        faults.append(f"{name}: no example")
    return faults


@pytest.mark.capability("api-fields")
def test_every_field_has_a_description_and_an_example(document: dict[str, Any]) -> None:
    fields = list_fields(document)
    faults = [fault for name, field in fields for fault in find_faults(document, name, field, field)]
    assert faults == []
    assert len(fields) > 1000


def test_every_parameter_has_a_description_and_an_example(document: dict[str, Any]) -> None:
    parameters = [
        (f"{name} {parameter['name']}", parameter)
        for name, operation in iterate_operations(document)
        for parameter in operation.get("parameters", ())
    ]
    faults = [
        fault
        for name, parameter in parameters
        for fault in find_faults(document, name, parameter["schema"], parameter)
        if not (fault.endswith("no example") and "example" in parameter)
    ]
    assert faults == []
    assert len(parameters) > 200


def test_every_operation_has_summary_description_and_tag(document: dict[str, Any]) -> None:
    tags = {tag["name"]: tag["description"] for tag in document["tags"]}
    used = set()
    for name, operation in iterate_operations(document):
        # A verb and its object, in sentence case.
        assert re.fullmatch(r"[A-Z][a-z]+( [a-z]+| API| SQL| MCP| Dify)+", operation["summary"]), (
            name,
            operation["summary"],
        )
        assert operation["description"].split(".")[0].count(" ") >= 2, name
        assert "``" not in operation["description"], name
        used |= set(operation["tags"])
    assert used == tags.keys()
    assert all(tags.values())


def test_every_schema_has_a_description(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert [name for name, schema in schemas.items() if not schema.get("description")] == []


def test_every_json_body_has_an_example(document: dict[str, Any]) -> None:
    missing = []
    for name, operation in iterate_operations(document):
        bodies = {"request": operation.get("requestBody", {}), **operation["responses"]}
        for kind, body in bodies.items():
            for media_type, content in body.get("content", {}).items():
                if media_type not in BINARY_MEDIA_TYPES and not {"example", "examples"} & content.keys():
                    missing.append(f"{name} {kind} {media_type}")
    assert missing == []


def list_body_examples(content: dict[str, Any], document: dict[str, Any]) -> list[Any]:
    named = list(content.get("examples", {}).values())
    values = [
        document["components"]["examples"][example["$ref"].rsplit("/", 1)[1]]["value"]
        if "$ref" in example
        else example["value"]
        for example in named
    ]
    return values + ([content["example"]] if "example" in content else [])


def test_every_example_is_valid(document: dict[str, Any]) -> None:
    """Examples of fields, parameters, requests and responses match their schemas."""
    faults: list[str] = []

    def check(name: str, schema: dict[str, Any], values: list[Any]) -> None:
        validator = Draft202012Validator({**schema, "components": document["components"]})
        for value in values:
            faults.extend(f"{name}: {error.message[:200]}" for error in validator.iter_errors(value))

    for name, field in list_fields(document):
        check(name, field, field.get("examples", []))
    for name, operation in iterate_operations(document):
        for parameter in operation.get("parameters", ()):
            if "example" in parameter:
                check(f"{name} {parameter['name']}", parameter["schema"], [parameter["example"]])
        for kind, body in {"request": operation.get("requestBody", {}), **operation["responses"]}.items():
            for media_type, content in body.get("content", {}).items():
                if "json" in media_type and "ndjson" not in media_type:
                    check(f"{name} {kind}", content.get("schema", {}), list_body_examples(content, document))
    assert faults == []


def test_every_error_code_of_an_operation_exists(document: dict[str, Any]) -> None:
    operations = {operation["operationId"] for _, operation in iterate_operations(document)}
    assert OPERATION_CODES.keys() | EXCLUDED_CODES.keys() <= operations
    for codes in OPERATION_CODES.values():
        for code in codes:
            status, message = find_problem(code)
            assert 400 <= status < 600
            assert message


@pytest.mark.capability("api-codes")
def test_every_operation_lists_the_codes_of_its_errors(document: dict[str, Any]) -> None:
    for name, operation in iterate_operations(document):
        if name.split()[1] in ("/healthz", "/readyz", "/dify/retrieval"):
            continue
        for status, response in operation["responses"].items():
            if status.startswith(("4", "5")):
                (content,) = response["content"].values()
                if "example" in content:  # an error of JSON-RPC, which has no code of Carrel
                    assert (name.split()[1], content["example"]["jsonrpc"]) == ("/mcp", "2.0")
                    continue
                assert content["examples"], (name, status)
                assert all(f"`{code}`" in response["description"] for code in content["examples"]), (name, status)
