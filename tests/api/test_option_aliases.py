"""Aliases over HTTP: names of other systems in searches, settings of knowledge bases, agents and answers."""

import json
from typing import Any

import asyncpg
import pytest

from app.api.v1.agents.agents import AgentBindingRequest, AgentBindingUpdate
from app.api.v1.answers.answers import KnowledgeBaseAnswerRequest, MultiAnswerRequest
from app.api.v1.knowledge_bases.retrieval_settings import RetrievalSettingsRequest, RetrievalSettingsUpdate
from app.api.v1.option_aliases import ALIASES, AliasedRequestModel
from app.api.v1.search.search import KnowledgeBaseSearchRequest, MultiSearchRequest
from app.ids import decode_id
from app.retrieval.strategies import load_strategies
from harness.protocol_servers.chat import ChatServer
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem
from tests.fixtures.plugins import Plugins, plugins
from tests.fixtures.service_warnings import warning_json

__all__ = ["plugins"]
KB = "/v1/knowledge-bases/default"
TEXTS = ("A transporter costs ninety euros a day.", "A bicycle costs twelve euros.")
PLUGIN = """
from carrel.plugins.strategies import HybridOptions, Strategy, run_hybrid
from pydantic import BaseModel

class Options(BaseModel, extra="forbid"):
    similarity: str = "l2"
    sparse_weight: float = 0.5

async def run(context, options):
    return await run_hybrid(context, HybridOptions())

STRATEGY = Strategy("mine", "Mine.", Options, run)
"""


@pytest.fixture(scope="module")
def filled(service: Service) -> Tenant:
    made = service.create_tenant()
    for number, text in enumerate(TEXTS):
        assert made.add_text(text, metadata={"number": number})["status"] == "ready"
    return made


def search(tenant: Tenant, path: str = f"{KB}/search", **body: Any) -> dict[str, Any]:
    reply = tenant.admin.post(path, json={"query": "transporter", "explain": True, "timeout_seconds": 30, **body})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def shown(tenant: Tenant, **body: Any) -> tuple[str, dict[str, Any], list[tuple[str, float]]]:
    found = search(tenant, **body)
    hits = [(hit["text"], hit["score"]) for hit in found["results"]]
    return found["strategy"], found["explain"]["strategy_options"], hits


@pytest.mark.capability("alias-equal")
@pytest.mark.parametrize(
    ("aliased", "main"),
    [
        ({"strategy_options": {"fusion": "linear"}}, {"strategy_options": {"fusion": "weighted"}}),
        ({"strategy_options": {"fusion": "rrf"}}, {"strategy_options": {"fusion": "rrf"}}),
        ({"strategy_options": {"sparse_weight": 0.9}}, {"strategy_options": {"dense_weight": 0.1}}),
        ({"strategy_options": {"sparse_weight": None}}, {}),
        ({"strategy_options": {"vectorWeight": 0.7}}, {"strategy_options": {"dense_weight": 0.7}}),
        ({"strategy_options": {"lane_multiplier": 3}}, {"strategy_options": {"candidate_multiplier": 3}}),
        ({"strategy_options": {"sparse_encoder": "bm25", "similarity": "cosine", "distance": "Cosine"}}, {}),
        (
            {"strategy_options": {"sparse_weight": 0.3, "dense_weight": 0.7}},
            {"strategy_options": {"dense_weight": 0.7}},
        ),
        (
            {"fusion": "linear", "sparse_weight": 0.3, "lane_multiplier": 2, "sparse_encoder": "BM25"},
            {"strategy_options": {"fusion": "weighted", "dense_weight": 0.7, "candidate_multiplier": 2}},
        ),
        (
            {"sparse_weight": 0.3, "strategy_options": {"fusion": "rrf"}},
            {"strategy_options": {"fusion": "rrf", "dense_weight": 0.7}},
        ),
        ({"similarity": "cosine", "distance": None}, {}),
        ({"strategy": "similarity"}, {"strategy": "dense"}),
        ({"method": "similarity"}, {"strategy": "dense"}),
        ({"method": "hybrid"}, {"strategy": "hybrid"}),
        ({"k": 1}, {"top_k": 1}),
        ({"topK": 1, "top_k": 1}, {"top_k": 1}),
        ({"scoreThreshold": 0.99}, {"score_threshold": 0.99}),
        ({"metadata_filters": {"number": 1}}, {"filter": {"number": 1}}),
        ({"query_transformers": []}, {"transformers": []}),
    ],
    ids=str,
)
def test_search_with_alias_equals_search_with_main_name(
    filled: Tenant, aliased: dict[str, Any], main: dict[str, Any]
) -> None:
    assert shown(filled, **aliased) == shown(filled, **main)


