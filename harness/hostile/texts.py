"""Texts that take a parser much time or memory: nested entities, deep nesting, long runs and huge tables."""

from collections.abc import Iterator

from harness.hostile import HostileFile
from harness.hostile.zip_packages import (
    build_book,
    build_cell,
    build_paragraph,
    build_presentation,
    build_text_box,
    build_word_document,
    build_workbook,
    pack_zip,
)

LONG_CHARACTERS = 50_000_000
RUN_CHARACTERS = 200_000
NESTING_DEPTH = 200_000


def build_billion_laughs(name: str) -> str:
    """Build a document type whose last entity, ``&l9;``, has 10⁹ copies of the first (the "billion laughs" attack)."""
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    return f'<!DOCTYPE {name} [<!ENTITY l0 "laugh">{entities}]>'


def build_quadratic_entity(name: str) -> str:
    """Build a document type with one long entity, ``&l9;``, for texts that use it often."""
    return f'<!DOCTYPE {name} [<!ENTITY l9 "{"a" * 100_000}">]>'


def _generate_entities() -> Iterator[tuple[str, str, bytes]]:
    for label, prolog in (("laughs", build_billion_laughs), ("quadratic", build_quadratic_entity)):
        text = "text " + "&l9;" * (1 if label == "laughs" else 5_000)
        yield f"xml {label}", "a.xml", f"{prolog('a')}<a>{text}</a>".encode()
        svg = '<svg xmlns="http://www.w3.org/2000/svg">'
        yield f"svg {label}", "a.svg", f"{prolog('svg')}{svg}<text>{text}</text></svg>".encode()
        yield f"html {label}", "a.html", f"{prolog('html')}<html><p>{text}</p></html>".encode()
        yield f"docx {label}", "a.docx", pack_zip(build_word_document(build_paragraph(text), prolog=prolog("a")))
        rows = f'<row r="1">{build_cell("A1", text)}</row>'
        yield f"xlsx {label}", "a.xlsx", pack_zip(build_workbook(rows, prolog=prolog("a")))
        yield f"pptx {label}", "a.pptx", pack_zip(build_presentation(build_text_box(text), prolog=prolog("a")))
        yield f"epub {label}", "a.epub", pack_zip(build_book(text, prolog=prolog("html")))
    anchors = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 10}]\n" for n in range(1, 10))
    yield "yaml laughs", "a.yaml", anchors.encode()


def _generate_nesting() -> Iterator[tuple[str, str, bytes]]:
    yield "json arrays", "a.json", b"[" * NESTING_DEPTH + b"]" * NESTING_DEPTH
    yield "json objects", "a.json", b'{"a":' * NESTING_DEPTH + b"1" + b"}" * NESTING_DEPTH
    yield "json never closed", "a.json", b'{"a": [' * NESTING_DEPTH
    yield "xml elements", "a.xml", b"<a>" * NESTING_DEPTH + b"text" + b"</a>" * NESTING_DEPTH
    yield "html elements", "a.html", b"<html><body>" + b"<div>" * NESTING_DEPTH + b"text"
    yield "html tables", "a.html", b"<html><body>" + b"<table><tr><td>" * 20_000 + b"text"
    yield "html lists", "a.html", b"<html><body>" + b"<ul><li>a" * 20_000
    yield "yaml flow", "a.yaml", b"a: " + b"[" * NESTING_DEPTH
    yield "yaml indentation", "a.yaml", b"".join(b" " * n + b"a:\n" for n in range(3_000))
    yield "markdown quotes", "a.md", b">" * NESTING_DEPTH + b" text"
    yield "markdown lists", "a.md", b"".join(b" " * (2 * n) + b"- a\n" for n in range(2_000))
    yield "rst lists", "a.rst", b"".join(b" " * (2 * n) + b"- a\n\n" for n in range(2_000))
    tables = "<w:tbl><w:tr><w:tc>" * 5_000 + build_paragraph("a") + "</w:tc></w:tr></w:tbl>" * 5_000
    yield "docx tables", "a.docx", pack_zip(build_word_document(tables))
    yield (
        "pptx groups",
        "a.pptx",
        pack_zip(build_presentation("<p:grpSp>" * 5_000 + build_text_box("a") + "</p:grpSp>" * 5_000)),
    )
    parts = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(3_000))
    yield "mail parts", "a.eml", b"From: a\nSubject: b\nMIME-Version: 1.0\n" + parts + b"\ntext"
    mails = b"".join(b"Content-Type: message/rfc822\n\nFrom: a\nSubject: b\n" for _ in range(3_000))
    yield "mails in mails", "a.eml", b"From: a\nSubject: b\nMIME-Version: 1.0\n" + mails + b"\ntext"


