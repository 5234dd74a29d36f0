"""Queries from conversations."""

import pytest

from app.retrieval.conversation import MAX_MESSAGES, MAX_QUERY_CHARACTERS, build_conversation_queries, truncate_query
from app.retrieval.types import Message


def conversation(*turns: str) -> list[Message]:
    """Return messages from ``role: words``."""
    return [Message(*turn.split(": ", 1)) for turn in turns]


@pytest.mark.capability("talk-no-model")
@pytest.mark.parametrize(
    ("turns", "queries"),
    [
        ([], []),
        (["agent: hello"], []),
        (["customer: one"], ["one"]),
        (["user: one"], ["one"]),
        (["customer: one", "agent: two"], ["one"]),
        (["customer: one", "agent: two", "customer: three"], ["three", "one\nthree"]),
        (["user: one", "customer: two", "user: three", "user: four"], ["four", "two\nthree\nfour"]),
        (["system: rules", "tool: output", "assistant: fine", "user: one"], ["one"]),
        (["customer:   one  ", "customer:  "], ["one"]),
        (["customer: ", "agent: two"], []),
        (["customer: one", "customer: one"], ["one", "one\none"]),
    ],
)
def test_conversation_queries_are_built_from_last_messages(turns: list[str], queries: list[str]) -> None:
    assert build_conversation_queries(conversation(*turns)) == queries


def test_conversation_queries_ignore_old_messages() -> None:
    turns = ["customer: old", *["agent: so"] * (MAX_MESSAGES - 1), "customer: new"]
    assert build_conversation_queries(conversation(*turns)) == ["new"]


def test_truncate_query_preserves_the_end() -> None:
    question = "what is asked?"
    assert truncate_query("x" * MAX_QUERY_CHARACTERS + question).endswith(question)
    assert len(truncate_query("x" * MAX_QUERY_CHARACTERS + question)) == MAX_QUERY_CHARACTERS
    first, context = build_conversation_queries(
        conversation(f"user: {'x' * MAX_QUERY_CHARACTERS}", f"user: {question}")
    )
    assert first == question
    assert context.endswith(question)
    assert len(context) == MAX_QUERY_CHARACTERS
