"""Answers over HTTP: the order of events, the context of the model, and failures of the model."""

import io
import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from app.inference.chat.openai_chat import IDLE_TIMEOUT_SECONDS
from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatFailure, ChatServer, ReceivedTextRequest
from harness.protocol_servers.embedding import EmbeddingServer
from harness.protocol_servers.rerank import RerankServer, compute_relevance
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.answers import Writer, events_of, kind, kinds_of, material, names, streamed, text_of
from tests.api.problems import assert_problem
from tests.api.test_log_content import PLANTED, all_requests, lines_of
from tests.fixtures.service_warnings import warning_json

ALONE, SEVERAL = "/v1/knowledge-bases/default/answer", "/v1/answer"
PRICES = (
    "# Prices\n\nA transporter costs ninety euros a day.\n\n# Deposits\n\nThe deposit of a transporter is 300 euros."
)
LEAVE = "Parental leave lasts fourteen weeks."
QUESTION = "What does a transporter cost a day?"
TALK = [
    {"role": "customer", "content": "Do you rent out transporters?"},
    {"role": "agent", "content": "Yes, by the day. We also sell cakes."},
    {"role": "customer", "content": "And what do they charge for that thing?"},
]
UNDERSTOOD = {"query": QUESTION, "analysis": "The price of a transporter.", "indices_of_related_messages": [0]}
ABSTENTION = "Nothing is known of it here."
BY_WORDS = warning_json(
    "citations_by_overlap",
    "The chat model did not name its sources, so the citations are the sources with the words of the answer.",
)


