"""Transformers: the queries with a chat model, without one, and with a failing one."""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from app.errors import InvalidInputError
from app.inference.chat.openai_chat import OpenAIChat
from app.retrieval.explain import Reformulation
from app.retrieval.query_transformation import Conversation, CorpusContext, QueryTransformer
from app.retrieval.search_run import SearchRun
from app.retrieval.transformers import TRANSFORMERS, resolve_steps, resolve_stored_steps
from app.retrieval.transformers.transformer import MAX_CALLS, TransformContext, TransformResult
from app.retrieval.types import Message, NamedTransformer, Query
from app.warnings import ServiceWarning
from harness.protocol_servers.chat import ChatFailure, ChatServer, ReceivedTextRequest

TALK = [
    Message("customer", "Do you rent vans?"),
    Message("agent", "Yes, by the day."),
    Message("customer", "And what do they cost?"),
]
QUESTION = TALK[-1].content
LONG = "why? " * 1500 + "tell me"
CONTEXT = TransformContext(
    name="",
    queries=["how long is the leave?"],
    messages=(),
    question="how long is the leave?",
    languages=["english"],
    prompt=None,
    max_queries=16,
    chat=None,
    search_run=SearchRun.from_timeout(30),
)
FOUND = ["Vans cost ninety euros.", "Bicycles are cheaper. " * 200]


async def finds(_queries: Sequence[str], _course: SearchRun, *, max_chunks: int) -> list[str] | None:
    """Return the passages of a first search."""
    return FOUND[:max_chunks]


async def ground() -> CorpusContext:
    """Return an empty description of the corpus."""
    return CorpusContext()


async def finds_nothing_in_time(_queries: Sequence[str], _course: SearchRun, *, max_chunks: int) -> list[str] | None:
    """Return None, as a first search that fails."""
    return None


def material(talk: ReceivedTextRequest) -> dict[str, Any]:
    """Return the input that the model received."""
    (user,) = (message["content"] for message in talk.messages if message["role"] == "user")
    found: dict[str, Any] = json.loads(user)
    return found


def writes(*endings: str) -> Callable[[ReceivedTextRequest], str]:
    """Return a model that writes the query with each of these endings."""
    return lambda talk: json.dumps({"texts": [material(talk)["query"] + ending for ending in endings]})


def prompt_of(talk: ReceivedTextRequest) -> str:
    """Return all messages that the model received."""
    return "\n".join(message["content"] for message in talk.messages)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


@asynccontextmanager
async def chat_at(server: ChatServer) -> AsyncIterator[OpenAIChat]:
    chat = OpenAIChat(server.base_url, None, "talker", first_delay_seconds=0.01)
    try:
        yield chat
    finally:
        await chat.close()


async def transform(
    wished: NamedTransformer, server: ChatServer | None = None, *, seconds: float = 30, **given: Any
) -> tuple[TransformResult, list[ServiceWarning]]:
    """Run a transformer; return its result and the warnings."""
    (step,) = resolve_steps([wished], loc=())
    context = replace(CONTEXT, name=step.transformer.name, search_run=SearchRun.from_timeout(seconds), **given)
    if server is None:
        return await step.transformer.run(context, step.options), context.search_run.notices
    async with chat_at(server) as chat:
        return await step.transformer.run(replace(context, chat=chat), step.options), context.search_run.notices


async def queries(wished: NamedTransformer, server: ChatServer, **given: Any) -> list[str]:
    """Return the queries of a transformer without warnings."""
    rewritten, remarks = await transform(wished, server, **given)
    assert remarks == []
    return list(rewritten.queries)


async def test_reformulate_conversation_becomes_one_query(server: ChatServer) -> None:
    answer = {"query": " price of\nvans\0", "analysis": "wants prices", "indices_of_related_messages": [2, 0, 7, 0, -1]}
    server.reply = lambda _: json.dumps(answer)
    asked: dict[str, Any] = {"queries": [QUESTION, "all of it"], "messages": TALK, "question": QUESTION}
    rewritten, remarks = await transform("reformulate", server, **asked)
    assert (list(rewritten.queries), remarks) == (["price of vans"], [])
    assert await rewritten.await_reformulation() == Reformulation("price of vans")
    (talk,) = server.text_requests
    assert "indices_of_related_messages" not in prompt_of(talk)
    assert material(talk) == {
        "conversation": [
            {"index": number, "role": message.role, "content": message.content} for number, message in enumerate(TALK)
        ],
        "question": QUESTION,
    }