def test_search_over_several_knowledge_bases_takes_aliases(filled: Tenant) -> None:
    found = search(filled, "/v1/search", topK=1, returnVectors=True, sparse_weight=0.75)
    assert len(found["results"]) == 1
    assert found["results"][0]["vector"]
    assert found["explain"]["knowledge_bases"][0]["strategy_options"]["dense_weight"] == 0.25


@pytest.mark.capability("alias-timeout")
@pytest.mark.parametrize(
    "body", [{"retrieval_timeout": 20}, {"strategy_options": {"retrieval_timeout": 20.0}}], ids=str
)
def test_retrieval_timeout_is_timeout_of_search(filled: Tenant, body: dict[str, Any]) -> None:
    plain = {"query": "transporter", **body}
    assert filled.admin.post(f"{KB}/search", json=plain).status_code == 200
    assert filled.admin.post(f"{KB}/search", json={**plain, "timeout_seconds": 20}).status_code == 200
    problem = assert_problem(filled.admin.post(f"{KB}/search", json={**plain, "timeout_seconds": 19}), 422, "invalid")
    assert "retrieval_timeout and timeout_seconds have different values" in problem["errors"][0]["msg"]
    late = filled.admin.post(f"{KB}/search", json={"query": "x", "retrieval_timeout": 61})
    assert assert_problem(late, 422, "invalid")["errors"][0]["loc"] == ["body", "timeout_seconds"]


REFUSED: list[tuple[dict[str, Any], list[str], str]] = [
    ({"similarity": "l2"}, ["similarity"], "use one of cosine"),
    ({"distance": "Euclid"}, ["distance"], "use one of cosine"),
    ({"sparse_encoder": "splade"}, ["sparse_encoder"], "use one of bm25"),
    ({"similarity": ["cosine"]}, ["similarity"], "use one of cosine"),
    ({"sparse_weight": 1.5}, ["sparse_weight"], "a number from 0 to 1"),
    ({"sparse_weight": True}, ["sparse_weight"], "a number from 0 to 1"),
    ({"strategy_options": {"similarity": "l2"}}, ["strategy_options", "similarity"], "use one of cosine"),
    ({"strategy_options": {"sparse_encoder": "splade"}}, ["strategy_options", "sparse_encoder"], "use one of bm25"),
    (
        {"strategy_options": {"sparse_weight": 0.3, "dense_weight": 0.3}},
        ["strategy_options", "sparse_weight"],
        "sparse_weight and dense_weight have different values",
    ),
    ({"strategy_options": {"vectorWeight": 0.3, "sparse_weight": 0.3}}, ["strategy_options", "vectorWeight"], "differ"),
    ({"query_transformers": [], "transformers": ["reformulate"]}, ["query_transformers"], "different values"),
    ({"method": "rerank"}, ["method"], "use one of similarity, hybrid"),
]


