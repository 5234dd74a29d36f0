"""Hostile PDF files: loops, bombs and false claims."""

import zlib
from collections.abc import Iterator, Sequence

from harness.hostile import HostileFile

TEXT = "BT /F 12 Tf 50 700 Td (a text) Tj ET"


def build_pdf_from_objects(objects: Sequence[str | bytes]) -> bytes:
    """Build a PDF with a correct cross-reference table.

    Args:
        objects: Objects, numbered from 1. The first is the catalog.

    Returns:
        The file.
    """
    data, places = bytearray(b"%PDF-1.7\n"), []
    for number, content in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n".encode() + (content if isinstance(content, bytes) else content.encode())
        data += b"\nendobj\n"
    table = len(data)
    data += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    data += b"".join(f"{place:010} 00000 n \n".encode() for place in places)
    data += f"trailer\n<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{table}\n%%EOF\n".encode()
    return bytes(data)


def build_stream(content: bytes, entries: str = "") -> bytes:
    """Build a stream object."""
    return f"<<{entries}/Length {len(content)}>>\nstream\n".encode() + content + b"\nendstream"


def build_pdf(content: str | bytes, *, box: str = "0 0 600 800", catalog: str = "", entries: str = "",
        extra: Sequence[str | bytes] = ()) -> bytes:  # fmt: skip
    """Build a PDF with one page.

    Args:
        content: Content stream of the page.
        box: Media box of the page.
        catalog: Further entries of the catalog.
        entries: Entries of the content stream, such as its filter.
        extra: Objects from number 6 on. The page refers to object 6 as ``/X`` and to object 7 as ``/I``.

    Returns:
        The file.
    """
    content = content if isinstance(content, bytes) else content.encode()
    resources = "<</Font<</F 5 0 R>>/XObject<</X 6 0 R/I 7 0 R>>>>"
    return build_pdf_from_objects(
        [
            f"<</Type/Catalog/Pages 2 0 R{catalog}>>",
            "<</Type/Pages/Kids[3 0 R]/Count 1>>",
            f"<</Type/Page/Parent 2 0 R/MediaBox[{box}]/Resources{resources}/Contents 4 0 R>>",
            build_stream(content, entries),
            "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
            *extra,
        ]
    )


def _build_form(content: str, *, name: int) -> bytes:
    return build_stream(content.encode(), f"/Type/XObject/Subtype/Form/BBox[0 0 600 800]/Resources<</XObject<</X {name} 0 R>>"  # noqa: E501
                  "/Font<</F 5 0 R>>>>")  # fmt: skip


def _build_page_tree(kids: str, *, count: int, more: Sequence[str | bytes] = ()) -> bytes:
    tree = f"<</Type/Pages/Kids[{kids}]/Count {count}>>"
    page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</Font<</F 5 0 R>>>>/Contents 4 0 R>>"
    font = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    return build_pdf_from_objects(
        ["<</Type/Catalog/Pages 2 0 R>>", tree, page, build_stream(TEXT.encode()), font, *more]
    )


def _generate_bombs() -> Iterator[tuple[str, bytes]]:
    once = zlib.compress(bytes(100 << 20), 9)
    yield "a flate bomb", build_pdf(once, entries="/Filter/FlateDecode")
    twice = zlib.compress(zlib.compress(bytes(400 << 20), 9), 9)
    yield "a flate bomb in another", build_pdf(twice, entries="/Filter[/FlateDecode/FlateDecode]")
    many = zlib.compress((TEXT + "\n").encode() * 1_000_000, 9)
    yield "a million texts", build_pdf(many, entries="/Filter/FlateDecode")
    lines = zlib.compress(b"0 0 m 1 1 l S\n" * 2_000_000, 9)
    yield "two million lines", build_pdf(lines, entries="/Filter/FlateDecode")
    saves = zlib.compress(b"q " * 3_000_000 + TEXT.encode(), 9)
    yield "three million saved states", build_pdf(saves, entries="/Filter/FlateDecode")
    forms = [_build_form("/X Do " * 10, name=number + 1) for number in range(6, 16)]
    yield "ten forms in each of ten forms, ten deep", build_pdf("/X Do", extra=[*forms, _build_form(TEXT, name=16)])
    chain = [_build_form("/X Do", name=number + 1) for number in range(6, 2006)]
    yield "2,000 forms in each other", build_pdf("/X Do", extra=[*chain, _build_form(TEXT, name=2006)])
    yield "100,000 objects", build_pdf(TEXT, extra=["null"] * 100_000)
    yield "deep arrays", build_pdf(TEXT, extra=["[" * 50_000 + "]" * 50_000])
    yield "deep dictionaries", build_pdf("[" * 100_000 + TEXT, extra=["<</A" * 20_000 + " 1" + ">>" * 20_000])
    image = "/Type/XObject/Subtype/Image/Width 60000/Height 60000/BitsPerComponent 8/ColorSpace/DeviceRGB"
    pixels = build_stream(once, image + "/Filter/FlateDecode")
    yield "an image of 60,000 by 60,000", build_pdf("600 0 0 800 0 0 cm /X Do", extra=[pixels])


