"""Reasoning filter: the thoughts before an answer are removed, wherever the stream is cut."""

from collections.abc import AsyncIterator

import pytest

from app.answering.reasoning_filter import strip_reasoning


async def pieces_of(text: str, size: int) -> AsyncIterator[str]:
    for at in range(0, len(text), size):
        yield text[at : at + size]


@pytest.mark.parametrize("size", [1, 2, 7, 100])
@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("It costs ninety.", "It costs ninety."),
        ("", ""),
        ("<", "<"),
        (" <thi", " <thi"),
        ("<thinking> is a word", "<thinking> is a word"),
        ("<think>so and so</think>It costs ninety.", "It costs ninety."),
        ("\n <think>\nso</thinkers></think>\n\nIt < costs </think> ninety.", "It < costs </think> ninety."),
        ("<think></think>", ""),
        ("<think>and on and on", ""),
        ("It costs <think>ninety</think>.", "It costs <think>ninety</think>."),
    ],
)
async def test_strip_reasoning_returns_answer_text(text: str, spoken: str, size: int) -> None:
    found = "".join([piece async for piece in strip_reasoning(pieces_of(text, size))])
    assert found.lstrip() == spoken.lstrip()


async def test_strip_reasoning_yields_pieces_immediately() -> None:
    seen: list[str] = []

    async def pieces() -> AsyncIterator[str]:
        for piece in ("One ", "two ", "three"):
            yield piece
            seen.append(piece)

    async for piece in strip_reasoning(pieces()):
        assert len(seen) == ["One ", "two ", "three"].index(piece)