@pytest.mark.capability("alias-refused")
@pytest.mark.parametrize(("body", "loc", "message"), REFUSED, ids=str)
@pytest.mark.parametrize("place", ["search", "answer", "create", "patch", "agent", "agent patch"])
def test_alias_that_cannot_be_honoured_is_refused(
    filled: Tenant, body: dict[str, Any], loc: list[str], message: str, place: str
) -> None:
    settings = {"strategy": "hybrid", **body} if "method" not in body else body
    admin = filled.admin
    replies = {
        "search": lambda: admin.post(f"{KB}/search", json={"query": "x", **settings}),
        "answer": lambda: admin.post("/v1/answer", json={"query": "x", **settings}),
        "create": lambda: admin.post("/v1/knowledge-bases", json={"name": "refused", "retrieval": settings}),
        "patch": lambda: admin.patch(KB, json={"retrieval": settings}),
        "agent": lambda: admin.put("/v1/agents/refused", json={"knowledge_bases": ["default"], **settings}),
        "agent patch": lambda: admin.patch("/v1/agents/refused", json=settings),
    }
    problem = assert_problem(replies[place](), 422, "invalid")
    prefix = ["body", "retrieval"] if place in ("create", "patch") else ["body"]
    (error,) = problem["errors"]
    assert error["loc"] == [*prefix, *loc]
    assert message in error["msg"]


def test_unknown_names_are_still_refused(filled: Tenant) -> None:
    for body in ({"sparse_wait": 0.4}, {"hybrid": {"sparse_weight": 0.4}}):
        reply = filled.admin.post(f"{KB}/search", json={"query": "x", **body})
        assert assert_problem(reply, 422, "invalid")["errors"][0]["loc"] == ["body", *body]
    reply = filled.admin.post(f"{KB}/search", json={"query": "x", "strategy": "dense", "sparse_weight": 0.4})
    assert reply.json()["errors"][0]["loc"] == ["body", "strategy_options", "dense_weight"]
    reply = filled.admin.post(f"{KB}/search", json={"query": "x", "strategy_options": [], "sparse_weight": 0.4})
    assert reply.json()["errors"][0]["loc"] == ["body", "strategy_options"]


async def read_stored(tenant: Tenant, kb_id: str) -> dict[str, Any]:
    connection = await asyncpg.connect(tenant.service.urls.owner)
    stored = await connection.fetchval("select retrieval from knowledge_base where id = $1", decode_id("kb", kb_id))
    await connection.close()
    found: dict[str, Any] = json.loads(stored)
    return found


@pytest.mark.capability("alias-stored")
async def test_knowledge_base_stores_main_names(service: Service, tenant: Tenant) -> None:
    given = {
        "method": "hybrid", "k": 7, "query_transformers": ["decompose"], "similarity": "cosine",
        "sparse_encoder": "bm25", "strategy_options": {"fusion": "linear", "sparse_weight": 0.4},
    }  # fmt: skip
    made = tenant.admin.post("/v1/knowledge-bases", json={"name": "ported", "retrieval": given})
    assert made.status_code == 201, made.text
    wanted: dict[str, Any] = {
        "strategy": "hybrid", "top_k": 7, "strategy_options": {"fusion": "weighted", "dense_weight": 0.6},
    }  # fmt: skip
    shown_settings = made.json()["retrieval"]
    assert [one["name"] for one in shown_settings.pop("transformers")] == ["decompose"]
    assert shown_settings == wanted
    stored = await read_stored(tenant, made.json()["id"])
    assert {name: stored[name] for name in wanted} == wanted
    assert not {alias.name for alias in ALIASES if alias.name != "fusion"} & stored.keys()
    path = "/v1/knowledge-bases/ported"
    kept = tenant.admin.patch(path, json={"retrieval": {"topK": 9}}).json()["retrieval"]
    assert (kept["top_k"], kept["strategy_options"]) == (9, wanted["strategy_options"])
    change = {"strategy": "hybrid", "sparse_weight": 0.9, "lane_multiplier": 4, "query_transformers": None}
    changed = tenant.admin.patch(path, json={"retrieval": change}).json()["retrieval"]
    options = {"dense_weight": 0.1, "candidate_multiplier": 4}
    assert changed == {"strategy": "hybrid", "top_k": 9, "strategy_options": options}
    assert (await read_stored(tenant, made.json()["id"]))["strategy_options"] == options
    for name in ("retrieval_timeout", "metadata_filters", "scoreThreshold"):
        problem = assert_problem(tenant.admin.patch(path, json={"retrieval": {name: 1}}), 422, "invalid")
        assert problem["errors"][0]["loc"] == ["body", "retrieval", name]
        assert "which this object does not have" in problem["errors"][0]["msg"]


