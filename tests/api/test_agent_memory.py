"""Agent memory: a note of an agent is found in the next turn of the same chat, until it expires."""

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from app.ids import decode_id
from harness.running_service import Tenant
from harness.wait_until import create_expired

DOCUMENTS = "/v1/knowledge-bases/default/documents"
NOTE = "The tool lookup_booking answered: booking 4711 is a van from Leeds, paid by Ada."
OTHER = "The tool lookup_booking answered nothing about a booking in Leeds."
MINE = {"chat_id": "chat-1", "agent_id": "agt"}


def in_an_hour() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


def note(tenant: Tenant, text: str = NOTE, **fields: Any) -> dict[str, Any]:
    body = {"text": text, "dynamic": True, "expires_at": in_an_hour(), **MINE, **fields}
    reply = tenant.admin.post(DOCUMENTS, params={"wait": 60}, json=body)
    assert reply.status_code == 201, reply.text
    made: dict[str, Any] = reply.json()
    return made


def recalled(tenant: Tenant, *, agent: str | None = "agt", chat: str | None = "chat-1", **more: Any) -> list[str]:
    """Return the passages that the agent's next turn receives."""
    messages = [{"role": "user", "content": "Which booking in Leeds has Ada paid?"}]
    body = {"agent_id": agent, "session_id": chat, "messages": messages, **more}
    found: list[str] = tenant.admin.post("/v1/agent-search", json=body).raise_for_status().json()
    return found


def bind(tenant: Tenant, agent: str = "agt", *, session_scope: bool = True) -> None:
    body = {"knowledge_bases": ["default"], "session_scope": session_scope}
    tenant.admin.put(f"/v1/agents/{agent}", json=body).raise_for_status()


@pytest.fixture
def remembering(tenant: Tenant) -> Tenant:
    """Tenant whose agent may use session scopes."""
    bind(tenant)
    return tenant


@pytest.mark.capability("agent-memory")
def test_note_is_found_only_in_next_turn_of_its_chat(remembering: Tenant) -> None:
    note(remembering)
    assert recalled(remembering) == [NOTE]
    bind(remembering, "guard")
    bind(remembering, "closed", session_scope=False)
    for agent, chat in (("agt", "chat-2"), ("agt", None), ("guard", "chat-1"), ("closed", "chat-1"), (None, "chat-1")):
        assert recalled(remembering, agent=agent, chat=chat) == [], (agent, chat)


@pytest.mark.capability("agent-memory-shared")
def test_chat_note_without_agent_is_found_by_every_agent_of_chat(remembering: Tenant) -> None:
    note(remembering, agent_id=None)
    bind(remembering, "guard")
    assert recalled(remembering) == recalled(remembering, agent="guard") == [NOTE]
    assert recalled(remembering, chat="chat-2") == []


async def test_expired_note_is_in_no_search(remembering: Tenant) -> None:
    """The expired note is not removed yet, but no search returns it; other passages take its place."""
    made = note(remembering)
    note(remembering, OTHER)
    assert recalled(remembering, top_k=1) == [NOTE]
    connection = await asyncpg.connect(remembering.service.urls.owner)
    expire = "update document set expires_at = now() - interval '1 second' where id = $1"
    await connection.execute(expire, decode_id("doc", made["id"]))
    await connection.close()
    assert recalled(remembering, top_k=1) == [OTHER]
    for path in ("/v1/search", "/v1/knowledge-bases/default/search"):
        for strategy in ("hybrid", "dense", "lexical"):
            body = {"query": "booking 4711 Leeds", "strategy": strategy, "scope": MINE}
            found = remembering.admin.post(path, json=body).raise_for_status().json()["results"]
            assert [result["text"] for result in found] == [OTHER], strategy


@pytest.mark.capability("agent-memory-expiry")
def test_note_with_expiry_disappears_by_itself(remembering: Tenant) -> None:
    body = {"text": NOTE, "dynamic": True, **MINE}
    note(remembering, OTHER)
    create_expired(lambda end: remembering.admin.post(DOCUMENTS, json={**body, "expires_at": end.isoformat()}))
    assert recalled(remembering) == [OTHER]


def test_note_sent_again_extends_its_expiry(remembering: Tenant) -> None:
    made = note(remembering)
    later = (datetime.now(UTC) + timedelta(hours=2)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    again = remembering.admin.post(DOCUMENTS, json={"text": NOTE, "dynamic": True, "expires_at": later, **MINE})
    assert (again.status_code, again.json()["id"], again.json()["expires_at"]) == (200, made["id"], later)
    assert recalled(remembering) == [NOTE]
