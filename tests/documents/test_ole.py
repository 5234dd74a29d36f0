"""The directory of an OLE container: short, long, far away, and with false sector numbers."""

import random
import struct
from pathlib import Path

import pytest

from app.documents.upload.ole import MAX_ENTRIES, read_entry_names
from tests.documents.compound import container


def names_of(content: bytes, directory: Path) -> set[str]:
    path = directory / "container"
    path.write_bytes(content)
    return read_entry_names(path)


@pytest.mark.parametrize("first", [1, 300, 20_000, 40_000])
def test_ole_directory_is_found_in_any_sector(first: int, tmp_path: Path) -> None:
    names = {f"stream {number}" for number in range(9)} | {"WordDocument", "\x05SummaryInformation"}
    assert names_of(container(*sorted(names), first=first), tmp_path) == names | {"Root Entry"}


def test_ole_directory_is_read_up_to_limit(tmp_path: Path) -> None:
    names = [f"{number}" for number in range(MAX_ENTRIES + 500)]
    assert len(names_of(container(*names), tmp_path)) == MAX_ENTRIES


def test_ole_directory_with_cycle_ends(tmp_path: Path) -> None:
    content = bytearray(container("Workbook"))
    struct.pack_into("<I", content, 512 + 4, 1)  # the sector after sector 1 is sector 1
    assert names_of(bytes(content), tmp_path) == {"Root Entry", "Workbook"}


@pytest.mark.parametrize(
    ("offset", "value"),
    [(30, 0), (30, 63), (48, 0xFFFFFFFE), (48, 1 << 30)],
    ids=["no sector size", "huge sectors", "no directory", "directory behind the end"],
)
def test_ole_invalid_values_give_no_names(offset: int, value: int, tmp_path: Path) -> None:
    content = bytearray(container("Workbook"))
    struct.pack_into("<H" if offset == 30 else "<I", content, offset, value)
    assert names_of(bytes(content), tmp_path) == set()


def test_ole_damaged_file_raises_nothing(tmp_path: Path) -> None:
    good, dice = container("Workbook", *map(str, range(20)), first=200), random.Random(1)
    for _ in range(300):
        content = bytearray(good[: dice.choice([len(good), dice.randrange(len(good))])])
        for _ in range(dice.randrange(1, 6)):
            if content:
                content[dice.randrange(min(len(content), 1200))] = dice.randrange(256)
        assert names_of(bytes(content), tmp_path) is not None