@pytest.mark.capability("alias-stored")
def test_agent_binding_stores_main_names(filled: Tenant) -> None:
    given = {
        "knowledge_bases": ["default"], "strategy": "hybrid", "sparse_weight": 0.4, "fusion": "linear",
        "query_transformers": ["hyde"], "metadata_filters": {"number": 0}, "retrieval_timeout": 4, "topK": 3,
        "similarity": "cosine",
    }  # fmt: skip
    made = filled.admin.put("/v1/agents/ported", json=given)
    assert made.status_code == 201, made.text
    agent = filled.admin.get("/v1/agents/ported").json()
    assert (agent["strategy"], agent["strategy_options"]) == ("hybrid", {"fusion": "weighted", "dense_weight": 0.6})
    assert ([one["name"] for one in agent["transformers"]], agent["filter"]) == (["hyde"], {"number": 0})
    assert (agent["timeout_seconds"], agent["top_k"]) == (4.0, 3)
    patched = filled.admin.patch("/v1/agents/ported", json={"method": "similarity", "k": 2}).json()
    assert (patched["strategy"], patched["strategy_options"], patched["top_k"]) == ("dense", {}, 2)
    asked = {"agent_id": "ported", "messages": [{"role": "user", "content": "transporter"}]}
    assert filled.admin.post("/v1/agent-search", json=asked).json() == [TEXTS[0]]


def write_reply(answer: str) -> Any:
    return lambda talk: json.dumps({"numbers": [1]}) if "answer" in json.loads(talk.last_message) else answer


@pytest.mark.capability("alias-answer")
def test_answer_takes_aliases(talking: Service, running_chat: ChatServer) -> None:
    running_chat.reset()
    running_chat.reply = write_reply("Ninety euros.")
    tenant = talking.create_tenant()
    for text in TEXTS:
        tenant.add_text(text)
    body = {"query": "transporter", "stream": False, "explain": True, "query_transformers": []}
    found = tenant.admin.post(
        "/v1/answer", json={**body, "topK": 1, "sparse_weight": 0.9, "sparse_encoder": "bm25", "retrieval_timeout": 30}
    )
    assert found.status_code == 200, found.text
    assert found.json()["explain"]["knowledge_bases"][0]["strategy_options"]["dense_weight"] == 0.1
    assert len(found.json()["sources"]) == 1


async def test_answer_of_agent_with_removed_strategy_uses_default(talking: Service, running_chat: ChatServer) -> None:
    running_chat.reset()
    running_chat.reply = write_reply("Ninety euros.")
    tenant = talking.create_tenant()
    tenant.admin.patch(KB, json={"retrieval": {"strategy": "lexical"}}).raise_for_status()
    tenant.add_text(TEXTS[0])
    made = tenant.admin.put("/v1/agents/agt", json={"knowledge_bases": ["default"], "strategy": "lexical"}).json()
    body = {"query": "transporter", "stream": False, "explain": True, "transformers": [], "agent_id": "agt"}
    plug_in = '{"strategy": "plug-in", "strategy_options": {"depth": 1}}'
    missing = warning_json(
        "strategy_unavailable", "The strategy 'plug-in' of the agent is not installed, so hybrid was used instead."
    )
    invalid = warning_json(
        "strategy_options_ignored",
        "The options of the strategy 'hybrid' of the agent are no longer valid and were ignored.",
    )
    stored_settings = [(plug_in, missing), ('{"strategy": "hybrid", "strategy_options": {"gone": 1}}', invalid)]
    connection = await asyncpg.connect(tenant.service.urls.owner)
    for stored, warning in stored_settings:
        where = "update agent_binding set settings = $1::jsonb where id = $2"
        await connection.execute(where, stored, decode_id("bnd", made["id"]))
        found = tenant.admin.post("/v1/answer", json=body).json()
        assert found["strategy"] == "hybrid"
        assert warning in found["warnings"]
        assert [source["text"] for source in found["sources"]] == [TEXTS[0]]
    await connection.execute(where, plug_in, decode_id("bnd", made["id"]))
    await connection.close()
    assert tenant.admin.post("/v1/answer", json={**body, "strategy_options": {"depth": 2}}).status_code == 200
    own = tenant.admin.post("/v1/answer", json={**body, "strategy": "lexical"}).json()
    assert own["strategy"] == "lexical"


