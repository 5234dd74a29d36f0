"""HTML and Markdown: extracted blocks, their kinds, and omitted parts."""

from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import html, markdown
from app.ingestion.types import BlockKind


def blocks_of(markup: str, path: Path, options: ParseOptions) -> list[tuple[BlockKind, str]]:
    path.write_text(markup, encoding="utf-8")
    parser = html if path.suffix == ".html" else markdown
    return [(block.kind, block.text) for block in parser.parse(path, options).blocks]


@pytest.mark.capability("format-html")
def test_html_page_is_read_without_boilerplate(samples: Path, options: ParseOptions) -> None:
    document = html.parse(samples / "page.html", options)
    assert document.title == "Opening hours"
    assert [(block.kind.value, block.level, block.text) for block in document.blocks] == [
        ("heading", 1, "When we are open"),
        ("paragraph", 0, "Most days\nfrom nine to five, the café until six."),
        ("paragraph", 0, "Text beside an inline element"),
        ("paragraph", 0, "and a nested block"),
        ("heading", 2, "Steps"),
        ("list_item", 0, "3. Ring the bell"),
        ("list_item", 0, "4. Wait"),
        ("list_item", 0, "- inside"),
        ("code", 0, "  keep\n    this indentation"),
        ("table", 0, "Hours by day\n| Day | Hours |\n| --- | --- |\n| Monday | 9 17 |\n| Sunday | closed |"),
        ("paragraph", 0, "Signed by the editor"),
    ]


@pytest.mark.capability("format-markdown")
def test_markdown_notes_are_read(samples: Path, options: ParseOptions) -> None:
    document = markdown.parse(samples / "notes.md", options)
    assert document.title == "Not part of the text"
    assert [(block.kind.value, block.level, block.text) for block in document.blocks] == [
        ("heading", 1, "Field notes"),
        (
            "paragraph",
            0,
            "Some emphasised text with inline code, a [link](https://example.com/page) and a line that goes on.",
        ),
        ("heading", 2, "Kit list"),
        ("list_item", 0, "1. Rope, 40 m"),
        ("list_item", 0, "2. Lamp"),
        ("list_item", 0, "- spare battery"),
        ("paragraph", 0, "Quoted wisdom."),
        ("code", 0, "def climb(height):\n    return height * 2"),
        ("table", 0, "| Peak | Height |\n| --- | --- |\n| Rysy | 2,501 |\n| A\\|B | 12 |"),
        ("paragraph", 0, "From an HTML block."),
    ]


def test_xhtml_empty_elements_are_closed(tmp_path: Path, options: ParseOptions) -> None:
    page = '<?xml version="1.0"?><html><head><title/></head><body><p/><p>All <i/>of it.</p></body></html>'
    assert blocks_of(page, tmp_path / "a.html", options) == [(BlockKind.PARAGRAPH, "All of it.")]


@pytest.mark.parametrize("markup", ["<pre>a{}b\n</pre>", "```\na{}b\n```"])
def test_long_run_of_spaces_takes_linear_time(markup: str, tmp_path: Path, options: ParseOptions) -> None:
    """A quadratic parser would take a minute."""
    path = tmp_path / ("a.html" if markup.startswith("<") else "a.md")
    [(kind, text)] = blocks_of(markup.format(" " * 90_000), path, options)
    assert (kind, len(text)) == (BlockKind.CODE, 90_002)


@pytest.mark.parametrize(
    ("markup", "blocks"),
    [
        ("<nav>only a menu</nav>", [(BlockKind.PARAGRAPH, "only a menu")]),
        ("<header><h1>Name</h1>logo</header>text", [(BlockKind.HEADING, "Name"), (BlockKind.PARAGRAPH, "text")]),
        (
            "<table><tr><td><h2>A</h2></td><td>b</td></tr></table>",
            [(BlockKind.HEADING, "A"), (BlockKind.PARAGRAPH, "b")],
        ),
        ("a<b>b</b>c <!-- no --> d<script>x</script>", [(BlockKind.PARAGRAPH, "abc d")]),
        ("<div>" * 600 + "deep", [(BlockKind.PARAGRAPH, "deep")]),
    ],
)
def test_html_fragments_give_blocks(
    markup: str, blocks: list[tuple[BlockKind, str]], tmp_path: Path, options: ParseOptions
) -> None:
    assert blocks_of(markup, tmp_path / "page.html", options) == blocks


@pytest.mark.parametrize(
    ("markup", "blocks"),
    [
        ("---\ntext after a rule\n", [(BlockKind.PARAGRAPH, "text after a rule")]),
        ("---\na: b\n---\ntext", [(BlockKind.PARAGRAPH, "text")]),
        ("![alt text](x.png) and &amp;", [(BlockKind.PARAGRAPH, "alt text and &")]),
        ("- one\n\n  two", [(BlockKind.LIST_ITEM, "- one"), (BlockKind.LIST_ITEM, "two")]),
        ("7) seven", [(BlockKind.LIST_ITEM, "7. seven")]),
    ],
)
def test_markdown_fragments_give_blocks(
    markup: str, blocks: list[tuple[BlockKind, str]], tmp_path: Path, options: ParseOptions
) -> None:
    assert blocks_of(markup, tmp_path / "page.md", options) == blocks


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252", "koi8-r"])
def test_html_declared_encoding_is_used(encoding: str, tmp_path: Path, options: ParseOptions) -> None:
    word = "Привет" if encoding == "koi8-r" else "Größe"
    label = "iso-8859-1" if encoding == "cp1252" else encoding
    path = tmp_path / "page.html"
    path.write_bytes(f'<html><head><meta charset="{label}"></head><body>{word}'.encode(encoding))
    assert html.parse(path, options).blocks[0].text == word