@pytest.fixture(scope="module")
def answering(
    running_chat: ChatServer, make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    with EmbeddingServer() as embedding, RerankServer() as reranker:
        settings = build_settings(
            tmp_path_factory.mktemp("answering"),
            embedding=embedding.settings,
            models={
                "CARREL_CHAT_BASE_URL": running_chat.base_url,
                "CARREL_CHAT_MODEL": "talker",
                "CARREL_CHAT_TIMEOUT_SECONDS": 300,
            },
            rerank={"CARREL_RERANK_URL": reranker.url},
            answers={
                "CARREL_ANSWER_ABSTENTION": ABSTENTION,
                "CARREL_ANSWER_FIRST_TOKEN_TIMEOUT_SECONDS": 300,
                "CARREL_ANSWER_MAX_TOKENS": 77,
            },
        )
        with run_service(settings, make_database()) as running:
            yield running


@pytest.fixture(scope="module")
def tenant(answering: Service) -> Tenant:
    made = answering.create_tenant()
    for name, text in {"prices": PRICES, "leave": LEAVE}.items():
        assert made.add_text(text, external_id=name, title=name, media_type="text/markdown")["status"] == "ready"
    return made


@pytest.fixture
def chat(running_chat: ChatServer) -> ChatServer:
    running_chat.reset()
    running_chat.client_left.clear()
    running_chat.reply = Writer(understood=UNDERSTOOD)
    return running_chat


def ask(tenant: Tenant, path: str = ALONE, **body: Any) -> dict[str, Any]:
    """Return the answer as one object."""
    reply = tenant.admin.post(path, json={"query": QUESTION, "stream": False, "timeout_seconds": 30, **body})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def places(found: dict[str, Any], external_id: str) -> list[int]:
    """Return the numbers of a document's passages."""
    return [one["number"] for one in found["sources"] if one["document"]["title"] == external_id]


@pytest.mark.capability("answer-stream")
@pytest.mark.parametrize("path", [ALONE, SEVERAL])
def test_answer_stream_events_equal_single_object(tenant: Tenant, chat: ChatServer, path: str) -> None:
    events = streamed(tenant.admin, path, query=QUESTION, timeout_seconds=30)
    assert names(events) == ["query", "sources", "token", "citations", "done"]
    assert sum(name == "token" for name, _ in events) > 2
    whole = ask(tenant, path)
    assert text_of(events) == whole.pop("answer") == "It costs ninety euros."
    parts = {name: value for _, data in events if "text" not in data for name, value in data.items()}
    assert {**parts, "timings_ms": None} == {**whole, "timings_ms": None}
    assert whole["question"] == QUESTION
    assert (whole["abstained"], whole["warnings"]) == (False, [])
    assert [one["number"] for one in whole["sources"]] == [1, 2, 3]
    assert {one["text"] for one in whole["sources"]} >= {LEAVE}
    assert whole["usage"] == {"prompt_tokens": 2 * 75, "completion_tokens": 2 * 25}
    assert {"total", "search", "first_token", "answer", "citations"} <= whole["timings_ms"].keys()
    assert list(whole) == list(parts)  # in the order of the events
    assert kinds_of(chat.text_requests) == ["answer", "citations"] * 2
    assert chat.text_requests[0].body["max_tokens"] == 77


def test_answer_passages_of_one_document_are_one_citation(tenant: Tenant, chat: ChatServer) -> None:
    of_prices, of_leave = places(ask(tenant), "prices"), places(ask(tenant), "leave")
    chat.reply = Writer(numbers=[of_prices[1], *of_leave, 99, of_prices[0], 0, -1])
    first, second = ask(tenant)["citations"]
    assert (sorted(first["sources"]), second["sources"]) == (sorted(of_prices), of_leave)
    assert (first["document"]["title"], second["document"]["title"]) == ("prices", "leave")
    assert {one["method"] for one in (first, second)} == {"model"}
    assert first["citation"] == first["document"]["source"]


@pytest.mark.capability("answer-citations")
@pytest.mark.parametrize("written", [["1"], ["[1]"], ["source 1"], [1.0]], ids=str)
def test_answer_citation_numbers_are_read_in_every_form(tenant: Tenant, chat: ChatServer, written: list[Any]) -> None:
    chat.reply = Writer(numbers=written)
    (only,) = ask(tenant)["citations"]
    assert (only["sources"], only["method"]) == ([1], "model")


def test_answer_without_cited_numbers_has_no_citations(tenant: Tenant, chat: ChatServer) -> None:
    chat.reply = Writer(numbers=[])
    found = ask(tenant)
    assert (found["citations"], found["warnings"]) == ([], [])


@pytest.mark.capability("answer-fallback")
@pytest.mark.parametrize(
    "wrong", [{"numbers": [98, 99]}, {"citations": "I used them all."}, {"numbers": "all"}], ids=str
)
def test_answer_unreadable_citations_fall_back_to_overlap(
    tenant: Tenant, chat: ChatServer, wrong: dict[str, Any]
) -> None:
    chat.reply = Writer(answer="Parental leave lasts fourteen weeks, they say.", **wrong)
    found = ask(tenant)
    (only,) = found["citations"]
    assert (only["document"]["title"], only["method"], found["warnings"]) == ("leave", "overlap", [BY_WORDS])


@pytest.mark.parametrize("how", [500, 401, "not_json", "break_off"], ids=str)
def test_answer_failing_citation_call_leaves_answer(tenant: Tenant, chat: ChatServer, how: ChatFailure | int) -> None:
    write = Writer(answer="A transporter costs ninety euros a day.")

    def failing_afterwards(talk: ReceivedTextRequest) -> str:
        chat.fail(how, times=2)
        return write(talk)

    chat.reply = failing_afterwards
    events = streamed(tenant.admin, ALONE, query=QUESTION, timeout_seconds=30)
    assert names(events) == ["query", "sources", "token", "citations", "done"]
    assert text_of(events) == "A transporter costs ninety euros a day."
    (only,) = events[-2][1]["citations"]
    assert (only["document"]["title"], only["method"]) == ("prices", "overlap")
    assert events[-1][1]["warnings"] == [BY_WORDS]
    chat.reset()
    chat.reply = Writer()
    ask(tenant)  # The model answers again, so no failure of this table opens the circuit breaker for the next one.


@pytest.mark.parametrize("how", [500, 401, "empty", "refusal", "disconnect"], ids=str)
def test_answer_model_failing_at_start_is_503(tenant: Tenant, chat: ChatServer, how: ChatFailure | int) -> None:
    chat.fail(how, times=2)
    events = streamed(tenant.admin, ALONE, query=QUESTION, timeout_seconds=30)
    assert names(events) == ["query", "sources", "error"]
    error = events[-1][1]
    assert (error["status"], error["type"]) == (503, "urn:carrel:problem:chat_unavailable")
    assert error["request_id"]
    chat.reset()
    chat.fail(how, times=2)
    reply = tenant.admin.post(ALONE, json={"query": QUESTION, "stream": False})
    assert_problem(reply, 503, "chat_unavailable")
    chat.reset()
    ask(tenant)


@pytest.mark.parametrize("how", ["break_off", "error_event", "no_end"])
def test_answer_model_failing_in_stream_ends_with_error(tenant: Tenant, chat: ChatServer, how: ChatFailure) -> None:
    chat.fail(how)
    events = streamed(tenant.admin, ALONE, query=QUESTION, timeout_seconds=30)
    assert names(events) == ["query", "sources", "token", "error"]
    assert "It costs ninety euros.".startswith(text_of(events))
    assert kinds_of(chat.text_requests) == ["answer"]
    chat.fail(how)
    assert_problem(tenant.admin.post(ALONE, json={"query": QUESTION, "stream": False}), 503, "chat_unavailable")
    chat.reset()
    ask(tenant)


def test_answer_cut_off_has_warning(tenant: Tenant, chat: ChatServer) -> None:
    chat.fail("length")
    assert ask(tenant)["warnings"] == [warning_json("answer_truncated", "The answer was cut off after 77 tokens.")]


@pytest.mark.capability("answer-reasoning")
def test_answer_excludes_reasoning(tenant: Tenant, chat: ChatServer) -> None:
    chat.reply = Writer(answer="<think> ninety or so </think> It costs ninety euros.")
    assert ask(tenant)["answer"] == "It costs ninety euros."
    chat.reply = Writer(answer="<think> and on and on")
    assert_problem(tenant.admin.post(ALONE, json={"query": QUESTION, "stream": False}), 503, "chat_unavailable")


@pytest.mark.capability("answer-abstain")
@pytest.mark.parametrize(
    "body", [{"score_threshold": 1.0, "strategy": "dense"}, {"filter": {"year": 1999}}], ids=["threshold", "filter"]
)
def test_answer_without_relevant_passages_calls_no_model(
    tenant: Tenant, chat: ChatServer, body: dict[str, Any]
) -> None:
    events = streamed(tenant.admin, ALONE, query=QUESTION, timeout_seconds=30, **body)
    assert names(events) == ["query", "sources", "token", "citations", "done"]
    whole = ask(tenant, **body)
    assert text_of(events) == whole["answer"] == ABSTENTION
    assert (whole["abstained"], whole["sources"], whole["citations"]) == (True, [], [])
    assert whole["usage"] == {"prompt_tokens": 0, "completion_tokens": 0}
    assert chat.text_requests == []


@pytest.mark.capability("answer-turns")
def test_answer_model_receives_relevant_turns_only(tenant: Tenant, chat: ChatServer) -> None:
    whole = ask(tenant, query=None, messages=TALK)
    assert (whole["question"], whole["queries"]) == (QUESTION, [QUESTION])
    assert whole["reformulation"] == UNDERSTOOD
    assert sorted(kinds_of(chat.text_requests)) == ["analysis", "answer", "citations", "reformulation"]
    writing = next(talk for talk in chat.text_requests if kind(talk) == "answer")
    given = material(writing)
    assert (given["question"], given["analysis"]) == (QUESTION, UNDERSTOOD["analysis"])
    assert given["conversation"] == [{"index": 0, **TALK[0]}]
    assert "cakes" not in writing.last_message


@pytest.mark.parametrize("body", [{"transformers": []}, {"transformers": ["keywords"]}], ids=["none", "keywords"])
def test_answer_without_analysis_sends_whole_conversation(
    tenant: Tenant, chat: ChatServer, body: dict[str, Any]
) -> None:
    chat.fail(500, times=2 if body["transformers"] else 0)
    whole = ask(tenant, query=None, messages=TALK, **body)
    assert (whole["question"], whole["reformulation"]) == (TALK[2]["content"], None)
    given = next(material(talk) for talk in chat.text_requests if kind(talk) == "answer")
    assert given["conversation"] == [{"index": place, **turn} for place, turn in enumerate(TALK)]
    assert "analysis" not in given
    chat.reset()
    ask(tenant)


@pytest.mark.capability("answer-budget")
def test_answer_context_holds_whole_passages_within_budget(tenant: Tenant, chat: ChatServer) -> None:
    kb = tenant.admin.post("/v1/knowledge-bases", json={"name": "long"})
    kb.raise_for_status()
    for number in range(6):
        tenant.add_text(f"Vehicle {number}: " + "a transporter " * 20, kb="long")
    path = "/v1/knowledge-bases/long/answer"
    every = ask(tenant, path, max_context_tokens=10_000)["sources"]
    few = ask(tenant, path, max_context_tokens=300)["sources"]
    assert len(every) == 6
    assert 0 < len(few) < 6
    assert [one["text"] for one in few] == [one["text"] for one in every[: len(few)]]
    told = material(next(talk for talk in reversed(chat.text_requests) if kind(talk) == "answer"))["sources"]
    assert [one["text"] for one in told] == [one["text"] for one in few]
    assert len(ask(tenant, path, max_context_tokens=10_000, top_k=2)["sources"]) == 2
    tenant.add_text("transporter " * 400, kb="long", external_id="huge", metadata={"huge": True})
    tight = {"query": QUESTION, "max_context_tokens": 200, "filter": {"huge": True}, "expand": "section"}
    wrong = assert_problem(tenant.admin.post(path, json=tight), 422)
    assert wrong["errors"][0]["loc"] == ["body", "max_context_tokens"]


@pytest.mark.capability("answer-rerank")
def test_answer_context_follows_reranked_order(tenant: Tenant, chat: ChatServer) -> None:
    asked_for = "deposit of a transporter"
    every = ask(tenant, query=asked_for, rerank=True)
    scores = [compute_relevance(asked_for, one["text"]) for one in every["sources"]]
    assert [one["score"] for one in every["sources"]] == pytest.approx(scores)
    assert scores == sorted(scores, reverse=True)
    assert every["warnings"] == []
    (first,) = ask(tenant, query=asked_for, rerank=True, top_k=1)["sources"]
    assert first["text"] == every["sources"][0]["text"]


@pytest.mark.capability("answer-compression")
def test_answer_compression_replaces_source_texts(tenant: Tenant, chat: ChatServer) -> None:
    write = Writer(compressed="Ninety.")

    def shortens(talk: ReceivedTextRequest) -> str:
        return '{"text": ""}' if kind(talk) == "compression" and LEAVE in talk.last_message else write(talk)

    chat.reply = shortens
    whole = ask(tenant, compress=True)
    assert [one["compressed_text"] for one in whole["sources"]] == ["Ninety.", "Ninety."]
    assert {one["document"]["title"] for one in whole["sources"]} == {"prices"}
    assert sorted(kinds_of(chat.text_requests)) == ["answer", "citations", *["compression"] * 3]
    told = material(next(talk for talk in chat.text_requests if kind(talk) == "answer"))["sources"]
    assert [(one["number"], one["text"]) for one in told] == [(1, "Ninety."), (2, "Ninety.")]
    assert whole["usage"]["prompt_tokens"] == 5 * 75
    assert "compress" in whole["timings_ms"]
    chat.reset()
    chat.reply = Writer(compressed="")
    assert ask(tenant, compress=True)["abstained"]
    chat.reset()
    chat.fail(401, times=3)
    failed = ask(tenant, compress=True)
    assert [one["compressed_text"] for one in failed["sources"]] == [None] * 3
    assert failed["warnings"] == [
        warning_json("sources_not_compressed", "3 of the sources could not be compressed, and were used unchanged.")
    ]


@pytest.mark.capability("answer-cancel")
@pytest.mark.parametrize("how", ["stall", "slow"])
@pytest.mark.parametrize("stream", [True, False])
def test_answer_caller_leaving_cancels_model_call(
    tenant: Tenant, chat: ChatServer, how: ChatFailure, stream: bool
) -> None:
    chat.fail(how)
    body = {"query": QUESTION, "stream": stream}
    last = "token" if how == "stall" else "sources"
    if stream:
        with tenant.admin.stream("POST", ALONE, json=body) as reply:
            events = events_of(reply.iter_lines())
            assert last in (name for name, _ in events)
            chat.wait_for_text_request()
    else:
        leaver = HTTPConnection(tenant.service.url.removeprefix("http://"))
        headers = {"Authorization": f"Bearer {tenant.key}", "Content-Type": "application/json"}
        leaver.request("POST", ALONE, json.dumps(body), headers)
        chat.wait_for_text_request()
        leaver.close()
    assert chat.client_left.wait(IDLE_TIMEOUT_SECONDS * 0.75)  # no time limit of the service has ended the request yet


@pytest.mark.capability("answer-isolation")
def test_answer_uses_no_documents_of_others(answering: Service, tenant: Tenant, chat: ChatServer) -> None:
    other = answering.create_tenant("other")
    kb = tenant.admin.get("/v1/knowledge-bases/default").json()["id"]
    assert ask(other)["abstained"]
    for named in (kb, "nothing"):
        for path, body in ((f"/v1/knowledge-bases/{named}/answer", {}), (SEVERAL, {"knowledge_bases": [named]})):
            assert_problem(other.admin.post(path, json={"query": QUESTION, **body}), 404, "knowledge_base_not_found")
    other.add_text("A transporter costs ten crowns.")
    assert [one["text"] for one in ask(other, SEVERAL)["sources"]] == ["A transporter costs ten crowns."]
    assert "ninety" not in "".join(talk.last_message for talk in chat.text_requests if kind(talk) == "answer")


@pytest.mark.capability("answer-no-model")
def test_answer_without_chat_model_names_setting(service: Service) -> None:
    reader = service.create_tenant().create_client("reader")
    for path in (ALONE, SEVERAL):
        for stream in (True, False):
            found = assert_problem(reader.post(path, json={"query": "x", "stream": stream}), 503, "chat_not_configured")
            assert "CARREL_CHAT_BASE_URL and CARREL_CHAT_MODEL" in found["detail"]


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({"query": "x", "max_context_tokens": 199}, ["body", "max_context_tokens"]),
        ({"query": "x", "max_context_tokens": 200_001}, ["body", "max_context_tokens"]),
        ({"query": "x", "strategy": "magic"}, ["body", "strategy"]),
        ({"queries": [{"vector": [1.0] * 64}]}, ["body"]),
        ({"messages": [{"role": "agent", "content": "Hello."}]}, ["body"]),
        ({"messages": []}, ["body"]),
    ],
    ids=str,
)
def test_answer_invalid_request_is_422_before_stream(
    tenant: Tenant, chat: ChatServer, body: dict[str, Any], loc: list[str]
) -> None:
    found = assert_problem(tenant.admin.post(ALONE, json=body), 422)
    assert found["errors"][0]["loc"] == loc
    assert chat.text_requests == []


