"""Properties of every chunker with any document."""

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest

from app.errors import InvalidInputError
from app.ingestion.chunkers import CHUNKERS, DEFAULT_CHUNKER, ChunkSizes, TokenCounter
from app.ingestion.chunkers.toolkit.chunk_validation import validate_chunks
from app.ingestion.tree import add_topics, build_tree, find_node
from app.ingestion.types import Block, BlockKind, DocumentTree, NodeKind, ParsedDocument
from tests.ingestion.chunkers.chunk_texts import cut, drafts
from tests.ingestion.documents import quarters, random_document, walk, words

NAMES = list(CHUNKERS)


def one_block(text: str, kind: BlockKind = BlockKind.PARAGRAPH) -> DocumentTree:
    return build_tree(ParsedDocument([Block(kind, text)]))


def unknown_if_long(texts: Sequence[str]) -> list[int]:
    """Count tokens like WordPiece: a Chinese character is a word, and a word of over 100 characters is one token."""
    found = [re.findall(r"[\u3400-\u9fff]|[^\s\u3400-\u9fff]+", text) for text in texts]
    return [sum(1 if len(word) > 100 else -(-len(word) // 3) for word in each) for each in found]


class CountingTokenCounter:
    def __init__(self, count: TokenCounter) -> None:
        self.count, self.made = count, 0

    def __call__(self, texts: Sequence[str]) -> list[int]:
        self.made += 1
        return self.count(texts)


def titles_above(tree: DocumentTree, path: tuple[int, ...]) -> tuple[str, ...]:
    above = [find_node(tree, path[:depth]) for depth in range(len(path) + 1)]
    return tuple(node.title for node in above if node and node.kind is NodeKind.SECTION and node.title)


@pytest.mark.capability("chunker-invariants")
@pytest.mark.parametrize("count", [words, quarters])
@pytest.mark.parametrize("sizes", [(16, 0), (40, 10), (200, 50), (200, 199)])
@pytest.mark.parametrize("name", NAMES)
def test_chunker_invariants_hold_for_random_documents(name: str, sizes: tuple[int, int], count: TokenCounter) -> None:
    options = ChunkSizes(*sizes)
    for seed in range(5):
        tree = build_tree(random_document(seed, slides=seed % 2 == 1))
        made = cut(name, tree, options, count, limit=options.max_tokens)
        found = made.drafts
        add_topics(tree, made.topics)
        validate_chunks(tree, found, count([draft.text for draft in found]), max_tokens=options.max_tokens)
        assert [draft.start for draft in found] == sorted({draft.start for draft in found})
        assert [draft.end for draft in found] == sorted({draft.end for draft in found})
        leaves = [node for node in walk(tree.root) if node.kind is NodeKind.PARAGRAPH]
        for draft in found:
            assert draft.text == draft.text.strip()
            covered = [leaf for leaf in leaves if leaf.start < draft.end and draft.start < leaf.end]
            assert {leaf.slide for leaf in covered} == {draft.slide}
            assert len(covered) == 1 or BlockKind.RECORD not in {leaf.block for leaf in covered}
            pages = [leaf.page for leaf in covered if leaf.page is not None]
            assert (draft.page, draft.page_end) == (min(pages, default=None), max(pages, default=None))
            assert draft.section_titles == titles_above(tree, draft.node_path)
            holder = find_node(tree, draft.node_path)
            assert holder is not None
            assert not any(
                child.start <= draft.start and draft.end <= child.end
                for child in holder.children
                if not made.topics or child.kind is NodeKind.TOPIC
            )
        in_chunks = {position for draft in found for position in range(draft.start, draft.end)}
        for leaf in leaves:
            body = {p for p in range(leaf.start, leaf.end) if not tree.text[p].isspace()}
            assert leaf.block is BlockKind.HEADING or body <= in_chunks


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(6))
def test_chunker_chunks_do_not_cross_sections(seed: int, name: str) -> None:
    """Checked without the tested rules: a chunk's text without headings is in one section."""
    tree = build_tree(random_document(seed))
    parents = {
        position: leaf.path[:-1]
        for leaf in walk(tree.root)
        if leaf.block not in (None, BlockKind.HEADING)
        for position in range(leaf.start, leaf.end)
    }
    found = drafts(name, tree, ChunkSizes(60, 20), words)
    held = [{parents[position] for position in range(draft.start, draft.end) if position in parents} for draft in found]
    assert max(map(len, held), default=0) <= 1
    assert sum(map(len, held)) > 0.8 * len(found)


@pytest.mark.parametrize("name", NAMES)
def test_chunker_is_deterministic(name: str) -> None:
    first, second = (cut(name, build_tree(random_document(3)), ChunkSizes(60, 20), words, limit=8192) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", NAMES)
def test_chunker_empty_document_has_no_chunks(name: str) -> None:
    assert drafts(name, build_tree(ParsedDocument([])), ChunkSizes(), words) == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "text",
    ["x" * 10_000, "汉字没有空格的文本" * 2_000, "https://host/" + "a/b-" * 4_000, "สวัสดีครับ" * 900, "word " * 5_000],
    ids=["word", "han", "address", "thai", "no-sentence"],
)
def test_chunker_text_without_spaces_is_cut(name: str, text: str) -> None:
    tree = one_block(text)
    for count in (words, quarters, unknown_if_long):
        found = drafts(name, tree, ChunkSizes(200, 0), count, limit=200)
        assert "".join(draft.text for draft in found).replace(" ", "") == tree.text.replace(" ", "")
        assert all(tokens <= 200 for tokens in count([draft.text for draft in found]))
        assert max(len(draft.text) for draft in found) <= 2_000 or count is words


def test_chunker_long_sentence_without_spaces_is_cut_at_commas() -> None:
    found = drafts("headered", one_block("天地玄黄宇," * 200), ChunkSizes(100, 20), words)
    assert len(found) > 10
    assert all(draft.text.endswith("宇,") for draft in found)


def test_chunker_combining_marks_stay_with_their_letter() -> None:
    found = drafts("headered", one_block("e\u0301\u0323" * 3_000), ChunkSizes(16, 0), quarters)
    assert len(found) > 1
    assert all(draft.text.startswith("e") for draft in found)


def test_chunker_counter_with_low_counts_of_parts_is_respected() -> None:
    """A piece is counted with the white space before it, which reduces the count here until the chunk is counted
    alone.
    """

    def count(texts: Sequence[str]) -> list[int]:
        return [0 if text[0].isspace() else len(text) for text in texts]

    text = " ".join(f"Sentence number {n} is here." for n in range(40))
    for overlap in (0, 8):
        found = drafts("headered", one_block(text), ChunkSizes(16, overlap), count)
        assert all(len(draft.text) <= 16 for draft in found)
        assert set(range(len(text))) - {p for d in found for p in range(d.start, d.end)} <= {
            position for position, sign in enumerate(text) if sign == " "
        }


def test_chunker_counter_above_limit_ends_at_characters() -> None:
    found = drafts("headered", one_block("ab cd"), ChunkSizes(16, 0), lambda texts: [100] * len(texts))
    assert [draft.text for draft in found] == ["a", "b", "c", "d"]


def test_chunker_cuts_at_paragraphs_then_sentences() -> None:
    first = " ".join(f"First sentence number {n}." for n in range(6))
    second = " ".join(f"Second sentence number {n}." for n in range(6))
    blocks = [Block(BlockKind.PARAGRAPH, first), Block(BlockKind.PARAGRAPH, second)]
    found = drafts("recursive", build_tree(ParsedDocument(blocks)), ChunkSizes(45, 0), words)
    assert [draft.text for draft in found] == [first, second]
    found = drafts("recursive", one_block(first), ChunkSizes(16, 0), words)
    assert all(re.fullmatch(r"(First sentence number \d\.\s?)+", draft.text) for draft in found)
    assert len(found) == 2


@pytest.mark.parametrize(("length", "is_cut_there"), [(201, True), (200, False)])
@pytest.mark.parametrize("heading", ["", "A short line\n"])
def test_chunker_line_longer_than_wrapped_lines_is_paragraph(length: int, heading: str, is_cut_there: bool) -> None:
    line = ("Ants eat. " * 30)[: length - 1] + "."
    found = drafts("headered", one_block(heading + line + "\n" + "Bees fly. " * 10), ChunkSizes(70, 0), words)
    assert (found[0].text == heading + line) == is_cut_there
    assert ("Bees" in found[0].text) != is_cut_there


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Dr. Smith went home. He slept.", ["Dr. Smith went home.", "He slept."]),
        ("It costs 3.14 (approx. five). Really?! Yes.", ["It costs 3.14 (approx. five).", "Really?!", "Yes."]),
        ("See Fig. 3, e.g. J. Doe. “Quoted.” Next", ["See Fig. 3, e.g. J. Doe.", "“Quoted.”", "Next"]),
        ("今日は晴れ。明日は?雨!多分。", ["今日は晴れ。", "明日は?", "雨!", "多分。"]),
    ],
)
def test_chunker_cuts_at_sentence_ends(text: str, sentences: list[str]) -> None:
    """The limit allows one sentence for each chunk: the counter refuses any two."""

    def count(texts: Sequence[str]) -> list[int]:
        return [sum(10 for sentence in sentences if sentence in text) for text in texts]

    found = drafts("headered", one_block(text), ChunkSizes(16, 0), count)
    assert [draft.text for draft in found] == sentences


