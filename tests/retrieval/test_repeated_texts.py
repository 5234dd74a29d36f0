"""Texts that are already in a conversation."""

import json
from collections.abc import Callable

import pytest

from app.retrieval.repeated_texts import MAX_CHARACTERS, RepeatedTexts
from app.retrieval.types import Message

PASSAGE = """Free cancellation is possible up to 24 hours before pickup.

* One-way rentals: **48 hours**.
* Vans ([see terms](https://rentals.example/terms_of_use)): 72 hours.

“Deposits” are returned within five days, without fees [2]."""
OTHER = "The driver can be changed at the counter, if the new one has had a licence for two years."
TABLE = "| Car | Price per day |\n| --- | --- |\n| Polo | 39.50 |\n| Golf | 47.00 |"
CODE = 'if (retries > max_retries) {\n    throw new TimeoutError("no answer");\n}'
GERMAN = "Die Kaution für Überführungen beträgt 250 €; sie wird binnen fünf Tagen zurückgezahlt."
JAPANESE = "予約は出発の二十四時間前まで無料でキャンセルできます。片道の場合は四十八時間前までです。"
THAI = "ยกเลิกได้ฟรีก่อนรับรถยี่สิบสี่ชั่วโมง"
SHORT = "Closed on Sundays."
TEXTS = {
    "markdown": PASSAGE,
    "table": TABLE,
    "code": CODE,
    "german": GERMAN,
    "japanese": JAPANESE,
    "thai": THAI,
    "short": SHORT,
}


def collect(*contents: str, role: str = "agent") -> RepeatedTexts:
    texts = RepeatedTexts.from_messages([Message(role, content) for content in contents])
    assert texts is not None
    return texts


FORMS: dict[str, Callable[[str], str]] = {
    "alone": lambda text: text,
    "joined by rules": lambda text: f"{OTHER}\n---\n{text}\n---\n{OTHER}",
    "other white space": lambda text: "\t".join(text.split()),
    "wrapped lines": lambda text: text.replace(" ", "\n"),
    "with a citation before": lambda text: f"[handbook.pdf, p. 4] {text}",
    "with marks around": lambda text: f"As the handbook says 【4†handbook.pdf】: {text} [1, 2]",
    "as a quotation": lambda text: "\n".join(f"> {line}" for line in text.splitlines()),
    "in bold": lambda text: f"**{text}**",
    "in a list of JSON": lambda text: json.dumps([OTHER, text]),
    "in JSON without escapes of Unicode": lambda text: json.dumps({"results": [{"text": text}]}, ensure_ascii=False),
    "in JSON in JSON": lambda text: json.dumps({"output": json.dumps([text])}),
    "in JSON after words": lambda text: f"Result of the tool: {json.dumps([text])}",
    "in capital letters": lambda text: text.upper(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TEXTS)
def test_contains_known_text_is_found(name: str, form: str) -> None:
    assert collect("Hello, how can I help you?", FORMS[form](TEXTS[name])).contains(TEXTS[name])


@pytest.mark.parametrize("role", ["agent", "assistant", "tool", "system"])
def test_contains_message_of_any_answering_role_counts(role: str) -> None:
    assert collect(PASSAGE, role=role).contains(PASSAGE)


@pytest.mark.parametrize("role", ["user", "customer"])
def test_from_messages_messages_of_users_do_not_count(role: str) -> None:
    assert RepeatedTexts.from_messages([Message(role, PASSAGE)]) is None


@pytest.mark.parametrize("contents", [[], [""], ["---"], [" \n ", "!?"]])
def test_from_messages_without_words_is_none(contents: list[str]) -> None:
    assert RepeatedTexts.from_messages([Message("tool", content) for content in contents]) is None


@pytest.mark.parametrize(
    "content",
    [
        OTHER,
        PASSAGE[: len(PASSAGE) // 2],
        PASSAGE[len(PASSAGE) // 2 :],
        " ".join(reversed(PASSAGE.split())),
        "You can cancel for free until one day before you pick up the car, vans until three days before.",
    ],
)
def test_contains_part_or_other_words_is_not_found(content: str) -> None:
    assert not collect(content).contains(PASSAGE)


def test_contains_text_in_pieces_of_few_words_is_not_found() -> None:
    words = GERMAN.split()
    assert not collect(*(" ".join(words[start : start + 4]) for start in range(0, len(words), 4))).contains(GERMAN)


@pytest.mark.parametrize("text", ["Sun", "Closed on Sunday", "losed on Sundays", "on Mondays"])
def test_contains_short_text_needs_whole_words(text: str) -> None:
    assert not collect(SHORT).contains(text)


@pytest.mark.parametrize("text", ["", "  ", "---", "***", "…"])
def test_contains_text_without_words_is_not_found(text: str) -> None:
    assert not collect(PASSAGE).contains(text)


@pytest.mark.parametrize("mark", ["[1]", "[^2]", "[3, 4]", "[5][6]", "【7†source】"])
def test_contains_marks_inside_do_not_matter(mark: str) -> None:
    words = PASSAGE.split()
    marked = " ".join(f"{word} {mark}" if number % 3 == 0 else word for number, word in enumerate(words))
    assert collect(marked).contains(PASSAGE)


@pytest.mark.parametrize("before", range(19_800, 20_040, 40))
@pytest.mark.parametrize("name", TEXTS)
def test_contains_text_at_any_place_of_long_message_is_found(name: str, before: int) -> None:
    """Long messages are split into words piece by piece."""
    padding = ("word " * before)[:before]
    assert collect(f"{padding}\n{TEXTS[name]}\n{padding}").contains(TEXTS[name])


def test_contains_old_text_before_a_million_characters_does_not_count() -> None:
    noise = "Some other output of a tool. " * (MAX_CHARACTERS // 58)
    assert collect(PASSAGE, noise).contains(PASSAGE)
    assert not collect(PASSAGE, noise, noise, noise).contains(PASSAGE)
    assert collect(noise, noise, noise, PASSAGE).contains(PASSAGE)
    assert collect(noise * 3 + PASSAGE).contains(PASSAGE)
