"""Chats of users over HTTP: two users and a chat without a user have the same chat id and agent id."""

import json
from typing import Any

import httpx2
import pytest

from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

DOCUMENTS = "/v1/knowledge-bases/default/documents"
IDS = ("user_id", "chat_id", "agent_id")
CHAT = {"chat_id": "c"}
AGENT = {**CHAT, "agent_id": "agt"}
# Each document and its scope. All have the same text and external id: identity is within the scope.
SCOPES: dict[str, dict[str, str]] = {
    "tenant": {},
    "ada": {"user_id": "ada"},
    "chat": CHAT,
    "agent": AGENT,
    "ada's chat": {"user_id": "ada", **CHAT},
    "ada's agent": {"user_id": "ada", **AGENT},
    "bob's chat": {"user_id": "bob", **CHAT},
    "bob's agent": {"user_id": "bob", **AGENT},
}
VISIBLE: list[tuple[dict[str, str], set[str]]] = [
    ({}, {"tenant"}),
    (CHAT, {"tenant", "chat"}),
    (AGENT, {"tenant", "chat", "agent"}),
    ({"user_id": "ada"}, {"tenant", "ada"}),
    ({"user_id": "ada", **CHAT}, {"tenant", "ada", "ada's chat"}),
    ({"user_id": "ada", **AGENT}, {"tenant", "ada", "ada's chat", "ada's agent"}),
    ({"user_id": "bob", **CHAT}, {"tenant", "bob's chat"}),
    ({"user_id": "bob", **AGENT}, {"tenant", "bob's chat", "bob's agent"}),
    ({"user_id": "eve", **AGENT}, {"tenant"}),
    ({"user_id": "ada", "chat_id": "other", "agent_id": "agt"}, {"tenant", "ada"}),
    # The ids in the wrong fields.
    ({"user_id": "c", "chat_id": "ada"}, {"tenant"}),
    ({"chat_id": "ada", "agent_id": "c"}, {"tenant"}),
]


def describe(value: dict[str, str] | set[str]) -> str:
    """Return the id of a test, in the same order in each process."""
    return ",".join(sorted(value) if isinstance(value, set) else value.values()) or "none"


def add_documents(tenant: Tenant) -> dict[str, str]:
    """Upload a document to each scope, and return the names by document id."""
    names = {}
    for name, scope in SCOPES.items():
        made = tenant.add_text("The heron wades.", title=name, external_id="heron", **scope)
        assert made["scope"] == {"level": made["scope"]["level"], **dict.fromkeys(IDS), **scope}
        names[made["id"]] = name
    assert len(names) == len(SCOPES)
    return names


@pytest.fixture(scope="module")
def chats(service: Service) -> tuple[Tenant, dict[str, str]]:
    """A tenant with a document in each scope."""
    tenant = service.create_tenant("chats")
    names = add_documents(tenant)
    binding = {"knowledge_bases": ["default"], "session_scope": True}
    tenant.admin.put("/v1/agents/agt", json=binding).raise_for_status()
    return tenant, names


def search(client: httpx2.Client, path: str = "/v1/search", **body: Any) -> set[str]:
    reply = client.post(path, json={"query": "heron", "top_k": 50, **body}).raise_for_status()
    return {result["document"]["title"] for result in reply.json()["results"]}


def list_names(client: httpx2.Client, path: str = DOCUMENTS, **query: str) -> set[str]:
    items = client.get(path, params=query).raise_for_status().json()["items"]
    return {item["title"] if path == DOCUMENTS else item["document"]["id"] for item in items}


@pytest.mark.capability("scope-user-chat")
@pytest.mark.parametrize(("scope", "visible"), VISIBLE, ids=describe)
@pytest.mark.parametrize("strategy", ["dense", "lexical", "hybrid", "graph_rag"])
def test_search_sees_only_named_chat(
    chats: tuple[Tenant, dict[str, str]], strategy: str, scope: dict[str, str], visible: set[str]
) -> None:
    tenant, _ = chats
    for path in ("/v1/search", "/v1/knowledge-bases/default/search"):
        assert search(tenant.admin, path, scope=scope, strategy=strategy) == visible


@pytest.mark.capability("scope-user-chat-lists")
@pytest.mark.parametrize("name", SCOPES)
def test_lists_show_exactly_one_scope(chats: tuple[Tenant, dict[str, str]], name: str) -> None:
    tenant, names = chats
    chunks = "/v1/knowledge-bases/default/chunks"
    expected = {name} if SCOPES[name] else set(SCOPES)
    assert list_names(tenant.admin, **SCOPES[name]) == expected
    assert {names[document] for document in list_names(tenant.admin, chunks, **SCOPES[name])} == expected


