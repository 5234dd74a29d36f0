"""Each part of a table that is cut repeats the head of the table, and no row is cut."""

from collections.abc import Sequence

import pytest

from app.documents.table_heads import find_head_at, find_row_start, find_table_head
from app.ingestion.chunkers import ChunkSizes
from app.ingestion.chunkers.registry import load_chunkers
from app.ingestion.chunkers.toolkit.packer import MAX_TABLE_TOKENS
from app.ingestion.chunkers.toolkit.table_parts import list_table_warnings
from app.ingestion.reindex.stored_tree import StoredNode, restore_tree
from app.ingestion.tree import build_tree, walk_nodes
from app.ingestion.types import Block, BlockKind, ChunkDraft, DocumentTree, ParsedDocument
from tests.ingestion.chunkers.chunk_texts import drafts
from tests.ingestion.documents import words

NAMES = "| Part | Price EUR | Stock |\n| --- | --- | --- |"
CHUNKERS = sorted(load_chunkers())


def table(rows: Sequence[str], caption: str = "", names: str = NAMES) -> str:
    return "\n".join([*([caption] if caption else []), names, *rows])


def price_rows(count: int, first: int = 1) -> list[str]:
    return [f"| P-{number:04d} | {number}.50 | {number * 3} |" for number in range(first, first + count)]


def tree_of(*blocks: Block | str) -> DocumentTree:
    return build_tree(ParsedDocument([Block(BlockKind.TABLE, one) if isinstance(one, str) else one for one in blocks]))


def cut(tree: DocumentTree, max_tokens: int = 100, name: str = "headered", overlap: int = 0) -> list[ChunkDraft]:
    return drafts(name, tree, ChunkSizes(max_tokens, overlap), words)


@pytest.mark.capability("chunker-tables")
@pytest.mark.parametrize("name", CHUNKERS)
@pytest.mark.parametrize("overlap", [0, 40])
def test_long_table_every_part_repeats_caption_and_names(name: str, overlap: int) -> None:
    tree = tree_of(table(price_rows(40), "Prices of 2024"))
    found = cut(tree, name=name, overlap=overlap)
    assert len(found) >= 3
    assert found[0].table_head is None
    assert found[0].text.startswith(f"Prices of 2024\n{NAMES}\n| P-0001 |")
    for draft in found[1:]:
        assert draft.table_head == f"Prices of 2024\n{NAMES}"
        assert draft.content == f"{draft.table_head}\n{tree.text[draft.start : draft.end]}"
    rows = [line for draft in found for line in draft.text.splitlines() if line.startswith("| P-")]
    assert rows == price_rows(40)


@pytest.mark.parametrize("max_tokens", [60, 100, 170, 500])
def test_parts_of_table_with_head_stay_within_budget(max_tokens: int) -> None:
    found = cut(tree_of(table(price_rows(200), "Prices of 2024")), max_tokens)
    assert max(words([draft.content for draft in found])) <= min(max_tokens, MAX_TABLE_TOKENS)


def test_table_that_fits_is_one_chunk_with_text_around_it() -> None:
    before, after = Block(BlockKind.PARAGRAPH, "The prices:"), Block(BlockKind.PARAGRAPH, "Without tax.")
    (found,) = cut(tree_of(before, table(price_rows(4)), after))
    assert found.table_head is None
    assert found.text.count("P-") == 4


def test_small_table_behind_long_text_is_not_cut() -> None:
    prose = Block(BlockKind.PARAGRAPH, " ".join(["The depot sells parts to everyone."] * 12))
    found = cut(tree_of(prose, table(price_rows(6))))
    assert [draft.text.count("P-") for draft in found if "P-" in draft.text] == [6]


def test_heading_before_table_stays_with_its_first_rows() -> None:
    found = cut(tree_of(Block(BlockKind.HEADING, "Prices", 1), table(price_rows(30))))
    assert found[0].text.startswith(f"Prices\n\n{NAMES}\n| P-0001 |")
    assert found[1].section_titles == ("Prices",)


def test_label_row_is_repeated_for_its_rows_only() -> None:
    rows = ["| Bolts | | |", *price_rows(20), "| Nuts | | |", *price_rows(20, first=50)]
    found = cut(tree_of(table(rows)), 80)
    for draft in found[1:]:
        first = draft.text.splitlines()[0]
        if first.startswith("| P-00"):
            label = "Bolts" if int(first[4:8]) < 50 else "Nuts"
            assert draft.table_head == f"{NAMES}\n| {label} | | |"
        else:
            assert (first, draft.table_head) == ("| Nuts | | |", NAMES)
    assert not any(draft.text.splitlines()[-1].endswith("| | |") for draft in found)


def test_adjacent_label_rows_are_repeated_together() -> None:
    rows = ["| Assets: | | |", "| Current assets: | | |", *price_rows(20)]
    found = cut(tree_of(table(rows)), 80)
    assert found[-1].table_head == f"{NAMES}\n| Assets: | | |\n| Current assets: | | |"


