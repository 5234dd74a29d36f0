"""Files that make a careless reader fetch an address, with the address at all places where a format allows one."""

from collections.abc import Iterator

from harness.hostile import HostileFile
from harness.hostile.pdfs import build_pdf
from harness.hostile.zip_packages import (
    build_book,
    build_external_relationship,
    build_paragraph,
    build_presentation,
    build_relationships,
    build_text_box,
    build_word_document,
    build_workbook,
    pack_zip,
)

_FAMILY = "link"
_SLIDE_IMAGE = (
    "<p:pic><p:nvPicPr><p:cNvPr id='3' name='b'/><p:cNvPicPr/><p:nvPr/></p:nvPicPr><p:blipFill>{}</p:blipFill><p:spPr/>"
    "</p:pic>"
)


def generate_linking_files(url: str) -> Iterator[HostileFile]:
    """Generate all files with links to this address."""
    yield from _generate_texts(url)
    yield from _generate_entities(url)
    yield from _generate_packages(url)
    yield from _generate_pdfs(url)


def _create_file(label: str, name: str, content: str | bytes) -> HostileFile:
    return HostileFile(_FAMILY, label, name, content if isinstance(content, bytes) else content.encode())


def _generate_texts(url: str) -> Iterator[HostileFile]:
    html = (
        f'<!DOCTYPE html SYSTEM "{url}/html.dtd"><html manifest="{url}/m"><head><base href="{url}/">'
        f'<link rel="stylesheet" href="{url}/a.css"><link rel="preload" as="image" href="{url}/p">'
        f'<meta http-equiv="refresh" content="0;url={url}/r"><style>@import url({url}/i.css);'
        f'@font-face{{font-family:a;src:url({url}/f.woff)}}body{{background:url("{url}/b.png")}}</style>'
        f'<script src="{url}/s.js"></script></head><body background="{url}/bg"><p>text <img src="{url}/a.png"'
        f' srcset="{url}/2x 2x"><iframe src="{url}/f"></iframe><object data="{url}/o"></object><embed src="{url}/e">'
        f'<video poster="{url}/v" src="{url}/v.mp4"></video><audio src="{url}/a.mp3"></audio>'
        f'<svg><image href="{url}/s.png"/><use href="{url}/s.svg#a"/></svg><form action="{url}/x"></form></body>'
    )
    yield _create_file("html", "links.html", html)
    yield _create_file("css", "links.css", f'@import "{url}/a.css"; body {{ background: url({url}/b) }}')
    yield _create_file("markdown", "links.md", f"![a]({url}/a.png) text <img src='{url}/b'>\n\n[r]: {url}/c\n![x][r]\n")
    yield _create_file(
        "rst", "links.rst",
        f"text\n\n.. image:: {url}/a.png\n\n.. include:: {url}/b\n\n.. raw:: html\n   :url: {url}/c\n\n"
        f".. csv-table:: t\n   :url: {url}/d.csv\n",
    )  # fmt: skip
    yield _create_file("tex", "links.tex", f"\\input{{{url}/a}} \\includegraphics{{{url}/b}} text \\url{{{url}/c}}")
    yield _create_file(
        "yaml", "links.yaml", f'a: !!python/object/apply:urllib.request.urlopen ["{url}/a"]\nb: !<{url}/t> c\n'
    )
    yield _create_file("json", "links.json", f'{{"$schema": "{url}/s", "$ref": "{url}/r", "a": "text"}}')
    yield _create_file(
        "mail", "links.eml",
        "From: a@b.example\nSubject: s\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n--X\n"
        f"Content-Type: text/html\n\n<p>text</p><img src='{url}/a.png'>\n--X\nContent-Type: message/external-body;"
        f' access-type=URL; URL="{url}/b"\n\nContent-Type: text/plain\n\n\n--X--\n',
    )  # fmt: skip