def test_answer_counts_as_search(answering: Service, chat: ChatServer) -> None:
    tenant = answering.create_tenant()
    path = f"/v1/tenants/{tenant.id}"
    answering.operator.patch(path, json={"quotas": {"searches_per_second": 0.01}}).raise_for_status()
    body = {"query": QUESTION, "timeout_seconds": 30}
    with tenant.admin.stream("POST", ALONE, json=body) as reply:
        assert (reply.status_code, reply.headers["ratelimit-remaining"]) == (200, "0")
        reply.read()
    refused = tenant.admin.post(ALONE, json=body)
    assert_problem(refused, 429)
    assert int(refused.headers["retry-after"]) > 1
    assert_problem(tenant.admin.post("/v1/search", json={"query": QUESTION}), 429)
    (today,) = tenant.admin.get("/v1/usage").json()["items"]
    assert today["searches"] == 1


def test_answer_content_is_not_logged(answering: Service, chat: ChatServer, stream: io.StringIO) -> None:
    tenant = answering.create_tenant()
    tenant.add_text(f"The {PLANTED} plays.", title=PLANTED)
    body: dict[str, Any] = {"query": PLANTED, "timeout_seconds": 30}
    chat.reply = Writer(answer=f"The {PLANTED} plays.", citations=PLANTED, compressed=PLANTED)
    ask(tenant, **body)
    streamed(tenant.admin, ALONE, **body, compress=True)
    chat.fail("garbage")
    ask(tenant, **body, compress=True)
    for how in ("break_off", "refusal", 401):
        chat.fail(how)
        streamed(tenant.admin, ALONE, **body)
    tenant.admin.post(ALONE, json={"query": PLANTED, "max_context_tokens": PLANTED, PLANTED: PLANTED})
    lines = lines_of(stream, requests=2 + 7, counted=all_requests)
    assert PLANTED not in stream.getvalue().lower()
    assert {"answer.citations_failed", "answer.compression_failed", "request.unavailable"} <= {
        line["event"] for line in lines
    }


