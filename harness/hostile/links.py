"""Files that ask their reader to fetch an address, in every place where a format can carry one."""

from collections.abc import Iterator

from harness.hostile import HostileFile
from harness.hostile.pdfs import pdf
from harness.hostile.zip_packages import book, external, packed, paragraph, relationships, shape, slides, word, workbook

_FAMILY = "link"
_PICTURE = (
    "<p:pic><p:nvPicPr><p:cNvPr id='3' name='b'/><p:cNvPicPr/><p:nvPr/></p:nvPicPr><p:blipFill>{}</p:blipFill><p:spPr/>"
    "</p:pic>"
)


def linking_files(url: str) -> Iterator[HostileFile]:
    """All of them, with this address."""
    yield from _texts(url)
    yield from _entities(url)
    yield from _packages(url)
    yield from _pdfs(url)


def _file(label: str, name: str, content: str | bytes) -> HostileFile:
    return HostileFile(_FAMILY, label, name, content if isinstance(content, bytes) else content.encode())


def _texts(url: str) -> Iterator[HostileFile]:
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
    yield _file("html", "links.html", html)
    yield _file("css", "links.css", f'@import "{url}/a.css"; body {{ background: url({url}/b) }}')
    yield _file("markdown", "links.md", f"![a]({url}/a.png) text <img src='{url}/b'>\n\n[r]: {url}/c\n![x][r]\n")
    yield _file(
        "rst", "links.rst",
        f"text\n\n.. image:: {url}/a.png\n\n.. include:: {url}/b\n\n.. raw:: html\n   :url: {url}/c\n\n"
        f".. csv-table:: t\n   :url: {url}/d.csv\n",
    )  # fmt: skip
    yield _file("tex", "links.tex", f"\\input{{{url}/a}} \\includegraphics{{{url}/b}} text \\url{{{url}/c}}")
    yield _file("yaml", "links.yaml", f'a: !!python/object/apply:urllib.request.urlopen ["{url}/a"]\nb: !<{url}/t> c\n')
    yield _file("json", "links.json", f'{{"$schema": "{url}/s", "$ref": "{url}/r", "a": "text"}}')
    yield _file(
        "mail", "links.eml",
        "From: a@b.example\nSubject: s\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n--X\n"
        f"Content-Type: text/html\n\n<p>text</p><img src='{url}/a.png'>\n--X\nContent-Type: message/external-body;"
        f' access-type=URL; URL="{url}/b"\n\nContent-Type: text/plain\n\n\n--X--\n',
    )  # fmt: skip


def _entities(url: str) -> Iterator[HostileFile]:
    doctype = f'<!DOCTYPE a SYSTEM "{url}/a.dtd" [<!ENTITY x SYSTEM "{url}/x"><!ENTITY % p SYSTEM "{url}/p"> %p;]>'
    local = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]>'
    where = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xi="http://www.w3.org/2001/XInclude"'
    xml = (
        f'<?xml-stylesheet type="text/xsl" href="{url}/s.xsl"?>{doctype}<a {where} xsi:schemaLocation="{url}/n {url}/x"'
        f' xsi:noNamespaceSchemaLocation="{url}/y"><xi:include href="{url}/i"/>text &x;</a>'
    )
    yield _file("xml", "links.xml", xml)
    yield _file("xml, a local file", "local.xml", f"{local}<a>text &x;</a>")
    svg = f'<svg xmlns="http://www.w3.org/2000/svg"><image href="{url}/i"/><text>text &x;</text></svg>'
    yield _file("svg", "links.svg", doctype.replace("DOCTYPE a", "DOCTYPE svg") + svg)
    for prolog, label in ((doctype, "entity"), (local, "a local file")):
        yield _file(f"docx {label}", "entity.docx", packed(word(paragraph("text &x;"), prolog=prolog)))
        yield _file(f"pptx {label}", "entity.pptx", packed(slides(shape("text &x;"), prolog=prolog)))
        rows = '<row r="1"><c r="A1" t="inlineStr"><is><t>text &x;</t></is></c></row>'
        yield _file(f"xlsx {label}", "entity.xlsx", packed(workbook(rows, prolog=prolog)))
        yield _file(f"epub {label}", "entity.epub", packed(book("text &x;", prolog=prolog)))


def _packages(url: str) -> Iterator[HostileFile]:
    kinds = ("image", "attachedTemplate", "oleObject", "hyperlink", "frame", "subDocument", "video", "audio", "media",
             "externalLink", "settings", "styles", "header", "footnotes", "comments", "chart")  # fmt: skip
    extra = "".join(external(f"x{number}", kind, f"{url}/{kind}") for number, kind in enumerate(kinds))
    picture = '<a:blip r:link="x0" r:embed="x0"/>'
    drawing = f"<w:p><w:r><w:drawing>{picture}</w:drawing><w:t>text</w:t></w:r></w:p>"
    settings = relationships(extra=external("t", "attachedTemplate", f"{url}/t.dotm"))
    parts = {"word/settings.xml": "<a/>", "word/_rels/settings.xml.rels": settings}
    yield _file("docx", "links.docx", packed(word(drawing, extra_links=extra, parts=parts)))
    shown = f"{shape('text')}{_PICTURE.format(picture)}"
    yield _file("pptx", "links.pptx", packed(slides(shown, extra_links=extra)))
    rows = f'<row r="1"><c r="A1"><f>WEBSERVICE("{url}/w")</f><v>1</v></c></row>'
    yield _file("xlsx", "links.xlsx", packed(workbook(rows, extra_links=extra)))
    chapter = f'text <img src="{url}/a.png"/><link href="{url}/a.css" rel="stylesheet"/>'
    manifest = f'<item id="r" href="{url}/remote.xhtml" media-type="application/xhtml+xml"/>'
    yield _file("epub", "links.epub", packed(book(chapter, manifest=manifest)))


def _pdfs(url: str) -> Iterator[HostileFile]:
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
        yield _file(
            f"pdf {name}", f"{name}.pdf", pdf("BT /F 12 Tf 50 700 Td (a text) Tj ET", catalog=f"/OpenAction{action}")
        )
    stream = f"<</Length 0/F<</FS/URL/F({url}/x)>>/FFilter/FlateDecode>>stream\n\nendstream"
    image = stream.replace("/Length", "/Type/XObject/Subtype/Image/Width 9/Height 9/BitsPerComponent 8/Length")
    yield _file("pdf external streams", "external.pdf",
                pdf("BT /F 12 Tf 50 700 Td (a text) Tj ET /I Do /X Do", extra=[stream, image]))  # fmt: skip
