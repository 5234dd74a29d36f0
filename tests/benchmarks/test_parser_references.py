"""Reference words and verdicts of ``make bench NAME=parser-libraries``."""

import zipfile
from pathlib import Path

import pytest

from benchmarks.parser_libraries import Expectation
from benchmarks.parser_references import read_docx_words, read_html_words
from tests.ingestion.parsers.word import cell, p, part, table

TYPES = "application/vnd.openxmlformats-officedocument.wordprocessingml"
PARTS = {"document": "document.main", "header1": "header", "footnotes": "footnotes", "styles": "styles"}
PLACEHOLDER = f"<w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent>{p('choose')}</w:sdtContent></w:sdt>"
BODY = "".join(
    (
        "<w:p><w:r><w:t>light</w:t></w:r><w:r><w:t>house</w:t></w:r><w:del><w:r><w:delText>x</w:delText></w:r></w:del>"
        f"<w:r><w:drawing><w:docPr descr='A map'/><w:txbxContent>{p('boxed')}</w:txbxContent></w:drawing></w:r></w:p>",
        table([cell(p("cell"))]),
        PLACEHOLDER,
        "<w:p><m:oMath><m:r><m:t>x=1</m:t></m:r></m:oMath></w:p>",
    )
)
PAGE = """<script>no()</script><nav>menu</nav><main><h1>Top</h1><p>light<b>house</b></p><aside>note</aside>
<table><tr><td>cell<img alt="A map"></td></tr></table><ul><li>item</li></ul><pre>code</pre><p hidden>late</p></main>"""


def test_docx_words_each_kind_of_content_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    with zipfile.ZipFile(path, "w") as archive:
        types = "".join(
            f'<Override PartName="/word/{name}.xml" ContentType="{TYPES}.{kind}+xml"/>' for name, kind in PARTS.items()
        )
        archive.writestr("[Content_Types].xml", f"<Types>{types}</Types>")
        archive.writestr("word/document.xml", part("w:document", f"<w:body>{BODY}</w:body>"))
        archive.writestr("word/header1.xml", part("w:hdr", p("above")))
        archive.writestr("word/footnotes.xml", part("w:footnotes", f"<w:footnote>{p('below')}</w:footnote>"))
        archive.writestr("word/styles.xml", part("w:styles", p("style")))
        archive.writestr("word/chunk.htm", "<p>inner page</p>")
    counted = {kind: sorted(words) for kind, words in read_docx_words(path).items() if words}
    assert counted == {
        "paragraphs": ["lighthouse"],
        "alternative texts": ["a", "map"],
        "text boxes": ["boxed"],
        "tables": ["cell"],
        "placeholders": ["choose"],
        "equations": ["1", "x"],
        "headers and footers": ["above"],
        "notes": ["below"],
        "embedded HTML": ["inner", "page"],
    }


def test_html_words_each_kind_of_content_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text(PAGE)
    counted = {kind: sorted(words) for kind, words in read_html_words(path).items() if words}
    assert counted == {
        "page frame": ["menu"],
        "headings": ["top"],
        "paragraphs": ["lighthouse", "note"],
        "tables": ["cell"],
        "alternative texts": ["a", "map"],
        "lists": ["item"],
        "code": ["code"],
        "hidden": ["late"],
    }


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("| Pro |  20 EUR |\ncon\u00adtract", []),
        ("Pro 20 EUR contract", ["lacks all of ['| Pro | 20 EUR |']"]),
        ("| Pro | 20 EUR | banner", ["lacks 'contract'", "has 'banner'"]),
        (None, ["refused"]),
    ],
)
def test_expectation_text_is_compared_without_white_space(text: str | None, faults: list[str]) -> None:
    expected = Expectation(Path("a.html"), ["contract"], ["| Pro | 20 EUR |"], ["banner"])
    assert expected.find_faults(text) == faults


@pytest.mark.parametrize(("text", "faults"), [(None, []), ("text", ["not refused"])])
def test_expectation_of_a_damaged_file_wants_a_refusal(text: str | None, faults: list[str]) -> None:
    assert Expectation(Path("a.docx"), fails=True).find_faults(text) == faults
