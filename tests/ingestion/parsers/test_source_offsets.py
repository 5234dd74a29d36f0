"""Positions of text in its file: the range of the source has every word of a part of the text."""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import markdown, text
from app.ingestion.parsers.formats.html import html_parser
from app.ingestion.tree import build_tree
from app.ingestion.types import DocumentTree, ParsedDocument

OPTIONS = ParseOptions(encoding=None, max_pages=100, max_characters=1_000_000)
PARSERS: dict[str, Callable[[Path, ParseOptions], ParsedDocument]] = {
    "txt": text.parse,
    "md": markdown.parse,
    "html": html_parser.parse,
}
NUMBER = re.compile(r"w\d+e")
SEEDS = range(150)


def read_tree(folder: Path, data: bytes, suffix: str) -> DocumentTree:
    path = folder / f"file.{suffix}"
    path.write_bytes(data)
    return build_tree(PARSERS[suffix](path, OPTIONS))


def iter_parts(tree: DocumentTree, seed: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of the text as chunkers cut them: at spaces, and sometimes inside of words."""
    choose = random.Random(seed)
    spaces = [match.end() for match in re.finditer(r"\s+", tree.text)] or [0]
    for _ in range(40):
        start, end = sorted((choose.choice(spaces), choose.choice([*spaces, len(tree.text)])))
        if choose.random() < 0.2:
            start = choose.randrange(len(tree.text))
        if start < end:
            yield start, end


def check_numbered_words(tree: DocumentTree, source: str, seed: int, *, may_miss: bool = False) -> None:
    """Check that the range of each part has each numbered word, which the source has once."""
    places = {match[0]: match.span() for match in NUMBER.finditer(source)}
    for start, end in iter_parts(tree, seed):
        source_start, source_end = tree.find_source_range(start, end)
        if may_miss and source_start is None:
            continue
        for match in NUMBER.finditer(tree.text[start:end]):
            word = match[0]
            first, last = places[word]
            assert source_start is not None
            assert source_end is not None
            assert source_start <= first < last <= source_end, (word, tree.text[start:end])


def build_numbered_text(seed: int, line_break: str) -> str:
    """Build a text with repeated paragraphs, headings, odd spaces, accents and base64 data between numbered words."""
    choose, number = random.Random(seed), iter(range(10_000))
    pieces = [
        "w{}e",
        "Same words again.",
        "\u00e9t\u00e9 a\u0301\u00adb",
        "\uff21\uff22 \u4e2d\u6587\u5b57",
        f"{line_break}== Head w{{}}e =={line_break}",
        "  \t",
        line_break,
        line_break * 2,
        line_break * 4,
        "(w{}e), ",
        f"data:image/png;base64,{'QUJD' * 40} ",
    ]
    chosen = (choose.choice(pieces).format(next(number)) + choose.choice([" ", " ", ""]) for _ in range(120))
    return "".join(chosen).replace("ew", "e w")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
@pytest.mark.parametrize("seed", SEEDS)
def test_text_range_has_each_word_of_part(tmp_path: Path, seed: int, line_break: str, encoding: str) -> None:
    source = build_numbered_text(seed, line_break)
    check_numbered_words(read_tree(tmp_path, source.encode(encoding), "txt"), source, seed)


def test_text_copy_has_same_characters(tmp_path: Path) -> None:
    source = "First, with a dash -\r\nand more.\r\n\r\nSame.\r\n\r\nSame.\r\n\r\nLast one."
    tree = read_tree(tmp_path, source.encode("utf-8-sig"), "txt")
    assert tree.source_map is not None
    for part, expected in (("with a dash -\nand more.", "with a dash -\r\nand more."), ("Last", "Last")):
        start = tree.text.index(part)
        found = tree.source_map.find_range(start, start + len(part))
        assert found is not None
        assert source[slice(*found)] == expected
    second = tree.text.rindex("Same.")
    assert tree.source_map.find_range(second, second + 5) == (source.rindex("Same."), source.rindex("Same.") + 5)


def test_text_of_one_encoding_counts_decoded_characters(tmp_path: Path) -> None:
    source = "Überblick über Äpfel.\n\nStraße und Öl."
    tree = read_tree(tmp_path, source.encode("cp1252"), "txt")
    assert tree.source_map is not None
    assert tree.source_map.find_range(tree.text.index("Straße"), len(tree.text)) == (23, len(source))


def test_stored_source_map_restores_same_numbers(tmp_path: Path) -> None:
    tree = read_tree(tmp_path, build_numbered_text(1, "\r\n").encode(), "txt")
    assert tree.source_map is not None
    assert type(tree.source_map).from_stored(tree.source_map.to_stored()) == tree.source_map


# ruff: noqa: E501  (a table of pieces)
MARKDOWN_PIECES = (
    "Plain w{}e words.", "**w{}e** and *w{}e*.", "[w{}e](https://example.org/a)", "`w{}e`", "a\\*w{}e &amp; w{}e",
    "![w{}e](a.png)", "caf\u00e9 e\u0301 w{}e", "\uff21w{}e", "Same words again.", "<b>w{}e</b>", "$w{}e$", "[^n1]",
)  # fmt: skip
MARKDOWN_BLOCKS = (
    "{}", "# {}", "## {}", "- {}\n- {}\n  - {}", "3. {}\n4. {}\n\n   {}", "> {}\n> {}", "{}\n{}\n{}", "```\nw{{}}e\n  w{{}}e\n```",
    "| a | b |\n|---|---|\n| {} | {} |\n| {} | {} |", "Title w{{}}e\n===", "<div>\n{}\n</div>", "    w{{}}e code",
    "!!! note \"w{{}}e\"\n    {}", "$$\nw{{}}e\n$$", "[^n1]: {}", "> [!NOTE]\n> {}", "w{{}}e\n: w{{}}e meaning", "---",
)  # fmt: skip
HTML_PIECES = (
    "Plain w{}e words.", "<b>w{}e</b>x", "w{}e &amp; w{}e&nbsp;", "<a href='https://example.org/w{}e'>w{}e</a>", "<!-- w -->",
    "<img alt='w{}e' src=a>", "e\u0301 w{}e", "Same words again.", "<sup>w{}e</sup>", "a < b", "<abbr title='w{}e'>ab</abbr>",
    "<input value='w{}e'>", "<svg><title>w{}e</title></svg>", "<br>", "<code>w{}e</code>", "&lt;w{}e&gt;", "<ruby>w{}e<rt>w{}e</rt></ruby>",
    "<script>var w = '<p>no</p>';</script>", "<style>p {{ color: red }}</style>",
)  # fmt: skip
HTML_BLOCKS = (
    "<p>{}</p>", "<h2>{}</h2>", "<ul><li>{}<li>{}</ul>", "<ol start=7><li>{}</li><li>{}</li></ol>", "<div>{}<p>{}</div>",
    "<table><caption>{}</caption><tr><th>{}<th>{}<tr><td>{}<td>{}</table>", "<pre>\nw{{}}e\n  w{{}}e &lt;</pre>",
    "<dl><dt>{}<dd>{}<dt>{}<dt>{}<dd>{}</dl>", "<table><tr><td rowspan=2>{}<td>{}<tr><td>{}</table>", "<nav>{}</nav>",
    "<details><summary>{}</summary>{}</details>", "<blockquote>{}</blockquote>", "<figure><table><tr><th>{}<td>{}<tr><td>{}<td>{}"
    "</table><figcaption>{}</figcaption></figure>", "<textarea>{}</textarea>", "<p hidden>{}</p>", "<template><p>{}</p></template>",
    "<select><option>w{{}}e<option>w{{}}e</select>", "<math><mi>w{{}}e</mi></math>", "{}", "<iframe srcdoc='<p>w{{}}e</p>'></iframe>",
)  # fmt: skip


def build_numbered_markup(seed: int, pieces: Sequence[str], blocks: Sequence[str]) -> str:
    """Build a document of random blocks, in which each numbered word occurs once."""
    choose, number = random.Random(seed), iter(range(100_000))
    chosen = []
    for _ in range(40):
        block = choose.choice(blocks)
        parts = [" ".join(choose.choices(pieces, k=choose.randrange(1, 4))) for _ in range(block.count("{}"))]
        template = block.format(*parts)
        chosen.append(template.format(*(next(number) for _ in range(template.count("{}")))))
    return "\n\n".join(chosen)


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
@pytest.mark.parametrize("seed", SEEDS)
def test_markdown_range_has_each_word_of_part(tmp_path: Path, seed: int, line_break: str) -> None:
    front = "---\ntitle: A\nauthor: w99999e\n---\n" if seed % 2 else ""
    source = front + build_numbered_markup(seed, MARKDOWN_PIECES, MARKDOWN_BLOCKS)
    source = source.replace("\n", line_break)
    check_numbered_words(read_tree(tmp_path, source.encode("utf-8-sig"), "md"), source, seed)


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
@pytest.mark.parametrize("seed", SEEDS)
def test_html_range_has_each_word_of_part(tmp_path: Path, seed: int, line_break: str) -> None:
    body = build_numbered_markup(seed, HTML_PIECES, HTML_BLOCKS)
    source = f"<!DOCTYPE html><html><head><title>A &amp; B</title></head><body>{body}</body></html>"
    source = source.replace("\n", line_break)
    tree = read_tree(tmp_path, source.encode(), "html")
    check_numbered_words(tree, source, seed, may_miss=True)
