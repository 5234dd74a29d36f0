"""EPUB: spine order, chapter titles, images, protection, and books with false declarations of their parts."""

import zipfile
from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import epub
from app.ingestion.parsers.toolkit.archives import MAX_MEMBER_BYTES
from app.ingestion.types import BlockKind, CorruptFile, EncryptedFile, ParsedDocument, TextTooLong
from app.warnings import ServiceWarning

CONTAINER = """<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0">
<rootfiles><rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""
PACKAGE = """<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>A Short  Book</dc:title></metadata><manifest>
<item id="two" href="text/two%20b.xhtml" media-type="application/xhtml+xml"/>
<item id="one" href="text/one.xhtml" media-type="application/xhtml+xml"/>
<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>
<item id="cover" href="cover.jpg" media-type="image/jpeg" properties="cover-image"/>
<item id="drawing" href="d.svg" media-type="image/svg+xml"/>
</manifest><spine><itemref idref="nav"/><itemref idref="one"/><itemref idref="two"/><itemref idref="one"/>
<itemref idref="gone"/></spine></package>"""
ONE = """<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head>
<body><a id="top"/><h2>Beginnings</h2><p>It was <em>dark</em>.</p><img src="../d.svg"/></body></html>"""
TWO = "<html><body><p>Nothing but text.</p></body></html>"
NAV = """<html xmlns="http://www.w3.org/1999/xhtml"><body><nav><ol><li><a href="text/one.xhtml">One</a></li>
<li><a href="text/two%20b.xhtml#p">The  second chapter</a></li></ol></nav></body></html>"""
NCX = """<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap>
<navPoint><navLabel><text>Chapter II</text></navLabel>
<content src="text/two%20b.xhtml"/></navPoint></navMap></ncx>"""
BOOK = {
    "META-INF/container.xml": CONTAINER,
    "OEBPS/book.opf": PACKAGE,
    "OEBPS/text/one.xhtml": ONE,
    "OEBPS/text/two b.xhtml": TWO,
    "OEBPS/nav.xhtml": NAV,
    "OEBPS/toc.ncx": NCX,
    "OEBPS/cover.jpg": "jpeg",
    "OEBPS/inner.zip": "PK\x03\x04",
}
ENCRYPTION = """<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"
 xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:EncryptedData><enc:EncryptionMethod Algorithm="{}"/>
