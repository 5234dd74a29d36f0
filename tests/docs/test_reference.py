"""Generated pages of the reference: up to date, and complete in settings, commands, tables and operations."""

import pytest

from app.cli.commands import COMMANDS
from app.db.models.base import Base
from app.settings import list_variables
from scripts.docs.build_reference import build_committed_pages
from scripts.docs.http_api import build_pages, describe_type

PAGES = {path.name: (path, text) for path, text in build_committed_pages()}


@pytest.mark.parametrize("name", sorted(PAGES))
def test_committed_page_is_up_to_date(name: str) -> None:
    path, text = PAGES[name]
    assert path.read_text("utf-8") == text, "run: python -m scripts.docs.build_reference"


def test_pages_name_every_setting_command_and_table() -> None:
    assert {f"### `{name}`" for name in list_variables()} <= set(PAGES["configuration.md"][1].splitlines())
    assert {f"## `carrel {name}`" for name in COMMANDS} <= set(PAGES["commands.md"][1].splitlines())
    assert {f"### `{name}`" for name in Base.metadata.tables} <= set(PAGES["sql-schema.md"][1].splitlines())


def test_build_pages_has_a_section_for_every_operation_and_schema() -> None:
    document = {
        "tags": [{"name": "Search", "description": "Searches of <one> tenant."}],
        "paths": {
            "/v1/search": {
                "post": {
                    "tags": ["Search"],
                    "summary": "Search",
                    "operationId": "search",
                    "requestBody": {
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Query"}}}
                    },
                    "responses": {
                        "200": {"description": "Results", "content": {"application/json": {"example": {"a": 1}}}},
                        "404": {"description": "Not found"},
                    },
                }
            },
            "/healthz": {"get": {"operationId": "health", "responses": {}}},
        },
        "components": {
            "schemas": {
                "Query": {
                    "required": ["query"],
                    "properties": {
                        "query": {"type": "string", "maxLength": 8000, "description": "Words | vector."},
                        "top_k": {"type": "integer", "default": 5},
                    },
                    "examples": [{"query": "fuel"}],
                }
            }
        },
    }
    pages = build_pages(document)
    assert list(pages) == ["search", "other", "schemas"]
    search = pages["search"]
    assert "Searches of &lt;one> tenant." in search
    assert "| `query` | string (at most 8,000 characters) | required | Words \\| vector. |" in search
    assert "| `top_k` | integer | `5` |  |" in search
    assert '```json\n{\n  "query": "fuel"\n}\n```' in search
    assert "| 404 | Not found |" in search
    assert "GET /healthz" in pages["other"]
    assert "## Query" in pages["schemas"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"$ref": "#/components/schemas/Query"}, "[Query](schemas.md#query)"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"type": "array", "items": {"type": "number"}, "maxItems": 3}, "array of number (at most 3 items)"),
        ({"enum": ["a", "b"]}, "one of `a`, `b`"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "object of integer"),
        ({}, "any value"),
    ],
)
def test_describe_type_names_type_and_limits(schema: dict[str, object], expected: str) -> None:
    assert describe_type(schema) == expected
