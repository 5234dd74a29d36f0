"""Requests with extreme values in every field of every operation, for the fuzz proof.

The values are the zero values and extremes of several programming languages, as clients send them. The service must
refuse a value or store it. Afterwards all lists and searches must still work.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any
from urllib.parse import quote

import httpx2

TIMES = (
    "0001-01-01T00:00:00Z",  # Go and .NET
    "9999-12-31T23:59:59.9999999Z",  # .NET
    "9999-12-31T23:59:59Z",
    "1601-01-01T00:00:00Z",  # Windows
    "1970-01-01T00:00:00Z",
    "1899-12-30T00:00:00Z",  # Excel
    "1900-01-00T00:00:00Z",
    "1900-02-29T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "+275760-09-13T00:00:00Z",  # JavaScript
    "-271821-04-20T00:00:00Z",
    "292278994-08-17T07:12:55.807Z",  # Java
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-12:00",
    "0001-01-01",
    "9999-12-31",
    "infinity",
    "-infinity",
    "-62135596800",
    "253402300799999",
)
NUMBERS: tuple[Any, ...] = (
    *(sign * (1 << bits) + more for bits in (31, 32, 53, 63, 64) for sign in (1, -1) for more in (-1, 0, 1)),
    0, -0.0, 0.1, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 10**400,
    float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
TEXTS = (
    "",
    " ",
    "\0",
    "a\0b",
    "\ud800",
    "a\udfff",
    "\uffff",
    "NaN",
    "Infinity",
    "-0",
    "null",
    "00000000-0000-0000-0000-000000000000",
    "\u202e\u200d\u0301",
    "a" + "\u0301" * 300,
    "x" * 70_000,
    "%00",
    "'\"\\;--",
)
OTHER_VALUES: tuple[Any, ...] = (None, True, [], {}, [None], {"": None}, {"\0": 1}, {"\ud800": "\ud800"})
VALUES: tuple[Any, ...] = (*TIMES, *NUMBERS, *TEXTS, *OTHER_VALUES)
# Fields that can contain any JSON.
_JSON_FIELDS = ("metadata", "filter", "filters", "attributes", "options", "body", "params", "headers")
_MAX_DEPTH = 4
MAX_PART_CHARACTERS = 60_000
FILE_CONTENT = b"A text that is asked for."
# Values without which an operation refuses a request before it reads the other fields; ids are the caller's.
_FIELD_VALUES = {"purpose": "assistants", "file_id": "{file}", "knowledge_id": "{kb}", "agent_id": "{agent_id}"}


@dataclass(frozen=True, slots=True)
class ExtremeRequest:
    """Request with one extreme value in one field."""

    method: str
    path: str
    place: str
    value: Any
    body: Any = None
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] | None = None

    def __str__(self) -> str:
        return f"{self.method.upper()} {self.path} {self.place} = {repr(self.value)[:60]}"

    def send(self, client: httpx2.Client) -> httpx2.Response:
        """Send the request. Python's JSON encoder writes NaN, lone surrogates and numbers of any size."""
        if self.form is not None:
            fields = {name: text.encode("utf-8", "replace") for name, text in self.form.items()}
            return client.request(self.method, self.path, data=fields, files={"file": ("a.txt", FILE_CONTENT)})
        headers = {"Content-Type": "application/json"} if self.body is not None else {}
        content = None if self.body is None else json.dumps(self.body).encode()
        # The client refuses a path or a query value of more than 65,536 characters.
        path, query = (
            self.path[:MAX_PART_CHARACTERS],
            {name: value[:MAX_PART_CHARACTERS] for name, value in self.query.items()},
        )
        return client.request(self.method, path, params=query, content=content, headers=headers)


def list_extreme_requests(
    description: Mapping[str, Any], ids: Mapping[str, str], *, values: Sequence[Any] = VALUES
) -> Iterator[ExtremeRequest]:
    """Yield a request for each value in each field and parameter of each operation. All other fields are valid.

    Args:
        description: The OpenAPI description of the service.
        ids: Real ids for the parameters of paths, by name.
        values: The values to send.
    """
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            if method in ("get", "post", "put", "patch", "delete"):
                yield from _generate_for_operation(description, method, path, operation, ids, values)


def list_readable_paths(description: Mapping[str, Any], ids: Mapping[str, str]) -> Iterator[str]:
    """Yield the path of every GET operation that these ids can fill, except event streams."""
    for path, methods in description["paths"].items():
        address = _fill_path(path, ids)
        if "get" in methods and "{" not in address and not address.endswith("/events"):
            yield address


SEARCHES: tuple[tuple[str, Any], ...] = (
    ("/v1/search", {"query": "A text that is asked for", "explain": True}),
    ("/v1/knowledge-bases/{kb}/search", {"query": "text", "expand": "section"}),
    ("/openai/v1/vector_stores/{kb}/search", {"query": "text"}),
    ("/v1/agent-search", {"messages": [{"role": "user", "content": "text"}]}),
)


