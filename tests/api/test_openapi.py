"""OpenAPI document: all operations are described, references resolve, and replies match their schemas."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from app.times import MAX_YEAR, MIN_YEAR
from harness.running_service import Service, Tenant
from tests.architecture.names import faults_of

DOCUMENTS = "/v1/knowledge-bases/default/documents"


@pytest.fixture(scope="module")
def description(service: Service) -> dict[str, Any]:
    reply = service.create_client().get("/openapi.json")
    reply.raise_for_status()
    found: dict[str, Any] = reply.json()
    return found


def operations(description: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from references(part)


def resolved(description: dict[str, Any], reference: str) -> Any:
    assert reference.startswith("#/")
    found: Any = description
    for part in reference[2:].split("/"):
        found = found[part]
    return found


def test_every_operation_has_a_summary_and_a_description(description: dict[str, Any]) -> None:
    for method, path, operation in operations(description):
        assert operation["summary"], (method, path)
        assert operation["description"], (method, path)


def test_every_list_of_warnings_has_objects_of_code_and_message(description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    shown = {
        name: schema["properties"]["warnings"]
        for name, schema in schemas.items()
        if "warnings" in schema.get("properties", {})
    }
    assert {"AnswerOut", "DocumentOut", "PreviewOut", "SearchOut", "SqlViewOut"} <= shown.keys()
    for name, schema in shown.items():
        found = resolved(description, schema["items"]["$ref"])
        assert set(found["required"]) == {"code", "message"}, name
        assert all(part["description"] for part in found["properties"].values()), name


def test_operation_ids_are_short_and_unique(description: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(description)]
    assert len(names) == len(set(names)) > 25
    assert "search_knowledge_base" in names
    assert [name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+){1,6}", name) or "_v1_" in name] == []
    assert max(map(len, names)) <= 40


def test_schema_names_are_short_and_unique(description: dict[str, Any]) -> None:
    names = list(description["components"]["schemas"])
    assert len({name.lower() for name in names}) == len(names) > 100
    # A module path has underscores, both forms of one model have a suffix, and lists of a generic model have
    # both.
    assert [name for name in names if not re.fullmatch(r"([A-Z][A-Za-z0-9]*)", name)] == []
    assert [name for name in names if name.endswith(("Input", "Output"))] == []
    assert max(map(len, names)) <= 40


def wire_names(value: Any) -> Iterator[str]:
    """Yield the names that callers see: fields, parameters and enumerated values."""
    if isinstance(value, dict):
        yield from value["properties"] if isinstance(value.get("properties"), dict) else ()
        yield from (item for item in value.get("enum", ()) if isinstance(item, str))
        yield from (value[key] for key in ("const",) if isinstance(value.get(key), str))
        yield from [value["name"]] if "in" in value and isinstance(value.get("name"), str) else []
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from wire_names(item)


def test_names_of_paths_fields_and_values_hold_no_private_words(description: dict[str, Any]) -> None:
    names = set(wire_names(description))
    names |= {part for path in description["paths"] for part in re.split(r"[/{}]+", path) if part}
    names |= {tag for _, _, operation in operations(description) for tag in operation.get("tags", ())}
    assert {"search", "sql-view", "images", "rollback_until", "compress", "dense", "vector_store"} <= names
    assert {name: faults for name in sorted(names) if (faults := faults_of(re.sub(r"[^\w]+", "_", name)))} == {}


def test_every_operation_lists_errors_as_problems(description: dict[str, Any]) -> None:
    for method, path, operation in operations(description):
        if not path.startswith("/v1/"):
            continue
        errors = {status: told for status, told in operation["responses"].items() if status.startswith(("4", "5"))}
        assert {"401", "403", "413", "422", "429", "500", "503"} <= errors.keys(), (method, path)
        for status, told in errors.items():
            assert set(told["content"]) == {"application/problem+json"}, (method, path, status)
            assert told["description"]
        assert operation["security"], (method, path)
        assert any(status.startswith(("2", "3")) for status in operation["responses"])


def test_every_schema_reference_resolves(description: dict[str, Any]) -> None:
    found = set(references(description))
    assert found
    for reference in found:
        assert resolved(description, reference)


def fits(description: dict[str, Any], schema: dict[str, Any], value: Any, at: str) -> None:
    """Check a value loosely: types, required fields, and no undocumented field."""
    if "$ref" in schema:
        schema = resolved(description, schema["$ref"])
    if "anyOf" in schema:
        kinds = [resolved(description, one["$ref"]) if "$ref" in one else one for one in schema["anyOf"]]
        kinds = [one for one in kinds if (one.get("type") == "null") == (value is None)]
        if len(kinds) > 1:
            return
        (schema,) = kinds
    types = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}
    kind = schema.get("type")
    if kind in types:
        assert isinstance(value, types[kind]), (at, value)  # type: ignore[arg-type]
    if kind == "array":
        for place, item in enumerate(value):
            fits(description, schema.get("items", {}), item, f"{at}.{place}")
    if kind == "object" and "properties" in schema:
        assert set(schema.get("required", [])) <= set(value) <= set(schema["properties"]), at
        for name, part in value.items():
            fits(description, schema["properties"][name], part, f"{at}.{name}")


@pytest.mark.capability("api-replies")
def test_replies_match_their_schemas(service: Service, tenant: Tenant, description: dict[str, Any]) -> None:
    document = tenant.add_text("# Heading\n\nText that is described.", metadata={"a": 1})["id"]
    deleted = tenant.admin.delete(DOCUMENTS, params={"external_id": "nothing"}).json()["deletion"]
    calls: list[tuple[str, str, str, Any]] = [
        ("get", "/healthz", "/healthz", None),
        ("get", "/readyz", "/readyz", None),
        ("get", "/v1/me", "/v1/me", None),
        ("get", "/v1/capabilities", "/v1/capabilities", None),
        ("get", "/v1/api-keys", "/v1/api-keys", None),
        ("post", "/v1/api-keys", "/v1/api-keys", {"name": "k", "role": "reader"}),
        ("put", "/v1/agents/{agent_id}", "/v1/agents/agt", {"knowledge_bases": ["default"]}),
        ("put", "/v1/agents/{agent_id}", "/v1/agents/agt", {"knowledge_bases": [], "max_top_k": 3}),
        ("get", "/v1/agents", "/v1/agents", None),
        ("get", "/v1/agents/{agent_id}", "/v1/agents/agt", None),
        ("patch", "/v1/agents/{agent_id}", "/v1/agents/agt", {"answer_prompt": "Be brief."}),
        ("get", "/v1/agents/{agent_id}/prompts", "/v1/agents/agt/prompts", None),
        (
            "post",
            "/v1/agents/{agent_id}/prompts/{prompt}/{number}/pin",
            "/v1/agents/agt/prompts/answer/1/pin",
            None,
        ),
        ("get", "/v1/knowledge-bases/{kb}/prompts", "/v1/knowledge-bases/default/prompts", None),
        ("get", "/v1/knowledge-bases", "/v1/knowledge-bases", None),
        ("get", "/v1/knowledge-bases/{kb}", "/v1/knowledge-bases/default", None),
        ("get", "/v1/knowledge-bases/{kb}/documents", DOCUMENTS, None),
        ("get", "/v1/knowledge-bases/{kb}/documents/{document}", f"{DOCUMENTS}/{document}", None),
        ("get", "/v1/knowledge-bases/{kb}/documents/{document}/chunks", f"{DOCUMENTS}/{document}/chunks", None),
        ("get", "/v1/knowledge-bases/{kb}/documents/{document}/tree", f"{DOCUMENTS}/{document}/tree", None),
        (
            "post",
            "/v1/knowledge-bases/{kb}/documents/{document}/reindex",
            f"{DOCUMENTS}/{document}/reindex",
            None,
        ),
        ("get", "/v1/deletions/{deletion}", f"/v1/deletions/{deleted}", None),
        ("delete", "/v1/knowledge-bases/{kb}/documents", f"{DOCUMENTS}?external_id=nothing", None),
        ("post", "/v1/search", "/v1/search", {"query": "described"}),
        ("post", "/v1/agent-search", "/v1/agent-search", {"messages": [{"role": "user", "content": "described"}]}),
        ("post", "/v1/search", "/v1/search", {"nonsense": 1}),
    ]
    for method, path, url, body in calls:
        reply = tenant.admin.request(method, url, json=body)
        told = description["paths"][path][method]["responses"][str(reply.status_code)]["content"]
        schema = told[reply.headers["content-type"].split(";")[0]]["schema"]
        fits(description, schema, reply.json(), f"{method} {path}")
    batch = "/v1/knowledge-bases/{kb}/documents/batch"
    reply = tenant.admin.post(
        f"{DOCUMENTS}/batch", files=[("file", ("a.txt", b"told")), ("file", ("b.txt", b""))], data={"dynamic": "true"}
    )
    schema = description["paths"][batch]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    fits(description, schema, reply.json(), batch)
    for path, url in (("/v1/tenants", "/v1/tenants"), ("/v1/tenants/{tenant}", f"/v1/tenants/{tenant.id}")):
        schema = description["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        fits(description, schema, service.operator.get(url).json(), path)


def test_upload_operation_schema_lists_all_fields(description: dict[str, Any]) -> None:
    content = description["paths"]["/v1/knowledge-bases/{kb}/documents"]["post"]["requestBody"]["content"]
    fields = set(content["multipart/form-data"]["schema"]["properties"])
    shared = {"metadata", "external_id", "title", "source_uri", "source_created_at", "user_id", "chat_id", "agent_id"}
    shared |= {"dynamic", "expires_at"}
    assert fields == {"file", "encoding", *shared}
    document = resolved(description, content["application/json"]["schema"]["$ref"])
    assert set(document["properties"]) == {"text", "chunks", "media_type", *shared}
    (chunks,) = [one for one in document["properties"]["chunks"]["anyOf"] if one.get("type") == "array"]
    chunk = resolved(description, chunks["items"]["$ref"])
    assert set(chunk["properties"]) == {
        "text", "metadata", "section_titles", "page", "vector", "entities", "relations",
    }  # fmt: skip
    assert document["additionalProperties"] is chunk["additionalProperties"] is False


def test_batch_operation_schema_lists_all_fields(description: dict[str, Any]) -> None:
    content = description["paths"]["/v1/knowledge-bases/{kb}/documents/batch"]["post"]["requestBody"]["content"]
    form = content["multipart/form-data"]["schema"]["properties"]
    assert form["file"]["type"] == "array"
    single = description["paths"]["/v1/knowledge-bases/{kb}/documents"]["post"]["requestBody"]["content"]
    alone = set(single["multipart/form-data"]["schema"]["properties"])
    assert alone - set(form) == {"external_id", "title"}


def test_event_stream_operation_is_described(description: dict[str, Any]) -> None:
    told = description["paths"]["/v1/knowledge-bases/{kb}/documents/{document}/events"]["get"]["responses"]
    assert set(told["200"]["content"]) == {"text/event-stream"}
    assert "content" not in told["204"]


def test_docs_page_is_served(service: Service) -> None:
    reply = service.create_client().get("/docs")
    assert reply.status_code == 200
    assert "/openapi.json" in reply.text


def dated(description: dict[str, Any], schema: Any, seen: frozenset[str] = frozenset()) -> Iterator[dict[str, Any]]:
    """Return the schemas of times and days below a schema, each with the description of the field that it is of."""
    if isinstance(schema, list):
        for part in schema:
            yield from dated(description, part, seen)
    if not isinstance(schema, dict):
        return
    if isinstance(reference := schema.get("$ref"), str) and reference not in seen:
        yield from dated(description, resolved(description, reference), seen | {reference})
    own = [schema, *schema.get("anyOf", [])]
    if any(one.get("format") in ("date", "date-time") for one in own if isinstance(one, dict)):
        yield {"description": " ".join(str(one.get("description", "")) for one in own)}
        return
    for part in schema.values():
        yield from dated(description, part, seen)


def test_every_time_field_names_accepted_range(description: dict[str, Any]) -> None:
    found = 0
    for method, path, operation in operations(description):
        for taken in (*operation.get("parameters", []), operation.get("requestBody", {})):
            for one in dated(description, taken.get("content", taken.get("schema", {}))):
                text = one["description"] + taken.get("description", "")
                assert f"between the years {MIN_YEAR} and {MAX_YEAR}" in text, (method, path, taken)
                found += 1
    assert found >= 10
