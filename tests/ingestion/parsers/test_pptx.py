"""PowerPoint: titles, groups, tables, charts, notes, and archives with false declarations."""

import zipfile
from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.pptx import pptx_parser
from app.ingestion.types import BlockKind, CorruptFile, TextTooLong
from app.warnings import ServiceWarning


@pytest.mark.capability("format-pptx")
def test_pptx_product_tour_is_read(demo: Path, options: ParseOptions) -> None:
    document = pptx_parser.parse(demo / "product-tour.pptx", options)
    found = {(block.kind, block.slide): block.text for block in document.blocks}
    assert document.title == "Northwind Rentals product tour"
    assert {block.page for block in document.blocks} == {None}
    assert found[BlockKind.HEADING, 3] == "Electric cars and their range"
    assert "| E2 Family | 430 km | 320 km | 28 minutes |" in found[BlockKind.TABLE, 3]
    assert found[BlockKind.NOTE, 2] == "Points are never given for fuel, fees or fines."
    assert "| Germany | 25 |" in found[BlockKind.TABLE, 5]
    grouped = [block.text for block in document.blocks if block.slide == 4 and block.kind is BlockKind.PARAGRAPH]
    assert grouped == [
        "Step 1: Book in the app",
        "Step 2: Scan the licence",
        "Step 3: Unlock the key box",
        "Step 4: Drive away",
    ]


def test_pptx_bomb_is_refused_before_unpacking(tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "bomb.pptx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("ppt/slide1.xml", "w") as member:
        for _ in range(64):
            member.write(bytes(1 << 20))
    with pytest.raises(TextTooLong):
        pptx_parser.parse(path, options)


def test_pptx_too_many_members_are_refused(tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "many.pptx"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(20_001):
            archive.writestr(str(number), b"")
    with pytest.raises(TextTooLong):
        pptx_parser.parse(path, options)


@pytest.mark.parametrize("members", [{}, {"[Content_Types].xml": b"<Types"}, {"ppt/presentation.xml": b"<p/>"}])
def test_pptx_other_zip_is_corrupt(members: dict[str, bytes], tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "other.pptx"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(CorruptFile):
        pptx_parser.parse(path, options)


def test_pptx_damaged_slide_leaves_others(demo: Path, tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "damaged.pptx"
    with zipfile.ZipFile(demo / "product-tour.pptx") as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            broken = name == "ppt/charts/" + Path(name).name and name.endswith(".xml")
            data = old.read(name)
            new.writestr(name, data.replace(b"c:plotArea", b"c:gone") if broken else data)
    document = pptx_parser.parse(path, options)
    assert document.warnings == [ServiceWarning("shapes_not_read", "1 shape was not read: 1 graphic.", 1)]
    assert {block.slide for block in document.blocks} == {1, 2, 3, 4, 5, 6}