@pytest.mark.capability("chunker-overlap")
def test_chunker_overlap_repeats_sentences() -> None:
    text = " ".join(f"Sentence number {n} is here." for n in range(40))
    found = drafts("headered", one_block(text), ChunkSizes(60, 20), words)
    assert len(found) > 3
    for before, after in pairwise(found):
        repeated = text[after.start : before.end]
        assert before.start < after.start < before.end < after.end
        assert words([repeated]) == [18]
        assert re.match(r"Sentence number \d+ is here\.", repeated)


def test_chunker_long_last_sentence_gives_no_overlap() -> None:
    text = " ".join("Word " + "and more " * 12 + "stops." for _ in range(8))
    found = drafts("headered", one_block(text), ChunkSizes(60, 20), words)
    assert all(before.end < after.start for before, after in pairwise(found))


def test_chunker_table_is_cut_between_rows_with_header() -> None:
    rows = [f"| item {n} | {n} | in stock |" for n in range(60)]
    table = "\n".join(["| name | number | state |", "| --- | --- | --- |", *rows])
    found = drafts("headered", one_block(table, BlockKind.TABLE), ChunkSizes(100, 0), words)
    assert "\n".join(draft.text for draft in found) == table
    assert len(found) > 5
    assert all(line in table.split("\n") for draft in found for line in draft.text.split("\n"))
    tiny = drafts("headered", one_block(table, BlockKind.TABLE), ChunkSizes(28, 0), words)
    assert tiny[0].text == "\n".join(table.split("\n")[:2])


