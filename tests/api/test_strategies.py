"""Strategies by name over HTTP: query expansion, fallbacks, and names that no longer exist."""

import json
from typing import Any

import asyncpg
import httpx2
import pytest

from app.ids import decode_id
from harness.protocol_servers.chat import ChatFailure, ChatServer, ReceivedTextRequest
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant
from tests.fixtures.service_warnings import warning_json

TEXTS = {
    "vans": "A transporter costs ninety euros a day.",
    "bikes": "A bicycle costs twelve euros.",
    "leave": "Parental leave lasts fourteen weeks.",
}
ALONE, KB = "/v1/knowledge-bases/default/search", "/v1/knowledge-bases/default"
NAMES = {"dense", "lexical", "hybrid", "multi_query", "hyde", "graph_rag"}


def filled(service: Service) -> Tenant:
    made = service.create_tenant()
    for name, text in TEXTS.items():
        assert made.add_text(text, external_id=name)["status"] == "ready"
    return made


@pytest.fixture(scope="module")
def tenant(talking: Service) -> Tenant:
    return filled(talking)


@pytest.fixture(scope="module")
def silent(service: Service) -> Tenant:
    """Tenant of a service without a chat model."""
    return filled(service)


@pytest.fixture
def chat(running_chat: ChatServer) -> ChatServer:
    """Chat model that writes four variants of every query."""
    running_chat.reset()
    running_chat.reply = writes
    return running_chat


def material(talk: ReceivedTextRequest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(one["content"] for one in talk.messages if one["role"] == "user"))
    return found


def writes(talk: ReceivedTextRequest) -> str:
    return json.dumps({"texts": [f"{material(talk)['query']} {ending}" for ending in ("one", "two", "three", "four")]})


def ask(client: httpx2.Client, path: str = ALONE, **body: Any) -> dict[str, Any]:
    reply = client.post(path, json={"query": "transporter", "timeout_seconds": 30, **body})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def ranked(answer: dict[str, Any]) -> list[tuple[str, float]]:
    return [(result["text"], result["score"]) for result in answer["results"]]


@pytest.mark.capability("hyde")
@pytest.mark.parametrize(
    ("strategy", "options", "queries"),
    [
        ("multi_query", {}, ["q", "q one", "q two", "q three"]),
        ("multi_query", {"num_queries": 1}, ["q", "q one"]),
        ("hyde", {}, ["q", "q one"]),
        ("hyde", {"n_hypothetical": 2}, ["q", "q one", "q two"]),
        ("hyde", {"n_hypothetical": 2, "replace": True}, ["q one", "q two"]),
    ],
    ids=str,
)
def test_strategy_rewrites_are_searched_as_hybrid_queries(
    tenant: Tenant, chat: ChatServer, strategy: str, options: dict[str, Any], queries: list[str]
) -> None:
    found = ask(tenant.admin, query="q", strategy=strategy, strategy_options=options, explain=True)
    assert (found["queries"], found["warnings"], found["strategy"]) == (queries, [], strategy)
    assert found["explain"]["transformers"] == [strategy]
    assert ranked(found) == ranked(ask(tenant.admin, query=None, queries=queries))


@pytest.mark.capability("multi-query")
def test_strategy_multi_query_finds_text_named_only_by_rewrite(tenant: Tenant, chat: ChatServer) -> None:
    chat.reply = lambda _: json.dumps({"texts": ["fourteen weeks of parental leave"]})
    found = ask(tenant.admin, query="maternity", strategy="multi_query", top_k=1)
    assert found["results"][0]["text"] == TEXTS["leave"]