def _generate_runs() -> Iterator[tuple[str, str, bytes]]:
    signs = ("*", "_", "[", "(", "|", "`", " ", "<", "!", "![", "](", "&", "#", "-", "~", "\\", "a*", "[a](", "**a ")
    for name in ("a.md", "a.rst"):
        for sign in signs:
            yield f"{name[2:]} run of {sign!r}", name, (sign * (RUN_CHARACTERS // len(sign)) + " text").encode()
    for sign in ("<", "<!--", "<a ", "&", "<![CDATA[", '<a b="', "<p>", "</p>"):
        yield (
            f"html run of {sign!r}",
            "a.html",
            (f"<html><body><p>text {sign * (RUN_CHARACTERS // len(sign))}").encode(),
        )
    yield "a header of commas", "a.eml", b"From: a\nTo: " + b"<a@b>, " * 100_000 + b"\nSubject: b\n\ntext"
    words = b"=?utf-8?q?a?= " * 70_000
    yield "encoded words", "a.eml", b"From: a\nSubject: " + words + b"\nMIME-Version: 1.0\n\ntext"


def _generate_sizes() -> Iterator[tuple[str, str, bytes]]:
    for sign in (b"a", b" ", b"\n", b"\xff"):
        yield f"50 MB of {sign!r}", "a.txt", sign * LONG_CHARACTERS
    yield "one word of 2 MB", "a.txt", b"a" * 2_000_000
    yield "2 MB of combining marks", "a.txt", ("a" + "\u0301" * 1_000_000).encode()
    yield "a ligature that unfolds", "a.txt", ("\ufdfa" * 300_000).encode()
    yield "csv of 16,384 columns", "a.csv", (",".join(f"c{n}" for n in range(16_384)) + "\n").encode() * 20
    yield "csv, a quote never closed", "a.csv", b'a,b\n1,"' + b"x,y\n" * 500_000
    yield "csv of quotes", "a.csv", b'a,b\n"' + b'""' * 500_000 + b"\n"
    yield "csv of commas", "a.csv", b"a,b\n" + b"," * 1_000_000
    yield (
        "xlsx, a cell far away",
        "a.xlsx",
        pack_zip(build_workbook(f'<row r="1048576">{build_cell("XFD1048576", "a")}</row>')),
    )
    corners = f'<row r="1">{build_cell("A1", "a")}</row><row r="1048576">{build_cell("XFD1048576", "a")}</row>'
    yield "xlsx, two cells far apart", "a.xlsx", pack_zip(build_workbook(corners))
    yield (
        "xlsx, a cell nowhere",
        "a.xlsx",
        pack_zip(build_workbook(f'<row r="0">{build_cell("ZZZZZ99999999999", "a")}</row>')),
    )
    wide = '<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="2000000000"/></w:tcPr>' + build_paragraph("a")
    yield (
        "docx, a cell over two billion columns",
        "a.docx",
        pack_zip(build_word_document(wide + "</w:tc></w:tr></w:tbl>")),
    )
    span = '<table><tr><td colspan="99999999" rowspan="99999999">a</td></tr><tr><td>b</td></tr></table>'
    yield "html, a cell over many columns", "a.html", f"<html><body>{span * 200}".encode()


def generate_hostile_texts() -> Iterator[HostileFile]:
    """Generate all hostile texts."""
    for family, created in (
        ("entities", _generate_entities()),
        ("nesting", _generate_nesting()),
        ("run", _generate_runs()),
        ("size", _generate_sizes()),
    ):
        yield from (HostileFile(family, label, name, data) for label, name, data in created)
