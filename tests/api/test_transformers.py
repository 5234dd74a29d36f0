"""Conversations rewritten by a chat model: the resulting queries, and failures of the model."""

import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import httpx2
import pytest

from app.ids import decode_id
from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatFailure, ChatServer, ReceivedTextRequest
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.fixtures.service_warnings import warning_json

TEXTS = {
    "vans": "A transporter costs ninety euros a day.",
    "bikes": "A bicycle costs twelve euros.",
    "leave": "Parental leave lasts fourteen weeks.",
}
TALK = [
    {"role": "customer", "content": "Do you rent out transporters?"},
    {"role": "agent", "content": "Yes, by the day."},
    {"role": "customer", "content": "And what do they charge for that thing?"},
]
FALLBACK = [TALK[2]["content"], f"{TALK[0]['content']}\n{TALK[2]['content']}"]
STANDALONE = "transporter ninety euros a day"
UNDERSTOOD = {"query": STANDALONE, "analysis": "The price of a transporter.", "indices_of_related_messages": [0, 2]}
FAILED = warning_json("chat_model_unavailable", "The chat model did not answer, so reformulate ran without it.")
ALONE = "/v1/knowledge-bases/default/search"


@pytest.fixture(scope="module")
def talking(
    running_chat: ChatServer, make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """Service with a chat model and a long timeout, because failures follow each other."""
    with EmbeddingServer() as embedding:
        settings = build_settings(
            tmp_path_factory.mktemp("rewriting"),
            embedding=embedding.settings,
            models={
                "CARREL_CHAT_BASE_URL": running_chat.base_url,
                "CARREL_CHAT_MODEL": "talker",
                "CARREL_REWRITE_MODEL": "rewriter",
            },
        )
        with run_service(settings, make_database()) as running:
            yield running


@pytest.fixture(scope="module")
def tenant(talking: Service) -> Tenant:
    made = talking.create_tenant()
    for name, text in TEXTS.items():
        assert made.add_text(text, external_id=name)["status"] == "ready"
    return made


@pytest.fixture
def chat(running_chat: ChatServer) -> ChatServer:
    """Chat model that summarizes conversations, and adds an ending to every other query."""
    running_chat.reset()
    running_chat.delay_seconds = 0.0
    running_chat.reply = understands
    return running_chat


def understands(talk: ReceivedTextRequest) -> str:
    material = json.loads(next(one["content"] for one in talk.messages if one["role"] == "user"))
    if "conversation" in material:
        return json.dumps(UNDERSTOOD)
    return json.dumps({"texts": [f"{material['query']} again", f"{material['query']} once more"]})


def ask(client: httpx2.Client, path: str = ALONE, **body: Any) -> dict[str, Any]:
    reply = client.post(path, json={"messages": TALK, "timeout_seconds": 30, **body})
    assert reply.status_code == 200, reply.text
    steps = [step.partition(";")[0] for step in reply.headers["Server-Timing"].split(", ")]
    found: dict[str, Any] = reply.json()
    assert ("rewrite" in steps) == ("rewrite" in found["timings_ms"])
    return found


@pytest.mark.capability("talk-reformulate")
@pytest.mark.parametrize("path", [ALONE, "/v1/search"])
def test_conversation_is_searched_by_reformulated_query(tenant: Tenant, chat: ChatServer, path: str) -> None:
    found = ask(tenant.admin, path, explain=True)
    assert (found["queries"], found["warnings"]) == ([STANDALONE], [])
    assert found["results"][0]["text"] == TEXTS["vans"]
    assert "rewrite" in found["timings_ms"]
    assert found["explain"]["transformers"] == ["reformulate"]
    assert found["explain"]["reformulation"] == UNDERSTOOD
    # One request for the query, one for its explanation.
    assert [talk.body["model"] for talk in chat.text_requests] == ["rewriter", "rewriter"]


def test_agent_search_uses_reformulated_query(tenant: Tenant, chat: ChatServer) -> None:
    reply = tenant.admin.post("/v1/agent-search", json={"messages": TALK, "top_k": 1})
    assert (reply.status_code, reply.json()) == (200, [TEXTS["vans"]])
    assert "rewrite;dur=" in reply.headers["Server-Timing"]
    assert len(chat.text_requests) == 1


def read_contents(chat: ChatServer) -> list[str]:
    """Return the messages of the conversation that the chat model has read."""
    material = json.loads(next(one["content"] for one in chat.text_requests[0].messages if one["role"] == "user"))
    return [turn["content"] for turn in material["conversation"]]


@pytest.mark.capability("talk-twenty")
@pytest.mark.parametrize("path", [ALONE, "/v1/agent-search"])
def test_newest_twenty_messages_are_read(tenant: Tenant, chat: ChatServer, path: str) -> None:
    roles = ("customer", "agent") if "agent" in path else ("user", "assistant")
    talk = [{"role": roles[number % 2], "content": f"Message {number}."} for number in range(33)]
    tenant.admin.post(path, json={"messages": talk, "timeout_seconds": 30}).raise_for_status()
    assert read_contents(chat) == [f"Message {number}." for number in range(13, 33)]


@pytest.mark.parametrize("path", [ALONE, "/v1/agent-search"])
def test_newest_question_is_one_of_twenty_messages(tenant: Tenant, chat: ChatServer, path: str) -> None:
    talk = [{"role": "user", "content": f"Question {number}?"} for number in range(2)]
    talk += [{"role": "tool", "content": f"Output {number}."} for number in range(25)]
    tenant.admin.post(path, json={"messages": talk, "timeout_seconds": 30}).raise_for_status()
    assert read_contents(chat) == ["Question 1?", *(f"Output {number}." for number in range(6, 25))]


@pytest.mark.capability("talk-agent-messages")
@pytest.mark.parametrize(("max_messages", "expected"), [(1, [32]), (4, [29, 30, 31, 32])])
def test_agent_reads_its_number_of_messages(
    tenant: Tenant, chat: ChatServer, max_messages: int, expected: list[int]
) -> None:
    binding = {"knowledge_bases": ["default"], "max_messages": max_messages}
    tenant.admin.put("/v1/agents/brief", json=binding).raise_for_status()
    talk = [{"role": ("customer", "agent")[number % 2], "content": f"Message {number}."} for number in range(33)]
    tenant.admin.post("/v1/agent-search", json={"messages": talk, "agent_id": "brief"}).raise_for_status()
    contents = read_contents(chat) if chat.text_requests else ["Message 32."]
    assert contents == [f"Message {number}." for number in expected]


@pytest.mark.parametrize(
    "body",
    [
        {"transformers": []},
        {"messages": None, "query": "a bicycle"},
        {"messages": TALK[:1]},
        {"queries": ["a bicycle"]},
    ],
    ids=["turned off", "no conversation", "one turn", "given queries"],
)
def test_transformers_without_need_call_no_model(tenant: Tenant, chat: ChatServer, body: dict[str, Any]) -> None:
    found = ask(tenant.admin, **body)
    assert (chat.text_requests, found["warnings"]) == ([], [])


def test_query_with_conversation_is_reformulated_on_request(tenant: Tenant, chat: ChatServer) -> None:
    found = ask(tenant.admin, query="And the price?", transformers=["reformulate"])
    assert found["queries"] == [STANDALONE]
    assert "And the price?" in chat.text_requests[0].last_message


@pytest.mark.capability("transformers-order")
def test_transformers_run_in_order(tenant: Tenant, chat: ChatServer) -> None:
    wished = [{"name": "multi_query", "options": {"num_queries": 1}}, "reformulate", "hyde"]
    found = ask(tenant.admin, transformers=wished, explain=True)
    again = f"{STANDALONE} again"
    assert found["queries"] == [STANDALONE, again, f"{again} again"]
    assert found["explain"]["transformers"] == ["reformulate", "multi_query", "hyde"]
    assert found["results"][0]["text"] == TEXTS["vans"]


@pytest.mark.capability("transformers-vectors")
def test_transformers_leave_vectors_unchanged(tenant: Tenant, chat: ChatServer) -> None:
    vector = {"vector": [1.0] + [0.0] * 63, "text": "bicycle"}
    found = ask(tenant.admin, messages=None, queries=[vector, "leave"], transformers=["multi_query"], explain=True)
    assert found["queries"] == ["leave", "leave again", "leave once more", "bicycle"]


@pytest.mark.capability("transformers-failure")
@pytest.mark.parametrize("how", [500, 401, "garbage", "not_json", "empty", "break_off"], ids=str)
def test_transformer_model_failure_is_a_warning(tenant: Tenant, chat: ChatServer, how: ChatFailure | int) -> None:
    chat.fail(how, times=2)
    found = ask(tenant.admin)
    assert (found["queries"], found["warnings"]) == (FALLBACK, [FAILED])
    assert len(found["results"]) == len(TEXTS)
    chat.reset()
    # The model answers again, so no failure of this table opens the circuit breaker for the next one.
    ask(tenant.admin)


def test_transformer_unreadable_reply_is_a_warning(tenant: Tenant, chat: ChatServer) -> None:
    chat.reply = lambda _: "I cannot do that."
    found = ask(tenant.admin)
    assert (found["queries"], found["warnings"]) == (FALLBACK, [FAILED])


@pytest.mark.capability("talk-limit")
@pytest.mark.parametrize("transformers", [None, ["reformulate", "translate", "hyde"]], ids=["default", "named"])
def test_transformer_model_timeout_uses_its_share_of_time(
    tenant: Tenant, chat: ChatServer, transformers: list[str] | None
) -> None:
    chat.fail("slow", times=3)
    found = ask(tenant.admin, transformers=transformers, timeout_seconds=2)
    # A longer wait would leave the retrievers no time, and the reply would be 503.
    assert (found["queries"], len(found["results"])) == (FALLBACK, len(TEXTS))
    late = [
        warning_json(
            "chat_model_skipped", f"The remaining time was too short for the chat model, so {name} ran without it."
        )
        for name in (transformers or [])
    ]
    assert found["warnings"] == [FAILED, *late[1:]]
    assert len(chat.text_requests) == 1
    chat.reset()
    ask(tenant.admin)


def test_agent_search_with_failing_model_succeeds(talking: Service, chat: ChatServer) -> None:
    chat.fail(500, times=2)
    empty = talking.create_tenant()
    reply = empty.admin.post("/v1/agent-search", json={"messages": TALK})
    assert (reply.status_code, reply.json()) == (200, [])
    assert len(chat.text_requests) > 0
    chat.reset()
    ask(empty.admin)


def bind(tenant: Tenant, agent: str, *knowledge_bases: str, **settings: Any) -> dict[str, Any]:
    body = {"knowledge_bases": list(knowledge_bases), "timeout_seconds": 30, **settings}
    reply = tenant.admin.put(f"/v1/agents/{agent}", json=body)
    assert reply.is_success, reply.text
    made: dict[str, Any] = reply.json()
    return made


def ask_for(tenant: Tenant, agent: str) -> str:
    """Return the best passage for this agent."""
    reply = tenant.admin.post("/v1/agent-search", json={"messages": TALK, "agent_id": agent, "top_k": 1})
    assert reply.status_code == 200, reply.text
    (best,) = reply.json()
    assert isinstance(best, str)
    return best


@pytest.mark.capability("transformers-agent")
def test_agent_binding_transformers_apply(tenant: Tenant, chat: ChatServer) -> None:
    own: dict[str, Any] = {"transformers": ["prompt_rewrite"], "rewrite_prompt": "A van is called a transporter."}
    tenant.admin.post("/v1/knowledge-bases", json={"name": "vans", "retrieval": own}).raise_for_status()
    tenant.add_text(TEXTS["vans"], kb="vans")
    bind(tenant, "plain", "vans")
    ask_for(tenant, "plain")
    assert own["rewrite_prompt"] in chat.text_requests[0].messages[0]["content"]
    chat.reset()
    bind(tenant, "own", "vans", "default", transformers=["prompt_rewrite"], rewrite_prompt="Think of bicycles.")
    for agent, knowledge_bases in (("own", ("vans", "default")), ("own", ("vans",))):
        tenant.admin.patch(f"/v1/agents/{agent}", json={"knowledge_bases": knowledge_bases}).raise_for_status()
        ask_for(tenant, agent)
        told = [talk.messages[0]["content"] for talk in chat.text_requests]
        assert [("bicycles" in one, "transporter" in one) for one in told] == [(True, False)] * len(told) != []
        chat.reset()
    # Transformers say what else runs; the conversation has its own switch.
    bind(tenant, "off", "vans", transformers=[])
    assert ask_for(tenant, "off") == TEXTS["vans"]
    assert len(chat.text_requests) == 1
    assert own["rewrite_prompt"] in chat.text_requests[0].messages[0]["content"]
    chat.reset()
    changed = tenant.admin.patch("/v1/agents/off", json={"conversation": False}).raise_for_status()
    assert changed.json()["conversation"] is False
    assert ask_for(tenant, "off") == TEXTS["vans"]
    assert chat.text_requests == []


@pytest.mark.capability("transformers-removed")
async def test_agent_binding_with_removed_transformer_uses_default(tenant: Tenant, chat: ChatServer) -> None:
    made = bind(tenant, "left-behind", "default", transformers=["keywords"])
    connection = await asyncpg.connect(tenant.service.urls.owner)
    set_to = (
        "update agent_binding set settings = settings || jsonb_build_object('transformers', $1::jsonb) where id = $2"
    )
    for stored, asked in (
        ([{"name": "plug-in", "options": {}}], "conversation"),  # without it, the default applies
        ([{"name": "hyde", "options": {"gone": 1}}], "conversation"),
        ([{"name": "plug-in", "options": {}}, {"name": "keywords", "options": {}}], "query"),
    ):
        chat.reset()
        await connection.execute(set_to, json.dumps(stored), decode_id("bnd", made["id"]))
        ask_for(tenant, "left-behind")
        assert {asked} == {asked for talk in chat.text_requests if asked in json.loads(talk.last_message)}
        assert len(chat.text_requests) > 0
    await connection.close()


@pytest.mark.capability("transformers-kb")
def test_knowledge_base_transformers_apply(tenant: Tenant, chat: ChatServer) -> None:
    own: dict[str, Any] = {
        "strategy": "lexical",
        "top_k": 3,
        "transformers": ["prompt_rewrite", {"name": "multi_query", "options": {"num_queries": 1}}],
        "rewrite_prompt": "A van is called a transporter.",
    }
    made = tenant.admin.post("/v1/knowledge-bases", json={"name": "own", "retrieval": own})
    kept = [{"name": "prompt_rewrite", "options": {}}, {"name": "multi_query", "options": {"num_queries": 1}}]
    assert (made.status_code, made.json()["retrieval"]) == (201, own | {"transformers": kept})
    alone = "/v1/knowledge-bases/own/search"
    found = ask(tenant.admin, alone, messages=None, query="van")
    assert found["queries"] == ["van again", "van again again"]
    assert own["rewrite_prompt"] in chat.text_requests[0].messages[0]["content"]
    assert ask(tenant.admin, alone, messages=None, query="van", transformers=[])["queries"] == ["van"]
    several = ask(tenant.admin, "/v1/search", messages=None, query="van")
    # The other knowledge bases are searched as asked, this one with its own queries.
    assert several["queries"] == ["van", "van again", "van again again"]
    off = tenant.admin.patch("/v1/knowledge-bases/own", json={"retrieval": {"transformers": []}})
    assert off.json()["retrieval"] == own | {"transformers": []}
    assert ask(tenant.admin, alone)["queries"] == [STANDALONE]
    quiet = tenant.admin.patch("/v1/knowledge-bases/own", json={"retrieval": {"conversation": False}}).json()
    assert quiet["retrieval"]["conversation"] is False
    chat.reset()
    found = ask(tenant.admin, alone, explain=True)
    assert (found["queries"], chat.text_requests) == ([TALK[2]["content"]], [])
    assert [item["conversation"] for item in found["explain"]["knowledge_bases"]] == [False]
    assert ask(tenant.admin, alone, conversation=True)["queries"] == [STANDALONE]
    assert ask(tenant.admin, alone, transformers=["reformulate"])["queries"] == [STANDALONE]
    several = ask(tenant.admin, "/v1/search", knowledge_bases=["default", "own"], explain=True)
    shown = {item["knowledge_base"]: item for item in several["explain"]["knowledge_bases"]}
    assert {name: (item["conversation"], item["queries"]) for name, item in shown.items()} == {
        "default": (True, [STANDALONE]),
        "own": (False, [TALK[2]["content"]]),
    }


@pytest.mark.capability("talk-switch")
@pytest.mark.parametrize("path", [ALONE, "/v1/search"])
def test_search_without_conversation_takes_last_message(tenant: Tenant, chat: ChatServer, path: str) -> None:
    named = {"knowledge_bases": ["default"]} if path != ALONE else {}
    found = ask(tenant.admin, path, conversation=False, **named)
    assert (found["queries"], found["warnings"], chat.text_requests) == ([TALK[2]["content"]], [], [])
    refused = tenant.admin.post(path, json={"messages": TALK, "conversation": False, "transformers": ["reformulate"]})
    assert (refused.status_code, refused.json()["errors"][0]["loc"]) == (422, ["body", "conversation"])


@pytest.mark.capability("talk-switch-transformers")
def test_search_with_conversation_reformulates_before_requested_transformers(tenant: Tenant, chat: ChatServer) -> None:
    wished = [{"name": "multi_query", "options": {"num_queries": 1}}]
    found = ask(tenant.admin, conversation=True, transformers=wished, explain=True)
    assert found["queries"] == [STANDALONE, f"{STANDALONE} again"]
    assert found["explain"]["transformers"] == ["reformulate", "multi_query"]


@pytest.mark.capability("transformers-unknown")
@pytest.mark.parametrize(
    ("wished", "loc"),
    [
        (["magic"], [0]),
        (["hyde", {"name": "magic"}], [1]),
        ([{"name": "hyde", "options": {"replaced": True}}], [0, "options", "replaced"]),
        ([{"name": "multi_query", "options": {"num_queries": "many"}}], [0, "options", "num_queries"]),
    ],
    ids=str,
)
def test_unknown_transformer_is_422(tenant: Tenant, wished: list[Any], loc: list[Any]) -> None:
    replies = {
        (): tenant.admin.post(ALONE, json={"query": "x", "transformers": wished}),
        ("retrieval",): tenant.admin.post(
            "/v1/knowledge-bases", json={"name": "wrong", "retrieval": {"transformers": wished}}
        ),
    }
    for place, reply in replies.items():
        assert (reply.status_code, reply.json()["errors"][0]["loc"]) == (422, ["body", *place, "transformers", *loc])
        assert loc[-1] != "replaced" or reply.json()["detail"].endswith("Choose one of: n_hypothetical, replace.")
    if loc[-1] in (0, 1):
        assert all(name in reply.json()["detail"] for reply in replies.values() for name in ("reformulate", "hyde"))


@pytest.mark.capability("transformers-listed")
def test_capabilities_list_transformers_with_options(tenant: Tenant) -> None:
    found = {one["name"]: one for one in tenant.admin.get("/v1/capabilities").json()["transformers"]}
    names = {"reformulate", "prompt_rewrite", "translate", "keywords", "multi_query", "hyde", "decompose"}
    assert set(found) == names | {"retrieval_rewrite"}
    assert {name for name, one in found.items() if one["default"]} == {"reformulate"}
    defaults = {
        name: {option: schema["default"] for option, schema in one["options"]["properties"].items()}
        for name, one in found.items()
    }
    assert defaults["multi_query"] == {"num_queries": 3}
    assert defaults["hyde"] == {"n_hypothetical": 1, "replace": False}


@pytest.mark.capability("transformers-no-model")
def test_transformers_without_model_have_warning(service: Service) -> None:
    tenant = service.create_tenant()
    found = ask(tenant.admin)
    assert (found["queries"], found["warnings"]) == (FALLBACK, [])
    assert "rewrite" not in found["timings_ms"]
    wished = ask(tenant.admin, transformers=["reformulate", "hyde"])
    assert wished["queries"] == FALLBACK
    assert wished["warnings"] == [
        warning_json("chat_model_not_configured", f"No chat model is configured, so {name} ran without it.")
        for name in ("reformulate", "hyde")
    ]
