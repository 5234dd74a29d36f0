"""Searches over several knowledge bases, each with its own transformers, prompt, language and strategy."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer, ReceivedTextRequest
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.problems import assert_problem

STANDALONE = "price of a transporter"
TALK = [
    {"role": "user", "content": "Do you rent out transporters?"},
    {"role": "assistant", "content": "Yes, by the day."},
    {"role": "user", "content": "And the price?"},
]
PROMPT = "A transporter is called a van here."
MAX_SOURCES = 3


@pytest.fixture(scope="module")
def embedding() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as running:
        yield running


@pytest.fixture(scope="module")
def rewriting(
    running_chat: ChatServer,
    embedding: EmbeddingServer,
    make_database: DatabaseFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    """Service with a chat model that rewrites queries for at most three knowledge bases of a search."""
    models = {"CARREL_CHAT_BASE_URL": running_chat.base_url, "CARREL_CHAT_MODEL": "talker"}
    settings = build_settings(tmp_path_factory.mktemp("sources"), embedding=embedding.settings, models=models)
    server = settings.server.model_copy(update={"max_rewritten_sources": MAX_SOURCES})
    with run_service(settings.model_copy(update={"server": server}), make_database()) as running:
        yield running


@pytest.fixture(scope="module")
def tenant(rewriting: Service) -> Tenant:
    made = rewriting.create_tenant()
    settings: dict[str, dict[str, Any]] = {
        "fleet": {"retrieval": {"transformers": ["prompt_rewrite"], "rewrite_prompt": PROMPT}},
        "berlin": {"language": "german", "retrieval": {"transformers": ["translate"]}},
        "wien": {"language": "german", "retrieval": {"transformers": ["translate"]}},
        "paris": {"language": "french", "retrieval": {"transformers": ["translate"]}},
        "plain": {},
        "words": {"retrieval": {"strategy": "lexical"}},
        "meaning": {"retrieval": {"strategy": "dense"}},
        "wordings": {"retrieval": {"strategy": "multi_query", "strategy_options": {"num_queries": 1}}},
    }
    texts = {
        "fleet": "A van costs ninety euros a day.",
        "berlin": "Ein Transporter kostet neunzig Euro.",
        "wien": "Ein Lieferwagen kostet achtzig Euro.",
        "paris": "Une camionnette coute cent euros.",
        "plain": "The price list of a transporter and of a bicycle.",
        "words": "The price of every transporter is in the list.",
        "meaning": "A price is paid for a transporter.",
        "wordings": "What a transporter costs.",
    }
    for name, body in settings.items():
        made.admin.post("/v1/knowledge-bases", json={"name": name, **body}).raise_for_status()
        upload = made.admin.post(
            f"/v1/knowledge-bases/{name}/documents?wait=30", json={"text": texts[name], "external_id": name}
        )
        assert upload.json()["status"] == "ready", upload.text
    return made


@pytest.fixture
def chat(running_chat: ChatServer) -> ChatServer:
    running_chat.reset()
    running_chat.delay_seconds = 0.0
    running_chat.reply = write_queries
    return running_chat


def write_queries(talk: ReceivedTextRequest) -> str:
    material = json.loads(next(one["content"] for one in talk.messages if one["role"] == "user"))
    task = talk.messages[0]["content"]
    if "sources" in material:
        return json.dumps({"numbers": [1]}) if "answer" in material else "Ninety euros."
    if "conversation" in material:
        return json.dumps({"query": STANDALONE, "analysis": "", "indices_of_related_messages": []})
    for marker, ending in (("german", "auf Deutsch"), ("french", "en francais"), (PROMPT, "of a van")):
        if marker in task:
            return json.dumps({"texts": [f"{material['query']} {ending}"]})
    return json.dumps({"texts": [f"{material['query']} again"]})


def search(tenant: Tenant, *names: str, **body: Any) -> dict[str, Any]:
    body = {"messages": TALK, "knowledge_bases": list(names), "timeout_seconds": 30, "explain": True, **body}
    reply = tenant.admin.post("/v1/search", json={key: value for key, value in body.items() if value is not None})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def explained(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["knowledge_base"]: item for item in found["explain"]["knowledge_bases"]}


def count_tasks(chat: ChatServer, *words: str) -> list[int]:
    tasks = [talk.messages[0]["content"] for talk in chat.text_requests]
    return [sum(word in task for task in tasks) for word in words]


@pytest.mark.capability("sources-own-queries")
def test_each_knowledge_base_is_searched_with_its_own_queries(tenant: Tenant, chat: ChatServer) -> None:
    found = search(tenant, "fleet", "berlin", "plain")
    shown = explained(found)
    assert {name: item["queries"] for name, item in shown.items()} == {
        "fleet": [f"{STANDALONE} of a van"],
        "berlin": [f"{STANDALONE} auf Deutsch"],
        "plain": [STANDALONE],
    }
    assert {name: item["transformers"] for name, item in shown.items()} == {
        "fleet": ["reformulate", "prompt_rewrite"],
        "berlin": ["reformulate", "translate"],
        "plain": ["reformulate"],
    }
    assert shown["fleet"]["prompts"] == {"rewrite": {"owner": "fleet", "version": 1}}
    assert shown["berlin"]["prompts"] == {}
    assert found["explain"]["transformers"] == ["reformulate"]
    assert set(found["queries"]) == {f"{STANDALONE} of a van", f"{STANDALONE} auf Deutsch", STANDALONE}
    assert (found["warnings"], found["strategy"]) == ([], "hybrid")
    assert {result["knowledge_base"] for result in found["results"]} == {"fleet", "berlin", "plain"}
    scores = [result["score"] for result in found["results"]]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.capability("sources-translate")
@pytest.mark.parametrize(
    ("names", "transformers"),
    [(["berlin", "wien", "paris"], None), (["berlin", "paris", "wien"], ["translate"])],
    ids=["of the knowledge bases", "of the search"],
)
def test_translate_calls_model_once_for_each_language(
    tenant: Tenant, chat: ChatServer, names: list[str], transformers: list[str] | None
) -> None:
    found = search(tenant, *names, messages=None, query="price", transformers=transformers)
    assert count_tasks(chat, "german", "french") == [1, 1]
    shown = explained(found)
    assert shown["berlin"]["queries"] == shown["wien"]["queries"] == ["price auf Deutsch"]
    assert shown["paris"]["queries"] == ["price en francais"]


@pytest.mark.capability("sources-prompts")
def test_prompt_rewrite_of_search_uses_the_prompt_of_each_knowledge_base(tenant: Tenant, chat: ChatServer) -> None:
    found = search(tenant, "fleet", "plain", messages=None, query="price", transformers=["prompt_rewrite"])
    shown = explained(found)
    assert (shown["fleet"]["queries"], shown["plain"]["queries"]) == (["price of a van"], ["price"])
    assert [warning["code"] for warning in found["warnings"]] == ["rewrite_prompt_missing"]


@pytest.mark.capability("sources-override")
@pytest.mark.parametrize("transformers", [[], ["reformulate"]], ids=str)
def test_transformers_of_search_replace_those_of_knowledge_bases(
    tenant: Tenant, chat: ChatServer, transformers: list[str]
) -> None:
    found = search(tenant, "fleet", "berlin", transformers=transformers)
    assert count_tasks(chat, "german", PROMPT) == [0, 0]
    assert {tuple(item["transformers"]) for item in explained(found).values()} == {tuple(transformers)}


@pytest.mark.capability("sources-routed-only")
def test_only_searched_knowledge_bases_are_rewritten(tenant: Tenant, chat: ChatServer) -> None:
    search(tenant, "plain", "paris")
    assert count_tasks(chat, "german", "french", PROMPT) == [0, 1, 0]


@pytest.mark.capability("sources-cap")
def test_sources_beyond_the_limit_are_searched_with_common_queries(tenant: Tenant, chat: ChatServer) -> None:
    found = search(tenant, "fleet", "berlin", "plain", "wien", "paris")
    (warning,) = found["warnings"]
    assert (warning["code"], "'paris'" in warning["message"]) == ("rewrite_limit_reached", True)
    shown = explained(found)
    assert (shown["paris"]["queries"], shown["paris"]["transformers"]) == ([STANDALONE], ["reformulate"])
    assert shown["wien"]["queries"] == [f"{STANDALONE} auf Deutsch"]
    assert "paris" in {result["knowledge_base"] for result in search(tenant, "plain", "paris")["results"]}


@pytest.mark.capability("sources-strategy")
def test_each_knowledge_base_is_searched_with_its_own_strategy(tenant: Tenant, chat: ChatServer) -> None:
    found = search(tenant, "words", "meaning", "wordings", messages=None, query="price of a transporter", top_k=10)
    shown = explained(found)
    assert {name: item["strategy"] for name, item in shown.items()} == {
        "words": "lexical",
        "meaning": "dense",
        "wordings": "multi_query",
    }
    assert shown["wordings"]["strategy_options"]["num_queries"] == 1
    assert shown["wordings"]["queries"] == ["price of a transporter", "price of a transporter again"]
    assert shown["words"]["queries"] == ["price of a transporter"]
    assert found["strategy"] == "mixed"
    results = {result["knowledge_base"]: result for result in found["results"]}
    assert results.keys() == {"words", "meaning", "wordings"}
    assert results["words"]["scores"]["dense"] is None
    assert results["meaning"]["scores"]["lexical"] is None


def test_strategy_of_search_replaces_those_of_knowledge_bases(tenant: Tenant, chat: ChatServer) -> None:
    found = search(tenant, "words", "meaning", messages=None, query="price", strategy="hybrid")
    assert {item["strategy"] for item in explained(found).values()} == {found["strategy"]} == {"hybrid"}


def test_strategy_options_apply_where_they_fit(tenant: Tenant, chat: ChatServer) -> None:
    found = search(tenant, "plain", "words", messages=None, query="price", strategy_options={"dense_weight": 0.25})
    shown = explained(found)
    assert shown["plain"]["strategy_options"]["dense_weight"] == 0.25
    assert shown["words"]["strategy_options"] == {}
    assert [warning["code"] for warning in found["warnings"]] == ["strategy_options_ignored"]


@pytest.mark.parametrize("names", [["plain", "words"], ["words", "meaning"], ["plain"]], ids=str)
def test_strategy_options_that_fit_nowhere_are_422(tenant: Tenant, chat: ChatServer, names: list[str]) -> None:
    body = {"messages": TALK, "knowledge_bases": names, "strategy_options": {"weight_of_magic": 1}}
    problem = assert_problem(tenant.admin.post("/v1/search", json=body), 422, "invalid")
    assert problem["errors"][0]["loc"] == ["body", "strategy_options", "weight_of_magic"]
    assert chat.text_requests == []


@pytest.mark.capability("sources-concurrent")
def test_sources_are_rewritten_at_the_same_time(tenant: Tenant, chat: ChatServer) -> None:
    chat.delay_seconds = 1.0  # one after the other would need three seconds of about 2.4
    found = search(tenant, "fleet", "berlin", "paris", messages=None, query="price", timeout_seconds=10)
    assert found["warnings"] == []
    assert found["timings_ms"]["rewrite"] <= found["timings_ms"]["total"]


@pytest.mark.capability("sources-slow")
def test_slow_model_leaves_common_queries_with_a_warning(tenant: Tenant, chat: ChatServer) -> None:
    chat.fail("slow", times=10)
    found = search(tenant, "fleet", "berlin", "plain", messages=None, query="price", timeout_seconds=3)
    assert {tuple(item["queries"]) for item in explained(found).values()} == {("price",)}
    assert {warning["code"] for warning in found["warnings"]} == {"chat_model_unavailable"}
    assert [step["step"] for step in found["degraded"]] == ["rewrite"]
    assert {result["knowledge_base"] for result in found["results"]} >= {"plain"}


def test_strategy_that_cannot_answer_is_skipped_with_a_warning(
    tenant: Tenant, chat: ChatServer, embedding: EmbeddingServer
) -> None:
    embedding.fail(500, times=20)
    try:
        found = search(tenant, "words", "meaning", messages=None, query="transporter list unseen before")
    finally:
        embedding.reset()
    assert {result["knowledge_base"] for result in found["results"]} == {"words"}
    assert "knowledge_bases_skipped" in {warning["code"] for warning in found["warnings"]}


def test_vectors_are_searched_only_where_the_strategy_uses_them(tenant: Tenant, chat: ChatServer) -> None:
    vector = {"vector": [1.0] + [0.0] * 63}
    found = search(tenant, "words", "meaning", messages=None, queries=[vector])
    assert {result["knowledge_base"] for result in found["results"]} == {"meaning"}
    assert "knowledge_bases_skipped" in {warning["code"] for warning in found["warnings"]}
    body = {"queries": [vector], "knowledge_bases": ["words"]}
    assert_problem(tenant.admin.post("/v1/search", json=body), 422, "invalid")


@pytest.mark.capability("sources-answer")
def test_answer_is_written_from_the_queries_of_each_knowledge_base(tenant: Tenant, chat: ChatServer) -> None:
    body = {"messages": TALK, "knowledge_bases": ["fleet", "berlin"], "stream": False, "explain": True}
    reply = tenant.admin.post("/v1/answer", json={**body, "timeout_seconds": 30})
    assert reply.status_code == 200, reply.text
    shown = {item["knowledge_base"]: item["queries"] for item in reply.json()["explain"]["knowledge_bases"]}
    assert shown == {"fleet": [f"{STANDALONE} of a van"], "berlin": [f"{STANDALONE} auf Deutsch"]}
    assert reply.json()["question"] == STANDALONE


@pytest.mark.capability("sources-agent")
def test_agent_search_uses_the_transformers_of_each_knowledge_base(tenant: Tenant, chat: ChatServer) -> None:
    tenant.admin.put("/v1/agents/agt", json={"knowledge_bases": ["fleet", "berlin"]}).raise_for_status()
    reply = tenant.admin.post("/v1/agent-search", json={"messages": TALK, "agent_id": "agt", "top_k": 5})
    assert set(reply.json()) == {"A van costs ninety euros a day.", "Ein Transporter kostet neunzig Euro."}
    assert count_tasks(chat, PROMPT, "german") == [1, 1]
