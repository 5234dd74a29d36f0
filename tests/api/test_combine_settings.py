"""``combine`` and ``collapse`` in answers and in agents' searches, and as settings of knowledge bases and agents."""

from collections.abc import Iterator
from typing import Any

import pytest

from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.answers import Writer
from tests.api.problems import assert_problem
from tests.api.test_combine import QUERIES, TEXTS

MESSAGES = [
    {"role": "customer", "content": QUERIES[1]},
    {"role": "agent", "content": "Certainly."},
    {"role": "customer", "content": QUERIES[2]},
]
NOTICE = "The oven of the bakery is closed."
UNDERSTOOD = {"query": QUERIES[0], "analysis": "", "indices_of_related_messages": []}


@pytest.fixture(scope="module")
def talking(
    running_chat: ChatServer, make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    models = {"CARREL_CHAT_BASE_URL": running_chat.base_url, "CARREL_CHAT_MODEL": "talker"}
    with run_service(build_settings(tmp_path_factory.mktemp("talking"), models=models), make_database()) as running:
        running_chat.reset()
        running_chat.reply = Writer(understood=UNDERSTOOD)
        yield running


def fill(service: Service) -> Tenant:
    tenant = service.create_tenant("combining")
    for text in TEXTS:
        tenant.add_text(text)
    for number in range(3):
        tenant.add_text(NOTICE + " " * number)
    return tenant


@pytest.fixture(scope="module")
def shelf(talking: Service) -> Tenant:
    return fill(talking)


@pytest.fixture(scope="module")
def library(service: Service) -> Tenant:
    """Create a tenant of a service without a chat model, in which a conversation becomes two queries."""
    return fill(service)


def post(tenant: Tenant, path: str, **body: Any) -> Any:
    reply = tenant.admin.post(path, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def list_scores(items: list[dict[str, Any]]) -> list[tuple[str, float]]:
    return [(item["chunk_id"], item["score"]) for item in items]


def set_retrieval(tenant: Tenant, kb: str = "default", **settings: Any) -> None:
    reply = tenant.admin.patch(f"/v1/knowledge-bases/{kb}", json={"retrieval": settings})
    assert reply.status_code == 200, reply.text
    assert reply.json()["retrieval"].get("combine") == settings["combine"]


@pytest.mark.parametrize("path", ["/v1/answer", "/v1/knowledge-bases/default/answer"])
@pytest.mark.parametrize("combine", ["best", "sum"])
def test_answer_combines_queries_as_the_search(shelf: Tenant, path: str, combine: str) -> None:
    fields = {"queries": QUERIES, "combine": combine, "top_k": 8, "transformers": []}
    found = post(shelf, path.replace("answer", "search"), **fields)["results"]
    sources = post(shelf, path, stream=False, **fields)["sources"]
    assert list_scores(sources) == list_scores(found)
    other = {**fields, "combine": "best" if combine == "sum" else "sum"}
    assert list_scores(found) != list_scores(post(shelf, path.replace("answer", "search"), **other)["results"])


def test_answer_with_collapse_has_distinct_sources(shelf: Tenant) -> None:
    fields = {"query": NOTICE, "transformers": [], "top_k": 5, "stream": False}
    sources = post(shelf, "/v1/answer", collapse=True, **fields)["sources"]
    assert [source["duplicate_count"] for source in sources] == [2, 0, 0, 0, 0]
    sources = post(shelf, "/v1/answer", **fields)["sources"]
    assert sum(source["text"].strip() == NOTICE for source in sources) == 3


@pytest.mark.capability("search-combine-stored")
@pytest.mark.parametrize("combine", ["best", "sum"])
def test_combine_of_knowledge_base_is_default_of_its_searches(shelf: Tenant, combine: str) -> None:
    fields = {"queries": QUERIES, "top_k": 8, "explain": True}
    path = "/v1/knowledge-bases/default/search"
    try:
        set_retrieval(shelf, combine=combine)
        stored = post(shelf, path, **fields)
        answered = post(shelf, "/v1/knowledge-bases/default/answer", stream=False, transformers=[], **fields)
        overridden = {name: post(shelf, path, combine=name, **fields) for name in ("best", "sum")}
    finally:
        set_retrieval(shelf, combine=None)
    requested = {name: post(shelf, path, combine=name, **fields) for name in ("best", "sum")}
    assert list_scores(stored["results"]) == list_scores(requested[combine]["results"])
    assert list_scores(answered["sources"]) == list_scores(requested[combine]["results"])
    for name in ("best", "sum"):
        assert list_scores(overridden[name]["results"]) == list_scores(requested[name]["results"])
    assert stored["explain"]["knowledge_bases"][0]["combine"] == combine
    assert "combine" not in post(shelf, path, **fields)["explain"]["knowledge_bases"][0]


def test_combine_of_each_knowledge_base_applies_in_several(service: Service) -> None:
    tenant = service.create_tenant("combining-several")
    for kb, combine in (("first", "best"), ("second", "sum")):
        tenant.admin.post("/v1/knowledge-bases", json={"name": kb, "retrieval": {"combine": combine}})
        for text in TEXTS:
            tenant.add_text(f"{text} It is in the {kb}.", kb=kb)
    fields = {"queries": QUERIES, "top_k": 50, "explain": True}
    found = post(tenant, "/v1/search", knowledge_bases=["first", "second"], **fields)
    shown = {item["knowledge_base"]: item["combine"] for item in found["explain"]["knowledge_bases"]}
    assert shown == {"first": "best", "second": "sum"}
    for kb in ("first", "second"):
        alone = post(tenant, f"/v1/knowledge-bases/{kb}/search", **fields)["results"]
        of_kb = [item["chunk_id"] for item in found["results"] if item["knowledge_base"] == kb]
        assert of_kb == [item["chunk_id"] for item in alone]


@pytest.mark.parametrize("combine", ["best", "sum", None])
def test_combine_of_agent_applies_to_its_searches(library: Tenant, combine: str | None) -> None:
    body = {"knowledge_bases": ["default"], "top_k": 8, "combine": combine}
    bound = library.admin.put("/v1/agents/agt_combining", json=body).json()
    assert (bound["combine"], bound["collapse"]) == (combine, False)
    found = post(library, "/v1/search", knowledge_bases=["default"], messages=MESSAGES, top_k=8, combine=combine)
    texts = [result["text"] for result in found["results"]]
    assert post(library, "/v1/agent-search", agent_id="agt_combining", messages=MESSAGES) == texts
    others = [
        [result["text"] for result in post(library, "/v1/search", messages=MESSAGES, top_k=8, combine=name)["results"]]
        for name in ("best", "sum")
    ]
    assert others[0] != others[1]


def test_collapse_of_agent_merges_identical_passages(library: Tenant) -> None:
    body = {"knowledge_bases": ["default"], "top_k": 4}
    for collapse, count in ((None, 3), (True, 1)):
        library.admin.put("/v1/agents/agt_collapsing", json={**body, "collapse": collapse}).raise_for_status()
        messages = [{"role": "customer", "content": NOTICE}]
        texts = post(library, "/v1/agent-search", agent_id="agt_collapsing", messages=messages)
        assert len(texts) == 4
        assert sum(text.strip() == NOTICE for text in texts) == count


def test_combine_of_agent_applies_to_its_answers(shelf: Tenant) -> None:
    shelf.admin.put("/v1/agents/agt_answering", json={"knowledge_bases": ["default"], "combine": "best"})
    fields = {"queries": QUERIES, "top_k": 8, "transformers": [], "stream": False}
    sources = post(shelf, "/v1/answer", agent_id="agt_answering", **fields)["sources"]
    assert list_scores(sources) == list_scores(post(shelf, "/v1/answer", combine="best", **fields)["sources"])


def test_combine_unknown_setting_is_422(library: Tenant) -> None:
    body = {"retrieval": {"combine": "worst"}}
    assert_problem(library.admin.patch("/v1/knowledge-bases/default", json=body), 422, "invalid")
    binding = {"knowledge_bases": ["default"], "combine": "worst"}
    assert_problem(library.admin.put("/v1/agents/agt_x", json=binding), 422, "invalid")
