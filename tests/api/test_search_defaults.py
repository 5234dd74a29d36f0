"""Defaults that follow the embedding model of a knowledge base: dense weight, score threshold ``auto``, chunk size."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from app.inference.embedding.search_defaults import SEARCH_DEFAULTS, UNKNOWN_MODEL
from app.settings import Settings
from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.problems import assert_problem
from tests.fixtures.service_warnings import warning_json

MINILM, BGE, UNKNOWN = "all-MiniLM-L6-v2", "bge-small-en-v1.5", "words"
# The first model reads fewer tokens than the default size of a chunk.
CHUNK_TOKENS = 118  # without special tokens
MODELS = {MINILM: (256, 120), BGE: (192, 8191), UNKNOWN: (128, 8191)}
HERON, OTTER = "heron waits in reeds", "otter dives at night"
OFF_TOPIC = ["Good morning!", "thanks a lot", "ok", "tell me a joke", "how do I bake bread", "?"]
KNOWLEDGE_BASES = {"mini": MINILM, "bge": BGE, "words": UNKNOWN}


@dataclass(frozen=True)
class Shelf:
    """A tenant with a knowledge base for each model; each contains the same two texts."""

    service: Service
    server: EmbeddingServer
    tenant: Tenant

    def search(self, query: str, *kbs: str, **body: Any) -> dict[str, Any]:
        reply = self.tenant.admin.post("/v1/search", json={"query": query, "knowledge_bases": list(kbs), **body})
        assert reply.status_code == 200, reply.text
        answer: dict[str, Any] = reply.json()
        return answer

    def ask_agent(self, agent: str, text: str) -> list[str]:
        body = {"agent_id": agent, "messages": [{"role": "user", "content": text}]}
        reply = self.tenant.admin.post("/v1/agent-search", json=body)
        assert reply.status_code == 200, reply.text
        passages: list[str] = reply.json()
        return passages


def build_model_settings(data: Any, server: EmbeddingServer, chat: ChatServer) -> Settings:
    """Return settings with one endpoint under the names of several models."""
    endpoints = [
        {"model": name, "base_url": server.base_url, "dimensions": dim, "max_tokens": limit, "send_dimensions": True}
        for name, (dim, limit) in MODELS.items()
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARREL_EMBEDDING_MODELS", json.dumps(endpoints[1:]))
        return build_settings(
            data,
            embedding={f"CARREL_EMBEDDING_{name.upper()}": value for name, value in endpoints[0].items()},
            models={"CARREL_CHAT_BASE_URL": chat.base_url, "CARREL_CHAT_MODEL": "talker"},
        )


@pytest.fixture(scope="module")
def shelf(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    with EmbeddingServer() as server, ChatServer() as chat:
        settings = build_model_settings(tmp_path_factory.mktemp("models"), server, chat)
        with run_service(settings, make_database()) as service:
            tenant = service.create_tenant()
            for kb, model in KNOWLEDGE_BASES.items():
                create_kb(tenant.admin, kb, embedding={"model": model}).raise_for_status()
                for text in (HERON, OTTER):
                    assert tenant.add_text(text, kb=kb)["status"] == "ready"
            yield Shelf(service, server, tenant)


def create_kb(client: httpx2.Client, name: str, **settings: Any) -> httpx2.Response:
    return client.post("/v1/knowledge-bases", json={"name": name, **settings})


def get_threshold(model: str) -> float:
    threshold = SEARCH_DEFAULTS[model].score_threshold
    assert threshold is not None
    return threshold


def texts_of(answer: dict[str, Any]) -> list[str]:
    return [result["text"] for result in answer["results"]]


def not_calibrated(names: str, model: str = UNKNOWN) -> dict[str, str]:
    message = (
        f"score_threshold auto was not applied in {names}: the embedding model {model!r} has no calibrated threshold."
    )
    return warning_json("threshold_not_calibrated", message)


@pytest.mark.capability("search-threshold-auto")
@pytest.mark.parametrize("kb", ["mini", "bge"])
@pytest.mark.parametrize("query", OFF_TOPIC)
def test_search_auto_threshold_drops_results_of_off_topic_queries(shelf: Shelf, kb: str, query: str) -> None:
    assert len(shelf.search(query, kb)["results"]) == 2
    answer = shelf.search(query, kb, score_threshold="auto")
    assert (answer["results"], answer["warnings"]) == ([], [])


@pytest.mark.capability("search-threshold-auto")
@pytest.mark.parametrize("strategy", ["hybrid", "dense", "lexical", "multi_query"])
def test_search_auto_threshold_returns_relevant_results(shelf: Shelf, strategy: str) -> None:
    for kb, text in (("mini", HERON), ("bge", OTTER)):
        answer = shelf.search(text, kb, score_threshold="auto", strategy=strategy, transformers=[])
        assert texts_of(answer) == [text]
        assert answer["results"][0]["similarity"] == pytest.approx(1, abs=2e-3)
        threshold = get_threshold(KNOWLEDGE_BASES[kb])
        assert answer["auto_thresholds"] == [{"knowledge_base": kb, "shared": False, "score_threshold": threshold}]


def test_knowledge_base_search_auto_threshold_is_explained(shelf: Shelf) -> None:
    body = {"query": HERON, "score_threshold": "auto", "explain": True}
    answer = shelf.tenant.admin.post("/v1/knowledge-bases/mini/search", json=body).json()
    assert texts_of(answer) == [HERON]
    (explained,) = answer["explain"]["knowledge_bases"]
    defaults = SEARCH_DEFAULTS[MINILM]
    assert (explained["score_threshold"], explained["dense_weight"]) == (
        defaults.score_threshold,
        defaults.dense_weight,
    )


def test_search_auto_threshold_of_several_queries_compares_best_query(shelf: Shelf) -> None:
    body = {"queries": ["good morning", OTTER], "knowledge_bases": ["mini"], "score_threshold": "auto"}
    assert texts_of(shelf.tenant.admin.post("/v1/search", json=body).json()) == [OTTER]
    body["queries"] = ["good morning", "thanks"]
    assert texts_of(shelf.tenant.admin.post("/v1/search", json=body).json()) == []


@pytest.mark.parametrize(("threshold", "count"), [(-1, 2), (0.9, 1), (0.9999, 0), (None, 2)])
def test_search_number_threshold_stays_a_number(shelf: Shelf, threshold: float | None, count: int) -> None:
    answer = shelf.search("heron waits in the reeds", "mini", score_threshold=threshold, explain=True)
    assert (len(answer["results"]), answer["warnings"], "auto_thresholds" in answer) == (count, [], False)
    (explained,) = answer["explain"]["knowledge_bases"]
    assert explained.get("score_threshold") == threshold


@pytest.mark.parametrize("strategy", ["hybrid", "dense", "lexical"])
def test_search_auto_threshold_of_unknown_model_is_warning(shelf: Shelf, strategy: str) -> None:
    plain = shelf.search("otter of the morning", "words", strategy=strategy)
    answer = shelf.search("otter of the morning", "words", strategy=strategy, score_threshold="auto")
    assert texts_of(answer) == texts_of(plain) != []
    assert answer["warnings"] == [not_calibrated("'words'")]
    assert answer["auto_thresholds"] == [{"knowledge_base": "words", "shared": False, "score_threshold": None}]


def test_lexical_search_auto_threshold_of_unknown_model_embeds_nothing(shelf: Shelf) -> None:
    shelf.server.reset()
    shelf.search("otter without a vector", "words", strategy="lexical", score_threshold="auto")
    assert shelf.server.request_count == 0
    shelf.search("otter without a vector", "words", "mini", strategy="lexical", score_threshold="auto")
    assert shelf.server.request_count == 1


@pytest.mark.capability("sources-thresholds")
def test_search_several_knowledge_bases_have_their_own_thresholds(shelf: Shelf) -> None:
    """The cosine of the question and the text is 0.5 in all models, between the thresholds of the two models."""
    query = "heron waits for breakfast"
    assert get_threshold(MINILM) < 0.45 < 0.55 < get_threshold(BGE)
    answer = shelf.search(query, "mini", "bge", score_threshold="auto", explain=True)
    assert [(result["knowledge_base"], result["text"]) for result in answer["results"]] == [("mini", HERON)]
    assert {item["knowledge_base"]: item["score_threshold"] for item in answer["auto_thresholds"]} == {
        "mini": get_threshold(MINILM), "bge": get_threshold(BGE)
    }  # fmt: skip
    mixed = shelf.search(query, "bge", "words", "mini", score_threshold="auto")
    assert {result["knowledge_base"] for result in mixed["results"]} <= {"mini", "words"}
    assert mixed["warnings"] == [not_calibrated("'words'")]


def test_search_auto_threshold_of_silent_model_is_not_applied(shelf: Shelf) -> None:
    shelf.server.fail(503, times=None)
    try:
        answer = shelf.search("otter of a silent model", "mini", score_threshold="auto")
    finally:
        shelf.server.reset()
    assert texts_of(answer) == [OTTER]
    codes = {warning["code"] for warning in answer["warnings"]}
    assert codes == {"embedding_unavailable", "threshold_not_applied"}


@pytest.mark.parametrize(
    "value", ["automatic", "AUTO", "", "none", " auto", "0.5 or so", [], ["auto"], {}, {"auto": 1}, 1.1, -1.01, 1e300]
)
def test_invalid_threshold_is_one_error(shelf: Shelf, value: Any) -> None:
    client = shelf.tenant.admin
    replies = [
        client.post("/v1/search", json={"query": "x", "score_threshold": value}),
        client.post("/v1/knowledge-bases/mini/search", json={"query": "x", "score_threshold": value}),
        client.post("/v1/answer", json={"query": "x", "score_threshold": value}),
        client.put("/v1/agents/wrong", json={"knowledge_bases": ["mini"], "score_threshold": value}),
        client.patch("/v1/agents/wrong", json={"score_threshold": value}),
    ]
    for reply in replies:
        assert_problem(reply, 422, "invalid")
        (error,) = reply.json()["errors"]
        assert error["loc"] == ["body", "score_threshold"]
        assert "a number from -1 to 1, or `auto`" in error["msg"]


@pytest.mark.capability("agent-binding-threshold")
def test_binding_auto_threshold_applies_to_agent_search(shelf: Shelf) -> None:
    client = shelf.tenant.admin
    body = {"knowledge_bases": ["mini"], "score_threshold": "auto"}
    assert client.put("/v1/agents/careful", json=body).json()["score_threshold"] == "auto"
    assert client.get("/v1/agents/careful").json()["score_threshold"] == "auto"
    assert shelf.ask_agent("careful", HERON) == [HERON]
    for query in OFF_TOPIC:
        assert shelf.ask_agent("careful", query) == [], query
    assert client.patch("/v1/agents/careful", json={"score_threshold": None}).json()["score_threshold"] is None
    assert len(shelf.ask_agent("careful", OFF_TOPIC[0])) == 2
    assert client.patch("/v1/agents/careful", json={"score_threshold": 0.5}).json()["score_threshold"] == 0.5


def test_binding_auto_threshold_of_unknown_model_returns_passages(shelf: Shelf) -> None:
    body = {"knowledge_bases": ["words"], "score_threshold": "auto"}
    shelf.tenant.admin.put("/v1/agents/lenient", json=body).raise_for_status()
    assert len(shelf.ask_agent("lenient", "good morning")) == 2


@pytest.mark.capability("answer-off-topic")
def test_answer_auto_threshold_abstains_off_topic(shelf: Shelf) -> None:
    body = {"query": "good morning", "knowledge_bases": ["mini"], "score_threshold": "auto", "stream": False}
    answer = shelf.tenant.admin.post("/v1/answer", json=body).json()
    assert (answer["abstained"], answer["sources"]) == (True, [])
    assert [item["score_threshold"] for item in answer["auto_thresholds"]] == [get_threshold(MINILM)]
    body |= {"query": HERON, "score_threshold": 0.2}
    assert "auto_thresholds" not in shelf.tenant.admin.post("/v1/answer", json=body).json()


@pytest.mark.capability("fusion-weight-model")
@pytest.mark.parametrize(("kb", "model"), KNOWLEDGE_BASES.items())
def test_hybrid_search_uses_dense_weight_of_the_model(shelf: Shelf, kb: str, model: str) -> None:
    weight = SEARCH_DEFAULTS.get(model, UNKNOWN_MODEL).dense_weight
    query = "heron at the window"
    answer = shelf.search(query, kb, explain=True)
    assert answer["explain"]["strategy_options"]["dense_weight"] == weight
    assert answer["explain"]["knowledge_bases"][0]["dense_weight"] == weight
    provided = shelf.search(query, kb, strategy="hybrid", strategy_options={"dense_weight": weight})
    assert [result["score"] for result in answer["results"]] == [result["score"] for result in provided["results"]]
    null = shelf.search(query, kb, strategy="hybrid", strategy_options={"dense_weight": None}, explain=True)
    assert (null["results"], null["explain"]) == (answer["results"], answer["explain"])
    assert "dense_weight" not in shelf.search(query, kb, strategy="dense", explain=True)["explain"]["strategy_options"]


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
def test_hybrid_search_several_models_has_a_weight_for_each(shelf: Shelf, fusion: str) -> None:
    answer = shelf.search(HERON, "mini", "bge", explain=True, strategy_options={"fusion": fusion}, strategy="hybrid")
    expected = {"mini": SEARCH_DEFAULTS[MINILM].dense_weight, "bge": SEARCH_DEFAULTS[BGE].dense_weight}
    weights = {item["knowledge_base"]: item["dense_weight"] for item in answer["explain"]["knowledge_bases"]}
    assert weights == expected
    common = expected["mini"] if len(set(expected.values())) == 1 else None
    assert answer["explain"]["strategy_options"]["dense_weight"] == common
    requested = {"fusion": fusion, "dense_weight": 0.2}
    answer = shelf.search(HERON, "mini", "bge", explain=True, strategy_options=requested, strategy="hybrid")
    assert answer["explain"]["strategy_options"]["dense_weight"] == 0.2
    assert {item["dense_weight"] for item in answer["explain"]["knowledge_bases"]} == {0.2}


@pytest.mark.capability("fusion-weight-stored")
def test_stored_dense_weight_overrides_default_of_the_model(shelf: Shelf) -> None:
    retrieval = {"strategy_options": {"dense_weight": 0.8}}
    create_kb(shelf.tenant.admin, "tuned", embedding={"model": BGE}, retrieval=retrieval).raise_for_status()
    shelf.tenant.add_text(HERON, kb="tuned")
    answer = shelf.search(HERON, "tuned", explain=True)
    assert answer["explain"]["knowledge_bases"][0]["dense_weight"] == 0.8


def test_capabilities_list_defaults_of_each_model(shelf: Shelf) -> None:
    models = shelf.tenant.admin.get("/v1/capabilities").json()["embedding_models"]
    assert [model["model"] for model in models] == list(MODELS)
    for model in models:
        defaults = SEARCH_DEFAULTS.get(model["model"], UNKNOWN_MODEL)
        assert model["search_defaults"] == {
            "dense_weight": defaults.dense_weight,
            "score_threshold": defaults.score_threshold,
            "max_tokens": CHUNK_TOKENS if model["model"] == MINILM else defaults.max_tokens,
        }


@pytest.mark.capability("model-chunk-size")
@pytest.mark.parametrize(
    ("model", "chunking", "max_tokens"),
    [
        (MINILM, {}, CHUNK_TOKENS),
        (BGE, {}, SEARCH_DEFAULTS[BGE].max_tokens),
        (UNKNOWN, {}, UNKNOWN_MODEL.max_tokens),
        (UNKNOWN, {"max_tokens": None}, UNKNOWN_MODEL.max_tokens),
        (MINILM, {"strategy": "sentence"}, CHUNK_TOKENS),
        (MINILM, {"overlap_tokens": 20}, CHUNK_TOKENS),
        (MINILM, {"max_tokens": 90}, 90),
        (BGE, {"max_tokens": 300}, 300),
    ],
)
def test_new_knowledge_base_has_chunk_size_of_its_model(
    shelf: Shelf, model: str, chunking: dict[str, Any], max_tokens: int
) -> None:
    made = create_kb(shelf.service.create_tenant().admin, "new", embedding={"model": model}, chunking=chunking)
    assert (made.status_code, made.json()["chunking"]["max_tokens"]) == (201, max_tokens)


def test_new_knowledge_base_overlap_above_chunk_size_of_model_is_422(shelf: Shelf) -> None:
    made = create_kb(shelf.tenant.admin, "overlapped", chunking={"overlap_tokens": 120})
    assert_problem(made, 422, "invalid")
    assert made.json()["errors"][0]["loc"] == ["body", "chunking", "overlap_tokens"]


def test_default_knowledge_base_and_vector_store_have_chunk_size_of_default_model(shelf: Shelf) -> None:
    client = shelf.service.create_tenant().admin
    assert client.get("/v1/knowledge-bases/default").json()["chunking"]["max_tokens"] == CHUNK_TOKENS
    for body in ({"name": "plain"}, {"name": "auto", "chunking_strategy": {"type": "auto"}}):
        store = client.post("/openai/v1/vector_stores", json=body).json()
        assert client.get(f"/v1/knowledge-bases/{store['id']}").json()["chunking"]["max_tokens"] == CHUNK_TOKENS


def test_preview_without_size_has_chunk_size_of_default_model(shelf: Shelf) -> None:
    text = "A heron waits in the reeds. " * 60
    sizes = []
    for chunking in ({}, {"max_tokens": CHUNK_TOKENS}, {"max_tokens": 60}):
        reply = shelf.tenant.admin.post("/v1/preview", json={"text": text, "chunking": chunking})
        reply.raise_for_status()
        sizes.append(len(reply.json()["chunks"]))
    assert sizes[0] == sizes[1] < sizes[2]


def test_reindex_with_another_model_does_not_change_chunking(shelf: Shelf) -> None:
    tenant = shelf.service.create_tenant()
    create_kb(tenant.admin, "moved").raise_for_status()
    path = "/v1/knowledge-bases/moved/reindex"
    reply = tenant.admin.post(path, json={"embedding": {"model": UNKNOWN}})
    assert reply.json()["reindex"]["chunking"]["max_tokens"] == CHUNK_TOKENS
    tenant.admin.delete(path).raise_for_status()
    body = {"embedding": {"model": UNKNOWN}, "chunking": {"strategy": "sentence"}}
    assert tenant.admin.post(path, json=body).json()["reindex"]["chunking"]["max_tokens"] == UNKNOWN_MODEL.max_tokens
