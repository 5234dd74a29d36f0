"""Answers of a slow model: each time limit holds, and the text received before it is returned."""

from collections.abc import Iterator
from typing import Any

import pytest

from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer, ReceivedTextRequest
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Tenant, build_settings, run_service
from tests.api.answers import Writer, kind, names, streamed, text_of
from tests.api.problems import assert_problem
from tests.fixtures.service_warnings import warning_json

ALONE = "/v1/knowledge-bases/default/answer"
TEXT = "A transporter costs ninety euros a day."
ASKED: dict[str, Any] = {"query": "What does a transporter cost?", "timeout_seconds": 30}


@pytest.fixture(scope="module")
def tenant(
    running_chat: ChatServer,
    embedding: EmbeddingServer,
    make_database: DatabaseFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Tenant]:
    """Tenant of a service with chat limits: 3 seconds for the first token, 5 for all tokens, 1 for citations."""
    settings = build_settings(
        tmp_path_factory.mktemp("late"),
        embedding=embedding.settings,
        models={
            "CARREL_CHAT_BASE_URL": running_chat.base_url,
            "CARREL_CHAT_MODEL": "talker",
            "CARREL_CHAT_TIMEOUT_SECONDS": 5,
        },
        answers={
            "CARREL_ANSWER_FIRST_TOKEN_TIMEOUT_SECONDS": 3,
            "CARREL_ANSWER_CITATION_TIMEOUT_SECONDS": 1,
            "CARREL_ANSWER_COMPRESSION_TIMEOUT_SECONDS": 1,
        },
    )
    with run_service(settings, make_database()) as running:
        made = running.create_tenant()
        assert made.add_text(TEXT)["status"] == "ready"
        yield made


@pytest.fixture
def chat(running_chat: ChatServer) -> ChatServer:
    running_chat.reset()
    running_chat.client_left.clear()
    running_chat.reply = Writer(answer=TEXT)
    return running_chat


@pytest.mark.capability("answer-late")
def test_answer_silent_model_is_503(tenant: Tenant, chat: ChatServer) -> None:
    chat.fail("slow", times=2)
    events = streamed(tenant.admin, ALONE, **ASKED)
    assert names(events) == ["query", "sources", "error"]
    assert (events[-1][1]["status"], events[-1][1]["type"]) == (503, "urn:carrel:problem:chat_unavailable")
    assert chat.client_left.wait(30)
    assert_problem(tenant.admin.post(ALONE, json={**ASKED, "stream": False}), 503, "chat_unavailable")
    assert len(chat.text_requests) == 2  # no retry after the timeout


def test_answer_stalled_stream_ends_with_error(tenant: Tenant, chat: ChatServer) -> None:
    chat.fail("stall")
    events = streamed(tenant.admin, ALONE, **ASKED)
    assert names(events) == ["query", "sources", "token", "error"]
    assert text_of(events).strip() == "A"
    assert chat.client_left.wait(30)


def test_answer_late_citations_fall_back_to_overlap(tenant: Tenant, chat: ChatServer) -> None:
    write = chat.reply

    def late_afterwards(talk: ReceivedTextRequest) -> str:
        if kind(talk) == "answer":
            chat.fail("slow")
        return write(talk)

    chat.reply = late_afterwards
    events = streamed(tenant.admin, ALONE, **ASKED)
    assert names(events) == ["query", "sources", "token", "citations", "done"]
    assert text_of(events) == TEXT
    assert [one["method"] for one in events[-2][1]["citations"]] == ["overlap"]


def test_answer_late_compression_uses_original_texts(tenant: Tenant, chat: ChatServer) -> None:
    chat.fail("slow")
    events = streamed(tenant.admin, ALONE, compress=True, **ASKED)
    assert names(events) == ["query", "sources", "token", "citations", "done"]
    (source,) = events[1][1]["sources"]
    assert (source["compressed_text"], source["text"]) == (None, TEXT)
    assert events[-1][1]["warnings"][0] == warning_json(
        "sources_not_compressed", "1 of the sources could not be compressed, and were used unchanged."
    )


def test_answer_incomplete_search_without_results_is_503(
    tenant: Tenant, chat: ChatServer, embedding: EmbeddingServer
) -> None:
    embedding.fail(500, times=None)
    try:
        reply = tenant.admin.post(ALONE, json={"query": "xylophone", "timeout_seconds": 30})
    finally:
        embedding.reset()
    assert_problem(reply, 503, "search_unavailable")
    assert chat.text_requests == []
