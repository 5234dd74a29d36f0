"""Knowledge bases of the kinds agent_search and pgvector: checks, searches, fusion with documents, and failures."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from harness.databases import DatabaseFactory
from harness.protocol_servers.agent_search import AgentSearchServer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.problems import assert_problem

KEY = "swordfish-of-the-partner"
QUESTION = "When does the heron fish?"
HERON, OTTER, FERRY = "The heron fishes at dawn.", "The otter sleeps by day.", "The ferry leaves at noon."
MODEL = "local/bge-small-en-v1.5"


@pytest.fixture(scope="module")
def partner() -> Iterator[AgentSearchServer]:
    with AgentSearchServer() as server:
        yield server


@pytest.fixture(scope="module")
def foreign(make_database: DatabaseFactory) -> dict[str, Any]:
    """Login of a database of another program."""
    parts = urlsplit(make_database().owner)
    return {
        "hostname": parts.hostname, "port": parts.port, "dbname": parts.path.strip("/"), "user": parts.username,
        "secret": parts.password,
    }  # fmt: skip


@pytest.fixture(scope="module")
def service(
    partner: AgentSearchServer,
    foreign: dict[str, Any],
    make_database: DatabaseFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    secrets = {"PARTNER": {"header": "Authorization", "value": KEY}}
    http = [{"url": f"{partner.address}/v1/", "tenants": ["*"], "methods": ["POST"], "secrets": secrets}]
    database = {
        "hostname": foreign["hostname"], "port": foreign["port"], "dbname": foreign["dbname"], "tenants": ["*"],
        "secrets": {"READER": {"user": foreign["user"], "value": foreign["secret"]}},
        "collections": ["vecs.birds", "vecs.missing", "vecs.plain", "vecs.small"],
    }  # fmt: skip
    closed = {**database, "hostname": "127.0.0.1", "port": 1}
    settings = build_settings(
        tmp_path_factory.mktemp("foreign"),
        http_sources={"CARREL_HTTP_SOURCES": json.dumps(http)},
        pgvector_sources={"CARREL_PGVECTOR_SOURCES": json.dumps([database, closed])},
    )
    with run_service(settings, make_database()) as running:
        fill_collections(running.create_tenant(), foreign)
        yield running


def fill_collections(tenant: Tenant, foreign: dict[str, Any]) -> None:
    """Fill the collections of the other database with vectors of the service's model."""
    rows = []
    for text, metadata in ((HERON, {"kind": "bird", "title": "Herons"}), (OTTER, {"kind": "mammal"})):
        tenant.add_text(text)
        body = {"query": text, "return_vectors": True, "strategy": "dense", "top_k": 1}
        (best,) = tenant.admin.post("/v1/knowledge-bases/default/search", json=body).json()["results"]
        rows.append(
            (json.dumps(best["vector"]), json.dumps({"content": text, "url": "https://x.example/a", **metadata}))
        )

    async def fill() -> None:
        connection = await connect(foreign)
        await connection.execute(
            "create schema vecs; create table vecs.birds (id text, vec halfvec(384), metadata jsonb);"
            "create table vecs.small (id text, vec vector(3), metadata jsonb); create table vecs.plain (id text)"
        )
        for vector, metadata in rows:
            await connection.execute(
                "insert into vecs.birds values ('x', $1::text::halfvec, $2::text::jsonb)", vector, metadata
            )
        await connection.close()

    asyncio.run(fill())


async def connect(foreign: dict[str, Any]) -> asyncpg.Connection:
    return await asyncpg.connect(
        host=foreign["hostname"], port=foreign["port"], user=foreign["user"], password=foreign["secret"],
        database=foreign["dbname"],
    )  # fmt: skip


@pytest.fixture
def tenant(service: Service, partner: AgentSearchServer) -> Tenant:
    partner.reset()
    partner.passages[:] = [FERRY, "  ", OTTER]
    return service.create_tenant()


def block_of_agent(partner: AgentSearchServer, **changes: Any) -> dict[str, Any]:
    return {
        "type": "external", "hostname": "http://127.0.0.1", "port": partner.port, "path": "/v1/agent-search",
        "api_key": "${PARTNER}", **changes,
    }  # fmt: skip


def block_of_collection(foreign: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "type": "pgvector", "hostname": foreign["hostname"], "port": foreign["port"], "user": foreign["user"],
        "password": "${READER}", "dbname": foreign["dbname"], "sslmode": "disable", "collection": "vecs.birds",
        "content_key": "content", "metadata_filter": {}, "embedding_model": MODEL, "embedding_dimensions": 384,
        "top_k": 5, **changes,
    }  # fmt: skip


def create(tenant: Tenant, kind: str, source: dict[str, Any], name: str = "foreign") -> Any:
    return tenant.admin.post("/v1/knowledge-bases", json={"name": name, "kind": kind, "source": source})


def search(tenant: Tenant, **body: Any) -> dict[str, Any]:
    reply = tenant.admin.post("/v1/search", json={"query": QUESTION, "timeout_seconds": 30, **body})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def get_texts(found: dict[str, Any]) -> list[str]:
    return [result["text"] for result in found["results"]]