def test_strategy_and_transformer_queries_are_limited(tenant: Tenant, chat: ChatServer) -> None:
    def reply(talk: ReceivedTextRequest) -> str:
        endings = ("I", "II", "III") if "several facts" in talk.messages[0]["content"] else ("one", "two", "three", "4")
        return json.dumps({"texts": [f"{material(talk)['query']} {ending}" for ending in endings]})

    chat.reply = reply
    asked: dict[str, Any] = {"strategy": "multi_query", "transformers": ["decompose", "keywords"], "explain": True}
    found = ask(tenant.admin, query="q", **asked, strategy_options={"num_queries": 4})
    assert found["explain"]["transformers"] == ["keywords", "decompose", "multi_query"]
    assert (found["queries"][0], len(found["queries"])) == ("q one q two q three q 4", 16)
    assert found["warnings"] == [
        warning_json("query_limit_reached", "multi_query was applied only to the first 3 of 4 queries (query limit).")
    ]
    assert len(found["results"]) == len(TEXTS)


def test_strategy_with_empty_transformers_still_rewrites(tenant: Tenant, chat: ChatServer) -> None:
    assert ask(tenant.admin, query="q", strategy="hyde", transformers=[])["queries"] == ["q", "q one"]


@pytest.mark.parametrize("strategy", ["multi_query", "hyde"])
@pytest.mark.parametrize("how", [500, "garbage", "slow"], ids=str)
def test_strategy_with_failing_model_falls_back_to_hybrid(
    tenant: Tenant, chat: ChatServer, strategy: str, how: ChatFailure | int
) -> None:
    plain = ask(tenant.admin)
    chat.fail(how, times=2)
    found = ask(tenant.admin, strategy=strategy, timeout_seconds=6 if how == "slow" else 30)
    assert found["warnings"] == [
        warning_json("chat_model_unavailable", f"The chat model did not answer, so {strategy} ran without it.")
    ]
    assert (found["queries"], ranked(found)) == (["transporter"], ranked(plain))
    chat.reset()
    # The model answers again, so no failure opens the circuit breaker for the next case.
    ask(tenant.admin, strategy=strategy)


@pytest.mark.capability("strategy-fallback")
@pytest.mark.parametrize(
    ("strategy", "warning"),
    [
        (
            "multi_query",
            warning_json("chat_model_not_configured", "No chat model is configured, so multi_query ran without it."),
        ),
        (
            "hyde",
            warning_json("chat_model_not_configured", "No chat model is configured, so hyde ran without it."),
        ),
    ],
)
def test_strategy_without_model_falls_back_to_hybrid(silent: Tenant, strategy: str, warning: dict[str, str]) -> None:
    found = ask(silent.admin, strategy=strategy)
    assert (found["warnings"], ranked(found)) == ([warning], ranked(ask(silent.admin)))
    talk: dict[str, Any] = {
        "query": None,
        "messages": [{"role": "user", "content": one} for one in ("a transporter", "its price?")],
    }
    assert ranked(ask(silent.admin, **talk, strategy=strategy)) == ranked(ask(silent.admin, **talk))


def test_strategy_first_hits_are_in_prompt(tenant: Tenant, chat: ChatServer) -> None:
    shown = []

    def reply(talk: ReceivedTextRequest) -> str:
        shown.append(material(talk))
        return json.dumps({"texts": ["the price of a transporter in euros a day"]})

    chat.reply = reply
    found = ask(tenant.admin, query="transporter", transformers=["retrieval_rewrite"], filter={"$source": "x"})
    assert (shown, found["results"]) == ([{"query": "transporter", "passages": []}], [])
    found = ask(tenant.admin, query="transporter", transformers=["retrieval_rewrite"])
    assert (found["queries"], found["warnings"]) == (["the price of a transporter in euros a day"], [])
    assert shown[1]["passages"][0] == TEXTS["vans"]
    chat.fail(500, times=2)
    failed = ask(tenant.admin, query="transporter", transformers=["retrieval_rewrite"])
    assert failed["warnings"] == [
        warning_json("chat_model_unavailable", "The chat model did not answer, so retrieval_rewrite ran without it.")
    ]
    assert failed["queries"] == ["transporter"]
    chat.reset()


