"""Offsets in UTF-16 units, compared with an encoding of every prefix."""

import random

import pytest

from app.documents.content.offsets import OffsetConverter, create_utf16_converter


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "naïve 漢字 \ufffd",
        "😀",
        "a😀b",
        "😀😀x\U0010ffff",
        "\ud7ff\ue000\uffff\U00010000",
        "👩\u200d👩 e\u0301",
    ],
    ids=ascii,
)
def test_utf16_converter_every_offset_equals_encoding(text: str) -> None:
    counted = create_utf16_converter(text)
    assert [counted(place) for place in range(len(text) + 1)] == utf16_lengths(text)


def test_utf16_converter_random_texts_equal_encoding() -> None:
    rng = random.Random(7)
    for _ in range(50):
        text = "".join(rng.choices("ab é漢😀\U0010fffd", k=rng.randrange(60)))
        counted = create_utf16_converter(text)
        assert [counted(place) for place in range(len(text) + 1)] == utf16_lengths(text), ascii(text)


def test_utf16_converter_of_prefix_equals_whole() -> None:
    text = "😀 one 😀 two 😀 three"
    whole = create_utf16_converter(text)
    for end in range(len(text) + 1):
        part = create_utf16_converter(text[:end])
        assert [part(place) for place in range(end + 1)] == [whole(place) for place in range(end + 1)]


def test_code_point_converter_returns_same_offset() -> None:
    assert [OffsetConverter()(place) for place in (0, 1, 10**9)] == [0, 1, 10**9]


def utf16_lengths(text: str) -> list[int]:
    return [len(text[:place].encode("utf-16-le")) // 2 for place in range(len(text) + 1)]
