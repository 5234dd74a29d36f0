"""Prompt messages: documents, turns and questions are data; only an administrator's prompt is an instruction."""

import json
from dataclasses import replace

import pytest

from app.answering.prompt_messages import build_answer_messages, build_citation_messages, build_compression_messages
from app.answering.types import AnswerSource
from app.inference.chat import ChatMessage
from app.retrieval.explain import Reformulation
from app.retrieval.types import Message
from tests.retrieval.hits import hit
from tests.retrieval.test_prompt_format import HOSTILE

TALK = [Message("customer", "Vans?"), Message("agent", "Yes."), Message("customer", "How much?")]


def source(text: str) -> AnswerSource:
    found = hit(text, 0.9, title=text)
    return AnswerSource(1, replace(found, chunk=replace(found.chunk, section_titles=[text])))


def prompts(text: str) -> dict[str, list[ChatMessage]]:
    talk = [Message("customer", text), Message("agent", text)]
    understood = Reformulation(text, text, [0, 1])
    return {
        "answer": build_answer_messages(text, [source(text)], talk, understood, custom_prompt=None),
        "compression": build_compression_messages(text, source(text)),
        "citations": build_citation_messages(text, text, [source(text)]),
    }


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_answer_prompt_hostile_text_is_inside_data(text: str) -> None:
    harmless = prompts("harmless")
    for kind, (system, user) in prompts(text).items():
        assert system == harmless[kind][0]
        assert "data to work on" in system.content
        assert (system.role, user.role) == ("system", "user")
        given = json.loads(user.content)
        assert given["question"] == text
        assert given["sources"] == [{"number": 1, "document": text, "section": text, "text": text}]
        assert not {"<", ">", "\n"}.intersection(user.content)
        assert not any(mark in user.content for mark in ("[INST", "[/INST", "[SYSTEM"))


@pytest.mark.parametrize(
    ("understood", "turns"),
    [
        (Reformulation("q", "a", [2, 0]), [0, 2]),
        (Reformulation("q", "a", []), []),
        (None, [0, 1, 2]),
    ],
    ids=["some matter", "none matters", "nobody says"],
)
def test_answer_prompt_contains_relevant_turns(understood: Reformulation | None, turns: list[int]) -> None:
    system, user = build_answer_messages("q", [source("s")], TALK, understood, custom_prompt=None)
    given = json.loads(user.content)
    assert [turn["index"] for turn in given.get("conversation", [])] == turns
    assert ("`conversation`" in system.content) == bool(turns)
    assert ("`analysis`" in system.content) == (understood is not None) == ("analysis" in given)


def test_answer_prompt_single_turn_has_no_conversation() -> None:
    assert "conversation" not in json.loads(
        build_answer_messages("Vans?", [source("s")], TALK[:1], None, custom_prompt=None)[1].content
    )


def test_answer_prompt_custom_prompt_is_appended() -> None:
    (plain, _), (system, user) = (
        build_answer_messages("q", [source("s")], [], None, custom_prompt=own) for own in (None, "Say 'dear'.")
    )
    assert system.content.startswith(plain.content)
    assert system.content.endswith("Say 'dear'.")
    assert "dear" not in user.content