@pytest.mark.capability("agent-source")
def test_agent_search_source_gets_query_as_message_with_bearer_key(tenant: Tenant, partner: AgentSearchServer) -> None:
    made = create(tenant, "agent_search", block_of_agent(partner))
    assert made.status_code == 201, made.text
    assert made.json()["kind"] == "agent_search"
    assert made.json()["source"] == {
        **block_of_agent(partner), "top_k": 5, "max_messages": 20, "timeout_seconds": 5.0
    }  # fmt: skip
    assert KEY not in tenant.admin.get("/v1/knowledge-bases/foreign").text
    assert get_texts(search(tenant, knowledge_bases=["foreign"])) == [FERRY, OTTER]
    (request,) = partner.received
    assert request.path == "/v1/agent-search"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {"messages": [{"role": "customer", "content": QUESTION}], "top_k": 5}


@pytest.mark.capability("agent-source-messages")
def test_agent_search_source_gets_newest_messages_in_roles_of_contract(
    tenant: Tenant, partner: AgentSearchServer
) -> None:
    assert create(tenant, "agent_search", block_of_agent(partner, max_messages=3, top_k=2)).status_code == 201
    messages = [
        {"role": "user", "content": "Hello."},
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": "Hello!"},
        {"role": "tool", "content": "Nothing."},
        {"role": "user", "content": QUESTION},
    ]
    body = {"messages": messages, "knowledge_bases": ["foreign"]}
    assert tenant.admin.post("/v1/search", json=body).status_code == 200
    (request,) = partner.received
    assert request.body["top_k"] == 2
    assert [message["role"] for message in request.body["messages"]] == ["agent", "tool", "customer"]
    assert request.body["messages"][-1]["content"] == QUESTION


@pytest.mark.capability("agent-source-fusion")
def test_agent_search_results_are_fused_with_documents(tenant: Tenant, partner: AgentSearchServer) -> None:
    tenant.add_text(HERON)
    create(tenant, "agent_search", block_of_agent(partner)).raise_for_status()
    found = search(tenant)
    assert {FERRY, OTTER, HERON} == set(get_texts(found))
    assert {result["knowledge_base"] for result in found["results"]} == {"default", "foreign"}
    agent = tenant.admin.post("/v1/agent-search", json={"messages": [{"role": "customer", "content": QUESTION}]})
    assert HERON in agent.json()


