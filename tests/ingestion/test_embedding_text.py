"""Embedding text: the prefix of a passage is cut at the limit, the passage never."""

import pytest

from app.ingestion.embedding_text import contextualize_chunks
from app.ingestion.types import ChunkDraft
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
    assert sizes[0] == 200
    assert len(sizes) == 3


def test_contextualize_chunks_without_chunks_returns_none() -> None:
    assert contextualize_chunks("title", [], count_tokens=words, max_tokens=5) == []
