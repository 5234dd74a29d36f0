"""API reference: a running service accepts every request example, and its responses match the documented schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from jsonschema import Draft202012Validator

from harness.unopened_app import build_openapi_document
from tests.api.reference_objects import KB, TEXT, ReferenceObjects, create_reference_objects, expect
from tests.api.test_api_reference import iterate_operations, list_body_examples

if TYPE_CHECKING:
    import httpx2

    from harness.databases import DatabaseFactory
    from harness.protocol_servers.chat import ChatServer
    from harness.protocol_servers.embedding import EmbeddingServer
    from harness.running_service import Service

DOCUMENT = build_openapi_document()
OPERATIONS = dict(iterate_operations(DOCUMENT))
READ_ONLY_POSTS = ("/search", "/answer", "/agent-search", "/preview", "/mcp", "/dify/retrieval")
# Operations that need a state which the prepared objects do not have: they answer with a documented problem.
EXPECTED_PROBLEMS = {
    "cancel_reindex": "reindex_not_found",
    "roll_back_reindex": "nothing_to_roll_back",
    "get_image": "image_not_found",
    "get_page_image": "page_images_unsupported",  # the document of the examples is a text
    "put_chunk": "chunks_not_provided",  # the document of the examples is a text
    "delete_chunk": "chunks_not_provided",
    "run_enrichment": "enrichment_disabled",
    "get_job": "job_not_found",  # a finished job is removed
    "retry_job": "job_not_found",
}
# Calls before the request, for operations on objects that only they need.
PREPARATIONS = {
    "get_sql_view": ("POST", f"{KB}/sql-view"),
    "revoke_sql_view": ("POST", f"{KB}/sql-view"),
}
# Operations that need one of their parameters.
NEEDED_PARAMETERS = {"delete_documents": "external_id", "remove_golden_relevance": "document"}
# Parameters whose examples are not sent: a cursor belongs to one list, and a stream resumes at its own events.
UNSENT_PARAMETERS = {"cursor", "Idempotency-Key", "last-event-id"}


@pytest.fixture(scope="module")
def documented(
    running_chat: ChatServer,
    embedding: EmbeddingServer,
    make_database: DatabaseFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    """A service with a chat model and SQL views."""
    from harness.running_service import build_settings, run_service

    settings = build_settings(
        tmp_path_factory.mktemp("documented"),
        embedding=embedding.settings,
        models={"CARREL_CHAT_BASE_URL": running_chat.base_url, "CARREL_CHAT_MODEL": "talker"},
        sql_views={"CARREL_SQL_VIEWS": True},
    )
    with run_service(settings, make_database()) as running:
        yield running


@pytest.fixture(scope="module")
def shared_objects(documented: Service) -> ReferenceObjects:
    """Objects for operations that change nothing."""
    return create_reference_objects(documented)


def is_read_only(name: str) -> bool:
    method, path = name.split()
    return method == "GET" or path.endswith(READ_ONLY_POSTS)


def build_path(objects: ReferenceObjects, name: str) -> str:
    path = name.split()[1]
    for parameter in OPERATIONS[name].get("parameters", ()):
        if parameter["in"] == "path":
            value = objects.substitute(str(parameter["example"]))
            path = path.replace(f"{{{parameter['name']}}}", quote(value, safe=""))
    return path


def build_bodies(objects: ReferenceObjects, name: str) -> Iterator[dict[str, Any]]:
    """Yield the arguments of a request for each example of its body; one without a body if there is none."""
    contents = OPERATIONS[name].get("requestBody", {}).get("content", {})
    if not contents:
        yield {}
    for media_type, content in contents.items():
        if media_type == "application/x-tar":
            yield {"content": objects.archive, "headers": {"Content-Type": media_type}}
        for value in list_body_examples(content, DOCUMENT):
            if media_type == "application/json":
                yield {"json": json.loads(objects.substitute(json.dumps(value)))}
            else:
                fields = {key: field for key, field in value.items() if key != "file"}
                names = value["file"] if isinstance(value["file"], list) else [value["file"]]
                files = [("file", (file_name.replace(".pdf", ".md"), TEXT.encode())) for file_name in names]
                yield {"files": files, "data": fields}


def check_response(name: str, response: httpx2.Response) -> None:
    operation = OPERATIONS[name]
    documented_response = operation["responses"].get(str(response.status_code))
    assert documented_response is not None, (name, response.status_code, response.text[:500])
    problem = EXPECTED_PROBLEMS.get(operation["operationId"])
    if problem is None:
        assert response.status_code < 400, (name, response.status_code, response.text[:500])
    else:
        assert response.json()["type"].endswith(f":{problem}"), (name, response.text[:500])
    media_type = response.headers.get("content-type", "").split(";")[0]
    contents = documented_response.get("content", {})
    if not response.content:
        return
    assert media_type in contents or "*/*" in contents, (name, media_type)
    if "json" in media_type and "ndjson" not in media_type:
        schema = {**contents[media_type]["schema"], "components": DOCUMENT["components"]}
        faults = [
            f"{error.json_path}: {error.message[:300]}"
            for error in Draft202012Validator(schema).iter_errors(response.json())
        ]
        assert faults == [], name


def send(objects: ReferenceObjects, name: str, **arguments: Any) -> httpx2.Response:
    method, path = name.split()
    headers = (
        {"Accept": "application/json, text/event-stream", **arguments.pop("headers", {})}
        if path == "/mcp"
        else arguments.pop("headers", {})
    )
    client = objects.get_client(path)
    return client.request(method, build_path(objects, name), headers=headers, follow_redirects=False, **arguments)


def prepare(objects: ReferenceObjects, operation_id: str) -> None:
    """Make the call that an operation needs before it."""
    if preparation := PREPARATIONS.get(operation_id):
        response = objects.admin.request(*preparation)
        if response.status_code != 409:  # exists already in the shared tenant
            expect(response)


@pytest.mark.parametrize("name", OPERATIONS)
def test_service_accepts_every_request_example(
    name: str, documented: Service, shared_objects: ReferenceObjects
) -> None:
    operation = OPERATIONS[name]
    objects = shared_objects if is_read_only(name) else create_reference_objects(documented)
    prepare(objects, operation["operationId"])
    parameters = {parameter["name"]: parameter.get("example") for parameter in operation.get("parameters", ())}
    needed = NEEDED_PARAMETERS.get(operation["operationId"])
    params = {needed: objects.substitute(str(parameters[needed]))} if needed else {}
    for arguments in build_bodies(objects, name):
        check_response(name, send(objects, name, params=params, **arguments))


@pytest.mark.parametrize(
    "name", [name for name, operation in OPERATIONS.items() if name.startswith("GET") and operation.get("parameters")]
)
def test_service_accepts_every_parameter_example(name: str, shared_objects: ReferenceObjects) -> None:
    prepare(shared_objects, OPERATIONS[name]["operationId"])
    for parameter in OPERATIONS[name]["parameters"]:
        if parameter["in"] != "query" or parameter["name"] in UNSENT_PARAMETERS or parameter.get("example") is None:
            continue
        value = parameter["example"]
        value = shared_objects.substitute(value) if isinstance(value, str) else value
        params = {parameter["name"]: value, **({"chat_id": "chat-7"} if parameter["name"] == "agent_id" else {})}
        check_response(name, send(shared_objects, name, params=params))
