"""Routing of searches over many knowledge bases: the choice and its reasons, with the embedded model."""

import asyncio
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import httpx2
import pytest

from app.ids import decode_id
from harness.running_service import Service, Tenant
from proofs.isolation.tenants import get_operator_tenant
from tests.api.problems import assert_problem
from tests.fixtures.service_warnings import warning_json

WAIT_SECONDS = 30
TOPICS = {
    "garden": ("Prune the roses in March.", "Tomatoes want sun, water and a sheltered bed.", "Compost feeds the soil."),
    "kitchen": ("Knead the dough for ten minutes.", "Whisk the eggs with sugar.", "Bake the bread at 220 degrees."),
    "workshop": ("Sand the oak with fine paper.", "Drill a pilot hole before the screw.", "Glue sets in an hour."),
    "stars": ("Jupiter has four large moons.", "A comet's tail points away from the sun.", "Galaxies drift apart."),
}
QUESTIONS = {
    "garden": "When do I cut back my rose bushes?",
    "kitchen": "How long must bread dough be kneaded?",
    "workshop": "Which hole comes before a wood screw?",
    "stars": "How many big moons does Jupiter have?",
}


@dataclass
class RoutedTenant:
    tenant: Tenant

    def search(self, query: str, client: httpx2.Client | None = None, **body: Any) -> dict[str, Any]:
        reply = (client or self.tenant.admin).post("/v1/search", json={"query": query, "explain": True, **body})
        assert reply.status_code == 200, reply.text
        answer: dict[str, Any] = reply.json()
        return answer

    def route(self, name: str, **routing: Any) -> None:
        """Set the routing of a knowledge base, and wait for its new profile."""
        before = profiles(self.tenant)
        reply = self.tenant.admin.patch(f"/v1/knowledge-bases/{name}", json={"routing": routing})
        assert reply.status_code == 200, reply.text
        wait_for(lambda: profiles(self.tenant) != before)


def sql(service: Service, statement: str, *values: Any) -> Any:
    async def run() -> Any:
        connection = await asyncpg.connect(service.urls.owner)
        try:
            return await connection.fetch(statement, *values)
        finally:
            await connection.close()

    return asyncio.run(run())


def profiles(tenant: Tenant) -> list[Any]:
    """Return the times and sources of the routing profiles."""
    rows = sql(
        tenant.service,
        "select k.name, p.created_at, p.chunks, v.described from knowledge_base k join search_index i on i.kb_id = k.id"
        " join routing_profile p on p.index_id = i.id left join routing_vector v on v.index_id = p.index_id"
        " where k.tenant_id = $1 order by k.name, v.number",
        decode_id("ten", tenant.id),
    )
    return [tuple(row) for row in rows]


def wait_for(condition: Any) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)


def searched(answer: dict[str, Any]) -> set[str]:
    return {one["knowledge_base"] for one in answer["explain"]["knowledge_bases"]}


def reasons(answer: dict[str, Any]) -> dict[str, str]:
    return {one["knowledge_base"]: one["reason"] for one in answer["explain"]["routing"]}


@pytest.fixture(scope="module")
def library(service: Service) -> RoutedTenant:
    """Four knowledge bases of one topic each, and ``default``, which is empty."""
    made = RoutedTenant(service.create_tenant("library"))
    for name, texts in TOPICS.items():
        made.tenant.admin.post("/v1/knowledge-bases", json={"name": name}).raise_for_status()
        for text in texts:
            assert made.tenant.add_text(text, kb=name)["status"] == "ready"
    return made


def test_routing_without_profiles_searches_all(library: RoutedTenant) -> None:
    answer = library.search(QUESTIONS["stars"])
    assert searched(answer) == {"default", *TOPICS}
    assert set(reasons(answer).values()) == {"no_profile"}


@pytest.fixture(scope="module")
def routed(library: RoutedTenant) -> RoutedTenant:
    """The library with routing profiles.

    The weight differs slightly from the default, so that the profiles are built.
    """
    for name in TOPICS:
        library.route(name, description_weight=0.31)
    return library


@pytest.mark.capability("routing")
@pytest.mark.parametrize("name", TOPICS)
def test_routing_chooses_matching_knowledge_base(routed: RoutedTenant, name: str) -> None:
    answer = routed.search(QUESTIONS[name], routing={"top_n": 1})
    assert searched(answer) == {name, "default"}
    told = answer["explain"]["routing"]
    assert {one["knowledge_base"]: one["reason"] for one in told if one["chosen"]} == {
        name: "best", "default": "no_profile",
    }  # fmt: skip
    scores = [one["score"] for one in told if one["score"] is not None]
    assert len(scores) == len(TOPICS)
    assert scores == sorted(scores, reverse=True)
    assert answer["results"][0]["text"] in TOPICS[name]
    assert answer["warnings"] == []
    assert answer["timings_ms"].keys() >= {"route", "embed", "retrieve"}


