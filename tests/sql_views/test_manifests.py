"""Configuration blocks of agent platforms: fields, choices of the caller, and YAML, through HTTP and the commands."""

import asyncio
from typing import Any

import pytest
import yaml

from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem
from tests.cli.commands import printed
from tests.sql_views.platform import Published, allow, publish

KB = "/v1/knowledge-bases/default"
PGVECTOR_FIELDS = [
    "type",
    "hostname",
    "port",
    "user",
    "password",
    "dbname",
    "sslmode",
    "collection",
    "content_key",
    "metadata_filter",
    "embedding_model",
    "embedding_dimensions",
    "top_k",
]
EXTERNAL_FIELDS = ["type", "hostname", "port", "path", "api_key", "top_k", "max_messages", "timeout_seconds"]


@pytest.fixture
def tenant(publishing: Service) -> Tenant:
    return allow(publishing.create_tenant())


def get_yaml(tenant: Tenant, path: str, accept: str = "application/yaml", **params: Any) -> Any:
    reply = tenant.admin.get(path, headers={"Accept": accept}, params=params)
    assert (reply.status_code, reply.headers["content-type"].partition(";")[0]) == (200, "application/yaml"), reply.text
    return yaml.safe_load(reply.text)


@pytest.mark.capability("sql-view-manifest")
def test_sql_view_as_yaml_is_the_pgvector_block_of_a_platform(tenant: Tenant) -> None:
    tenant.add_text("The heron fishes at dawn.")
    published = publish(tenant, collection="birds")
    block = get_yaml(tenant, f"{KB}/sql-view")
    assert [*block] == PGVECTOR_FIELDS
    assert block == {name: value for name, value in published.connection.items() if value is not None}
    assert block["type"] == "pgvector"
    assert block["password"] == "${SQL_VIEW_PASSWORD}"
    assert block["embedding_model"] == "local/bge-small-en-v1.5"
    assert (block["top_k"], block["metadata_filter"]) == (5, {})
    assert asyncio.run(Published(block, published.password).texts()) == {"The heron fishes at dawn."}


@pytest.mark.capability("sql-view-choices", "sql-view-password")
def test_sql_view_block_has_the_choices_of_the_caller(tenant: Tenant) -> None:
    retrieval = {"answer_prompt": "Be brief."}
    tenant.admin.patch(KB, json={"metadata_filter": {"shelf": "a"}, "retrieval": retrieval}).raise_for_status()
    tenant.admin.post(f"{KB}/sql-view").raise_for_status()
    plain = get_yaml(tenant, f"{KB}/sql-view")
    assert plain["prompt"] == {"id": "default/answer", "version": 1}
    chosen = get_yaml(
        tenant, f"{KB}/sql-view", provider="voyage", password_variable="PGPASS", top_k=9, prompt_id="greeting",
        prompt_version=3, metadata_filter='{"audience": ["customers"], "shelf": "b"}',
    )  # fmt: skip
    assert chosen == {
        **plain,
        "embedding_model": "voyage/bge-small-en-v1.5",
        "password": "${PGPASS}",
        "top_k": 9,
        "prompt": {"id": "greeting", "version": 3},
        "metadata_filter": {"audience": ["customers"], "shelf": "a"},
    }


@pytest.mark.parametrize(
    "params",
    [
        {"provider": "a/b"},
        {"password_variable": "a-b"},
        {"password_variable": "X}"},
        {"top_k": 0},
        {"top_k": 501},
        {"metadata_filter": "[1]"},
        {"metadata_filter": "{"},
        {"prompt_version": 0},
        {"unknown": 1},
    ],
)
def test_sql_view_invalid_choice_is_422(tenant: Tenant, params: dict[str, Any]) -> None:
    tenant.admin.post(f"{KB}/sql-view").raise_for_status()
    assert_problem(tenant.admin.get(f"{KB}/sql-view", params=params), 422, "invalid")


