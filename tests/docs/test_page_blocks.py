"""Markers of blocks, and the comparison of shown and printed output."""

from pathlib import Path

import pytest

from tests.docs.output_matching import find_json_difference, is_same_text
from tests.docs.page_blocks import read_blocks
from tests.docs.test_pages import split_transcript

DOCUMENT = "doc_01k7q0a1b2c3d4e5f6g7h8j9km"


def write_page(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text)
    return page


def test_read_blocks_returns_markers_and_arguments(tmp_path: Path) -> None:
    page = write_page(
        tmp_path,
        "# Page\n\n<!-- run -->\n```sh\necho a\n```\n\n<!-- output -->\n```\na\n```\n"
        "1. Step\n   <!-- a comment for people -->\n   ```json\n   {}\n   ```\n"
        "<!-- file: a/b.toml -->\n````toml\n[x]\n```\n````\n\n<!-- skip: it needs a second machine -->\n"
        "```sh\nreboot\n```\n",
    )
    found = [(block.marker, block.argument, block.language, block.text) for block in read_blocks(page)]
    assert found == [
        ("run", "", "sh", "echo a\n"),
        ("output", "", "", "a\n"),
        ("", "", "json", "{}\n"),
        ("file", "a/b.toml", "toml", "[x]\n```\n"),
        ("skip", "it needs a second machine", "sh", "reboot\n"),
    ]
    assert next(read_blocks(page)).line == 4


@pytest.mark.parametrize("marker", ["run twice", "skip", "skip: later", "file", "tested by"])
def test_read_blocks_wrong_marker_raises(tmp_path: Path, marker: str) -> None:
    page = write_page(tmp_path, f"<!-- {marker} -->\n```sh\ntrue\n```\n")
    with pytest.raises(ValueError, match=r"page\.md:2: "):
        list(read_blocks(page))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("```sh\nls\n```", True), ("```\n$ ls\n```", True), ("```\nls\n```", False), ("```json\n{}\n```", False)],
)
def test_is_command_depends_on_language_and_prompt(tmp_path: Path, text: str, expected: bool) -> None:
    assert [block.is_command for block in read_blocks(write_page(tmp_path, text))] == [expected]


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        ("1 uploaded", "1 uploaded\n", True),
        ("1 uploaded", "2 uploaded\n", False),
        (f"id {DOCUMENT}", "id doc_01m7q0a1b2c3d4e5f6g7h8j9km", True),
        (f"id {DOCUMENT}", "id kb_01m7q0a1b2c3d4e5f6g7h8j9km", False),
        ("at 2026-11-26T10:00:00Z in 0.5 s", "at 2027-01-02T11:12:13.5Z in 12 ms", True),
        ("score 0.883", "score 0.879", True),
        ("handbook.pdf…7", "handbook.pdf, page 7", True),
        ("first\n…\nlast", "first\nsecond\nthird\nlast", True),
        ("first\n…\nlast", "first\nlast", True),
        ("first\nlast", "first\nsecond\nlast", False),
    ],
)
def test_is_same_text_ignores_what_differs_from_run_to_run(shown: str, printed: str, expected: bool) -> None:
    assert is_same_text(shown, printed) is expected


def test_find_json_difference_accepts_excerpts_and_names_the_path() -> None:
    printed = {"id": DOCUMENT, "score": 0.8831, "took_ms": 17, "results": [{"page": 2}, {"page": 7}], "total": 2}
    shown = {"id": DOCUMENT, "score": 0.88, "took_ms": 4, "results": [{"page": 2}, "…"]}
    assert find_json_difference(shown, printed) is None
    assert find_json_difference({"results": [{"page": 2}]}, printed) == "$.results: 1 items are shown, 2 printed"
    assert find_json_difference({"results": [{"page": 3}, "…"]}, printed) == "$.results[0].page: shown 3, printed 2"
    assert find_json_difference({"pages": 2}, printed) == "$.pages is shown, and not printed"
    assert find_json_difference({"total": "…"}, printed) is None
    assert find_json_difference({"total": True}, printed) is not None


def test_split_transcript_joins_continued_lines() -> None:
    assert list(split_transcript("$ one \\\n  two\nprinted\n$ three\n")) == ["one \\\n  two", "three"]