def test_strategy_prompt_contains_only_visible_passages(talking: Service, chat: ChatServer) -> None:
    shown: list[list[str]] = []

    def reply(talk: ReceivedTextRequest) -> str:
        shown.append(sorted(material(talk)["passages"]))
        return json.dumps({"texts": ["gate"]})

    chat.reply = reply
    house, other = talking.create_tenant(), talking.create_tenant()
    house.add_text("The gate is green.")
    house.add_text("The gate of Ada is red.", user_id="ada")
    house.admin.post("/v1/knowledge-bases", json={"name": "attic"}).raise_for_status()
    house.add_text("The gate in the attic is blue.", kb="attic")
    other.add_text("The gate of another tenant is black.")
    wished: dict[str, Any] = {"query": "what colour is the gate?", "transformers": ["retrieval_rewrite"]}
    for scope in ({}, {"user_id": "ada"}, {"user_id": "bob"}):
        ask(house.admin, **wished, scope=scope)
    every, green = ["The gate is green.", "The gate of Ada is red."], ["The gate is green."]
    assert shown == [green, every, green]


def test_strategy_first_search_with_unavailable_embedding_is_lexical(
    talking: Service, tenant: Tenant, chat: ChatServer, embedding: EmbeddingServer
) -> None:
    shown = []

    def reply(talk: ReceivedTextRequest) -> str:
        shown.append(material(talk)["passages"])
        return json.dumps({"texts": ["transporter ninety"]})

    chat.reply = reply
    embedding.fail(500, times=100)
    found = ask(tenant.admin, query="the cost of a transporter", transformers=["retrieval_rewrite"])
    embedding.reset()
    assert shown == [[TEXTS["vans"], TEXTS["bikes"]]]
    assert found["warnings"] == [
        warning_json(
            "embedding_unavailable", "The embedding model is not answering: only the lexical retriever was used."
        )
    ]
    assert found["results"][0]["text"] == TEXTS["vans"]


@pytest.mark.capability("strategy-listed")
def test_capabilities_list_strategies_with_options(tenant: Tenant) -> None:
    found = {one["name"]: one for one in tenant.admin.get("/v1/capabilities").json()["strategies"]}
    assert set(found) == NAMES
    assert {name for name, one in found.items() if one["default"]} == {"hybrid"}
    hybrid = {"fusion": "weighted", "dense_weight": None, "rrf_k": 60, "candidate_multiplier": None}
    options = {
        name: {option: schema["default"] for option, schema in one["options"]["properties"].items()}
        for name, one in found.items()
    }
    assert options == {
        "dense": {}, "lexical": {}, "hybrid": hybrid,
        "graph_rag": {
            "max_hops": 2, "seeds": 3, "query_weight": 0.3, "damping": 0.7, "graph_weight": 0.8, "keep_first": 1,
            "relation_filter": None, "max_entity_share": 0.02, "fuse_with_vectors": True, "subgraph": "none",
            "serializer": "text",
        },
        "multi_query": hybrid | {"num_queries": 3},
        "hyde": hybrid | {"n_hypothetical": 1, "replace": False},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("strategy", "options", "loc"),
    [
        ("magic", {}, ["strategy"]),
        ("multi_query", {"n_hypothetical": 1}, ["strategy_options", "n_hypothetical"]),
        ("multi_query", {"num_queries": 0}, ["strategy_options", "num_queries"]),
        ("hyde", {"replaced": True}, ["strategy_options", "replaced"]),
        ("graph_rag", {"hops": 2}, ["strategy_options", "hops"]),
    ],
    ids=str,
)
def test_unknown_strategy_or_option_is_422_everywhere(
    tenant: Tenant, strategy: str, options: dict[str, Any], loc: list[str]
) -> None:
    named = {"strategy": strategy, "strategy_options": options}
    client = tenant.admin
    replies = [
        (client.post(ALONE, json={"query": "x", **named}), []),
        (client.post("/v1/search", json={"query": "x", **named}), []),
        (client.post("/v1/knowledge-bases", json={"name": "wrong", "retrieval": named}), ["retrieval"]),
        (client.patch(KB, json={"retrieval": named}), ["retrieval"]),
        (client.put("/v1/agents/wrong", json={"knowledge_bases": ["default"], **named}), []),
    ]
    for reply, place in replies:
        assert (reply.status_code, reply.json()["errors"][0]["loc"]) == (422, ["body", *place, *loc])
        assert strategy != "magic" or all(name in reply.json()["detail"] for name in NAMES)
        if loc[1:] == ["hops"]:
            assert reply.json()["detail"].startswith("No option is named 'hops'. Choose one of: max_hops, seeds, ")


