"""Markdown: tables with HTML in cells, notes, tasks, callouts, formulas, front matter, links and embedded HTML."""

from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import markdown
from app.ingestion.types import BlockKind, ParsedDocument


def parsed(content: str, directory: Path, options: ParseOptions) -> ParsedDocument:
    path = directory / "page.md"
    path.write_text(content, encoding="utf-8")
    return markdown.parse(path, options)


def blocks(content: str, directory: Path, options: ParseOptions) -> list[tuple[str, str]]:
    return [(block.kind.value, block.text) for block in parsed(content, directory, options).blocks]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("50<br>100", "50 100"),
        ("<ul><li>500</li><li>700</li></ul>", "500; 700"),
        ("10<sup>6</sup>", "10⁶"),
        ("~~10~~ 12", "12"),
        ("a \\| b", "a \\| b"),
        ("`x \\| y`", "x \\| y"),
        ("[Manual](https://example.org/m)", "[Manual](https://example.org/m)"),
        ("![Included](tick.png)", "Included"),
        ("**10** EUR", "10 EUR"),
        ("see[^1]", "see ¹"),
        ("", ""),
    ],
)
def test_markdown_cell_content_stays_in_its_cell(cell: str, text: str, tmp_path: Path, options: ParseOptions) -> None:
    content = f"| Key | Value |\n|:---|---:|\n| k | {cell} |\n| l | m |\n\n[^1]: A note"
    value = f" {text} |" if text else " |"
    assert blocks(content, tmp_path, options)[0][1] == f"| Key | Value |\n| --- | --- |\n| k |{value}\n| l | m |"


@pytest.mark.parametrize("prefix", ["> ", "- item\n\n  ", "1. item\n\n   ", "> - item\n>\n>   ", "[^1]: Note\n\n    "])
def test_markdown_table_inside_other_block_is_a_table(prefix: str, tmp_path: Path, options: ParseOptions) -> None:
    indentation = prefix.rpartition("\n")[2] if "\n" in prefix else prefix
    content = prefix + f"\n{indentation}".join(["| A | B |", "|---|---|", "| 1 | 2 |"])
    assert ("table", "| A | B |\n| --- | --- |\n| 1 | 2 |") in blocks(content, tmp_path, options)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("Text[^1] on.\n\n[^1]: The note.", [("paragraph", "Text ¹ on."), ("note", "¹ The note.")]),
        ("10[^2]\n\n[^2]: One\n    more\n\n    two", [("paragraph", "10 ²"), ("note", "² One more"), ("note", "two")]),
        ("A[^long].\n\n[^long]: Text", [("paragraph", "A [long]."), ("note", "[long] Text")]),
        ("[^1]: First\n[^2]: Second\n\nText", [("note", "¹ First"), ("note", "² Second"), ("paragraph", "Text")]),
        ("x[^1]\n\n[^1]: https://example.org/a", [("paragraph", "x ¹"), ("note", "¹ https://example.org/a")]),
        ("not a note [^ 1]", [("paragraph", "not a note [^ 1]")]),
    ],
)  # fmt: skip
def test_markdown_notes_have_marks(
    content: str, expected: list[tuple[str, str]], tmp_path: Path, options: ParseOptions
) -> None:
    assert blocks(content, tmp_path, options) == expected


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("- [x] done\n- [ ] open\n- [link]", ["- ☒ done", "- ☐ open", "- [link]"]),
        ("1. [X] one", ["1. ☒ one"]),
        ("Term\n: Definition", ["Term: Definition"]),
        ("Term\n: One\n: Two", ["Term: One; Two"]),
        ("> [!NOTE]\n> Be careful.", ["Note: Be careful."]),
        ("> [!WARNING] Title\n> Hot", ["Warning: Title Hot"]),
        (":::tip Title\nText\n:::\nafter", ["Tip: Title", "Text", "after"]),
        ("::: {.warning}\nHot\n:::", ["Warning:", "Hot"]),
        (":::note[Read this]\nx\n:::", ["Note: Read this", "x"]),
        ('!!! note "Remember"\n    Text here\n\n    More\n\nafter', ["Note: Remember", "Text here", "More", "after"]),
        ("??? question\n    Yes\n", ["Question:", "Yes"]),
        ('=== "Linux"\n\n    Use apt.\n\n=== "Mac"\n\n    Use brew.', ["Linux", "Use apt.", "Mac", "Use brew."]),
        ("# Title {#id .class}\n\nx", ["Title", "x"]),
        ("Costs $a_1 * b_1 * c$ here", ["Costs $a_1 * b_1 * c$ here"]),
        ("It is $5 and *not* $10", ["It is $5 and not $10"]),
        ("$$\nx\n=\n\\frac{1}{2}\n- y\n$$\n\nafter", ["$$ x = \\frac{1}{2} - y $$", "after"]),
        ("$$ E = mc^2 $$", ["$$ E = mc^2 $$"]),
        ("a <!-- hidden --> b\n\n<!-- more\n\nlines -->\nc", ["a b", "c"]),
        ("H<sub>2</sub>O <kbd>Ctrl</kbd> <del>old</del>new", ["H₂O Ctrl new"]),
        ("<https://example.org/x>", ["https://example.org/x"]),
        ("[a][r] and [b](/x)\n\n[r]: https://example.org/r", ["[a](https://example.org/r) and b"]),
        ("[![Logo of us](l.png)](https://example.org/)", ["[Logo of us](https://example.org/)"]),
        ("## [Head](https://example.org/h)\n\nx", ["Head", "x"]),
        ("Use ssh <user>@<host> and List<String>", ["Use ssh <user>@<host> and List<String>"]),
        ('<Tabs>\n<TabItem value="a" label="Linux">\n\nUse apt.\n\n</TabItem>\n</Tabs>', ["Linux", "Use apt."]),
        ("the <title> tag, then text\n\nmore text", ["the <title> tag, then text", "more text"]),
        ("<details>\n<summary>Q</summary>\n\nThe **answer**.\n\n</details>", ["Q", "The answer."]),
        ('<p align="center">\n  <img alt="Two herons" src="a.png">\n</p>\n\nx', ["Two herons", "x"]),
        ("<table><tr><td rowspan=2>EU<td>1<tr><td>2</table>", ["| | |\n| --- | --- |\n| EU | 1 |\n| EU | 2 |"]),
    ],
)  # fmt: skip
def test_markdown_extensions_give_text(content: str, texts: list[str], tmp_path: Path, options: ParseOptions) -> None:
    assert [block.text for block in parsed(content, tmp_path, options).blocks] == texts