def test_options_of_plugin_strategy_are_no_aliases(plugins: Plugins, filled: Tenant) -> None:
    load_strategies.cache_clear()
    plugins.add("s_mine", PLUGIN, strategies={"s_mine": "s_mine:STRATEGY"})
    options = {"similarity": "l2", "sparse_weight": 0.25}
    try:
        name, used, _ = shown(filled, strategy="mine", strategy_options=options)
        assert (name, used) == ("mine", options)
        assert shown(filled, strategy="hybrid", strategy_options={"sparse_weight": 0.25})[1]["dense_weight"] == 0.75
    finally:
        load_strategies.cache_clear()


@pytest.mark.capability("candidates")
def test_candidate_multiplier_raises_candidates_of_retrievers(tenant: Tenant) -> None:
    """Rank by words alone. Both retrievers know all results only if each returns more than the default of 100."""
    chunks = [{"text": f"The harbor has berth {number} and {'a crane ' * (number % 7)}"} for number in range(160)]
    made = tenant.admin.post(f"{KB}/documents", params={"wait": 60}, json={"title": "Berths", "chunks": chunks})
    assert made.json()["status"] == "ready", made.text

    def count_known_to_both(**options: Any) -> int:
        options = {"fusion": "rrf", "dense_weight": 0, **options}
        hits = search(tenant, query="harbor", top_k=60, strategy_options=options)["results"]
        assert len(hits) == 60
        return sum({rank["retriever"] for rank in hit["ranks"]} == {"dense", "lexical"} for hit in hits)

    assert count_known_to_both() < 60
    assert count_known_to_both(candidate_multiplier=1) == count_known_to_both()
    assert count_known_to_both(lane_multiplier=3) == 60


def test_candidate_multiplier_limits_are_checked(filled: Tenant) -> None:
    for value in (0, 101, "x"):
        body = {"query": "x", "strategy_options": {"lane_multiplier": value}}
        problem = assert_problem(filled.admin.post(f"{KB}/search", json=body), 422, "invalid")
        assert problem["errors"][0]["loc"] == ["body", "strategy_options", "candidate_multiplier"]


@pytest.mark.capability("transformers-phase")
def test_capabilities_show_phase_of_transformers(filled: Tenant) -> None:
    listed = filled.admin.get("/v1/capabilities").json()["transformers"]
    phases = {one["name"]: one["phase"] for one in listed}
    assert {name for name, phase in phases.items() if phase == "fan_out"} == {"multi_query", "hyde", "decompose"}
    assert set(phases.values()) == {"rewrite", "fan_out"}


def test_no_alias_hides_a_field() -> None:
    models: list[type[AliasedRequestModel]] = [
        KnowledgeBaseSearchRequest, MultiSearchRequest, KnowledgeBaseAnswerRequest, MultiAnswerRequest,
        RetrievalSettingsRequest, RetrievalSettingsUpdate, AgentBindingRequest, AgentBindingUpdate,
    ]  # fmt: skip
    names = {alias.name for alias in ALIASES}
    assert len(names) == len(ALIASES)
    for model in models:
        assert not names & model.model_fields.keys(), model
