"""Answers in the name of an agent: knowledge bases, prompts, limits and chats of its binding."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer, ReceivedTextRequest
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.problems import assert_problem

AGENT_PROMPT, HANDBOOK_PROMPT, FAQ_PROMPT = "Answer as a pirate.", "Name the page.", "Be brief."
TEXTS = {
    "handbook": ["A transporter costs ninety euros a day.", "The deposit of a transporter is 300 euros."],
    "faq": ["A transporter is returned with a full tank."],
    "secret": ["The transporter of the boss is for free."],
}


@pytest.fixture(scope="module")
def answering(
    running_chat: ChatServer, make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    with EmbeddingServer() as embedding:
        models = {"CARREL_CHAT_BASE_URL": running_chat.base_url, "CARREL_CHAT_MODEL": "talker"}
        settings = build_settings(tmp_path_factory.mktemp("agents"), embedding=embedding.settings, models=models)
        with run_service(settings, make_database()) as running:
            yield running


@pytest.fixture(scope="module")
def tenant(answering: Service) -> Tenant:
    made = answering.create_tenant()
    prompts = {"handbook": HANDBOOK_PROMPT, "faq": FAQ_PROMPT, "secret": None}
    for name, texts in TEXTS.items():
        body = {"name": name, "retrieval": {"answer_prompt": prompts[name]}}
        made.admin.post("/v1/knowledge-bases", json=body).raise_for_status()
        for number, text in enumerate(texts):
            assert made.add_text(text, kb=name, metadata={"number": number})["status"] == "ready"
    return made


@pytest.fixture
def chat(running_chat: ChatServer) -> ChatServer:
    running_chat.reset()
    running_chat.delay_seconds = 0.0
    running_chat.reply = write_reply
    return running_chat


def write_reply(talk: ReceivedTextRequest) -> str:
    material = json.loads(talk.last_message)
    return json.dumps({"numbers": [1]}) if "answer" in material else "Ninety euros."


def bind(tenant: Tenant, agent: str = "agt", **settings: Any) -> None:
    body = {"knowledge_bases": ["handbook", "faq"], **settings}
    tenant.admin.put(f"/v1/agents/{agent}", json=body).raise_for_status()


def answer(tenant: Tenant, path: str = "/v1/answer", **body: Any) -> dict[str, Any]:
    body = {"query": "What about the transporter?", "stream": False, "explain": True, **body}
    reply = tenant.admin.post(path, json=body)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def instructions(chat: ChatServer) -> str:
    """Return the instructions of the answer, which are the first request of these tests."""
    return chat.text_requests[0].messages[0]["content"]


def sources(found: dict[str, Any]) -> set[str]:
    return {source["text"] for source in found["sources"]}


def codes(found: dict[str, Any]) -> set[str]:
    return {warning["code"] for warning in found["warnings"]}


@pytest.mark.capability("answer-agent")
def test_answer_uses_knowledge_bases_and_prompt_of_agent(tenant: Tenant, chat: ChatServer) -> None:
    bind(tenant, answer_prompt=AGENT_PROMPT)
    found = answer(tenant, agent_id="agt")
    assert sources(found) == {*TEXTS["handbook"], *TEXTS["faq"]}
    assert found["explain"]["prompts"] == {"answer": {"owner": "agt", "version": 1}}
    assert AGENT_PROMPT in instructions(chat)
    assert HANDBOOK_PROMPT not in instructions(chat)
    assert codes(found) == set()


def test_streamed_answer_uses_prompt_of_agent(tenant: Tenant, chat: ChatServer) -> None:
    bind(tenant, answer_prompt=AGENT_PROMPT)
    body = {"query": "What about the transporter?", "agent_id": "agt", "explain": True}
    with tenant.admin.stream("POST", "/v1/answer", json=body) as reply:
        events = reply.read().decode()
    assert '"prompts":{"answer":{"owner":"agt"' in events
    assert AGENT_PROMPT in instructions(chat)


def test_answer_from_one_knowledge_base_uses_prompt_of_agent_before_its_own(tenant: Tenant, chat: ChatServer) -> None:
    bind(tenant, answer_prompt=AGENT_PROMPT)
    path = "/v1/knowledge-bases/handbook/answer"
    found = answer(tenant, path, agent_id="agt")
    assert (sources(found), AGENT_PROMPT in instructions(chat)) == (set(TEXTS["handbook"]), True)
    chat.reset()
    found = answer(tenant, path)
    assert found["explain"]["prompts"] == {"answer": {"owner": "handbook", "version": 1}}
    assert HANDBOOK_PROMPT in instructions(chat)


@pytest.mark.capability("answer-prompts-warning")
@pytest.mark.parametrize("has_agent", [False, True], ids=["no agent", "agent without a prompt"])
def test_answer_from_several_knowledge_bases_warns_of_unused_prompts(
    tenant: Tenant, chat: ChatServer, has_agent: bool
) -> None:
    bind(tenant)
    body = {"agent_id": "agt"} if has_agent else {"knowledge_bases": ["handbook", "faq"]}
    found = answer(tenant, **body)
    (warning,) = found["warnings"]
    assert (warning["code"], "'handbook', 'faq'" in warning["message"]) == ("answer_prompts_not_used", True)
    assert found["explain"]["prompts"] == {}
    assert not any(prompt in instructions(chat) for prompt in (HANDBOOK_PROMPT, FAQ_PROMPT))


def test_search_of_several_knowledge_bases_does_not_warn_of_answer_prompts(tenant: Tenant) -> None:
    body = {"query": "transporter", "knowledge_bases": ["handbook", "faq"]}
    assert tenant.admin.post("/v1/search", json=body).json()["warnings"] == []


def test_filter_of_agent_applies_with_filter_of_request(tenant: Tenant, chat: ChatServer) -> None:
    bind(tenant, filter={"number": 0})
    assert sources(answer(tenant, agent_id="agt")) == {TEXTS["handbook"][0], *TEXTS["faq"]}
    assert sources(answer(tenant, agent_id="agt", filter={"number": {"gte": 1}})) == set()


@pytest.mark.parametrize(("top_k", "count"), [(None, 1), (1, 1), (3, 1)], ids=str)
def test_max_top_k_of_agent_limits_sources(tenant: Tenant, chat: ChatServer, top_k: int | None, count: int) -> None:
    bind(tenant, max_top_k=1)
    body: dict[str, Any] = {} if top_k is None else {"top_k": top_k}
    assert len(answer(tenant, agent_id="agt", **body)["sources"]) == count


def test_fields_of_request_precede_those_of_agent(tenant: Tenant, chat: ChatServer) -> None:
    bind(tenant, strategy="lexical", score_threshold=0.99)
    assert answer(tenant, agent_id="agt")["strategy"] == "lexical"
    found = answer(tenant, agent_id="agt", strategy="dense", score_threshold=None)
    assert (found["strategy"], bool(found["sources"])) == ("dense", True)


@pytest.mark.capability("answer-session")
def test_session_is_searched_if_binding_opens_it(tenant: Tenant, chat: ChatServer) -> None:
    note = "The transporter of this chat is green."
    tenant.add_text(note, kb="handbook", chat_id="chat-1", agent_id="agt")
    bind(tenant, session_scope=True, answer_prompt=AGENT_PROMPT)
    assert note in sources(answer(tenant, agent_id="agt", session_id="chat-1"))
    assert note not in sources(answer(tenant, agent_id="agt", session_id="chat-2"))
    assert note not in sources(answer(tenant, agent_id="agt"))
    bind(tenant, answer_prompt=AGENT_PROMPT)
    found = answer(tenant, agent_id="agt", session_id="chat-1")
    assert (note in sources(found), codes(found)) == (False, {"session_not_searched"})
    assert codes(answer(tenant, "/v1/knowledge-bases/secret/answer", session_id="chat-1")) == {"session_not_searched"}


def test_unbound_agent_is_a_warning(tenant: Tenant, chat: ChatServer) -> None:
    found = answer(tenant, agent_id="nobody", knowledge_bases=["secret"])
    assert (sources(found), codes(found)) == (set(TEXTS["secret"]), {"agent_not_bound"})


def test_agent_without_knowledge_bases_abstains(tenant: Tenant, chat: ChatServer) -> None:
    bind(tenant, "empty", knowledge_bases=[])
    found = answer(tenant, agent_id="empty")
    assert (found["abstained"], found["sources"], chat.text_requests) == (True, [], [])


def test_agent_reads_only_what_the_key_may_read(tenant: Tenant, chat: ChatServer) -> None:
    bind(tenant, knowledge_bases=["handbook", "secret"])
    reader = tenant.create_client("reader", knowledge_bases=["faq", "handbook"])
    body = {"query": "transporter", "stream": False, "agent_id": "agt"}
    found = reader.post("/v1/answer", json=body).raise_for_status().json()
    assert sources(found) == set(TEXTS["handbook"])


@pytest.mark.parametrize("field", ["agent_id", "session_id"])
@pytest.mark.parametrize("value", ["", "x" * 257, "a\0b", 7], ids=["empty", "long", "nul", "number"])
def test_answer_with_invalid_agent_is_422(tenant: Tenant, chat: ChatServer, field: str, value: Any) -> None:
    problem = assert_problem(tenant.admin.post("/v1/answer", json={"query": "x", field: value}), 422, "invalid")
    assert problem["errors"][0]["loc"] == ["body", field]