@pytest.mark.capability("scope-user-chat-key")
def test_restricted_key_sees_only_chats_of_its_user(chats: tuple[Tenant, dict[str, str]]) -> None:
    tenant, names = chats
    own = {"tenant", "ada", "ada's chat", "ada's agent"}
    client = tenant.create_client("writer", user_id="ada")
    assert list_names(client) == own
    for scope, visible in VISIBLE:
        allowed = visible if scope.get("user_id") in (None, "ada") else {"tenant"}
        assert search(client, scope=scope) == allowed & own, scope
    for document, name in names.items():
        assert client.get(f"{DOCUMENTS}/{document}").status_code == (200 if name in own else 404), name
    for scope in ({"user_id": "bob", **CHAT}, {"user_id": "bob", **AGENT}, CHAT):
        assert_problem(client.post(DOCUMENTS, json={"text": "Mine.", **scope}), 403, "forbidden")


def test_owner_of_chat_without_user_reads_no_chat_of_another_user(tenant: Tenant) -> None:
    bob, ada = (tenant.create_client("writer", user_id=user) for user in ("bob", "ada"))
    upload = {"text": "The heron wades."}
    for client, title, scope in (
        (bob, "bob's", {"user_id": "bob", **CHAT}),
        (ada, "owned", CHAT),
        (ada, "ada's", {"user_id": "ada", **CHAT}),
    ):
        sent = client.post(DOCUMENTS, params={"wait": 60}, json={**upload, "title": title, **scope})
        assert sent.status_code == 201, sent.text
    assert (list_names(ada), list_names(bob)) == ({"owned", "ada's"}, {"bob's"})
    assert search(ada, scope=CHAT) == {"owned"}
    assert search(bob, scope=CHAT) == search(ada, scope={"user_id": "bob", **CHAT}) == set()
    assert search(ada, scope={"user_id": "ada", **CHAT}) == {"ada's"}


@pytest.mark.capability("scope-user-chat-agent")
@pytest.mark.parametrize(("scope", "visible"), VISIBLE[1:9], ids=describe)
def test_agent_search_sees_only_session_of_user(
    chats: tuple[Tenant, dict[str, str]], scope: dict[str, str], visible: set[str]
) -> None:
    tenant, _ = chats
    ids = {"agent_id": "agt", "session_id": scope.get("chat_id"), "user_id": scope.get("user_id")}
    body = {"messages": [{"role": "customer", "content": "heron"}], "top_k": 50, **ids}
    # The agent is always named, so its documents in the chat are found as well.
    expected = next(names for asked, names in VISIBLE if asked == ({**scope, **AGENT} if "chat_id" in scope else scope))
    passages = tenant.admin.post("/v1/agent-search", json=body).raise_for_status().json()
    assert len(passages) == len(expected)


def test_agent_without_session_scope_ignores_user(tenant: Tenant) -> None:
    tenant.add_text("The heron wades.", user_id="ada", **CHAT)
    tenant.add_text("The heron flies.", user_id="ada")
    tenant.admin.put("/v1/agents/agt", json={"knowledge_bases": ["default"]}).raise_for_status()
    ids = {"agent_id": "agt", "session_id": "c", "user_id": "ada"}
    for agent in ("agt", None):
        body = {"messages": [{"role": "customer", "content": "heron"}], **ids, "agent_id": agent}
        assert tenant.admin.post("/v1/agent-search", json=body).raise_for_status().json() == []


@pytest.mark.capability("scope-user-chat-move")
def test_document_moves_only_within_its_user(tenant: Tenant) -> None:
    made = tenant.add_text("The heron wades.", title="moved", user_id="ada", **AGENT)
    path = f"{DOCUMENTS}/{made['id']}"
    chat = {"level": "chat_shared", **CHAT}
    for scope in (chat, {**chat, "user_id": "bob"}, {"level": "user", "user_id": "bob"}):
        assert_problem(tenant.admin.patch(path, json={"scope": scope}), 422, "invalid")
    for scope in ({**chat, "user_id": "ada"}, {"level": "user", "user_id": "ada"}, {"level": "tenant"}):
        moved = tenant.admin.patch(path, json={"scope": scope}).raise_for_status().json()
        assert moved["scope"] == {**dict.fromkeys(IDS), **scope}
        asked = {name: value for name, value in scope.items() if name in IDS}
        assert search(tenant.admin, scope=asked) == {"moved"}
        assert search(tenant.admin, scope={"user_id": "bob", **CHAT}) == ({"moved"} if len(scope) == 1 else set())


def test_deletion_by_restricted_key_leaves_chats_of_others(tenant: Tenant) -> None:
    names = add_documents(tenant)
    ada = tenant.create_client("admin", user_id="ada")
    deleted = ada.delete(DOCUMENTS, params={"filter": json.dumps({}), "confirm": "default"}).raise_for_status()
    assert deleted.json()["deleted"] == 3
    assert list_names(tenant.admin) == set(names.values()) - {"ada", "ada's chat", "ada's agent"}


@pytest.mark.capability("scope-user-chat-transfer")
def test_export_and_import_keep_chats_of_users(chats: tuple[Tenant, dict[str, str]], tenant: Tenant) -> None:
    source, _ = chats
    archive = source.admin.get("/v1/knowledge-bases/default/export").content
    path = "/v1/knowledge-bases/default/import"
    tenant.admin.post(path, content=archive, headers={"content-type": "application/x-tar"}).raise_for_status()
    for scope, visible in VISIBLE:
        assert search(tenant.admin, scope=scope) == visible, scope