async def store(tenant: Tenant, kb: str, settings: dict[str, Any]) -> None:
    connection = await asyncpg.connect(tenant.service.urls.owner)
    where = "update knowledge_base set retrieval = $1::jsonb where id = $2"
    await connection.execute(where, json.dumps(settings), decode_id("kb", kb))
    await connection.close()


@pytest.mark.capability("strategy-removed")
async def test_stored_strategy_that_no_longer_exists_uses_default(silent: Tenant) -> None:
    made = silent.admin.post("/v1/knowledge-bases", json={"name": "left-behind"}).json()
    silent.add_text(TEXTS["vans"], kb="left-behind")
    path = f"/v1/knowledge-bases/{made['id']}"
    plain = ranked(ask(silent.admin, f"{path}/search"))
    gone: dict[str, Any] = {"strategy": "plug-in", "top_k": 3, "strategy_options": {"depth": 1}}
    await store(silent, made["id"], gone | {"transformers": [{"name": "plugged", "options": {"x": 1}}]})
    for options in ({}, {"depth": 2}):
        found = ask(silent.admin, f"{path}/search", strategy_options=options)
        assert (found["strategy"], ranked(found)) == ("hybrid", plain)
        assert found["warnings"] == [
            warning_json(
                "strategy_unavailable",
                "The strategy 'plug-in' of the knowledge base is not installed, so hybrid was used instead.",
            ),
            warning_json(
                "transformer_unavailable",
                "The transformer 'plugged' of the knowledge base was skipped: it is missing or has other options.",
            ),
        ]
    asked = {"query": "x", "strategy": "plug-in"}
    assert silent.admin.post(f"{path}/search", json=asked).status_code == 422
    assert ask(silent.admin, f"{path}/search", strategy="lexical", transformers=[])["warnings"] == []
    agent = silent.admin.post(f"{path}/agent-search", json={"messages": [{"role": "user", "content": "transporter"}]})
    assert (agent.status_code, agent.json()) == (200, [TEXTS["vans"]])
    assert silent.admin.get(path).json()["retrieval"]["strategy"] == "plug-in"
    assert silent.admin.patch(path, json={"title": "Still here"}).status_code == 200


async def test_stored_option_that_is_no_longer_valid_uses_default(silent: Tenant) -> None:
    made = silent.admin.post("/v1/knowledge-bases", json={"name": "older"}).json()
    silent.add_text(TEXTS["vans"], kb="older")
    path = f"/v1/knowledge-bases/{made['id']}"
    await store(silent, made["id"], {"strategy": "hybrid", "top_k": 3, "strategy_options": {"depth": 1}})
    for strategy in ({}, {"strategy": "hybrid"}):
        found = ask(silent.admin, f"{path}/search", **strategy, strategy_options={"dense_weight": 0.2}, explain=True)
        assert found["warnings"] == [
            warning_json(
                "strategy_options_ignored",
                "The stored options of the strategy 'hybrid' are no longer valid and were ignored.",
            )
        ]
        assert found["explain"]["strategy_options"]["dense_weight"] == 0.2
