"""Option `pages` of every chunker: no chunk crosses a page, by default in documents without headings."""

from collections.abc import Sequence

import numpy as np
import pytest

from app.errors import InvalidInputError
from app.ingestion.chunkers import CHUNKERS, ChunkSizes, ChunkTools
from app.ingestion.chunkers.toolkit.chunk_validation import validate_chunks
from app.ingestion.chunkers.toolkit.drafts import build_drafts
from app.ingestion.chunkers.toolkit.page_parts import divide_at_pages
from app.ingestion.chunking import parse_chunker_options
from app.ingestion.tree import add_sentences, build_tree
from app.ingestion.types import Block, BlockKind, ChunkDraft, ParsedDocument
from harness.word_vectors import compute_text_vector

WORDS = ["heron", "otter", "kite", "newt", "toad"]


def count(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


TOOLS = ChunkTools(count, lambda texts: np.array([compute_text_vector(text, 16) for text in texts], np.float32), 4000)


def paragraphs(pages: int, *, each: int = 2) -> list[Block]:
    return [
        Block(BlockKind.PARAGRAPH, f"The {WORDS[page % 5]} waits on page {page}. It sleeps in part {part}.", page=page)
        for page in range(1, pages + 1)
        for part in range(each)
    ]


def chunk(name: str, blocks: list[Block], **options: object) -> list[ChunkDraft]:
    spec = CHUNKERS[name]
    tree = build_tree(ParsedDocument(blocks))
    if spec.needs_sentences:
        add_sentences(tree)
    drafts = spec.chunk(tree, ChunkSizes(1000), spec.options.model_validate(options), TOOLS).drafts
    covered = " ".join(draft.text for draft in drafts)
    assert all(block.text in covered or block.kind is BlockKind.HEADING for block in blocks) or name == "sentence"
    return drafts


def crosses(drafts: list[ChunkDraft]) -> bool:
    return any(draft.page != draft.page_end for draft in drafts)


@pytest.mark.capability("chunker-pages")
@pytest.mark.parametrize("name", CHUNKERS)
def test_chunks_of_document_without_headings_stay_on_their_page(name: str) -> None:
    for pages in (1, 2, 3, 7):
        drafts = chunk(name, paragraphs(pages))
        assert not crosses(drafts)
        assert {draft.page for draft in drafts} == set(range(1, pages + 1))


@pytest.mark.parametrize("name", [name for name in CHUNKERS if name not in ("sentence", "semantic")])
def test_chunks_cross_pages_under_headings_or_without_the_option(name: str) -> None:
    heading = Block(BlockKind.HEADING, "Birds", level=1, page=1)
    assert crosses(chunk(name, [heading, *paragraphs(3)]))
    assert crosses(chunk(name, paragraphs(3), pages=False))


@pytest.mark.capability("chunker-pages-option")
@pytest.mark.parametrize("name", CHUNKERS)
def test_chunks_under_headings_stay_on_their_page_with_the_option(name: str) -> None:
    heading = Block(BlockKind.HEADING, "Birds", level=1, page=1)
    last = Block(BlockKind.HEADING, "Fish", level=1, page=3)
    late = Block(BlockKind.PARAGRAPH, "A trout swims away.", page=4)
    drafts = chunk(name, [heading, *paragraphs(3), last, late], pages=True)
    assert not crosses(drafts)
    assert {draft.page for draft in drafts} >= {1, 2, 3, 4}
    assert [draft.section_titles for draft in drafts if draft.page == 4] == [("Fish",)]


@pytest.mark.parametrize("name", CHUNKERS)
def test_document_of_headings_on_two_pages_loses_nothing(name: str) -> None:
    blocks = [Block(BlockKind.HEADING, f"Title {page}", level=page, page=page) for page in (1, 2)]
    drafts = chunk(name, blocks, pages=True)
    assert {word for draft in drafts for word in draft.text.split()} >= {"1", "2"}


@pytest.mark.capability("chunker-pages-all")
@pytest.mark.parametrize("name", CHUNKERS)
def test_option_is_accepted_by_every_chunker_and_checked(name: str) -> None:
    assert parse_chunker_options(name, {"pages": True}, loc=("options",))["pages"] is True
    assert "pages" not in parse_chunker_options(name, {}, loc=("options",))
    for wrong in ("page", 7, "", 1.5):
        with pytest.raises(InvalidInputError):
            parse_chunker_options(name, {"pages": wrong}, loc=("options",))


def divide(blocks: list[Block], *ranges: tuple[int, int]) -> list[tuple[str, int | None]]:
    """Return text and page of the chunks that the division of these ranges gives, after their validation."""
    tree = build_tree(ParsedDocument(blocks))
    drafts = build_drafts(tree, [(start, min(end, len(tree.text))) for start, end in ranges])
    parts = divide_at_pages(tree, drafts)
    validate_chunks(tree, parts, count([part.text for part in parts]), max_tokens=1000)
    assert not crosses(parts)
    return [(part.text, part.page) for part in parts]


def test_divide_at_pages_cuts_chunk_at_each_page() -> None:
    blocks = [Block(BlockKind.PARAGRAPH, f"Text {page}.", page=page) for page in (1, 1, 2, 3)]
    assert divide(blocks, (0, 1000)) == [("Text 1.\n\nText 1.", 1), ("Text 2.", 2), ("Text 3.", 3)]
    assert divide(blocks, (5, 20), (20, 33)) == [("1.\n\nText 1.", 1), ("Te", 2), ("xt 2.", 2), ("Text 3", 3)]


def test_divide_at_pages_drops_parts_that_other_chunks_contain() -> None:
    blocks = [Block(BlockKind.PARAGRAPH, f"Text {page}.", page=page) for page in (1, 2, 3)]
    assert divide(blocks, (0, 16), (9, 25)) == [("Text 1.", 1), ("Text 2.", 2), ("Text 3.", 3)]
    assert divide(blocks, (0, 12), (5, 25)) == [("Text 1.", 1), ("Text 2.", 2), ("Text 3.", 3)]
    assert divide(blocks, (0, 7), (0, 16)) == [("Text 1.", 1), ("Text 2.", 2)]


def test_divide_at_pages_leaves_out_headings_alone() -> None:
    heading = Block(BlockKind.HEADING, "Birds", level=1, page=1)
    body = [Block(BlockKind.PARAGRAPH, f"Text {page}.", page=page) for page in (2, 3)]
    assert divide([heading, *body], (0, 1000)) == [("Text 2.", 2), ("Text 3.", 3)]
    titles = [Block(BlockKind.HEADING, f"Title {page}", level=page, page=page) for page in (1, 2)]
    assert divide(titles, (0, 1000)) == [("Title 1", 1), ("Title 2", 2)]


def test_divide_at_pages_chunks_on_one_page_are_unchanged() -> None:
    tree = build_tree(ParsedDocument([Block(BlockKind.PARAGRAPH, "A heron."), Block(BlockKind.PARAGRAPH, "A newt.")]))
    drafts = build_drafts(tree, [(0, 8), (0, len(tree.text))])
    assert divide_at_pages(tree, drafts) == drafts
