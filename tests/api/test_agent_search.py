"""External-search contract: conversations as agent platforms send them, and a reply that is an array of texts."""

import json
from typing import Any

import pytest

from harness.running_service import Service, Tenant
from tests.api.breakable_service import BreakableService
from tests.api.problems import assert_problem

ROUTES = ["/v1/agent-search", "/v1/knowledge-bases/default/agent-search"]
ANIMALS = ["badgers", "camels", "dolphins", "eagles", "ferrets", "geese", "hamsters"]


@pytest.fixture(scope="module")
def zoo(service: Service) -> Tenant:
    tenant = service.create_tenant("zoo")
    for animal in ANIMALS:
        tenant.add_text(f"The {animal} are fed by the keepers of the zoo.")
    return tenant


def ask(tenant: Tenant, messages: Any, route: str = ROUTES[0], **more: Any) -> list[str]:
    reply = tenant.admin.post(route, json={"messages": messages, **more})
    assert reply.status_code == 200, reply.text
    found: list[str] = reply.json()
    assert isinstance(found, list)
    assert all(isinstance(text, str) and text.strip() for text in found)
    return found


def said(content: Any, role: Any = "customer") -> dict[str, Any]:
    return {"role": role, "content": content}


@pytest.mark.capability("agent-search")
@pytest.mark.parametrize("route", ROUTES)
def test_agent_search_returns_best_texts_first(zoo: Tenant, route: str) -> None:
    assert len(ask(zoo, [said("Who feeds the animals of the zoo?")], route)) == 5
    assert "eagles" in ask(zoo, [said("eagles")], route)[0]
    for top_k in (1, 3, 7, 500):
        assert len(ask(zoo, [said("keepers of the zoo")], route, top_k=top_k)) == min(top_k, len(ANIMALS))
    assert len(ask(zoo, [said("keepers of the zoo")], route, top_k=None)) == 5


@pytest.mark.parametrize(
    ("messages", "animal"),
    [
        ([said("camels")], "camels"),
        ([said("camels", "user")], "camels"),
        ([said("badgers"), said("of course", "agent"), said("camels")], "camels"),
        ([said("camels"), said("I ask for dolphins.", "agent")], "camels"),
        (
            [said("camels"), said("dolphins " * 50, "tool"), said("dolphins", "assistant"), said("dolphins", "system")],
            "camels",
        ),
        ([said("camels"), said("  "), said(None), said(""), said([])], "camels"),
        ([said([{"type": "text", "text": "camels"}, {"type": "image_url", "image_url": "x"}, None, 5])], "camels"),
        ([said(["camels"])], "camels"),
        ([said("dolphins")] * 50 + [said("camels")] * 20, "camels"),
        ([said("camels")] + [said("dolphins", "tool")] * 60, "camels"),
        ([said("camels")] + [said(" \n"), said([{"type": "image_url"}])] * 30, "camels"),
        (
            [said("dolphins")] + [said("geese", "tool")] * 60 + [said("camels")] + [said("geese", "agent")] * 10,
            "camels",
        ),
        ([{**said("camels"), "id": 5, "name": None, "tool_calls": [{}]}], "camels"),
        ([said("camels\0"), said("dolphins", "\ud800")], "camels"),
        ([said("x " * 20_000 + "camels")], "camels"),
    ],
)
def test_agent_search_uses_last_user_message(zoo: Tenant, messages: list[Any], animal: str) -> None:
    body = json.dumps({"messages": messages, "top_k": 1})
    reply = zoo.admin.post(ROUTES[0], content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 200, reply.text
    assert animal in reply.json()[0]


@pytest.mark.capability("talk-roles")
def test_agent_search_accepts_tool_calls_and_parts(zoo: Tenant) -> None:
    """Tool calls have no text, a list of parts has the text of its parts, and other fields are ignored."""
    messages = [
        said("dolphins", "user"),
        {**said(None, "assistant"), "tool_calls": [{"id": "1", "type": "function"}], "refusal": None},
        {**said("dolphins", "tool"), "tool_call_id": "1"},
        {**said([{"type": "text", "text": "camels"}, {"type": "image_url", "image_url": {}}], "user"), "name": "Ann"},
    ]
    reply = zoo.admin.post("/v1/search", json={"messages": messages, "top_k": 3, "strategy": "lexical"})
    assert reply.status_code == 200, reply.text
    assert "camels" in reply.json()["results"][0]["text"]
    assert "camels" in ask(zoo, messages, top_k=1)[0]
    odd = [5], [{"type": "text"}], ["camels", {}], {"text": "camels"}, 5, "camels\0"
    for wrong in (*(said(one, "user") for one in odd), {"role": "user"}):
        refused = zoo.admin.post("/v1/search", json={"messages": [wrong]})
        assert refused.status_code == 422
        assert [error["loc"] for error in refused.json()["errors"]] == [["body", "messages", 0, "content"]]


@pytest.mark.parametrize(
    "body",
    [
        {"messages": []},
        {
            "messages": [
                said("camels", "agent"),
                said("camels", "tool"),
                said("camels", "system"),
                said("camels", "assistant"),
            ]
        },
        {"messages": [said(""), said(None), said([{"type": "image_url"}]), {"role": "user"}]},
    ],
)
def test_agent_search_without_question_returns_empty_array(zoo: Tenant, body: dict[str, Any]) -> None:
    for route in ROUTES:
        reply = zoo.admin.post(route, json=body)
        assert (reply.status_code, reply.json()) == (200, [])


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "required"),
        ({"message": [said("camels")]}, "required"),
        ({"messages": None}, "list"),
        ({"messages": "camels"}, "list"),
        ({"messages": [said("camels", "human")]}, "message 0 has none of the roles customer, agent, tool, user"),
        ({"messages": [said("camels", "agent"), said("camels", "User")]}, "message 1 has none of the roles"),
        ({"messages": [said("camels", None)]}, "message 0 has none of the roles"),
        ({"messages": [{"content": "camels"}]}, "message 0 has none of the roles"),
        ({"messages": [said(""), said(5)]}, "message 1 has a content that is no text"),
        ({"messages": [said({"text": "camels"})]}, "message 0 has a content that is no text"),
        ({"messages": [said([{"type": "text", "content": "camels"}])]}, "message 0 has a content that is no text"),
        ({"messages": [said([{"type": "text", "text": {"value": "camels"}}])]}, "has a content that is no text"),
        ({"messages": [said([5])]}, "message 0 has a content that is no text"),
        ({"messages": ["camels"]}, "message 0 is no object"),
    ],
)
def test_agent_search_unreadable_messages_are_422(zoo: Tenant, body: dict[str, Any], told: str) -> None:
    for route in ROUTES:
        reply = zoo.admin.post(route, json=body)
        assert reply.status_code == 422
        [error] = reply.json()["errors"]
        assert error["loc"] == ["body", "messages"]
        assert told.lower() in error["msg"].lower()