def test_chunker_code_is_cut_at_blank_lines() -> None:
    code = "\n\n".join("\n".join(f"line_{part}_{n} = {n}" for n in range(10)) for part in range(6))
    found = drafts("headered", one_block(code, BlockKind.CODE), ChunkSizes(50, 0), words)
    assert [draft.text for draft in found] == code.split("\n\n")


@pytest.mark.parametrize(("count", "calls"), [(words, 4), (quarters, 10)])
def test_chunker_calls_counter_rarely(count: TokenCounter, calls: int) -> None:
    blocks = [block for seed in range(30) for block in random_document(seed).blocks]
    tree = build_tree(ParsedDocument(blocks))
    assert len(tree.text) > 150_000
    for name in NAMES:
        counter = CountingTokenCounter(count)
        assert len(drafts(name, tree, ChunkSizes(), counter)) > 150
        assert counter.made <= calls


@pytest.mark.parametrize(("maximum", "overlap"), [(15, 0), (8193, 0), (100, 100), (100, -1), (0, 0)])
def test_chunk_sizes_invalid_values_are_refused(maximum: int, overlap: int) -> None:
    with pytest.raises(InvalidInputError):
        ChunkSizes(maximum, overlap)


def test_chunkers_are_registered_by_name() -> None:
    assert DEFAULT_CHUNKER in CHUNKERS
    assert all(spec.name == name and spec.description for name, spec in CHUNKERS.items())