def test_answer_stream_events_are_in_openapi(answering: Service) -> None:
    paths = answering.create_client().get("/openapi.json").json()["paths"]
    for path in (SEVERAL, "/v1/knowledge-bases/{kb}/answer"):
        content = paths[path]["post"]["responses"]["200"]["content"]
        assert set(content) == {"application/json", "text/event-stream"}
        described = content["text/event-stream"]["itemSchema"]["oneOf"]
        told = [one["properties"]["event"]["const"] for one in described]
        assert told == ["query", "sources", "token", "citations", "done", "error"]


@pytest.mark.parametrize("path", [ALONE, SEVERAL])
def test_answer_source_that_an_earlier_message_quotes_is_used(tenant: Tenant, chat: ChatServer, path: str) -> None:
    """The model answers from sources alone, and an earlier message is none. So a quoted source keeps its place."""
    fields: dict[str, Any] = {"top_k": 1}
    first = ask(tenant, path, **fields)["sources"][0]["text"]
    quoting = [TALK[0], {"role": "assistant", "content": first}, {"role": "user", "content": QUESTION}]
    assert [source["text"] for source in ask(tenant, path, **fields, messages=quoting)["sources"]] == [first]
    others = ask(tenant, path, **fields, messages=quoting, repeat="exclude")["sources"]
    assert first not in [source["text"] for source in others]