def _generate_loops() -> Iterator[tuple[str, bytes]]:
    yield "a form in itself", build_pdf("/X Do " + TEXT, extra=[_build_form("/X Do", name=6)])
    yield (
        "two forms in each other",
        build_pdf("/X Do", extra=[_build_form("/X Do", name=7), _build_form("/X Do", name=6)]),
    )
    yield "a page tree in itself", _build_page_tree("3 0 R 2 0 R", count=2)
    inner = "<</Type/Pages/Parent 2 0 R/Kids[2 0 R]/Count 9>>"
    yield "a page tree in its child", _build_page_tree("3 0 R 6 0 R", count=10, more=[inner])
    yield "the same page 3,000 times", _build_page_tree("3 0 R " * 3000, count=3000)
    yield "a length that is its own stream", build_pdf(TEXT).replace(b"/Length 36", b"/Length 4 0 R")
    outline = "<</Type/Outlines/First 6 0 R/Last 6 0 R>>"
    yield "an outline in a ring", build_pdf(TEXT, catalog="/Outlines 7 0 R",
                                      extra=["<</Title(a)/Next 6 0 R/First 6 0 R/Parent 7 0 R>>", outline])  # fmt: skip
    chained = build_pdf(TEXT).replace(b"/Root 1 0 R", b"/Root 1 0 R/Prev 0")
    yield "a table before the first", chained
    yield (
        "object streams in themselves",
        build_pdf(TEXT, extra=[build_stream(b"6 0 6 0 ", "/Type/ObjStm/N 2/First 8/Extends 6 0 R")]),
    )


def _generate_false_claims() -> Iterator[tuple[str, bytes]]:
    whole = build_pdf(TEXT)
    yield "a page of 10,000,000 points", build_pdf(TEXT, box="0 0 10000000 10000000")
    yield "a page without an area", build_pdf(TEXT, box="0 0 0 0")
    yield "a page of infinite size", build_pdf(TEXT, box="-1e38 -1e38 1e38 1e38")
    yield "a box of words", build_pdf(TEXT, box="/a /b (c) null")
    yield "a billion pages", _build_page_tree("3 0 R", count=1_000_000_000)
    yield "fewer than no pages", _build_page_tree("3 0 R", count=-7)
    yield "no table", whole[: whole.rfind(b"xref\n0")]
    yield "only a header", b"%PDF-1.7\n"
    yield "half", whole[: len(whole) // 2]
    yield "a huge object number", whole.replace(b"startxref", b"99999999999999 0 obj 1 endobj startxref")
    yield "locked", whole.replace(b"/Root 1 0 R", b"/Root 1 0 R/Encrypt<</Filter/Standard/V 1/R 2/O(a)/U(b)/P -1>>")
    yield "huge numbers", build_pdf("BT /F 1e30 Tf 1e30 -1e30 Td (a) Tj ET " + "9" * 10_000 + " w")
    yield "a text of one letter a million times", build_pdf("BT /F 12 Tf 50 700 Td (" + "a" * 1_000_000 + ") Tj ET")


def generate_pdf_bombs() -> Iterator[HostileFile]:
    """Generate PDF files that become large when they are read."""
    return _create_files("pdf bomb", _generate_bombs())


def generate_pdf_loops() -> Iterator[HostileFile]:
    """Generate PDF files whose objects refer to themselves."""
    return _create_files("pdf loop", _generate_loops())


def generate_false_pdfs() -> Iterator[HostileFile]:
    """Generate PDF files with false or damaged structure."""
    return _create_files("pdf lie", _generate_false_claims())


def _create_files(family: str, contents: Iterator[tuple[str, bytes]]) -> Iterator[HostileFile]:
    return (HostileFile(family, label, "hostile.pdf", data) for label, data in contents)