@pytest.mark.parametrize(
    ("analysis", "expected", "told"),
    [
        (
            {"analysis": " wants\0prices", "indices_of_related_messages": [2, 0, 7, 0, -1]},
            Reformulation("price of vans", "wants prices", [0, 2]),
            [],
        ),
        (
            {"analysis": 7},
            Reformulation("price of vans", "", [0, 1, 2]),
            [ServiceWarning("chat_model_unavailable", "The chat model did not answer, so reformulate ran without it.")],
        ),
    ],
    ids=["understood", "not understood"],
)
async def test_reformulate_with_analysis_calls_model_twice(
    server: ChatServer, analysis: Any, expected: Reformulation, told: list[ServiceWarning]
) -> None:
    query = {"query": "price of vans"}
    server.reply = lambda talk: json.dumps(analysis if "indices_of_related_messages" in prompt_of(talk) else query)
    course = SearchRun.from_timeout(30)
    (step,) = resolve_steps(["reformulate"], loc=())
    async with chat_at(server) as chat:
        context = replace(
            CONTEXT, name="reformulate", messages=TALK, question=QUESTION, search_run=course, needs_analysis=True
        )
        rewritten = await step.transformer.run(replace(context, chat=chat), step.options)
        assert list(rewritten.queries) == ["price of vans"]
        assert await rewritten.await_reformulation() == expected
    assert course.notices == told
    assert [material(talk)["question"] for talk in server.text_requests] == [QUESTION, QUESTION]


@pytest.mark.capability("talk-new-topic")
@pytest.mark.parametrize(
    "given",
    [
        {"messages": TALK[-1:], "question": QUESTION, "queries": [QUESTION]},
        {"messages": [Message("user", LONG)], "question": LONG, "queries": [LONG]},
        {"messages": [Message("agent", " "), TALK[-1]], "question": QUESTION, "queries": [QUESTION]},
        {"messages": TALK, "question": None, "queries": ["one", "another"]},
        {"messages": [], "question": "one", "queries": ["one"]},
    ],
    ids=["one turn", "one long turn", "nothing said before", "several questions", "no conversation"],
)
async def test_reformulate_without_conversation_calls_no_model(server: ChatServer, given: dict[str, Any]) -> None:
    assert await queries("reformulate", server, **given) == given["queries"]
    assert server.text_requests == []


@pytest.mark.capability("transformers-texts")
@pytest.mark.parametrize(
    ("wished", "endings", "expected"),
    [
        ("multi_query", ("a", "b", "c", "d"), ["q", "qa", "qb", "qc"]),
        (("multi_query", {"num_queries": 1}), ("a", "b"), ["q", "qa"]),
        ("multi_query", ("", "a", "a", " "), ["q", "qa"]),
        ("hyde", ("a", "b"), ["q", "qa"]),
        (("hyde", {"n_hypothetical": 2, "replace": True}), ("a", "b"), ["qa", "qb"]),
        (("hyde", {"replace": True}), (), ["q"]),
        ("decompose", ("a", "b"), ["q", "qa", "qb"]),
        ("decompose", (), ["q"]),
        ("keywords", ("a", "b"), ["qa qb"]),
        (("keywords", {"max_keywords": 1}), ("a", "b"), ["qa"]),
        ("keywords", (), ["q"]),
        ("translate", ("a", "b"), ["qa"]),
        ("translate", (), ["q"]),
    ],
    ids=str,
)
async def test_transformer_model_texts_are_queries(
    server: ChatServer, wished: NamedTransformer, endings: tuple[str, ...], expected: list[str]
) -> None:
    server.reply = writes(*endings)
    assert await queries(wished, server, queries=["q"]) == expected