@pytest.mark.capability("routing-default")
def test_routing_default_is_three_unless_knowledge_bases_are_named(routed: RoutedTenant) -> None:
    question = QUESTIONS["garden"]
    assert len(searched(routed.search(question)) - {"default"}) == 3
    unrouted: list[tuple[dict[str, Any], str]] = [
        ({"routing": False}, "all_searched"), ({"knowledge_bases": list(TOPICS)}, "named"),
        ({"routing": {"top_n": 4}}, "not_compared"),
    ]  # fmt: skip
    for body, reason in unrouted:
        answer = routed.search(question, **body)
        assert searched(answer) >= set(TOPICS)
        assert {reasons(answer)[name] for name in TOPICS} == {reason}
    named = routed.search(question, knowledge_bases=["kitchen", "garden", "stars"], routing={"top_n": 1})
    assert searched(named) == {"garden"}
    unexplained = routed.tenant.admin.post("/v1/search", json={"query": question, "routing": {"top_n": 1}}).json()
    assert {one["knowledge_base"] for one in unexplained["results"]} == {"garden"}


def test_routing_lexical_search_is_not_routed(routed: RoutedTenant) -> None:
    answer = routed.search(QUESTIONS["garden"], strategy="lexical", routing={"top_n": 1})
    assert searched(answer) >= set(TOPICS)
    assert answer["warnings"] == [
        warning_json(
            "routing_skipped",
            "All knowledge bases were searched without routing, because the strategy lexical embeds no queries.",
        )
    ]
    assert routed.search(QUESTIONS["garden"], strategy="lexical")["warnings"] == []


@pytest.mark.capability("routing-options")
def test_routing_always_scale_and_descriptions_apply(routed: RoutedTenant) -> None:
    routed.route("kitchen", always=True, examples=["How long does bread take?"])
    answer = routed.search(QUESTIONS["stars"], routing={"top_n": 1})
    assert searched(answer) == {"stars", "kitchen", "default"}
    assert reasons(answer)["kitchen"] == "always"
    routed.route("kitchen", scale=100, examples=["How long may bread take?"])
    assert reasons(routed.search(QUESTIONS["garden"], routing={"top_n": 1}))["kitchen"] == "best"
    routed.route("kitchen", examples=["How long might bread take?"])
    # A knowledge base without passages is chosen by its description.
    routed.tenant.admin.post("/v1/knowledge-bases", json={"name": "whales"}).raise_for_status()
    routed.route("whales", descriptions=["Whales, dolphins and the life of the oceans"])
    told = routed.search("How deep does a sperm whale dive?", routing={"top_n": 1})["explain"]["routing"]
    best = next(one for one in told if one["reason"] == "best")
    assert (best["knowledge_base"], best["centroids"]) == ("whales", None)
    assert best["score"] == best["texts"]
    assert not {one["knowledge_base"]: one["chosen"] for one in told}["stars"]
    routed.tenant.admin.delete("/v1/knowledge-bases/whales").raise_for_status()
    assert "whales" not in reasons(routed.search("How deep does a sperm whale dive?", routing={"top_n": 1}))


def test_routing_always_searches_scoped_documents(routed: RoutedTenant) -> None:
    note = "The roses of this chat are called Gloria."
    routed.tenant.add_text(note, kb="stars", chat_id="roses")
    mine = routed.search("What are the roses called?", scope={"chat_id": "roses"}, routing={"top_n": 1})
    assert searched(mine) == {"garden", "stars", "default"}
    assert reasons(mine)["stars"] == "own_documents"
    assert note in [one["text"] for one in mine["results"]]
    assert searched(routed.search("What are the roses called?", routing={"top_n": 1})) == {"garden", "default"}


@pytest.mark.capability("routing-rights")
def test_routing_restricted_key_chooses_among_readable(routed: RoutedTenant) -> None:
    allowed = ["kitchen", "workshop", "stars"]
    ids = [routed.tenant.admin.get(f"/v1/knowledge-bases/{name}").json()["id"] for name in allowed]
    client = routed.tenant.create_client(knowledge_bases=ids)
    answer = routed.search(QUESTIONS["garden"], client, routing={"top_n": 1})
    assert {one["knowledge_base"] for one in answer["explain"]["routing"]} == set(allowed)
    assert len(searched(answer)) == 1
    assert_problem(
        client.post("/v1/search", json={"query": "x", "knowledge_bases": ["garden"], "routing": {"top_n": 1}}), 404
    )


