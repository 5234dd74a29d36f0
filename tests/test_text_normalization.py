"""Normalization of text: long runs of marks are divided; all other characters follow Unicode's NFKC."""

import random
import unicodedata

import pytest

from app.text_normalization import _MARK_RUN, has_long_mark_run, normalize_text

ACUTE, DOT_BELOW, JOINER = "\u0301", "\u0323", "\u034f"


def _is_non_starter(character: str) -> bool:
    return unicodedata.combining(character) != 0


def _longest_run(text: str) -> int:
    longest = run = 0
    for character in unicodedata.normalize("NFKD", text):
        run = run + 1 if _is_non_starter(character) else 0
        longest = max(longest, run)
    return longest


@pytest.mark.parametrize("count", [1, 15, 30])
def test_normalize_up_to_thirty_marks_is_nfkc(count: int) -> None:
    text = "a" + ACUTE * (count // 2) + DOT_BELOW * (count - count // 2)
    assert normalize_text(text) == unicodedata.normalize("NFKC", text)


@pytest.mark.parametrize(
    "run",
    [
        ACUTE * 500 + DOT_BELOW * 500,
        (DOT_BELOW + ACUTE) * 500,
        "\u0344\u0f73\u0f81" * 300,
        "\uff9e\uff9f" * 500,
        "\U0001d165\U0001e944" * 300,
    ],
)
@pytest.mark.parametrize("before", ["", "a", "\u1f82", "word é"])
def test_normalize_long_run_of_marks_is_divided(before: str, run: str) -> None:
    normal = normalize_text(f"{before}{run} word")
    assert _longest_run(normal) <= 30
    assert normal.endswith(" word")
    assert normalize_text(normal) == normal
    # Nothing is lost: without the joiners, the same marks remain.
    left = unicodedata.normalize("NFKD", normal.replace(JOINER, ""))
    assert sorted(left) == sorted(unicodedata.normalize("NFKD", f"{before}{run} word"))


def test_normalize_every_short_text_is_nfkc() -> None:
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    odd = [each for each in characters if _is_non_starter(each) or unicodedata.normalize("NFKD", each) != each]
    odd = [each for each in odd if each.isprintable()]
    rng = random.Random(5)
    for _ in range(20_000):
        text = "".join(rng.choices([*odd, "a", "漢", "ก"], k=rng.randint(1, 9)))
        assert normalize_text(text) == unicodedata.normalize("NFKC", text)


def test_mark_run_pattern_knows_every_non_starter() -> None:
    missing = []
    for code in range(0x110000):
        character = chr(code)
        if 0xD800 <= code < 0xE000 or character in "\uff9e\uff9f":
            continue
        decomposed = unicodedata.normalize("NFKD", character)
        if _is_non_starter(decomposed[0]) and not _MARK_RUN.fullmatch(character * 28):
            missing.append(hex(code))
        trailing = len(decomposed) - len(decomposed.rstrip("".join(filter(_is_non_starter, decomposed))))
        assert trailing <= 3 or _is_non_starter(decomposed[0]), hex(code)
    assert missing == []


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("a\u200db", "ab"),
        ("a" + "\u200d" * 50 + "ن", "aن"),
        ("ن" + "\u200c" * 50 + "b", "نb"),
        ("ن" + "\u200d" * 50 + "ن", "ن" + "\u200d" * 50 + "ن"),
        ("\u200d\u200db", "b"),
        ("ن\u200c\u200d", "ن\u200c\u200d"),
    ],
)
def test_normalize_joiners_stay_between_other_letters_alone(text: str, normal: str) -> None:
    assert normalize_text(text) == normal


def test_long_mark_run_is_detected() -> None:
    assert has_long_mark_run("a" + ACUTE * 40)
    assert not has_long_mark_run("Zürich — " * 1000)
    assert not has_long_mark_run("e" + ACUTE * 5)