@pytest.mark.parametrize(
    ("content", "title", "lines", "left_out"),
    [
        ("---\ntitle: Returns\n---\ntext", "Returns", [], 0),
        ('---\ntitle: "Our returns"\ndescription: How to return\nlayout: page\n---\ntext', "Our returns",
         ["Description: How to return"], 1),
        ("---\nauthors:\n  - Ada\n  - Bob\n---\ntext", None, ["Authors: Ada, Bob"], 0),
        ("---\nauthors: [Ada, Bob]\ndate: 2024-05-01\ntags: [x, y]\n---\ntext", None,
         ["Authors: Ada, Bob", "Date: 2024-05-01"], 2),
        ("---\nsummary: >\n  Two\n  lines\nnav: a b c\n---\ntext", None, ["Summary: Two lines"], 3),
        ('+++\ntitle = "Toml"\nweight = 3\n+++\ntext', "Toml", [], 1),
    ],
)  # fmt: skip
def test_front_matter_is_read_or_counted(
    content: str, title: str | None, lines: list[str], left_out: int, tmp_path: Path, options: ParseOptions
) -> None:
    document = parsed(content, tmp_path, options)
    assert document.title == title
    texts = [block.text for block in document.blocks]
    assert texts == (["\n".join(lines)] if lines else []) + ["text"]
    assert document.words_left_out == left_out


def test_markdown_images_without_text_are_counted(tmp_path: Path, options: ParseOptions) -> None:
    document = parsed("![](a.png) ![](b.png) ![A plan](c.png) <video></video>", tmp_path, options)
    assert [(warning.code, warning.count) for warning in document.warnings] == [
        ("images_not_read", 2),
        ("media_not_read", 1),
    ]
    assert [block.text for block in document.blocks] == ["A plan"]


@pytest.mark.parametrize(
    "content",
    [
        "$$ a\n" * 20_000, "$a " * 20_000, "[^a" * 20_000, "[^1]: x\n" * 5_000, "!!! note\n    " * 2_000,
        ":::\n" * 20_000, "<title>" * 5_000, "<title>\n\n" * 5_000, "x\n: y\n" * 10_000, "- [x] " * 2_000,
        "---\n" + "a: b\n" * 20_000, "[^1]: " * 3_000,
    ],
)  # fmt: skip
def test_hostile_markdown_takes_linear_time(content: str, tmp_path: Path) -> None:
    """A quadratic parser would take minutes."""
    options = ParseOptions(None, max_pages=10, max_characters=4_000_000)
    parsed(f"begin\n\n{content}", tmp_path, options)


def test_markdown_code_is_code(tmp_path: Path, options: ParseOptions) -> None:
    content = "```python\nif a < b:\n    x = '<p>'  # [^1] $a$\n```\n\n    indented"
    assert blocks(content, tmp_path, options) == [
        (BlockKind.CODE.value, "if a < b:\n    x = '<p>'  # [^1] $a$"), ("code", "indented"),
    ]  # fmt: skip
