"""Agents in Chromium: binding, test conversation, answer with citations. Needs Node and Chromium."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.console_browser import BROWSER_MARKS, run_browser
from tests.api.answers import Writer

if TYPE_CHECKING:
    from pathlib import Path

    from harness.databases import DatabaseFactory
    from harness.protocol_servers.chat import ChatServer
    from harness.running_service import Service, Tenant

PAYLOAD = "<img src=x onerror=window.pwned=1>"
AGENT = f"agt {PAYLOAD}"
TEXTS = ["A transporter costs ninety euros a day.", f"The deposit of a transporter is 300 euros. {PAYLOAD}"]
FAULTS = ("reports", "errors", "foreign", "leaks", "markup", "violations", "overflow")

pytestmark = BROWSER_MARKS


def create_filled_tenant(service: Service) -> Tenant:
    """Create a tenant with two texts in the knowledge base ``handbook``."""
    tenant = service.create_tenant()
    tenant.admin.post("/v1/knowledge-bases", json={"name": "handbook"}).raise_for_status()
    for text in TEXTS:
        assert tenant.add_text(text, kb="handbook")["status"] == "ready"
    return tenant


def drive(service: Service, *, has_model: bool) -> dict[str, Any]:
    """Run ``console/tests/agents.mjs`` and return its report."""
    tenant = create_filled_tenant(service)
    reader = tenant.admin.post("/v1/api-keys", json={"name": "reader", "role": "reader"}).json()
    keys = {"admin": tenant.key, "reader": reader["key"]}
    return run_browser("agents.mjs", service.url, keys, agent=AGENT, hasModel=has_model)


@pytest.fixture(scope="module")
def report(
    running_chat: ChatServer, make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Report of one run with a chat model."""
    from harness.running_service import build_settings, run_service

    directory: Path = tmp_path_factory.mktemp("agents")
    running_chat.reset()
    running_chat.reply = Writer(answer=f"It is 300 euros [1]. {PAYLOAD}")
    models = {"CARREL_CHAT_BASE_URL": running_chat.base_url, "CARREL_CHAT_MODEL": "talker"}
    with run_service(build_settings(directory, models=models), make_database()) as service:
        return drive(service, has_model=True)


def test_agent_screens_break_no_policy_and_have_no_accessibility_violation(report: dict[str, Any]) -> None:
    for fault in FAULTS:
        assert report[fault] == [], fault


def test_binding_is_created_changed_and_deleted_with_the_shown_bodies(report: dict[str, Any]) -> None:
    bound = report["bound"]
    assert bound["status"] == 201
    assert bound["shown"] == bound["body"]
    assert json.loads(bound["body"]) == {"knowledge_bases": ["handbook"], "citations": "prefix"}
    assert json.loads(bound["text"])["agent_id"] == AGENT
    changed = report["changed"]
    assert (changed["status"], json.loads(changed["body"])) == (200, {"top_k": 1})
    assert changed["ifMatch"]
    assert (report["refused"]["status"], report["refused"]["body"]) == (422, '{"max_top_k": 0}')
    assert report["deleted"]["status"] == 204


def test_conversation_shows_the_array_that_the_agent_gets(report: dict[str, Any]) -> None:
    talk = report["talk"]
    assert talk["shownBody"] == talk["body"]
    assert talk["shownReply"] == talk["text"]
    messages = json.loads(talk["body"])["messages"]
    assert [message["role"] for message in messages] == ["customer", "customer"]
    assert json.loads(report["address"]) == messages
    passages = json.loads(talk["text"])
    assert len(passages) == 2
    assert all(passage.startswith("[") for passage in passages)


def test_answer_streams_and_its_citation_opens_the_chunk(report: dict[str, Any]) -> None:
    sent, shown = report["answerBody"]
    assert sent == shown
    assert json.loads(sent)["stream"] is True
    assert report["answer"] == f"It is 300 euros [1]. {PAYLOAD}"
    assert report["sameLink"] is True
    assert any(text in report["cited"] for text in TEXTS)


def test_reader_has_the_conversation_without_the_binding(report: dict[str, Any]) -> None:
    assert "Only admins with an unrestricted key see bindings." in report["reader"]
    assert "Bind the agent" not in report["reader"]
    assert len(report["readerReply"]) == 2


def test_answer_without_a_model_shows_the_error_of_the_api(service: Service) -> None:
    report = drive(service, has_model=False)
    assert report["problem"]["status"] == 503
    assert report["problem"]["detail"] in report["alert"]
    for fault in FAULTS:
        assert report[fault] == [], fault