def read_back(client: httpx2.Client, description: Mapping[str, Any], ids: Mapping[str, str]) -> list[str]:
    """Return the lists, documents and searches that reply with status 500."""
    broken = []
    for address in list_readable_paths(description, ids):
        with client.stream("GET", address, params={"limit": 100}) as reply:
            if reply.status_code == 500:
                broken.append(f"GET {address}")
    for path, body in SEARCHES:
        if client.post(_fill_path(path, ids), json=body).status_code == 500:
            broken.append(f"POST {path}")
    return broken


def _generate_for_operation(
    description: Mapping[str, Any],
    method: str,
    path: str,
    operation: Mapping[str, Any],
    ids: Mapping[str, str],
    values: Sequence[Any],
) -> Iterator[ExtremeRequest]:
    address = _fill_path(path, ids)
    if "{" in address or address.endswith("/events"):
        return
    yield from _generate_for_parameters(method, path, operation, ids, values)
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        schema = content["application/json"].get("schema", {})
        for body, place, value in _generate_bodies(description, schema, ids, values):
            yield ExtremeRequest(method, address, place, value, body=body)
    if "multipart/form-data" in content:
        schema = _resolve_schema(description, content["multipart/form-data"].get("schema", {}))
        needed = {name: _FIELD_VALUES.get(name, "text") for name in schema.get("required", ()) if name != "file"}
        for name, value in product(schema.get("properties", {}), values):
            if name != "file":
                text = value if isinstance(value, str) else json.dumps(value)
                yield ExtremeRequest(method, address, f"form {name}", value, form={**needed, name: text})


def _generate_for_parameters(
    method: str, path: str, operation: Mapping[str, Any], ids: Mapping[str, str], values: Sequence[Any]
) -> Iterator[ExtremeRequest]:
    address = _fill_path(path, ids)
    for parameter in operation.get("parameters", ()):
        name = parameter["name"]
        for value in values:
            if parameter["in"] == "query":
                text = value if isinstance(value, str) else json.dumps(value)
                yield ExtremeRequest(method, address, f"?{name}", value, query={name: _to_encodable(text)})
            elif parameter["in"] == "path" and isinstance(value, str) and 0 < len(value) < 1000:
                at = _fill_path(path, {**ids, name: quote(_to_encodable(value), safe="")})
                yield ExtremeRequest(method, at, name, value)


def _generate_bodies(
    description: Mapping[str, Any], schema: Mapping[str, Any], ids: Mapping[str, str], values: Sequence[Any]
) -> Iterator[tuple[Any, str, Any]]:
    """Yield bodies with one extreme value, together with the field and the value."""
    base = _build_valid_value(description, schema, 0)
    base = json.loads(_fill_path(json.dumps(base), ids))
    for place in _find_locations(description, schema, 0):
        for value in values:
            yield _replace_value(base, place, value), ".".join(map(str, place)) or "body", value


def _find_locations(description: Mapping[str, Any], schema: Mapping[str, Any], depth: int) -> Iterator[tuple[Any, ...]]:
    yield ()
    schema = _resolve_schema(description, schema)
    if depth == _MAX_DEPTH:
        return
    for name, inner in schema.get("properties", {}).items():
        for place in _find_locations(description, inner, depth + 1):
            yield (name, *place)
        if name in _JSON_FIELDS:
            yield (name, "a")
            yield (name, "a", "gte")
    if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        for place in _find_locations(description, schema["items"], depth + 1):
            yield (0, *place)


def _replace_value(base: Any, place: Sequence[Any], value: Any) -> Any:
    if not place:
        return value
    first, *remainder = place
    if first == 0:
        inner = base[0] if isinstance(base, list) and base else {}
        return [_replace_value(inner, remainder, value)]
    created = dict(base) if isinstance(base, dict) else {}
    created[first] = _replace_value(created.get(first, {}), remainder, value)
    return created


def _build_valid_value(description: Mapping[str, Any], schema: Mapping[str, Any], depth: int) -> Any:
    """Build a small value that is valid for a schema in most cases."""
    schema = _resolve_schema(description, schema)
    for name in ("const", "default", "enum"):
        if schema.get(name) is not None:
            return schema[name][0] if name == "enum" else schema[name]
    kind = schema.get("type")
    if kind == "array":
        wanted = schema.get("minItems", 0) if depth < _MAX_DEPTH else 0
        return [_build_valid_value(description, schema.get("items", {}), depth + 1)] * wanted
    if kind == "string":
        return "text" if schema.get("format") is None else "2030-01-02T03:04:05Z"
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    if kind == "boolean":
        return False
    properties = schema.get("properties", {})
    wanted_names = schema.get("required") or [name for name in ("text",) if name in properties]
    return {
        name: _FIELD_VALUES.get(name) or _build_valid_value(description, properties.get(name, {}), depth + 1)
        for name in wanted_names
    }


def _resolve_schema(description: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Resolve references. Of several alternatives take the first reference, or else the first that is not null."""
    while True:
        if "$ref" in schema:
            schema = description["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            continue
        choices = [item for name in ("anyOf", "oneOf", "allOf") for item in schema.get(name, ())]
        choices = [item for item in choices if item.get("type") != "null"]
        if not choices:
            return schema
        schema = next((item for item in choices if "$ref" in item), choices[0])


def _fill_path(path: str, ids: Mapping[str, str]) -> str:
    for name, value in ids.items():
        path = path.replace(f"{{{name}}}", value)
    return path


def _to_encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
