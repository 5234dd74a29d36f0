"""Examples of the OpenAPI document. The example of a whole body consists of the examples of its fields."""

from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 12


def build_example(document: Mapping[str, Any], schema: Mapping[str, Any], depth: int = 0) -> Any:
    """Return an example of a schema.

    An example of the schema itself comes first, then a constant, an enumerated value or a default. The example of an
    object has its required fields and its fields with an example.

    Args:
        document: The OpenAPI document, for references.
        schema: JSON schema of the value.
        depth: Number of schemas above this one.

    Raises:
        ValueError: The schema refers to itself without an example.
    """
    if depth > MAX_DEPTH:
        raise ValueError("a schema that refers to itself needs an example")
    if schema.get("examples"):
        return schema["examples"][0]
    if "$ref" in schema:
        return build_example(document, resolve(document, schema["$ref"]), depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if "enum" in schema:
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return build_example(document, schema[key][0], depth + 1)
    return _build_by_type(document, schema, depth)


def _build_by_type(document: Mapping[str, Any], schema: Mapping[str, Any], depth: int) -> Any:
    match schema.get("type"):
        case "array":
            return [build_example(document, schema["items"], depth + 1)] if schema.get("items") else []
        case "object":
            required = schema.get("required", [])
            return {
                name: build_example(document, field, depth + 1)
                for name, field in schema.get("properties", {}).items()
                if name in required or field.get("examples")
            }
    return None


def resolve(document: Mapping[str, Any], reference: str) -> Any:
    """Return the part of the document that a local reference names."""
    part: Any = document
    for name in reference.removeprefix("#/").split("/"):
        part = part[name]
    return part


def add_examples(document: Mapping[str, Any]) -> None:
    """Add an example to each parameter and to each JSON body of the document that has none."""
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                if "example" not in parameter and parameter["schema"].get("examples"):
                    parameter["example"] = parameter["schema"]["examples"][0]
            for body in (operation.get("requestBody", {}), *operation["responses"].values()):
                for media_type in body.get("content", {}).values():
                    _add_body_example(document, media_type)


def _add_body_example(document: Mapping[str, Any], media_type: dict[str, Any]) -> None:
    if {"example", "examples"} & media_type.keys() or not media_type.get("schema"):
        return
    schema = media_type["schema"]
    target = resolve(document, schema["$ref"]) if "$ref" in schema else schema
    examples = target.get("examples") or [build_example(document, schema)]
    if len(examples) > 1:
        media_type["examples"] = {f"example_{number}": {"value": value} for number, value in enumerate(examples, 1)}
    elif examples != [None]:
        media_type["example"] = examples[0]