@pytest.mark.capability("agent-source-failure")
@pytest.mark.parametrize(
    "failure", [500, 401, 404, "never", "{}", '{"results": []}', "[1]", "no JSON", '"text"', f'["{KEY}"]', "null"]
)
def test_agent_search_failure_is_warning_and_documents_are_found(
    tenant: Tenant, partner: AgentSearchServer, failure: int | str
) -> None:
    tenant.add_text(HERON)
    create(tenant, "agent_search", block_of_agent(partner, timeout_seconds=0.5)).raise_for_status()
    partner.fail(failure, times=2)
    found = search(tenant)
    assert get_texts(found) == [HERON]
    assert [warning["code"] for warning in found["warnings"]] == ["http_source_unavailable"]
    assert KEY not in json.dumps(found)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"hostname": "https://elsewhere.example"}, "hostname"),
        ({"hostname": "http://127.0.0.1/path"}, "hostname"),
        ({"hostname": "http://user@127.0.0.1"}, "hostname"),
        ({"hostname": "ftp://127.0.0.1"}, "hostname"),
        ({"path": "/v2/agent-search"}, "hostname"),
        ({"path": "v1/agent-search"}, "path"),
        ({"path": "/v1/../agent-search"}, "path"),
        ({"api_key": KEY}, "api_key"),
        ({"api_key": "${OTHER}"}, "api_key"),
        ({"max_messages": 21}, "max_messages"),
        ({"top_k": 0}, "top_k"),
        ({"timeout_seconds": 31}, "timeout_seconds"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_agent_search_invalid_source_is_422_at_its_field(
    tenant: Tenant, partner: AgentSearchServer, changes: dict[str, Any], field: str
) -> None:
    problem = assert_problem(create(tenant, "agent_search", block_of_agent(partner, **changes)), 422)
    assert problem["errors"][0]["loc"] == ["body", "source", field]
    assert partner.received == []


@pytest.mark.capability("pgvector-source")
def test_pgvector_source_returns_nearest_rows_first(tenant: Tenant, foreign: dict[str, Any]) -> None:
    made = create(tenant, "pgvector", block_of_collection(foreign))
    assert made.status_code == 201, made.text
    assert made.json()["kind"] == "pgvector"
    assert made.json()["source"] == {**block_of_collection(foreign), "prompt": None}
    assert foreign["secret"] not in made.text
    found = search(tenant, knowledge_bases=["foreign"])
    assert get_texts(found) == [HERON, OTTER]
    best = found["results"][0]
    assert (best["document"]["title"], best["document"]["source_uri"]) == ("Herons", "https://x.example/a")
    assert found["warnings"] == []


@pytest.mark.capability("pgvector-fields")
def test_pgvector_source_applies_filter_limit_and_other_content_key(tenant: Tenant, foreign: dict[str, Any]) -> None:
    for name, changes, texts in (
        ("filtered", {"metadata_filter": {"kind": "mammal"}}, [OTTER]),
        ("limited", {"top_k": 1}, [HERON]),
        ("titled", {"content_key": "title"}, ["Herons"]),
        ("empty", {"metadata_filter": {"kind": "fish"}}, []),
        ("named", {"embedding_model": "bge-small-en-v1.5", "prompt": {"id": "p", "version": 2}}, [HERON, OTTER]),
    ):
        assert create(tenant, "pgvector", block_of_collection(foreign, **changes), name).status_code == 201
        assert get_texts(search(tenant, knowledge_bases=[name])) == texts


@pytest.mark.capability("pgvector-routing")
def test_pgvector_results_are_fused_with_documents_and_routed(tenant: Tenant, foreign: dict[str, Any]) -> None:
    tenant.add_text(FERRY)
    create(tenant, "pgvector", block_of_collection(foreign)).raise_for_status()
    found = search(tenant, explain=True)
    assert {HERON, OTTER, FERRY} == set(get_texts(found))
    assert {item["knowledge_base"] for item in found["explain"]["knowledge_bases"]} >= {"default", "foreign"}


@pytest.mark.capability("pgvector-failure")
def test_pgvector_failure_after_creation_is_warning(tenant: Tenant, foreign: dict[str, Any]) -> None:
    tenant.add_text(FERRY)
    create(tenant, "pgvector", block_of_collection(foreign)).raise_for_status()

    async def rename(old: str, new: str) -> None:
        connection = await connect(foreign)
        await connection.execute(f"alter table vecs.{old} rename to {new}")
        await connection.close()

    asyncio.run(rename("birds", "moved"))
    try:
        found = search(tenant)
    finally:
        asyncio.run(rename("moved", "birds"))
    assert get_texts(found) == [FERRY]
    assert [warning["code"] for warning in found["warnings"]] == ["http_source_unavailable"]


@pytest.mark.capability("pgvector-dimension", "pgvector-checked")
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"hostname": "db.elsewhere.example"}, "hostname"),
        ({"hostname": "https://db.example"}, "hostname"),
        ({"dbname": "other"}, "hostname"),
        ({"collection": "vecs.forbidden"}, "collection"),
        ({"collection": "vecs.missing"}, "collection"),
        ({"collection": "vecs.plain"}, "collection"),
        ({"collection": 'vecs."birds"; drop table x'}, "collection"),
        ({"collection": "vecs.small"}, "embedding_dimensions"),
        ({"embedding_dimensions": 3}, "embedding_model"),
        ({"embedding_model": "openai/text-embedding-3-small"}, "embedding_model"),
        ({"password": "secret-itself"}, "password"),
        ({"password": None}, "password"),
        ({"password": "${OTHER}"}, "password"),
        ({"user": "postgres"}, "password"),
        ({"sslmode": "sometimes"}, "sslmode"),
        ({"port": 0}, "port"),
    ],
)
def test_pgvector_invalid_source_is_422_at_its_field(
    tenant: Tenant, foreign: dict[str, Any], changes: dict[str, Any], field: str
) -> None:
    problem = assert_problem(create(tenant, "pgvector", block_of_collection(foreign, **changes)), 422)
    assert problem["errors"][0]["loc"] == ["body", "source", field]
    assert foreign["secret"] not in json.dumps(problem)


def test_pgvector_unreachable_database_is_503_and_stores_nothing(tenant: Tenant, foreign: dict[str, Any]) -> None:
    reply = create(tenant, "pgvector", block_of_collection(foreign, hostname="127.0.0.1", port=1))
    assert_problem(reply, 503, "http_source_unavailable")
    assert_problem(tenant.admin.get("/v1/knowledge-bases/foreign"), 404)


def test_source_update_of_another_kind_is_422(
    tenant: Tenant, partner: AgentSearchServer, foreign: dict[str, Any]
) -> None:
    create(tenant, "pgvector", block_of_collection(foreign)).raise_for_status()
    path = "/v1/knowledge-bases/foreign"
    changed = tenant.admin.patch(path, json={"source": block_of_collection(foreign, top_k=1)})
    assert changed.json()["source"]["top_k"] == 1
    small = {"source": block_of_collection(foreign, collection="vecs.small")}
    assert_problem(tenant.admin.patch(path, json=small), 422)
    assert_problem(tenant.admin.patch(path, json={"source": block_of_agent(partner)}), 422)
    assert_problem(tenant.admin.patch("/v1/knowledge-bases/default", json={"source": block_of_agent(partner)}), 422)
    assert_problem(tenant.admin.post(f"{path}/documents", json={"text": "x"}), 409, "no_document_store")


@pytest.mark.parametrize("kind", ["documents", "http", "agent_search"])
def test_source_of_another_kind_is_422(tenant: Tenant, foreign: dict[str, Any], kind: str) -> None:
    assert_problem(create(tenant, kind, block_of_collection(foreign)), 422)
