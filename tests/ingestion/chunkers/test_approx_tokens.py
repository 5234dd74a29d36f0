"""The approx_tokens chunker: a token for four bytes of a whole chunk, within the model's limit."""

import pytest

from app.ingestion.chunkers import ChunkSizes
from app.ingestion.tree import build_tree
from app.ingestion.types import Block, BlockKind, ParsedDocument
from tests.ingestion.chunkers.chunk_texts import drafts
from tests.ingestion.documents import words


def chunk_sizes(*paragraphs: str) -> list[int]:
    blocks = [Block(BlockKind.PARAGRAPH, text) for text in paragraphs]
    return [
        len(draft.text.encode()) for draft in drafts("approx_tokens", build_tree(ParsedDocument(blocks)), SIZES, words)
    ]


@pytest.mark.capability("chunker-approx")
@pytest.mark.parametrize("letter", ["a", "é", "汉", "😀"])
@pytest.mark.parametrize(("excess_bytes", "chunks"), [(0, 1), (3, 1), (4, 2)])
def test_approx_tokens_rounds_down_bytes_of_whole_chunk(letter: str, excess_bytes: int, chunks: int) -> None:
    size = 400 + excess_bytes
    sentences = f"{letter} b. " * (size // len(f"{letter} b. ".encode()) - 1)
    text = sentences + "c" * (size - len(sentences.encode()) - 1) + "."
    assert len(text.encode()) == size
    assert len(chunk_sizes(text)) == chunks


@pytest.mark.capability("chunker-approx-fill")
def test_approx_tokens_fills_chunks_of_many_short_pieces() -> None:
    sizes = chunk_sizes("Abcde. " * 700)
    assert {size // 4 for size in sizes[:-1]} <= {99, 100}
    assert sum(sizes) > 4700


def test_approx_tokens_chunk_sizes_are_in_bytes() -> None:
    text = " ".join(f"Sentence number {number} is here." for number in range(200))
    found = drafts("approx_tokens", build_tree(ParsedDocument([Block(BlockKind.PARAGRAPH, text)])), SIZES, words)
    sizes = [len(draft.text.encode()) for draft in found]
    assert max(sizes) // 4 <= 100
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
