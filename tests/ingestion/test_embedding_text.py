"""Embedding text: the prefix of a passage is cut at the limit, the passage never."""

import pytest

from app.ingestion.embedding_text import MAX_TITLE_TOKENS, contextualize_chunks
from app.ingestion.plain_tables import format_plain_tables
from app.ingestion.types import ChunkDraft
from app.lexical.filename_words import list_filename_words
from tests.ingestion.documents import words


def draft(text: str, *titles: str) -> ChunkDraft:
    return ChunkDraft(text=text, start=0, end=len(text), section_titles=titles)


@pytest.mark.parametrize(
    ("title", "chunk", "limit", "expected"),
    [
        ("T one", draft("a b c", "H1", "H2"), 7, "T one\nH1\nH2\n\na b c"),
        ("T one", draft("a b c", "H1", "H2"), 6, "H1\nH2\n\na b c"),
        ("T one", draft("a b c", "H1", "H2"), 4, "H2\n\na b c"),
        ("T one", draft("a b c", "H1", "H2"), 3, "a b c"),
        ("T one", draft("a b c", "H1", "H2"), 2, "a b c"),
        (None, draft("a b c"), 9, "a b c"),
        (None, draft("a b c", "H1"), 9, "H1\n\na b c"),
        ("H1", draft("a b c", "H1"), 9, "H1\n\na b c"),
        ("T", draft("H1\n\na b c", "H1"), 9, "T\n\nH1\n\na b c"),
        ("T", draft("H1more", "H1"), 9, "T\nH1\n\nH1more"),
        ("  T \n two ", draft("a"), 9, "T two\n\na"),
        ("", draft("a"), 9, "a"),
    ],
)
def test_contextualize_chunks_cuts_prefix_at_limit(
    title: str | None, chunk: ChunkDraft, limit: int, expected: str
) -> None:
    assert contextualize_chunks(title, [chunk], count_tokens=words, max_tokens=limit) == [expected]


def test_contextualize_chunks_batch_preserves_order_with_few_counts() -> None:
    drafts = [draft(f"passage {n} " + "word " * (n % 7), "outer", "inner") for n in range(200)]
    sizes: list[int] = []

    def count(texts: object) -> list[int]:
        assert isinstance(texts, list)
        sizes.append(len(texts))
        return words(texts)

    texts = contextualize_chunks("title", drafts, count_tokens=count, max_tokens=7)
    assert all(text.endswith(chunk.text) for text, chunk in zip(texts, drafts, strict=True))
    assert all(
        tokens <= 7 or text == chunk.text for tokens, text, chunk in zip(words(texts), texts, drafts, strict=True)
    )
    assert texts[0].startswith("title\nouter\ninner\n\n")
    assert texts[4].startswith("inner\n\n")
    assert sizes[:2] == [3, 200]
    assert len(sizes) == 4


def test_contextualize_chunks_without_chunks_returns_none() -> None:
    assert contextualize_chunks("title", [], count_tokens=words, max_tokens=5) == []


@pytest.mark.parametrize(
    ("source", "title", "expected"),
    [
        ("price-list_2024.pdf", "Our offer", "price list 2024\nOur offer\nH1\n\na b c"),
        ("price-list_2024.pdf", None, "price list 2024\nH1\n\na b c"),
        ("price-list_2024.pdf", "Price list of 2024", "Price list of 2024\nH1\n\na b c"),
        ("4983.txt", "Our offer", "Our offer\nH1\n\na b c"),
        ("h1.md", None, "H1\n\na b c"),
    ],
)
def test_contextualize_chunks_adds_words_of_file_name(source: str, title: str | None, expected: str) -> None:
    chunks = [draft("a b c", "H1")]
    assert contextualize_chunks(title, chunks, count_tokens=words, max_tokens=99, source=source) == [expected]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("price-list_2024.pdf", ["price", "list", "2024"]),
        ("PriceListEU.xlsx", ["Price", "List", "EU"]),
        ("https://example.com/docs/One%20Way%20Rentals.html", ["One", "Way", "Rentals"]),
        ("Größe und Preis.docx", ["Größe", "und", "Preis"]),
        ("年度报告.pdf", ["年度报告"]),
        ("APPLE_2023Q3_10Q.pdf", ["APPLE", "2023Q3", "10Q"]),
        ("4983.txt", []),
        ("A title of a text", []),
        ("text.txt", []),
        ("0000320193-23-000077.pdf", []),
        ("550e8400-e29b-41d4-a716-446655440000.pdf", []),
        ("a3f9c2e1b7d4.pdf", []),
        ("", []),
    ],
)
def test_list_filename_words_leaves_out_extension_and_machine_names(name: str, expected: list[str]) -> None:
    assert list_filename_words(name) == expected


@pytest.mark.capability("chunker-prefix")
def test_contextualize_chunks_titles_are_limited_and_innermost_heading_stays() -> None:
    long = "word " * MAX_TITLE_TOKENS
    (text,) = contextualize_chunks("T", [draft("a b c", long, "inner")], count_tokens=words, max_tokens=999)
    assert text == "inner\n\na b c"
    (text,) = contextualize_chunks("T", [draft("a b c", "outer", long)], count_tokens=words, max_tokens=999)
    assert text == f"{long.strip()}\n\na b c"


def test_contextualize_chunks_links_have_no_addresses_and_plain_addresses_stay() -> None:
    chunk = draft("See [the tariff](https://example.com/a?b=c) and https://example.com/plain.")
    (text,) = contextualize_chunks(None, [chunk], count_tokens=words, max_tokens=99)
    assert text == "See the tariff and https://example.com/plain."


def test_contextualize_chunks_repeats_head_of_table() -> None:
    chunk = ChunkDraft("| 1 | 2 |", 40, 49, section_titles=("Prices",), table_head="| a | b |\n| --- | --- |")
    (text,) = contextualize_chunks("T", [chunk], count_tokens=words, max_tokens=99)
    assert text == "T\nPrices\n\na 1, b 2"


@pytest.mark.parametrize(
    ("text", "has_head", "expected"),
    [
        ("Cap\n| a | b |\n| --- | --- |\n| 1 | 2 |", True, "Cap\na 1, b 2"),
        ("| a | | c |\n| --- | --- | --- |\n| Bolts | | |\n| 1 | 2 | |", True, "Bolts\na 1, 2"),
        ("| a | b |\n| --- | --- |\n| 1 | 2 |\n(1) A note.", True, "a 1, b 2\n(1) A note."),
        ("| a | b |\n| --- | --- |\n| 1 | 2 |", False, "a b\n1 2"),
        ("| a |\n| --- |" + "\n| 1 |" * 4, True, "a" + "\n1" * 4),
        ("Before.\n\n| a\\|x | b |\n| --- | --- |\n| | 2 |\n\nBehind.", False, "Before.\n\na\\|x b\n2\n\nBehind."),
        ("a | b\nno table", False, "a | b\nno table"),
        ("| a |", True, "a"),
    ],
)
def test_format_plain_tables_leaves_out_bars_and_names_values(text: str, has_head: bool, expected: str) -> None:
    assert format_plain_tables(text, has_repeated_head=has_head) == expected
