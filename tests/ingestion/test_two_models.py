"""Two services with two embedding models on one database: each continues, and does not change the other's vectors."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.settings import Settings
from harness.databases import DatabaseFactory
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service

OLD, NEW = 64, 32


@pytest.fixture(scope="module")
def services(
    make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Service, Service]]:
    urls, data = make_database(), tmp_path_factory.mktemp("data")
    with (
        EmbeddingServer(dimensions=OLD) as old,
        EmbeddingServer(dimensions=NEW) as new,
        run_service(settings(old, data), urls) as first,
        run_service(settings(new, data), urls) as second,
    ):
        yield first, second


def settings(endpoint: EmbeddingServer, data: Path) -> Settings:
    embedding = {
        "CARREL_EMBEDDING_BASE_URL": endpoint.base_url,
        "CARREL_EMBEDDING_DIMENSIONS": endpoint.dimensions,
        "CARREL_EMBEDDING_MODEL": f"words-{endpoint.dimensions}",
    }
    return build_settings(data, embedding=embedding, parser={"CARREL_PARSER_PROCESSES": 1})


def test_two_models_on_one_database_work_separately(services: tuple[Service, Service]) -> None:
    first, second = services
    tenant = first.create_tenant()
    assert tenant.add_text("The heron waits in the reeds.")["status"] == "ready"
    other = Tenant(second, tenant.id, tenant.key, second.create_client(tenant.key))

    refused = other.admin.post("/v1/knowledge-bases/default/documents", json={"text": "The otter dives."})
    assert refused.status_code == 409
    assert "words-64" in refused.json()["detail"]
    assert "words-32" in refused.json()["detail"]

    for strategy in ("hybrid", "lexical"):
        found = other.admin.post("/v1/search", json={"query": "heron", "strategy": strategy}).json()
        assert len(found["results"]) == 1
        assert any("words-64" in warning["message"] for warning in found["warnings"]) == (strategy == "hybrid")
    assert other.admin.post("/v1/search", json={"query": "heron", "strategy": "dense"}).status_code == 409
    messages = [{"role": "customer", "content": "heron?"}]
    assert other.admin.post("/v1/agent-search", json={"messages": messages}).json() == ["The heron waits in the reeds."]

    # Each worker finds the other's jobs, and leaves them.
    other.admin.post("/v1/knowledge-bases", json={"name": "new"}).raise_for_status()
    for number in range(4):
        assert other.add_text(f"The otter dives {number}.", kb="new")["status"] == "ready"
        assert tenant.add_text(f"The heron waits {number}.")["status"] == "ready"
    for one, kb, word, count in ((other, "new", "otter", 4), (tenant, "default", "heron", 5)):
        body = {"query": word, "knowledge_bases": [kb], "strategy": "dense"}
        found = one.admin.post("/v1/search", json=body).json()
        assert (len(found["results"]), found["warnings"]) == (count, [])
