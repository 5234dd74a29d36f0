"""Language of documents and queries, by script, function words and detector."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from app.lexical.text_language import identify_language
from benchmarks.multilingual_questions import LANGUAGES, read_questions
from tests.lexical.language_questions import ENGLISH_QUESTIONS, QUESTIONS

GERMAN = "Die Kündigungsfrist beträgt drei Monate zum Ende des Quartals, sofern nichts anderes vereinbart ist."
ENGLISH = "The period of notice is three months to the end of a quarter, unless something else was agreed upon."
MIN_RECALL = 0.9


def _is_foreign(text: str) -> bool:
    language = identify_language(text)
    return language is not None and not language.is_english


@pytest.mark.parametrize("language", QUESTIONS)
def test_identify_language_questions_are_recognized(language: str) -> None:
    questions = QUESTIONS[language]
    missed = [question for question in questions if not _is_foreign(question)]
    assert len(missed) <= (1 - MIN_RECALL) * len(questions), missed


@pytest.mark.parametrize("language", ["german", "french", "spanish", "chinese"])
def test_identify_language_translated_questions_have_their_language(language: str) -> None:
    questions = [question.texts[language] for question in read_questions()]
    found = [identify_language(question) for question in questions]
    named = [question for question, result in zip(questions, found, strict=True) if result and result.name == language]
    assert len(named) >= MIN_RECALL * len(questions)


def test_identify_language_english_questions_are_not_foreign() -> None:
    assert "english" in LANGUAGES
    questions = [*ENGLISH_QUESTIONS, *(question.texts["english"] for question in read_questions())]
    assert [question for question in questions if _is_foreign(question)] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t",
        "17; 23.50; 8\n" * 200,
        "def load(path):\n    with open(path) as file:\n        return [line.split() for line in file]\n" * 40,
        '#include <stdio.h>\nint main(void) { printf("%d\\n", argc); return 0; }\n' * 40,
        "SELECT o.id, SUM(i.price) FROM orders o JOIN items i ON i.order_id = o.id GROUP BY o.id;\n" * 40,
        "import de from './locales/de.json'\nimport es from './locales/es.json'\nconst la = en || fr\n" * 20,
        "Müller; 4,711.00; Köln\nSøren Kierkegaard; 12.5; København\nJosé Núñez; 7; Málaga\n" * 20,
        "Name,Price,Qty\nWidget A,9.99,4\nWidget B,19.99,2\n" * 60,
        "Revenue 1,234 1,198\nCost of sales (804) (790)\nGross profit 430 408\nBasic EPS 1.12 1.04\n" * 20,
        "Escherichia coli; Homo sapiens; Mus musculus; Drosophila melanogaster; Saccharomyces cerevisiae",
        "TGF-β1, IL-6, TNF-α and NF-κB in β-cells and γδ T cells",
        "∀x ∈ ℝ: f(x) ≥ 0 ⇒ ∫ f dμ ≥ 0, where α + β = γ",
        "https://example.com/de/la/les/und/der/die/das?lang=es&que=por",
        "GET /v1/knowledge-bases HTTP/1.1\r\nHost: localhost\r\nAccept: */*",
        "lorem ipsum",
        "Rio de Janeiro",
        "Ludwig van Beethoven",
        "Guns N' Roses",
    ],
)
def test_identify_language_text_in_doubt_is_not_foreign(text: str) -> None:
    assert not _is_foreign(text)


def test_identify_language_english_with_quotes_in_other_languages_is_english() -> None:
    text = f"{ENGLISH}\nThe German text says: {GERMAN}\n{ENGLISH}\nIn Chinese: 通知期间为季度结束前三个月。\n{ENGLISH}"
    language = identify_language(text)
    assert language is not None
    assert language.is_english


def test_identify_language_majority_of_a_long_text_decides() -> None:
    rng = random.Random(1)
    for english_share, expected in ((0.1, "german"), (0.9, "english")):
        parts = [ENGLISH if rng.random() < english_share else GERMAN for _ in range(500)]
        language = identify_language("\n\n".join(parts))
        assert language is not None
        assert language.name == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (GERMAN, "german"),
        (GERMAN.upper(), "german"),
        ("Ku\u0308ndigungsfrist fu\u0308r die Wohnung", "german"),  # letters with separate dots
        ("qu’est-ce que l’apprentissage profond", "french"),
        ("L'ordinateur ne démarre plus", "french"),
        ("¿QUÉ PASA CON LA FACTURA?", "spanish"),
        ("Термін повідомлення становить три місяці до кінця кварталу.", "ukrainian"),
        ("Рокът на предизвестието е три месеца преди края на тримесечието.", "bulgarian"),
        ("اطلاع کی مدت سہ ماہی کے اختتام سے تین ماہ پہلے تک ہے۔", "urdu"),
        ("Oppsigelsestiden er tre måneder før utgangen av kvartalet, hvis ikke annet er avtalt.", "norwegian"),
        ("東京都の条例", "japanese"),
        ("如何在 Kubernetes 上部署 PostgreSQL", "chinese"),
        ("Как настроить PostgreSQL и pgvector?", "russian"),
        ("Bildirim süresi üç aydır ve çeyrek dönemin sonunda biter.", "turkish"),
    ],
)
def test_identify_language_returns_the_name(text: str, name: str) -> None:
    language = identify_language(text)
    assert language is not None
    assert language.name == name
    assert name in language.candidates


def test_identify_language_similar_languages_are_all_candidates() -> None:
    language = identify_language("Hvad er fristen for at opsige en lejlighed?")
    assert language is not None
    assert {"danish", "norwegian"} <= language.candidates


def test_identify_language_without_waiting_loads_the_detector_in_a_thread() -> None:
    script = """
import json, time
from app.lexical.detection import is_detector_loaded
from app.lexical.text_language import identify_language

text = "Międzynarodowym odpowiednikiem ASCII jest ISO"
seen = [is_detector_loaded(), identify_language("What is the notice period?", can_wait=False) is not None,
        identify_language("HNSW recall", can_wait=False) is not None, is_detector_loaded(),
        identify_language(text, can_wait=False) is not None]
deadline = time.monotonic() + 60
while not is_detector_loaded() and time.monotonic() < deadline:
    identify_language(text, can_wait=False)
    time.sleep(0.01)
print(json.dumps([*seen, identify_language(text, can_wait=False).name]))
"""
    root = Path(__file__).parents[2]
    result = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, check=True)
    assert json.loads(result.stdout) == [False, True, False, False, False, "polish"]
