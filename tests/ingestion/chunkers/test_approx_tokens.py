"""The approx_tokens chunker: four bytes for each token, within the model's limit."""

import pytest

from app.ingestion.chunkers import ChunkSizes
from app.ingestion.chunkers.approx_tokens import approximate_tokens
from app.ingestion.tree import build_tree
from app.ingestion.types import Block, BlockKind, ParsedDocument
from tests.ingestion.chunkers.chunk_texts import drafts
from tests.ingestion.documents import words


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("汉字", 2), ("\ud800", 1)])
def test_approximate_tokens_counts_four_bytes_as_one(text: str, tokens: int) -> None:
    assert approximate_tokens([text]) == [tokens]


def test_approx_tokens_chunk_sizes_are_in_bytes() -> None:
    text = " ".join(f"Sentence number {number} is here." for number in range(200))
    found = drafts("approx_tokens", build_tree(ParsedDocument([Block(BlockKind.PARAGRAPH, text)])), SIZES, words)
    sizes = [len(draft.text.encode()) for draft in found]
    assert max(sizes) <= 400
    assert min(sizes[:-1]) > 300


def test_approx_tokens_only_chunks_above_model_limit_are_cut() -> None:
    dense, plain = "汉字没有空格的文本。" * 100, "Sentences of plain English words are here. " * 40
    blocks = [Block(BlockKind.PARAGRAPH, dense), Block(BlockKind.HEADING, "B", 1), Block(BlockKind.PARAGRAPH, plain)]
    tree = build_tree(ParsedDocument(blocks))
    wide = drafts("approx_tokens", tree, SIZES, words)
    narrow = drafts("approx_tokens", tree, SIZES, words, limit=100)
    assert max(words([draft.text for draft in wide])) > 100
    assert max(words([draft.text for draft in narrow])) <= 100
    assert [d for d in narrow if d.section_titles] == [d for d in wide if d.section_titles]


SIZES = ChunkSizes(100, 0)