@pytest.mark.capability("transformers-limit")
@pytest.mark.parametrize(
    ("name", "count", "most", "expected"),
    [
        ("multi_query", 3, 16, 12),
        ("multi_query", 4, 16, 16),
        ("multi_query", 10, 16, 16),
        ("multi_query", 15, 16, 16),
        ("decompose", 6, 7, 7),
    ],
)
async def test_transformer_queries_are_limited(
    server: ChatServer, name: str, count: int, most: int, expected: int
) -> None:
    server.reply = writes("a", "b", "c")
    asked = [f"question {number} " for number in range(count)]
    rewritten, remarks = await transform(name, server, queries=asked, max_queries=most)
    assert (rewritten.queries[:count], len(rewritten.queries)) == (asked, expected)
    assert len(server.text_requests) == min(-(-(most - count) // 3), count, MAX_CALLS)
    cut = ServiceWarning(
        "query_limit_reached", f"{name} may return at most {most} queries, so the others were dropped."
    )
    left = ServiceWarning(
        "query_limit_reached",
        f"{name} was applied only to the first {len(server.text_requests)} of {count} queries (query limit).",
    )
    assert remarks == ([] if count * 4 <= most else [left] if (most - count) % 3 == 0 else [cut])


@pytest.mark.capability("transformers-first-hits")
async def test_transformer_prompt_contains_first_hits(server: ChatServer) -> None:
    server.reply = writes(" (price)")
    wished = ("retrieval_rewrite", {"chunks": 2})
    assert await queries(wished, server, queries=["q", "p"], preview_search=finds) == ["q (price)", "p (price)"]
    for talk in server.text_requests:
        shown = material(talk)["passages"]
        assert (shown[0], len(shown), len(shown[1])) == (FOUND[0], 2, 800)
        assert FOUND[0] not in talk.messages[0]["content"]
    server.reset()
    rewritten, remarks = await transform("retrieval_rewrite", server, preview_search=finds_nothing_in_time)
    assert (list(rewritten.queries), server.text_requests) == (CONTEXT.queries, [])
    assert remarks == [
        ServiceWarning(
            "transformer_skipped", "The first search was not possible in time, so retrieval_rewrite was skipped."
        )
    ]


async def test_transformer_without_model_runs_no_first_search() -> None:
    async def fails(_queries: Sequence[str], _course: SearchRun, *, max_chunks: int) -> list[str] | None:
        raise AssertionError

    rewritten, remarks = await transform("retrieval_rewrite", preview_search=fails)
    assert list(rewritten.queries) == CONTEXT.queries
    assert remarks == [
        ServiceWarning("chat_model_not_configured", "No chat model is configured, so retrieval_rewrite ran without it.")
    ]


async def test_transformer_at_query_limit_has_warning(server: ChatServer) -> None:
    asked = [str(number) for number in range(16)]
    rewritten, remarks = await transform("hyde", server, queries=asked)
    assert (list(rewritten.queries), server.text_requests) == (asked, [])
    assert remarks == [ServiceWarning("query_limit_reached", "There are already 16 queries, so hyde added none.")]


@pytest.mark.capability("transformers-prompt")
async def test_transformer_uses_prompt_of_knowledge_base(server: ChatServer) -> None:
    server.reply = writes(" (vans)")
    own = 'Say "van" for {transporter}.'
    assert await queries("prompt_rewrite", server, prompt=own, queries=["q"]) == ["q (vans)"]
    (talk,) = server.text_requests
    assert own in talk.messages[0]["content"]
    assert material(talk) == {"query": "q"}
    rewritten, remarks = await transform("prompt_rewrite", server)
    assert (list(rewritten.queries), len(server.text_requests)) == (CONTEXT.queries, 1)
    assert [remark.code for remark in remarks] == ["rewrite_prompt_missing"]


@pytest.mark.capability("transformers-language")
async def test_transformer_prompt_names_language_of_corpus(server: ChatServer) -> None:
    server.reply = writes(" auf Deutsch")
    assert await queries("translate", server, queries=["q"], languages=["german"]) == ["q auf Deutsch"]
    assert "german" in prompt_of(server.text_requests[0])
    for languages in ([], ["english", "german"]):
        rewritten, remarks = await transform("translate", server, languages=languages)
        assert (list(rewritten.queries), len(remarks), len(server.text_requests)) == (CONTEXT.queries, 1, 1)


WITHOUT = {"keywords": ["long leave"], "prompt_rewrite": CONTEXT.queries}


@pytest.mark.parametrize("name", TRANSFORMERS)
async def test_transformer_without_model_has_warning(name: str) -> None:
    rewritten, remarks = await transform(name, messages=TALK, prompt="Be brief.")
    assert list(rewritten.queries) == WITHOUT.get(name, CONTEXT.queries)
    assert remarks == [
        ServiceWarning("chat_model_not_configured", f"No chat model is configured, so {name} ran without it.")
    ]


@pytest.mark.parametrize("how", [500, 400, "garbage", "empty", "refusal", "not_json", "break_off"], ids=str)
@pytest.mark.parametrize("name", TRANSFORMERS)
async def test_transformer_failing_model_has_warning(server: ChatServer, name: str, how: ChatFailure | int) -> None:
    server.fail(how, times=5)
    rewritten, remarks = await transform(
        name, server, messages=TALK, prompt="Be brief.", seconds=5, preview_search=finds
    )
    assert list(rewritten.queries) == WITHOUT.get(name, CONTEXT.queries)
    assert remarks == [
        ServiceWarning("chat_model_unavailable", f"The chat model did not answer, so {name} ran without it.")
    ]


async def test_transformer_reply_of_other_shape_is_ignored(server: ChatServer) -> None:
    for said in ("no object", "{}", '{"texts": "one"}', '{"query": ""}', '{"query": " \\n"}'):
        server.reply = lambda _, said=said: said  # type: ignore[misc]
        for name in ("reformulate", "multi_query"):
            rewritten, _ = await transform(name, server, messages=TALK)
            assert list(rewritten.queries) == CONTEXT.queries, (said, name)


async def test_transformer_without_time_calls_no_model(server: ChatServer) -> None:
    rewritten, remarks = await transform("hyde", server, seconds=0)
    assert (list(rewritten.queries), server.text_requests) == (CONTEXT.queries, [])
    assert remarks == [
        ServiceWarning(
            "chat_model_skipped", "The remaining time was too short for the chat model, so hyde ran without it."
        )
    ]


def test_resolve_steps_expanding_transformers_come_last() -> None:
    steps = resolve_steps(["multi_query", "translate", ("hyde", {}), "reformulate"], loc=())
    assert [step.transformer.name for step in steps] == ["translate", "reformulate", "multi_query", "hyde"]


async def test_transformers_multiply_queries_up_to_limit(server: ChatServer) -> None:
    async def made(*wished: NamedTransformer) -> tuple[list[str], list[ServiceWarning]]:
        course = SearchRun.from_timeout(30)
        async with chat_at(server) as chat:
            rewriting = QueryTransformer(chat, course, ground, None, uses_default_transformers=False)
            found, _ = await rewriting.run(
                resolve_steps(wished, loc=()), [Query("q")], Conversation((), is_query_source=False)
            )
        return [query.text or "" for query in found], course.notices

    def reply(talk: ReceivedTextRequest) -> str:
        return writes(*("XYZ" if "several facts" in prompt_of(talk) else "abcde"))(talk)

    server.reply = reply
    whole = ["q", "qa", "qb", "qc"]
    assert await made("multi_query", "decompose") == ([*whole, *(one + end for one in whole for end in "XYZ")], [])
    cut, remarks = await made(("multi_query", {"num_queries": 5}), "decompose")
    assert (cut[:6], len(cut)) == (["q", "qa", "qb", "qc", "qd", "qe"], 16)
    assert remarks == [
        ServiceWarning("query_limit_reached", "decompose may return at most 16 queries, so the others were dropped.")
    ]


@pytest.mark.parametrize(
    ("wished", "loc"),
    [
        ("magic", ()),
        (("multi_query", {"number": 3}), ("options", "number")),
        (("multi_query", {"num_queries": 0}), ("options", "num_queries")),
        (("hyde", {"replace": "perhaps"}), ("options", "replace")),
        (("reformulate", {"x": 1}), ("options", "x")),
    ],
    ids=str,
)
def test_resolve_steps_unknown_transformer_is_refused(wished: NamedTransformer, loc: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        resolve_steps(["hyde", wished], loc=("body", "transformers"))
    assert caught.value.loc == ("body", "transformers", 1, *loc)
    if not loc:
        assert all(name in caught.value.message for name in TRANSFORMERS)


def test_resolve_stored_steps_removed_transformer_is_skipped() -> None:
    course = SearchRun.from_timeout(1)
    stored = [
        {"name": "gone", "options": {}},
        {"name": "hyde", "options": {"n_hypothetical": 2}},
        {"name": "keywords", "options": {"gone": 1}},
    ]
    (step,) = resolve_stored_steps(stored, course) or []
    assert (step.transformer.name, step.options.model_dump()) == ("hyde", {"n_hypothetical": 2, "replace": False})
    assert resolve_stored_steps([], course) == []
    assert ["'gone'" in course.notices[0].message, "'keywords'" in course.notices[1].message, len(course.notices)] == [
        True,
        True,
        2,
    ]


def test_resolve_stored_steps_all_removed_equals_none() -> None:
    course = SearchRun.from_timeout(1)
    assert resolve_stored_steps([{"name": "gone", "options": {}}], course, owner="agent") is None
    assert course.notices == [
        ServiceWarning(
            "transformer_unavailable",
            "The transformer 'gone' of the agent was skipped: it is missing or has other options.",
        )
    ]
