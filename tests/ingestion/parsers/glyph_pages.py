"""PDF pages whose glyphs stand where a test puts them, with any Unicode character and any writing direction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

GLYPH_WIDTH = 0.5
"""Width of each glyph, as a share of the font size."""


class Glyph(NamedTuple):
    """Glyph of a page: left edge and base line in points from the lower left corner, its text, and its font size."""

    x: float
    y: float
    text: str
    size: float = 12


def place_visually(text: str, x: float, y: float, *, size: float = 12, width: float = GLYPH_WIDTH) -> list[Glyph]:
    """Return one glyph for each character, from left to right as a reader sees them."""
    return [Glyph(x + index * width * size, y, character, size) for index, character in enumerate(text)]


def place_column(text: str, x: float, top: float, *, size: float = 12) -> list[Glyph]:
    """Return one glyph for each character of a column, from top to bottom."""
    return [Glyph(x, top - index * size, character, size) for index, character in enumerate(text)]


def write_glyphs(
    path: Path, pages: Sequence[Sequence[Glyph]], *, is_vertical: bool = False, font: str = "Test"
) -> Path:
    """Write a PDF file. Its font names the text of each glyph in a ToUnicode table.

    Args:
        path: File to write.
        pages: Glyphs of each page.
        is_vertical: Whether the font runs from top to bottom.
        font: Name of the font.
    """
    codes = {text: code for code, text in enumerate(sorted({glyph.text for page in pages for glyph in page}), start=1)}
    entries = "\n".join(f"<{code:04x}> <{text.encode('utf-16-be').hex()}>" for text, code in codes.items())
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /T def /CMapType 2 def\n"
        "1 begincodespacerange <0000> <ffff> endcodespacerange\n"
        f"{len(codes)} beginbfchar\n{entries}\nendbfchar endcmap end end"
    )
    kids = " ".join(f"{7 + 2 * index} 0 R" for index in range(len(pages)))
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>",
        f"<</Type/Font/Subtype/Type0/BaseFont/{font}/Encoding/Identity-{'V' if is_vertical else 'H'}"
        "/DescendantFonts[4 0 R]/ToUnicode 6 0 R>>",
        f"<</Type/Font/Subtype/CIDFontType2/BaseFont/{font}/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)"
        f"/Supplement 0>>/FontDescriptor 5 0 R/DW {int(1000 * GLYPH_WIDTH)}>>",
        f"<</Type/FontDescriptor/FontName/{font}/Flags 4/FontBBox[0 -200 1000 800]/ItalicAngle 0/Ascent 800"
        "/Descent -200/CapHeight 700/StemV 80>>",
        f"<</Length {len(cmap)}>>stream\n{cmap}\nendstream",
    ]
    for index, page in enumerate(pages):
        content = "\n".join(
            f"BT /F {glyph.size} Tf 1 0 0 1 {glyph.x:.2f} {glyph.y:.2f} Tm <{codes[glyph.text]:04x}> Tj ET"
            for glyph in page
        )
        objects += [
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F 3 0 R>>>>"
            f"/Contents {8 + 2 * index} 0 R>>",
            f"<</Length {len(content)}>>stream\n{content}\nendstream",
        ]
    data, offsets = b"%PDF-1.7\n", []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(data))
        data += f"{number} 0 obj{content}endobj\n".encode("latin-1")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    trailer = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer<</Size {size}/Root 1 0 R>>\n"
    path.write_bytes(data + f"{trailer}startxref\n{len(data)}\n%%EOF".encode())
    return path
