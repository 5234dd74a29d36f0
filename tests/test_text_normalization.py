"""Normalization of text: stored texts are in NFC and folded texts in NFKC, and long runs of marks are divided."""

import random
import unicodedata
from collections.abc import Callable, Iterator

import pytest

from app.separate_accents import compose_accents
from app.text_normalization import _MARK_RUN, fold_text, has_long_mark_run, normalize_text

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
def test_normalize_up_to_thirty_marks_is_nfc(count: int) -> None:
    text = "a" + ACUTE * (count // 2) + DOT_BELOW * (count - count // 2)
    assert normalize_text(text) == unicodedata.normalize("NFC", text)
    assert fold_text(text) == unicodedata.normalize("NFKC", text)


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
@pytest.mark.parametrize("normalize", [normalize_text, fold_text])
def test_normalize_long_run_of_marks_is_divided(before: str, run: str, normalize: Callable[[str], str]) -> None:
    normal = normalize(f"{before}{run} word")
    assert _longest_run(normal) <= 30
    assert normal.endswith(" word")
    assert normalize(normal) == normal
    # Nothing is lost: without the joiners, the same marks remain.
    left = unicodedata.normalize("NFKD", normal.replace(JOINER, ""))
    assert sorted(left) == sorted(unicodedata.normalize("NFKD", f"{before}{run} word"))


def _iter_odd_texts(count: int) -> Iterator[str]:
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    odd = [each for each in characters if _is_non_starter(each) or unicodedata.normalize("NFKD", each) != each]
    odd = [each for each in odd if each.isprintable()]
    rng = random.Random(5)
    for _ in range(count):
        yield "".join(rng.choices([*odd, "a", "漢", "ก"], k=rng.randint(1, 9)))


def test_fold_every_short_text_is_nfkc() -> None:
    for text in _iter_odd_texts(20_000):
        if compose_accents(text) == text:
            assert fold_text(text) == unicodedata.normalize("NFKC", text)


def test_fold_equals_fold_of_stored_text() -> None:
    """A document is folded from its stored text, and a query from the text as it was sent."""
    rng = random.Random(6)
    for text in _iter_odd_texts(20_000):
        spaced = "".join(rng.choice(("", "", " ", "e")) + each for each in text)
        for each in (text, spaced):
            stored = normalize_text(each)
            assert normalize_text(stored) == stored, ascii(each)
            assert unicodedata.is_normalized("NFC", stored), ascii(each)
            assert fold_text(stored) == fold_text(each), ascii(each)


@pytest.mark.parametrize(
    "text",
    [
        "10⁶ cells per cm³, 25 ºC, 5² = 25",
        "①②③ Ⅳ ⑴ ㏂",
        "wait… ½ cup, Carrel™, 3 ㎏, №5, ℃ ℓ",
        "x₁ + x₂, H₂O, aⁿ, 1ª 2º",
        "𝐀 ℝ ℵ µm Ω",
        "你好，世界！（价格：１）".replace("１", "1"),
        "ﷺ ﷼ ﷽",
        "ｶﾀｶﾅ ㍿ ｡",
        "non\u2011breaking 5\u00a0000",
        "ĳs ǆ ŉ ſ",
    ],
)
def test_normalize_symbols_stay_as_written(text: str) -> None:
    assert normalize_text(text) == text


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("ﬁne ﬂow oﬀer oﬃce ﬅ", "fine flow offer office st"),
        ("ＡＢＣ－１２３／ｘ＝５％", "ABC-123/x=5%"),
        ("e\u0301 A\u030a \u212b \u2126", "é Å Å Ω"),
        (
            "\ufe8e\ufedf\ufecc\ufeae\ufe91\ufef4\ufe94 \ufefb",
            "العربية".replace("العربية", "ا\u0644\u0639\u0631\u0628\u064a\u0629") + " \u0644\u0627",
        ),
        ("\u1100\u1161 \u0958 \ufb1d", "가 \u0915\u093c \u05d9\u05b4"),
        ("\ufb29 \ufb21 \ufb13", "+ א մն"),
    ],
    ids=ascii,
)
def test_normalize_print_forms_become_letters(text: str, normal: str) -> None:
    assert normalize_text(text) == normal


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
    assert normalize_text(text) == fold_text(text) == normal


def test_long_mark_run_is_detected() -> None:
    assert has_long_mark_run("a" + ACUTE * 40)
    assert not has_long_mark_run("Zürich — " * 1000)
    assert not has_long_mark_run("e" + ACUTE * 5)
