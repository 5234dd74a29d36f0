"""Descriptions of knowledge bases count in the next search: no worker runs here, so no job embeds them."""

from collections.abc import Iterator
from typing import Any

import pytest

from harness.databases import DatabaseFactory
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service

TOPICS = {
    "garden": "Plants, pruning and seasons in the garden",
    "kitchen": "Recipes and cooking",
    "whales": "Whales, dolphins and the life of the oceans",
}
QUESTION = "How deep does a sperm whale dive?"


@pytest.fixture(scope="module")
def idle(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with run_service(build_settings(tmp_path_factory.mktemp("idle")), make_database(), worker=False) as running:
        yield running


@pytest.fixture
def described(idle: Service) -> Tenant:
    tenant = idle.create_tenant("described")
    for name, text in TOPICS.items():
        body = {"name": name, "routing": {"descriptions": [text]}}
        tenant.admin.post("/v1/knowledge-bases", json=body).raise_for_status()
    return tenant


def search(tenant: Tenant, **body: Any) -> dict[str, Any]:
    reply = tenant.admin.post("/v1/search", json={"query": QUESTION, "explain": True, **body})
    reply.raise_for_status()
    answer: dict[str, Any] = reply.json()
    return {one["knowledge_base"]: one for one in answer["explain"]["routing"]}


@pytest.mark.capability("routing-first-minute")
def test_new_description_counts_in_next_search(described: Tenant) -> None:
    decisions = search(described, routing={"top_n": 1})
    assert {name: one["reason"] for name, one in decisions.items()} == {
        "whales": "best", "garden": "less_similar", "kitchen": "less_similar", "default": "no_profile",
    }  # fmt: skip
    assert decisions["whales"]["texts"] > decisions["garden"]["texts"]


@pytest.mark.capability("routing-changed")
def test_changed_description_counts_in_next_search(described: Tenant) -> None:
    for name, text in (("whales", TOPICS["garden"]), ("garden", TOPICS["whales"])):
        body = {"routing": {"descriptions": [text], "examples": [f"What is said of: {text}?"]}}
        described.admin.patch(f"/v1/knowledge-bases/{name}", json=body).raise_for_status()
    assert search(described, routing={"top_n": 1})["garden"]["reason"] == "best"
    described.admin.patch("/v1/knowledge-bases/garden", json={"routing": {}}).raise_for_status()
    decisions = search(described, routing={"top_n": 1})
    assert decisions["garden"]["chosen"]
    assert decisions["garden"]["texts"] is None


@pytest.mark.capability("routing-explain")
def test_search_without_choice_says_why(described: Tenant) -> None:
    named = search(described, knowledge_bases=["garden", "kitchen"])
    assert {name: one["reason"] for name, one in named.items()} == {"garden": "named", "kitchen": "named"}
    everything = search(described, routing=False)
    assert {one["reason"] for one in everything.values()} == {"all_searched"}
    assert everything.keys() == {"default", *TOPICS}


def test_description_without_model_is_left_to_the_job(
    make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with EmbeddingServer(dimensions=64) as embedding:
        settings = build_settings(tmp_path_factory.mktemp("data"), embedding=embedding.settings)
        with run_service(settings, make_database(), worker=False) as running:
            tenant = running.create_tenant("waiting")
            with embedding.stopped():
                body = {"name": "whales", "routing": {"descriptions": [TOPICS["whales"]]}}
                assert tenant.admin.post("/v1/knowledge-bases", json=body).status_code == 201
            with embedding.paused():
                body = {"name": "garden", "routing": {"descriptions": [TOPICS["garden"]]}}
                assert tenant.admin.post("/v1/knowledge-bases", json=body).status_code == 201
            listed = tenant.admin.get("/v1/knowledge-bases").json()["items"]
            assert {item["name"] for item in listed} == {"default", "whales", "garden"}
