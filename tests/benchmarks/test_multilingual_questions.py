"""The questions in five languages: completeness, scripts, and the formats of each language."""

import re
from collections import Counter
from itertools import combinations

import pytest

from benchmarks.multilingual_questions import LANGUAGES, QUESTIONS_FILE, TranslatedQuestion, read_questions

HAN = re.compile(r"[\u4e00-\u9fff]")
QUESTIONS = read_questions()


def test_multilingual_questions_all_sets_have_their_numbers_and_unique_ids() -> None:
    assert Counter(question.set_name for question in QUESTIONS) == {"scifact": 40, "filings-dev": 24}
    assert len({question.id for question in QUESTIONS}) == len(QUESTIONS)
    assert [len(read_questions(name)) for name in ("scifact", "filings-dev", "unknown")] == [40, 24, 0]
    assert all(question.id == f"{question.set_name}-{question.source_id}" for question in QUESTIONS)


@pytest.mark.parametrize("language", LANGUAGES)
def test_multilingual_questions_of_a_language_are_unique_and_trimmed(language: str) -> None:
    texts = [question.texts[language] for question in QUESTIONS]
    assert len(set(texts)) == len(texts)
    assert all(text and text == " ".join(text.split()) for text in texts)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.id)
def test_multilingual_question_has_the_script_and_marks_of_each_language(question: TranslatedQuestion) -> None:
    texts = question.texts
    assert all(first != second for first, second in combinations(texts.values(), 2))
    assert {language for language, text in texts.items() if HAN.search(text)} == {"chinese"}
    is_sentence = texts["english"].endswith("?")
    assert texts["german"].endswith("?") == is_sentence
    assert texts["french"].endswith(" ?") == is_sentence
    assert (texts["spanish"].startswith("¿") and texts["spanish"].endswith("?")) == is_sentence
    assert texts["chinese"].endswith("？") == is_sentence


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.id)
def test_multilingual_question_has_the_years_of_the_english_text(question: TranslatedQuestion) -> None:
    years = {language: set(re.findall(r"20\d\d", text)) for language, text in question.texts.items()}
    assert all(each == years["english"] for each in years.values())


def test_multilingual_questions_file_has_only_ids_and_questions() -> None:
    assert QUESTIONS_FILE.stat().st_size < 100_000
    assert all(len(text) < 250 for question in QUESTIONS for text in question.texts.values())
