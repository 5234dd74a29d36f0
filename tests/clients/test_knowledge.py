"""Knowledge of an agent in the Python client, against the running service."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from carrel_client import AsyncClient, AsyncKnowledge, Client, ConnectionFailed, Knowledge, NotFound
from carrel_client.knowledge_types import ChatMessage, is_hint, parse_arguments, to_service_messages

from harness.running_service import Service, Tenant

QUESTION: ChatMessage = {"role": "user", "content": "Where do terns breed?"}
TERNS = "Terns breed in colonies on gravel islands."
OWLS = "Owls breed in hollow trees and barns."


@pytest.fixture(scope="module")
def birds(service: Service) -> Tenant:
    tenant = service.create_tenant("birds")
    for name, description, text in (("terns", "Birds of the coast", TERNS), ("owls", None, OWLS)):
        body = {"name": name, "description": description}
        tenant.admin.post("/v1/knowledge-bases", json=body).raise_for_status()
        reply = tenant.admin.post(f"/v1/knowledge-bases/{name}/documents?wait=60", json={"text": text, "title": name})
        assert reply.status_code == 201, reply.text
    return tenant


@pytest.fixture
def client(birds: Tenant) -> Iterator[Client]:
    with Client(birds.service.url, birds.key) as made:
        yield made


@pytest.mark.capability("python-tool")
def test_tool_lists_knowledge_bases_with_descriptions(client: Client) -> None:
    (tool,) = Knowledge(client, knowledge_bases=["terns", "owls"], top_k=7).list_tools()
    function = tool["function"]
    assert function["name"] == "search_knowledge"
    assert function["description"].splitlines()[1:] == ["- terns: Birds of the coast", "- owls"]
    properties = function["parameters"]["properties"]
    assert properties["knowledge_bases"]["items"]["enum"] == ["terns", "owls"]
    assert properties["top_k"]["maximum"] == 7


def test_tool_without_named_knowledge_bases_lists_all_of_key(client: Client) -> None:
    (tool,) = Knowledge(client).list_tools()
    names = tool["function"]["parameters"]["properties"]["knowledge_bases"]["items"]["enum"]
    assert sorted(names) == ["default", "owls", "terns"]


def test_tool_call_searches_named_knowledge_base_only(client: Client) -> None:
    knowledge = Knowledge(client, citations=False)
    reply = knowledge.call_tool("search_knowledge", '{"query": "Where do birds breed?", "knowledge_bases": ["owls"]}')
    assert (reply.content, [one["knowledge_base"] for one in reply.results]) == (OWLS, ["owls"])


@pytest.mark.capability("python-tool-rights")
def test_tool_call_cannot_leave_knowledge_bases_of_agent(client: Client) -> None:
    knowledge = Knowledge(client, knowledge_bases=["owls"], citations=False)
    reply = knowledge.call_tool("search_knowledge", {"query": "Where do terns breed?", "knowledge_bases": ["terns"]})
    assert (reply.content, reply.results) == ("Unknown knowledge bases: terns. Use some of owls.", [])
    reply = knowledge.call_tool("search_knowledge", {"query": "Where do terns breed?"})
    assert {one["knowledge_base"] for one in reply.results} == {"owls"}


@pytest.mark.capability("python-static")
def test_static_turn_joins_snippets_and_leaves_history_unchanged(client: Client) -> None:
    history = [QUESTION]
    knowledge = Knowledge(client, mode="static", knowledge_bases=["terns", "owls"], citations=False)
    turn = knowledge.start_turn(history)
    hint, question = turn.messages
    assert is_hint(hint)
    assert hint["content"].endswith(f"{TERNS}\n\n---\n\n{OWLS}")
    assert (question, history, turn.error) == (QUESTION, [QUESTION], None)
    assert turn.events == [{"type": "hint", "content": f"{TERNS}\n\n---\n\n{OWLS}", "results": turn.results}]
    assert knowledge.list_tools() == []
    assert knowledge.call_tool("search_knowledge", {"query": "x"}).content == "Unknown tool 'search_knowledge'."


@pytest.mark.capability("python-event")
def test_static_turn_without_hint_event_has_no_event(client: Client) -> None:
    turn = Knowledge(client, mode="static", emit_hint_event=False).start_turn([QUESTION])
    assert turn.results
    assert turn.events == []


@pytest.mark.capability("python-persist")
def test_persisted_hint_stays_in_history_and_is_not_first_again(client: Client) -> None:
    history = [{"role": "system", "content": "You know birds."}, QUESTION]
    knowledge = Knowledge(client, mode="static", persist_hint=True, top_k=1, citations=False)
    first = knowledge.start_turn(history)
    assert history == first.messages
    assert [is_hint(message) for message in history] == [False, True, False]
    history += [
        {"role": "assistant", "content": "On islands."},
        {"role": "user", "content": "Where else do birds breed?"},
    ]
    second = knowledge.start_turn(history)
    assert [one["text"] for one in (*first.results, *second.results)] == [TERNS, OWLS]


def test_agentic_turn_searches_nothing(client: Client) -> None:
    turn = Knowledge(client, mode="agentic").start_turn([QUESTION])
    assert (turn.messages, turn.results, turn.events) == ([QUESTION], [], [])


@pytest.mark.capability("python-failure")
def test_failed_search_lets_turn_go_on_and_returns_error() -> None:
    with Client("http://127.0.0.1:9", "none", retries=0) as client:
        knowledge = Knowledge(client, mode="both")
        turn = knowledge.start_turn([QUESTION])
        assert turn.messages == [QUESTION]
        assert isinstance(turn.error, ConnectionFailed)
        reply = knowledge.call_tool("search_knowledge", {"query": "Where do terns breed?"})
        assert reply.content.startswith("The search failed.")
        assert isinstance(reply.error, ConnectionFailed)


def test_missing_knowledge_base_raises_when_tools_are_listed(client: Client) -> None:
    with pytest.raises(NotFound):
        Knowledge(client, knowledge_bases=["secrets"]).list_tools()


@pytest.mark.capability("python-async")
def test_asynchronous_knowledge_gives_same_passages(birds: Tenant, client: Client) -> None:
    async def run() -> tuple[Any, Any]:
        async with AsyncClient(birds.service.url, birds.key) as made:
            knowledge = AsyncKnowledge(made, mode="both", top_k=1)
            turn = await knowledge.start_turn([QUESTION])
            return turn.messages, await knowledge.list_tools()

    knowledge = Knowledge(client, mode="both", top_k=1)
    assert asyncio.run(run()) == (knowledge.start_turn([QUESTION]).messages, knowledge.list_tools())


@pytest.mark.parametrize(
    "settings", [{"mode": "dynamic"}, {"top_k": 0}, {"top_k": 51}, {"hint_template": "Passages:"}], ids=str
)
def test_invalid_setting_is_refused(client: Client, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        Knowledge(client, **settings)


def test_message_with_lone_surrogate_is_sent_with_replacement() -> None:
    assert to_service_messages([{"role": "user", "content": "a\ud800b"}]) == [{"role": "user", "content": "a?b"}]


def test_messages_without_text_and_prompts_are_not_sent() -> None:
    parts = [
        {"type": "text", "text": "What is"},
        {"type": "image_url", "image_url": {"url": "data:"}},
        {"text": "this?"},
    ]
    messages: list[ChatMessage] = [
        {"role": "system", "content": "You know birds."},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": "A tern."},
        {"role": "user", "content": " "},
    ]
    assert to_service_messages(messages) == [
        {"role": "user", "content": "What is\nthis?"}, {"role": "tool", "content": "A tern."}
    ]  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [pytest.param("[" * 100_000, id="deep"),
     "[]", "3", "{", {"query": 5}, {"query": "a", "top_k": True}, {"query": "a", "top_k": -1},
     {"query": "a", "knowledge_bases": "b"}, {"query": "a", "knowledge_bases": [1]}],
    ids=str,
)  # fmt: skip
def test_invalid_arguments_of_tool_raise_value_error(arguments: Any) -> None:
    with pytest.raises(ValueError, match="argument"):
        parse_arguments(arguments, ["b"], 5)