<enc:CipherData><enc:CipherReference URI="OEBPS/f.otf"/></enc:CipherData></enc:EncryptedData></encryption>"""


def parsed(directory: Path, options: ParseOptions, changes: dict[str, str | None] | None = None) -> ParsedDocument:
    """Parse the book with some members changed, or left out (None)."""
    path = directory / "book.epub"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**BOOK, **(changes or {})}.items():
            if content is not None:
                archive.writestr(name, content)
    return epub.parse(path, options)


@pytest.mark.capability("format-epub")
def test_epub_book_is_read_in_spine_order(tmp_path: Path, options: ParseOptions) -> None:
    document = parsed(tmp_path, options)
    assert document.title == "A Short Book"
    assert [(block.kind, block.level, block.text) for block in document.blocks] == [
        (BlockKind.HEADING, 2, "Beginnings"),
        (BlockKind.PARAGRAPH, 0, "It was dark."),
        (BlockKind.HEADING, 1, "The second chapter"),
        (BlockKind.PARAGRAPH, 0, "Nothing but text."),
    ]
    assert document.warnings == [ServiceWarning("images_not_read", "2 images were not read.", 2)]


def test_epub_older_table_of_contents_gives_titles(tmp_path: Path, options: ParseOptions) -> None:
    document = parsed(tmp_path, options, {"OEBPS/nav.xhtml": "<html><p>broken"})
    assert document.blocks[2].text == "Chapter II"


def test_epub_missing_chapter_leaves_others(tmp_path: Path, options: ParseOptions) -> None:
    document = parsed(tmp_path, options, {"OEBPS/text/one.xhtml": None})
    assert [block.text for block in document.blocks] == ["The second chapter", "Nothing but text."]
    assert document.warnings[0] == ServiceWarning(
        "chapters_not_read", "1 of 2 chapters are damaged and were not read.", 1
    )


NAMESPACES = 'xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"'
FRACTION = "<{0}mfrac><{0}mn>1</{0}mn><{0}mn>2</{0}mn></{0}mfrac>"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('<p>Word<a epub:type="noteref" href="notes.xhtml#n1">1</a>.</p>', ["Word ¹."]),
        ('<p>10<a epub:type="noteref" href="#n1"><sup>2</sup></a></p>', ["10 ²"]),
        ('<p>x</p><aside epub:type="footnote" id="n1"><p>A note.</p></aside>', ["x", "A note."]),
        (f"<p>a <math>{FRACTION.format('')}</math></p>", ["a 1/2"]),
        (f'<p>a <m:math xmlns:m="http://www.w3.org/1998/Math/MathML">{FRACTION.format("m:")}</m:math></p>', ["a 1/2"]),
        ('<p>a<epub:switch><epub:case required-namespace="http://www.w3.org/1998/Math/MathML"><math><mn>5</mn></math>'
         "</epub:case><epub:default><img alt='five'/></epub:default></epub:switch></p>", ["a", "5"]),
        ('<p>one <span epub:type="pagebreak" title="12"/>word</p>', ["one word"]),
        ('<nav epub:type="toc"><ol><li><a href="two.xhtml">Two</a></li></ol></nav><p>x</p>', ["x"]),
        ("<table><tr><th>A</th><th>B</th></tr><tr><td colspan='2'>both</td></tr></table>",
         ["| A | B |\n| --- | --- |\n| both | |"]),
        ('<p><a href="two.xhtml#p">inside</a>, <a href="https://example.org/x">outside</a></p>',
         ["inside, [outside](https://example.org/x)"]),
        ("<figure><img src='a.png' alt='A heron in water'/></figure>", ["A heron in water"]),
        ("<p><ruby>漢<rt>かん</rt>字<rt>じ</rt></ruby></p>", ["漢字(かんじ)"]),
        ("<p style='position:absolute'>Fixed</p><p><span style='position:absolute'>one</span>"
         "<span style='position:absolute'>two</span></p>", ["Fixed", "one", "two"]),
    ],
)  # fmt: skip
def test_epub_content_of_chapter_is_read(body: str, expected: list[str], tmp_path: Path, options: ParseOptions) -> None:
    chapter = f"<html {NAMESPACES}><body><h2>H</h2>{body}</body></html>"
    document = parsed(tmp_path, options, {"OEBPS/text/one.xhtml": chapter, "OEBPS/text/two b.xhtml": TWO})
    texts = [block.text for block in document.blocks]
    assert texts[1 : texts.index("The second chapter")] == expected


def test_epub_contents_page_of_guide_is_left_out(tmp_path: Path, options: ParseOptions) -> None:
    guide = '<guide><reference type="toc" href="text/one.xhtml"/></guide></package>'
    document = parsed(tmp_path, options, {"OEBPS/book.opf": PACKAGE.replace("</package>", guide)})
    assert [block.text for block in document.blocks] == ["The second chapter", "Nothing but text."]


def test_epub_struck_words_and_media_are_counted(tmp_path: Path, options: ParseOptions) -> None:
    chapter = f"<html {NAMESPACES}><body><p>It <del>was not</del> is.</p><video src='v.mp4'></video></body></html>"
    document = parsed(tmp_path, options, {"OEBPS/text/one.xhtml": chapter})
    assert document.words_left_out == 2
    assert [(warning.code, warning.count) for warning in document.warnings] == [
        ("images_not_read", 2),
        ("media_not_read", 1),
    ]


@pytest.mark.parametrize("algorithm", ["http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"])
def test_epub_obfuscated_fonts_are_no_protection(algorithm: str, tmp_path: Path, options: ParseOptions) -> None:
    document = parsed(tmp_path, options, {"META-INF/encryption.xml": ENCRYPTION.format(algorithm)})
    assert len(document.blocks) == 4


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (
            {"META-INF/encryption.xml": ENCRYPTION.format("http://www.w3.org/2001/04/xmlenc#aes128-cbc")},
            EncryptedFile,
        ),
        ({"META-INF/container.xml": None}, CorruptFile),
        ({"META-INF/container.xml": "<container/>"}, CorruptFile),
        ({"META-INF/container.xml": CONTAINER.replace("OEBPS/", "../")}, CorruptFile),
        ({"META-INF/container.xml": CONTAINER.replace("OEBPS/", "/etc/")}, CorruptFile),
        ({"OEBPS/book.opf": None}, CorruptFile),
        ({"OEBPS/book.opf": "<package>"}, CorruptFile),
        ({"OEBPS/book.opf": "<package/>"}, CorruptFile),
        ({"OEBPS/book.opf": PACKAGE.replace("text/", "../../../etc/")}, CorruptFile),
        ({"OEBPS/text/one.xhtml": None, "OEBPS/text/two b.xhtml": None}, CorruptFile),
        ({"OEBPS/text/one.xhtml": "<p>" + "long " * 50_000}, TextTooLong),
    ],
    ids=[
        "protected", "no container", "empty container", "package outside", "package at the root", "no package",
        "broken package", "empty package", "chapters outside", "no chapters", "text",
    ],
)  # fmt: skip
def test_epub_invalid_or_protected_book_is_refused(
    changes: dict[str, str | None], error: type[Exception], tmp_path: Path, options: ParseOptions
) -> None:
    with pytest.raises(error):
        parsed(tmp_path, options, changes)


def test_epub_too_large_chapter_is_not_unpacked(tmp_path: Path, options: ParseOptions) -> None:
    with pytest.raises(TextTooLong, match="unpacks"):
        parsed(tmp_path, options, {"OEBPS/text/one.xhtml": "ab" * (MAX_MEMBER_BYTES // 2 + 1)})


def test_epub_truncated_book_is_corrupt(tmp_path: Path, options: ParseOptions) -> None:
    parsed(tmp_path, options)
    path = tmp_path / "book.epub"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(CorruptFile):
        epub.parse(path, options)