@pytest.mark.capability("routing-tenants")
def test_routing_excludes_knowledge_bases_of_other_tenants(routed: RoutedTenant, service: Service) -> None:
    other = RoutedTenant(service.create_tenant("other"))
    for name in ("one", "two"):
        other.tenant.admin.post("/v1/knowledge-bases", json={"name": name}).raise_for_status()
        other.tenant.add_text(f"The {name} thing.", kb=name)
        other.route(name, description_weight=0.31)
    answer = other.search(QUESTIONS["garden"], routing={"top_n": 1})
    assert {one["knowledge_base"] for one in answer["explain"]["routing"]} == {"default", "one", "two"}


@pytest.fixture
def shared(service: Service, routed: RoutedTenant) -> Iterator[str]:
    """A small knowledge base of the tenant, and the operator's large one of the same name."""
    name = f"sea-{secrets.token_hex(4)}"
    operator = RoutedTenant(get_operator_tenant(service))
    for one in (operator, routed):
        one.tenant.admin.post("/v1/knowledge-bases", json={"name": name}).raise_for_status()
    operator.tenant.add_text("An octopus has three hearts and eight arms.", kb=name)
    routed.tenant.add_text("Chisels are sharpened on a wet stone.", kb=name)
    for one in (operator, routed):
        one.route(name, description_weight=0.31)
    yield name
    for one in (operator, routed):
        one.tenant.admin.delete(f"/v1/knowledge-bases/{name}").raise_for_status()


def test_routing_considers_shared_knowledge_base(routed: RoutedTenant, shared: str) -> None:
    answer = routed.search("How many hearts does an octopus have?", routing={"top_n": 1})
    assert reasons(answer)[shared] == "best"
    assert answer["results"][0]["text"].startswith("An octopus")
    assert {one["shared"] for one in answer["explain"]["knowledge_bases"] if one["knowledge_base"] == shared} == {
        True, False,
    }  # fmt: skip


def test_routing_settings_are_stored_and_returned(routed: RoutedTenant) -> None:
    created = routed.tenant.admin.post(
        "/v1/knowledge-bases", json={"name": "said", "routing": {"descriptions": ["Old maps"], "scale": 2}}
    )
    expected = {"descriptions": ["Old maps"], "examples": [], "description_weight": 0.3, "scale": 2.0, "always": False}
    assert (created.status_code, created.json()["routing"]) == (201, expected)
    for reply in (
        routed.tenant.admin.get("/v1/knowledge-bases/said"),
        routed.tenant.admin.patch("/v1/knowledge-bases/said", json={"title": "Maps"}),
    ):
        assert reply.json()["routing"] == expected
    listed = routed.tenant.admin.get("/v1/knowledge-bases").json()["items"]
    assert next(one for one in listed if one["name"] == "said")["routing"] == expected
    changed = routed.tenant.admin.patch("/v1/knowledge-bases/said", json={"routing": {"always": True}}).json()
    assert changed["routing"] == {
        "descriptions": [], "examples": [], "description_weight": 0.3, "scale": 1.0, "always": True,
    }  # fmt: skip
    routed.tenant.admin.delete("/v1/knowledge-bases/said").raise_for_status()


@pytest.mark.parametrize("routing", [True, {"top_n": 0}, {"top_n": 101}, {"n": 1}, 3, "all"], ids=json.dumps)
def test_routing_invalid_options_are_422(routed: RoutedTenant, routing: Any) -> None:
    assert_problem(routed.tenant.admin.post("/v1/search", json={"query": "x", "routing": routing}), 422, "invalid")


def test_routing_equal_texts_count_once_with_largest_scale(routed: RoutedTenant) -> None:
    """Several knowledge bases have the same text, and one has a larger weight."""
    text = "The lighthouse keeper counts the ships."
    for name in ("kitchen", "workshop"):
        routed.tenant.add_text(text, kb=name)
    ask: dict[str, Any] = {"knowledge_bases": ["kitchen", "workshop"], "top_k": 7}
    before = routed.search("lighthouse", **ask)
    assert [one["text"] for one in before["results"]].count(text) == 1
    assert len(before["results"]) == 7
    routed.route("workshop", scale=2, description_weight=0.32)
    after = routed.search("lighthouse", **ask)
    assert (after["results"][0]["text"], after["results"][0]["knowledge_base"]) == (text, "workshop")
    assert after["results"][0]["score"] == pytest.approx(2 * before["results"][0]["score"])
    alone = routed.search("lighthouse", knowledge_bases=["workshop"])
    assert alone["results"][0]["score"] == pytest.approx(before["results"][0]["score"])
    routed.route("workshop", description_weight=0.31)