def test_agent_search_unreadable_messages_with_a_question_are_ignored(zoo: Tenant) -> None:
    odd = [said("dolphins", "robot"), said("dolphins", ""), said("dolphins", None), said(5), {}]
    assert "camels" in ask(zoo, [said("camels"), *odd], top_k=1)[0]


@pytest.mark.capability("agent-search-unknown")
def test_agent_search_unknown_fields_are_ignored(zoo: Tenant) -> None:
    plain = ask(zoo, [said("camels")])
    more: dict[str, Any] = {
        "session_id": 5,
        "agent_id": ["x"],
        "filter": "nonsense",
        "stream": True,
        "knowledge_bases": ["no"],
        "strategy": "x",
    }
    assert ask(zoo, [said("camels")], **more) == plain


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [said("x")], "top_k": 0}, {"messages": [said("x")], "top_k": 501},
        {"messages": [said("x")], "top_k": "many"},
        {"messages": "x"}, {"messages": ["x"]}, {"messages": [None]}, {"messages": 5}, [], "x", 5,
    ],
)  # fmt: skip
def test_agent_search_invalid_bodies_are_422(zoo: Tenant, body: Any) -> None:
    assert_problem(zoo.admin.post(ROUTES[0], json=body), 422, "invalid")


@pytest.mark.capability("agent-search-equal")
@pytest.mark.parametrize("messages", [[said("camels")], [said("badgers"), said("Sure.", "agent"), said("and geese?")]])
@pytest.mark.parametrize("top_k", [1, 4, 7])
def test_agent_search_texts_equal_search_results(zoo: Tenant, messages: list[Any], top_k: int) -> None:
    body = {"messages": messages, "top_k": top_k}
    found = zoo.admin.post("/v1/search", json=body).json()["results"]
    assert ask(zoo, messages, top_k=top_k) == [result["text"] for result in found]
    one = zoo.admin.post("/v1/knowledge-bases/default/search", json=body).json()["results"]
    assert ask(zoo, messages, ROUTES[1], top_k=top_k) == [result["text"] for result in one]


@pytest.mark.capability("agent-search-empty")
def test_agent_search_empty_tenant_returns_empty_array(tenant: Tenant) -> None:
    assert ask(tenant, [said("anything")]) == []
    assert_problem(
        tenant.admin.post("/v1/knowledge-bases/no/agent-search", json={"messages": []}), 404, "knowledge_base_not_found"
    )


@pytest.mark.capability("agent-search-separator")
def test_snippet_never_contains_separator_line(tenant: Tenant) -> None:
    text = "Koalas sleep.\n---\nKoalas eat.\n  -----  \nKoalas sleep again --- and again."
    text += "\r\n---\r\nKoalas\n\n--\n\nend.\n---"
    tenant.add_text(text, media_type="text/plain")
    (snippet,) = ask(tenant, [said("koalas")])
    lines = [line.strip() for line in snippet.splitlines()]
    assert not [line for line in lines if len(line) > 2 and set(line) == {"-"}]
    assert "Koalas sleep again --- and again." in lines
    assert "--" in lines
    assert lines.count("\u2014") >= 3


@pytest.mark.capability("agent-search-503")
def test_agent_search_failure_is_503_and_never_empty(fragile: BreakableService) -> None:
    tenant = fragile.service.create_tenant("broken")
    tenant.add_text("Lemurs live on Madagascar.")
    assert ask(tenant, [said("lemurs")]) == ["Lemurs live on Madagascar."]
    fragile.embedding.fail(503, times=None)
    try:
        assert ask(tenant, [said("lemurs")]) == ["Lemurs live on Madagascar."]
        for route in ROUTES:
            assert_problem(
                tenant.admin.post(route, json={"messages": [said("zebra crossing")]}), 503, "search_unavailable"
            )
    finally:
        fragile.embedding.reset()
    assert ask(tenant, [said("lemurs")]) == ["Lemurs live on Madagascar."]