def test_row_without_values_is_no_label() -> None:
    rows = price_rows(30)
    rows[5] = "| P-0006 | | |"
    assert all(draft.table_head == NAMES for draft in cut(tree_of(table(rows)), 60)[1:])


def test_long_caption_is_left_out_of_repeated_head() -> None:
    caption = "Prices of all parts that the depot sells in the year 2024, without tax, valid until further notice, " * 2
    found = cut(tree_of(table(price_rows(20), caption.strip())), 100)
    assert found[0].text.startswith("Prices of all parts")
    assert {draft.table_head for draft in found if draft.text.startswith("| P-00")} == {NAMES}


def test_long_names_are_shortened_and_impossible_ones_are_counted() -> None:
    name = "a name of a column that goes on and on and on and on"
    rows = [f"| {number} | {number} |" for number in range(40)]
    found = cut(tree_of(table(rows, names=f"| {name} | {name} |\n| --- | --- |")), 60)
    assert {draft.table_head for draft in found[1:]} == {
        "| a name of a column that… | a name of a column that… |\n| --- | --- |"
    }
    names = "| " + " | ".join(f"n{number}" for number in range(30)) + " |\n|" + " --- |" * 30
    tree = tree_of(table(["| " + " | ".join(str(number) for number in range(30)) + " |"] * 9, names=names))
    found = cut(tree, 80)
    assert {draft.table_head for draft in found} == {None}
    (warning,) = list_table_warnings(tree, found)
    assert (warning.code, warning.count) == ("table_heads_omitted", 9)


def test_row_longer_than_chunk_is_cut_at_cells() -> None:
    row = "| " + " | ".join(" ".join(f"word{cell}x{number}" for number in range(12)) for cell in range(8)) + " |"
    found = cut(tree_of(table([row, *price_rows(3)])), 60)
    assert max(words([draft.content for draft in found])) <= 60
    pieces = [draft for draft in found if "word" in draft.text]
    assert all(draft.text.endswith(" |") or draft.text[-1].isalnum() for draft in pieces)
    assert "".join(draft.text for draft in found).replace("\n", "").count("word") == 96


def test_row_that_leaves_no_room_for_head_stays_whole() -> None:
    row = "| " + " ".join(f"word{number}" for number in range(70)) + " | 1 | 2 |"
    found = cut(tree_of(table([row, row])), 80)
    assert [draft.text for draft in found if draft.text.startswith("| word")] == [row, row]


def test_table_without_line_of_dashes_has_no_head() -> None:
    found = cut(tree_of("\n".join(f"one line of cells {number}" for number in range(60))), 60)
    assert {draft.table_head for draft in found} == {None}


def test_restored_tree_is_cut_like_new_tree() -> None:
    tree = tree_of(Block(BlockKind.PARAGRAPH, "Prices:"), table(price_rows(40), "Prices of 2024"))
    nodes = list(walk_nodes(tree.root))
    ids = {node.path: index for index, node in enumerate(nodes)}
    rows = [
        StoredNode(
            ids[node.path],  # type: ignore[arg-type]
            ids[node.path[:-1]] if node.path else None,  # type: ignore[arg-type]
            index, node.kind, node.level, node.title, node.start, node.end, None, None, None, node.block,
        )
        for index, node in enumerate(nodes)
    ]  # fmt: skip
    assert cut(restore_tree(tree.text, rows)) == cut(tree)


def test_find_head_at_position_of_stored_text_needs_no_tree() -> None:
    text = f"Before.\n\nPrices of 2024\n{NAMES}\n" + "\n".join(price_rows(9)) + "\n\nBehind | it."
    head = f"Prices of 2024\n{NAMES}"
    assert find_head_at(text, text.index("| P-0005")) == head
    assert find_head_at(text, text.index("3.50")) == head
    for outside in (0, text.index("Prices"), text.index("| Part"), text.index("Behind"), len(text)):
        assert find_head_at(text, outside) is None
    row = text.index("| P-0005")
    assert find_row_start(text, row - 3, len(text)) == row
    assert find_row_start(text, row, len(text)) == row
    assert find_row_start(text, row + 3, row + 5) == row + 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("| a | b |\n|---|:---:|\n| 1 | 2 |", "| a | b |\n|---|:---:|"),
        ("one\ntwo\n| a |\n| --- |\n| 1 |", "one\ntwo\n| a |\n| --- |"),
        ("| --- | --- |\n| 1 | 2 |", None),
        ("a | b\n--- | ---\n1 | 2", None),
        ("no table\n| --- |", None),
    ],
)
def test_find_table_head_returns_lines_up_to_line_of_dashes(text: str, expected: str | None) -> None:
    head = find_table_head(text, 0, len(text))
    assert (None if head is None else text[head.start : head.end]) == expected