@pytest.mark.capability("agent-manifest-yaml")
@pytest.mark.parametrize(
    ("accept", "is_yaml"),
    [
        ("application/yaml", True),
        ("text/yaml, */*;q=0.1", True),
        ("application/x-yaml;q=0.9, application/json;q=0.5", True),
        ("APPLICATION/YAML", True),
        ("application/yaml;q=0.2, application/json", False),
        ("application/yaml;q=0", False),
        ("*/*", False),
        ("application/json", False),
        ("", False),
    ],
)
def test_block_media_type_follows_accept(tenant: Tenant, accept: str, is_yaml: bool) -> None:
    reply = tenant.admin.get(f"{KB}/external-search", headers={"Accept": accept})
    assert reply.headers["content-type"].startswith("application/yaml") == is_yaml


@pytest.mark.capability("agent-manifest-enough")
def test_external_search_block_is_enough_to_search(tenant: Tenant) -> None:
    tenant.add_text("The heron fishes at dawn.")
    block = get_yaml(tenant, f"{KB}/external-search", api_key_variable="KEY")
    assert [*block] == EXTERNAL_FIELDS
    assert {**block, "port": None} == {
        "type": "external", "hostname": "http://127.0.0.1", "port": None, "api_key": "${KEY}", "top_k": 5,
        "path": "/v1/knowledge-bases/default/agent-search", "max_messages": 20, "timeout_seconds": 5.0,
    }  # fmt: skip
    url = f"{block['hostname']}:{block['port']}{block['path']}"
    body = {"messages": [{"role": "customer", "content": "When does the heron fish?"}], "top_k": block["top_k"]}
    assert tenant.admin.post(url, json=body).json() == ["The heron fishes at dawn."]


@pytest.mark.capability("agent-manifest")
@pytest.mark.parametrize(
    ("base_url", "hostname", "port", "path"),
    [
        ("https://carrel.example.com", "https://carrel.example.com", 443, "/v1/agent-search"),
        ("http://carrel.example.com/", "http://carrel.example.com", 80, "/v1/agent-search"),
        ("https://example.com:8443/rag/", "https://example.com", 8443, "/rag/v1/agent-search"),
        ("http://[::1]:8000", "http://[::1]", 8000, "/v1/agent-search"),
        ("http://10.0.0.7:8000", "http://10.0.0.7", 8000, "/v1/agent-search"),
    ],
)
def test_external_search_of_an_agent_has_its_settings(
    tenant: Tenant, base_url: str, hostname: str, port: int, path: str
) -> None:
    binding = {"knowledge_bases": ["default"], "top_k": 3, "max_messages": 8, "timeout_seconds": 2.5}
    tenant.admin.put("/v1/agents/agt_1", json=binding).raise_for_status()
    block = tenant.admin.get("/v1/agents/agt_1/external-search", params={"base_url": base_url}).json()
    assert block == {
        "type": "external", "hostname": hostname, "port": port, "path": path, "api_key": "${CARREL_API_KEY}",
        "top_k": 3, "max_messages": 8, "timeout_seconds": 2.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    "base_url", ["ftp://x", "carrel.example.com", "https://u:p@x", "https://x?y=1", "http://x:99999", "http://[::1"]
)
def test_external_search_invalid_base_url_is_422(tenant: Tenant, base_url: str) -> None:
    reply = tenant.admin.get(f"{KB}/external-search", params={"base_url": base_url})
    assert_problem(reply, 422, "invalid")


def test_external_search_of_an_unbound_agent_is_404(tenant: Tenant) -> None:
    assert_problem(tenant.admin.get("/v1/agents/nobody/external-search"), 404, "agent_not_found")


@pytest.mark.capability("agent-manifest-cli")
def test_commands_print_the_blocks_as_yaml(tenant: Tenant) -> None:
    url, key = tenant.service.url, tenant.key
    created = printed("kb", "sql-view", "create", "default", "--yaml", url=url, key=key)
    block = yaml.safe_load("".join(line for line in created.splitlines(keepends=True) if not line[0].isupper()))
    assert [*block] == PGVECTOR_FIELDS
    shown = printed(
        "kb", "sql-view", "show", "default", "--yaml", "--provider", "openai", "--top-k", "7", url=url, key=key
    )
    assert yaml.safe_load(shown) == {**block, "embedding_model": "openai/bge-small-en-v1.5", "top_k": 7}
    external = printed(
        "kb", "external-search", "default", "--yaml", "--base-url", "https://x.example", url=url, key=key
    )
    assert [*yaml.safe_load(external)] == EXTERNAL_FIELDS
