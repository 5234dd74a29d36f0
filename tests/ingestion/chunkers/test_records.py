"""Spreadsheets in every chunker: sheets are separate, a record is a chunk, and tables repeat their columns' names."""

from pathlib import Path

import pytest

from app.ingestion.chunkers import CHUNKERS, ChunkSizes
from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import spreadsheets
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.rows import add_rows
from app.ingestion.tree import build_tree
from app.ingestion.types import BlockKind, DocumentTree, ParsedDocument
from tests.ingestion.chunkers.chunk_texts import drafts
from tests.ingestion.documents import walk, words

OPTIONS = ParseOptions(None, max_pages=1, max_characters=1_000_000)
FAQ = [["Question", "Answer"], *([f"What is term {n}?", f"It is number {n}. It is short."] for n in range(12))]
FLEET = [["Model", "City", "Seats"], *([f"model {n}", f"city {n}", f"{n % 7}"] for n in range(60))]
NAMES = sorted(CHUNKERS)


def workbook(*sheets: list[list[str]]) -> DocumentTree:
    blocks = BlockList(OPTIONS)
    for number, rows in enumerate(sheets, start=1):
        blocks.add(BlockKind.HEADING, f"Sheet {number}", level=1, sheet=number)
        add_rows(rows, blocks, sheet=number)
    return build_tree(ParsedDocument(blocks.blocks))


@pytest.mark.capability("chunker-records")
@pytest.mark.parametrize("name", NAMES)
def test_record_is_one_chunk(name: str) -> None:
    tree = workbook([["Introduction"], *FAQ], FLEET)
    records = [f"Question: {question}\nAnswer: {answer}" for question, answer in FAQ[1:]]
    found = [draft.text for draft in drafts(name, tree, ChunkSizes(), words)]
    assert [text for text in found if "Question:" in text] == records


@pytest.mark.parametrize("name", NAMES)
def test_chunk_does_not_cross_sheets(name: str) -> None:
    tree = workbook([["One."]], [["Two."]], FLEET[:5], FAQ[:3], [["Last."]])
    leaves = [node for node in walk(tree.root) if node.block is not None]
    found = drafts(name, tree, ChunkSizes(), words)
    covered = [{leaf.sheet for leaf in leaves if leaf.start < d.end and d.start < leaf.end} for d in found]
    assert all(len(sheets) == 1 for sheets in covered)
    assert set.union(*covered) == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("name", ["headered", "recursive"])
def test_long_table_chunks_repeat_column_names(name: str) -> None:
    found = drafts(name, workbook(FLEET), ChunkSizes(), words)
    assert len(found) > 3
    assert all("| Model | City | Seats |" in draft.content for draft in found)


@pytest.mark.parametrize("name", NAMES)
def test_record_above_limit_is_cut_separately(name: str) -> None:
    answer = " ".join(f"Sentence {n} of the answer." for n in range(60))
    tree = workbook([["Question", "Answer"], ["Short?", "Yes."], ["Long?", answer], ["Last?", "No."]])
    found = [draft.text for draft in drafts(name, tree, ChunkSizes(60, 0), words)]
    assert (found[0], found[-1]) == ("Question: Short?\nAnswer: Yes.", "Question: Last?\nAnswer: No.")
    assert found[1].startswith("Question: Long?\nAnswer: Sentence 0")
    assert len(found) > 5


def test_sheet_is_section_of_its_chunks(samples: Path) -> None:
    tree = build_tree(spreadsheets.parse(samples / "workbook.xlsx", OPTIONS))
    found = drafts("headered", tree, ChunkSizes(), words)
    assert [(draft.text.split("\n")[0], draft.section_titles) for draft in found] == [
        ("Cars", ("Cars",)),
        ("Question: Can I return late?", ("FAQ",)),
        ("Question: Muss ich Benzin bezahlen?", ("FAQ",)),
    ]


@pytest.fixture
def samples() -> Path:
    return Path(__file__).resolve().parents[2] / "samples"