def _generate_entities(url: str) -> Iterator[HostileFile]:
    doctype = f'<!DOCTYPE a SYSTEM "{url}/a.dtd" [<!ENTITY x SYSTEM "{url}/x"><!ENTITY % p SYSTEM "{url}/p"> %p;]>'
    local = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]>'
    where = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xi="http://www.w3.org/2001/XInclude"'
    xml = (
        f'<?xml-stylesheet type="text/xsl" href="{url}/s.xsl"?>{doctype}<a {where} xsi:schemaLocation="{url}/n {url}/x"'
        f' xsi:noNamespaceSchemaLocation="{url}/y"><xi:include href="{url}/i"/>text &x;</a>'
    )
    yield _create_file("xml", "links.xml", xml)
    yield _create_file("xml, a local file", "local.xml", f"{local}<a>text &x;</a>")
    svg = f'<svg xmlns="http://www.w3.org/2000/svg"><image href="{url}/i"/><text>text &x;</text></svg>'
    yield _create_file("svg", "links.svg", doctype.replace("DOCTYPE a", "DOCTYPE svg") + svg)
    for prolog, label in ((doctype, "entity"), (local, "a local file")):
        yield _create_file(
            f"docx {label}", "entity.docx", pack_zip(build_word_document(build_paragraph("text &x;"), prolog=prolog))
        )
        yield _create_file(
            f"pptx {label}", "entity.pptx", pack_zip(build_presentation(build_text_box("text &x;"), prolog=prolog))
        )
        rows = '<row r="1"><c r="A1" t="inlineStr"><is><t>text &x;</t></is></c></row>'
        yield _create_file(f"xlsx {label}", "entity.xlsx", pack_zip(build_workbook(rows, prolog=prolog)))
        yield _create_file(f"epub {label}", "entity.epub", pack_zip(build_book("text &x;", prolog=prolog)))


def _generate_packages(url: str) -> Iterator[HostileFile]:
    kinds = ("image", "attachedTemplate", "oleObject", "hyperlink", "frame", "subDocument", "video", "audio", "media",
             "externalLink", "settings", "styles", "header", "footnotes", "comments", "chart")  # fmt: skip
    extra = "".join(
        build_external_relationship(f"x{number}", kind, f"{url}/{kind}") for number, kind in enumerate(kinds)
    )
    image = '<a:blip r:link="x0" r:embed="x0"/>'
    drawing = f"<w:p><w:r><w:drawing>{image}</w:drawing><w:t>text</w:t></w:r></w:p>"
    settings = build_relationships(extra=build_external_relationship("t", "attachedTemplate", f"{url}/t.dotm"))
    parts = {"word/settings.xml": "<a/>", "word/_rels/settings.xml.rels": settings}
    yield _create_file("docx", "links.docx", pack_zip(build_word_document(drawing, extra_links=extra, parts=parts)))
    shown = f"{build_text_box('text')}{_SLIDE_IMAGE.format(image)}"
    yield _create_file("pptx", "links.pptx", pack_zip(build_presentation(shown, extra_links=extra)))
    rows = f'<row r="1"><c r="A1"><f>WEBSERVICE("{url}/w")</f><v>1</v></c></row>'
    yield _create_file("xlsx", "links.xlsx", pack_zip(build_workbook(rows, extra_links=extra)))
    chapter = f'text <img src="{url}/a.png"/><link href="{url}/a.css" rel="stylesheet"/>'
    manifest = f'<item id="r" href="{url}/remote.xhtml" media-type="application/xhtml+xml"/>'
    yield _create_file("epub", "links.epub", pack_zip(build_book(chapter, manifest=manifest)))


def _generate_pdfs(url: str) -> Iterator[HostileFile]:
    actions = {
        "URI": f"<</S/URI/URI({url}/u)>>",
        "GoToR": f"<</S/GoToR/F<</FS/URL/F({url}/g.pdf)>>/D[0/Fit]>>",
        "ImportData": f"<</S/ImportData/F<</FS/URL/F({url}/i.fdf)>>>>",
        "SubmitForm": f"<</S/SubmitForm/F<</FS/URL/F({url}/s)>>>>",
        "Launch": f"<</S/Launch/F({url}/l)>>",
        "JavaScript": f"<</S/JavaScript/JS(app.launchURL\\('{url}/j'\\); this.getURL\\('{url}/k'\\))>>",
        "Rendition": f"<</S/Rendition/R<</S/MR/C<</S/MCD/D<</FS/URL/F({url}/r)>>>>>>>>",
    }
    for name, action in actions.items():
        yield _create_file(
            f"pdf {name}",
            f"{name}.pdf",
            build_pdf("BT /F 12 Tf 50 700 Td (a text) Tj ET", catalog=f"/OpenAction{action}"),
        )
    stream = f"<</Length 0/F<</FS/URL/F({url}/x)>>/FFilter/FlateDecode>>stream\n\nendstream"
    image = stream.replace("/Length", "/Type/XObject/Subtype/Image/Width 9/Height 9/BitsPerComponent 8/Length")
    yield _create_file("pdf external streams", "external.pdf",
                build_pdf("BT /F 12 Tf 50 700 Td (a text) Tj ET /I Do /X Do", extra=[stream, image]))  # fmt: skip
