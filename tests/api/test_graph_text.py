"""The text of the graph (``subgraph: "text"``): searches, agents, MCP and answers, and serializers of plugins."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from app.graph.serializers import load_serializers
from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer
from harness.running_service import Tenant, build_settings, run_service
from tests.api.answers import Writer
from tests.api.problems import assert_problem
from tests.fixtures.mcp import McpClient, mcp_client
from tests.fixtures.plugins import Plugins

KB = "/v1/knowledge-bases/default"
QUESTION = "In which town was the composer of the music of Shakespeare in Love born?"
COMPOSED = {"subject": "Stephen Warbeck", "predicate": "composed the music of", "object": "Shakespeare in Love"}
FILM = {
    "text": "The music of the film Shakespeare in Love was composed by Stephen Warbeck.",
    "relations": [COMPOSED],
}
COMPOSER = "Stephen Warbeck keeps bees behind a cottage near Southampton."
LINES = [
    "Connections between the passages:",
    "- Stephen Warbeck composed the music of Shakespeare in Love (Films).",
    "- Stephen Warbeck is named in: Films; Bees.",
]
TEXT = {"subgraph": "text", "graph_weight": 1.0}
FILLERS = [f"A town has a music school where {number} composers of love songs were taught." for number in range(40)]
PLUGINS = '''
"""Serializers of a test."""

import threading

from carrel.plugins.graph_serializers import GraphSerializer


def shout(graph):
    return "NAMES\\r\\n---\\r\\n" + " ".join(name.name.upper() for name in graph.names) + "!" * 9000


def fail(graph):
    raise RuntimeError("a secret of " + graph.names[0].name)


def wait(graph):
    threading.Event().wait(3)


shouting = GraphSerializer("shout", "Capitals.", shout)
failing = GraphSerializer("fail", "An error.", fail)
def leave(graph):
    raise SystemExit(3)


leaving = GraphSerializer("leave", "The end of the process.", leave)
stopping = GraphSerializer("stop", "An empty iterator.", lambda graph: next(iter(())))
waiting = GraphSerializer("wait", "Nothing in time.", wait)
numeric = GraphSerializer("numeric", "No text.", lambda graph: 7)
silent = GraphSerializer("silent", "An empty text.", lambda graph: "")
'''


@pytest.fixture(scope="module")
def films(
    running_chat: ChatServer, make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tenant]:
    """Films, bees and fillers, in a service with the plugin."""
    folder = tmp_path_factory.mktemp("plugins")
    entries = {
        name: f"graph_texts:{name}"
        for name in ("shouting", "failing", "leaving", "stopping", "waiting", "numeric", "silent")
    }
    Plugins(folder).add("graph_texts", PLUGINS, graph_serializers=entries)
    settings = build_settings(
        tmp_path_factory.mktemp("data"),
        models={"CARREL_CHAT_BASE_URL": running_chat.base_url, "CARREL_CHAT_MODEL": "talker"},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        load_serializers.cache_clear()
        with run_service(settings, make_database()) as running:
            tenant = running.create_tenant("films")
            fill(tenant)
            yield tenant
    load_serializers.cache_clear()


def fill(tenant: Tenant) -> None:
    body = {"title": "Films", "chunks": [FILM]}
    tenant.admin.post(f"{KB}/documents", params={"wait": 60}, json=body).raise_for_status()
    assert tenant.add_text(COMPOSER, title="Bees")["status"] == "ready"
    for text in FILLERS:
        tenant.add_text(text)


def search(tenant: Tenant, **body: Any) -> dict[str, Any]:
    options = {**TEXT, **body.pop("options", {})}
    request = {"query": QUESTION, "strategy": "graph_rag", "strategy_options": options, "top_k": 6, **body}
    reply = tenant.admin.post(f"{KB}/search", json=request)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def codes(reply: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in reply["warnings"]]


@pytest.mark.capability("graph-text")
def test_search_text_counts_as_a_result(films: Tenant) -> None:
    found = search(films)
    whole = search(films, options={"subgraph": "entities"})
    assert len(whole["results"]) == 6
    assert "text" not in whole["graph"]
    assert found["results"] == whole["results"][:5]
    assert found["graph"]["text"].splitlines() == LINES
    assert codes(found) == []


def test_single_result_has_no_text(films: Tenant) -> None:
    found = search(films, top_k=1)
    assert len(found["results"]) == 1
    assert "text" not in found["graph"]


def test_search_without_connections_has_no_text(films: Tenant) -> None:
    found = search(films, query="zzz unknown words", top_k=5)
    assert len(found["results"]) == 5
    assert "text" not in found.get("graph", {})


@pytest.mark.capability("graph-text-json")
def test_json_text_has_names_and_relations(films: Tenant) -> None:
    text = json.loads(search(films, options={"serializer": "json"})["graph"]["text"])
    assert text["relations"] == [{**COMPOSED, "document": "Films"}]
    assert {"name": "Stephen Warbeck", "kind": "given", "type": None, "documents": ["Films", "Bees"]} in text["names"]


def test_plugin_text_is_cut(films: Tenant) -> None:
    text = search(films, options={"serializer": "shout"})["graph"]["text"]
    assert text.startswith("NAMES")
    assert "STEPHEN WARBECK" in text
    assert len(text) == 4000


@pytest.mark.capability("graph-text-failure")
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("fail", "RuntimeError"),
        ("wait", "TimeoutError"),
        ("leave", "RuntimeError"),
        ("stop", "StopIteration"),
        ("numeric", "Attr"),
    ],
)
def test_failing_serializer_leaves_all_results_and_a_warning(films: Tenant, name: str, error: str) -> None:
    found = search(films, options={"serializer": name})
    assert len(found["results"]) == 6
    assert "text" not in found["graph"]
    assert codes(found) == ["graph_serializer_failed"]
    assert error in found["warnings"][0]["message"]
    assert "secret" not in json.dumps(found["warnings"])


def test_empty_text_takes_no_place(films: Tenant) -> None:
    found = search(films, options={"serializer": "silent"})
    assert (len(found["results"]), codes(found)) == (6, [])


def test_unknown_serializer_is_422_with_known_names(films: Tenant) -> None:
    body = {"query": "x", "strategy": "graph_rag", "strategy_options": {"serializer": "yaml"}}
    problem = assert_problem(films.admin.post(f"{KB}/search", json=body), 422, "invalid")
    assert "fail, json, leave, numeric, shout, silent, stop, text, wait" in json.dumps(problem)


@pytest.mark.capability("graph-text-listed")
def test_capabilities_list_serializers(films: Tenant) -> None:
    listed = films.admin.get("/v1/capabilities").json()["graph_serializers"]
    assert [one["name"] for one in listed][:2] == ["text", "json"]
    assert {one["name"]: one["description"] for one in listed}["shout"] == "Capitals."


def ask_agent(tenant: Tenant, options: dict[str, Any], **settings: Any) -> list[str]:
    binding = {"knowledge_bases": ["default"], "strategy": "graph_rag", "strategy_options": options, **settings}
    tenant.admin.put("/v1/agents/walker", json=binding).raise_for_status()
    messages = [{"role": "customer", "content": QUESTION}]
    reply = tenant.admin.post("/v1/agent-search", json={"agent_id": "walker", "messages": messages, "top_k": 6})
    assert reply.status_code == 200, reply.text
    texts: list[str] = reply.json()
    return texts


@pytest.mark.capability("graph-text-agents")
def test_agent_search_returns_text_first(films: Tenant) -> None:
    plain, found = ask_agent(films, {"graph_weight": 1.0}), ask_agent(films, TEXT)
    assert len(plain) == len(found) == 6
    assert found[0].splitlines() == LINES
    assert found[1:] == plain[:5]


def test_agent_search_cuts_text_and_replaces_its_rules(films: Tenant) -> None:
    options = {**TEXT, "serializer": "shout"}
    text = ask_agent(films, options, max_snippet_chars=50, citations="prefix")[0]
    assert text.startswith("NAMES\r\n\u2014\r\n")
    assert len(text) <= 50


@pytest.fixture
def mcp() -> Iterator[McpClient]:
    with mcp_client() as client:
        yield client


@pytest.mark.capability("graph-text-mcp")
def test_mcp_search_has_connections_first(films: Tenant, mcp: McpClient) -> None:
    retrieval = {"strategy": "graph_rag", "strategy_options": TEXT}
    films.admin.patch(KB, json={"retrieval": retrieval}).raise_for_status()
    try:
        found = mcp.of(films).call("search_knowledge", query=QUESTION, top_k=6, knowledge_bases=["default"])
    finally:
        films.admin.patch(KB, json={"retrieval": {"strategy": "hybrid", "strategy_options": {}}}).raise_for_status()
    assert found["connections"].splitlines() == LINES
    assert len(found["results"]) == 5


@pytest.mark.capability("graph-text-answers")
def test_answer_prompt_has_connections_that_are_no_source(films: Tenant, running_chat: ChatServer) -> None:
    running_chat.reset()
    running_chat.reply = Writer(answer="In Southampton.", numbers=[1])
    body = {
        "query": QUESTION, "stream": False, "strategy": "graph_rag", "strategy_options": TEXT, "top_k": 6,
    }  # fmt: skip
    reply = films.admin.post(f"{KB}/answer", json=body)
    assert reply.status_code == 200, reply.text
    material = json.loads(running_chat.text_requests[0].last_message)
    assert material["connections"].splitlines() == LINES
    assert len(material["sources"]) == len(reply.json()["sources"]) == 5
    assert [citation["document"]["title"] for citation in reply.json()["citations"]] == ["Films"]


@pytest.mark.capability("graph-text-rights")
def test_answer_without_room_for_the_text_has_a_warning(films: Tenant, running_chat: ChatServer) -> None:
    running_chat.reset()
    running_chat.reply = Writer(answer="In Southampton.", numbers=[1])
    options = {**TEXT, "serializer": "shout"}
    body = {"query": QUESTION, "stream": False, "strategy": "graph_rag", "strategy_options": options, "top_k": 6}
    reply = films.admin.post(f"{KB}/answer", json={**body, "max_context_tokens": 1000})
    assert reply.status_code == 200, reply.text
    assert codes(reply.json()) == ["graph_text_omitted"]
    assert "connections" not in json.loads(running_chat.text_requests[0].last_message)


def test_text_names_nothing_that_the_caller_cannot_read(films: Tenant) -> None:
    films.add_text("Stephen Warbeck has a secret garden.", title="Diary of Alice", user_id="alice")
    alice = films.create_client("reader", user_id="alice")
    body = {"query": "Stephen Warbeck", "strategy": "graph_rag", "strategy_options": TEXT, "top_k": 6}
    texts = [
        client.post(f"{KB}/search", json={**body, "scope": scope}).json()["graph"]["text"]
        for client, scope in ((films.admin, {}), (films.create_client("reader", user_id="bob"), {"user_id": "bob"}))
    ]
    assert not any("Diary" in text for text in texts)
    own = alice.post(f"{KB}/search", json={**body, "scope": {"user_id": "alice"}}).json()["graph"]["text"]
    assert "Diary of Alice" in own
