"""Extractive summaries and keywords: pure functions over chunks with vectors and term weights."""

import pytest

from app.lexical.analyzers import get_analyzer
from app.lexical.weights import compute_term_id
from app.section_notes.extraction import compute_centralities, extract_notes
from app.section_notes.types import Keyword, SectionChunk

LEAVE = "Parental leave lasts fourteen months. Parents share parental leave between them. Ask the office early."
CAFETERIA = "The cafeteria serves soup on Mondays. It closes at three in the afternoon."
NOTICE = "Parental leave needs a notice of seven weeks. The notice must be a letter."


def find_terms(word: str) -> list[int]:
    return [compute_term_id(term) for term in get_analyzer("english").tokenize(word)]


def build_chunk(text: str, vector: tuple[float, ...] = (), names: dict[str, int] | None = None) -> SectionChunk:
    terms = {compute_term_id(term): 0.4 for term in get_analyzer("english").tokenize(text)}
    return SectionChunk(text, vector, terms, names or {})


def extract(*chunks: SectionChunk) -> tuple[str, list[Keyword]]:
    idf = {term: 2.0 for chunk in chunks for term in chunk.weights}
    return extract_notes(chunks, idf, find_terms, needs_keywords=True)


def test_summary_prefers_sentences_of_central_chunks() -> None:
    summary, _ = extract(
        build_chunk(LEAVE, (1.0, 0.0)), build_chunk(NOTICE, (0.98, 0.199)), build_chunk(CAFETERIA, (0.0, 1.0))
    )
    assert "arental leave" in summary
    assert all(sentence.strip(". ") in LEAVE + NOTICE + CAFETERIA for sentence in summary.split(". "))


def test_summary_has_reading_order_and_at_most_three_sentences() -> None:
    summary, _ = extract(build_chunk(LEAVE, (1.0, 0.0)), build_chunk(NOTICE, (1.0, 0.0)))
    places = [(LEAVE + " " + NOTICE).find(part.strip()) for part in summary.replace(". ", ".|").split("|")]
    assert places == sorted(places)
    assert 1 <= len(places) <= 3


@pytest.mark.parametrize(
    "text",
    [
        "| Part | Price |\n| --- | --- |\n| Bolt | 3 euros each. |",
        "# A heading that is long enough to be a sentence.",
        "Too short.",
        "A line of a list without any mark at its end",
        "",
        "   \n\n \t",
    ],
)
def test_summary_of_text_without_sentences_is_empty(text: str) -> None:
    assert extract(build_chunk(text))[0] == ""


def test_summary_leaves_out_sentences_that_are_too_long() -> None:
    long = "word " * 200 + "end."
    assert extract(build_chunk(f"{long} This sentence has a usual length."))[0] == "This sentence has a usual length."


def test_summary_of_chinese_text_finds_sentences_without_spaces() -> None:
    summary, _ = extract(build_chunk("父母可以休十四个月的育儿假期。办公室必须提前七周收到通知。"))
    assert summary.endswith("。")


def test_keywords_contain_entities_in_place_of_their_words() -> None:
    chunk = build_chunk("Stephen Warbeck wrote the music of the film.", names={"Stephen Warbeck": 1})
    keywords = [word.keyword for word in extract(chunk)[1]]
    assert keywords[0] == "Stephen Warbeck"
    assert not {"Stephen", "Warbeck"} & set(keywords)


def test_keywords_have_scores_and_method() -> None:
    _, keywords = extract(build_chunk(LEAVE), build_chunk(NOTICE))
    assert keywords[0].score == 1.0
    assert keywords == sorted(keywords, key=lambda word: -word.score)
    assert {word.method for word in keywords} == {"extractive"}
    assert len(keywords) <= 10


def test_keywords_leave_out_terms_without_idf() -> None:
    assert extract_notes([build_chunk(LEAVE)], {}, find_terms, needs_keywords=True)[1] == []


def test_keywords_not_requested_are_empty() -> None:
    assert extract_notes([build_chunk(LEAVE)], {}, find_terms, needs_keywords=False)[1] == []


def test_centralities_without_vectors_are_equal() -> None:
    assert compute_centralities([build_chunk(LEAVE), build_chunk(NOTICE)]) == [1.0, 1.0]


def test_centralities_of_chunk_without_vector_are_lowest() -> None:
    values = compute_centralities([build_chunk(LEAVE, (0.0, 1.0)), build_chunk(NOTICE), build_chunk(LEAVE, (0.0, 1.0))])
    assert values[1] < values[0] == values[2] == 1.0


def test_notes_of_no_chunks_are_empty() -> None:
    assert extract() == ("", [])


def test_notes_of_hostile_text_take_linear_time() -> None:
    assert extract(build_chunk("a." * 50_000), build_chunk("Wort " * 20_000))[0] == ""
