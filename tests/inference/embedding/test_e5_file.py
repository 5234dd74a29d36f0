"""Files of multilingual-e5-small that are damaged, cut off, or of another model."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.inference.embedding.e5_file import FILE_NAME
from app.inference.embedding.weights import WeightsDamaged
from tests.inference.embedding.e5_reference import StoredE5File

if TYPE_CHECKING:
    from app.inference.embedding.e5_model import E5Model

Damage = Callable[[bytearray], None]
VOCABULARY, OFFSETS, SCORES, PIECES = 44, 72, 72 + 4 * 250_003, 72 + 4 * 250_003 + 4 * 250_002


def load(directory: Path) -> "E5Model":
    from app.inference.embedding.e5_model import E5Model

    return E5Model.load(directory)


def patch(position: int, kind: str, value: float) -> Damage:
    return lambda raw: struct.pack_into(kind, raw, position, value)


def rename(old: bytes, new: bytes) -> Damage:
    def damage(raw: bytearray) -> None:
        position = raw.index(old, PIECES)
        raw[position : position + len(old)] = new

    return damage


def change_entry(name: bytes, place: int, kind: str, value: int) -> Damage:
    """Change kind (place 0), number of elements (1) or offset (5) of a tensor in the directory."""

    def damage(raw: bytearray) -> None:
        stored = struct.pack("<H", len(name)) + name
        struct.pack_into(kind, raw, raw.index(stored, PIECES) + len(stored) + place, value)

    return damage


DAMAGES: dict[str, tuple[Damage, str]] = {
    "magic": (patch(0, "<I", 0), "another model"),
    "version": (patch(4, "<I", 2), "another model"),
    "dimensions": (patch(8, "<i", 768), "another model"),
    "layers": (patch(12, "<i", 24), "another model"),
    "epsilon": (patch(36, "<f", float("nan")), "another model"),
    "number of pieces": (patch(VOCABULARY, "<i", 60_000), "another model"),
    "negative number of pieces": (patch(VOCABULARY, "<i", -1), "another model"),
    "first offset": (patch(OFFSETS, "<I", 4), "damaged vocabulary"),
    "falling offsets": (patch(OFFSETS + 400, "<I", 2_000_000_000), "damaged vocabulary"),
    "size of vocabulary": (patch(VOCABULARY + 20, "<Q", 1 << 62), "damaged vocabulary"),
    "infinite score": (patch(SCORES + 400, "<f", float("inf")), "damaged vocabulary"),
    "bytes that are no UTF-8": (patch(PIECES + 1000, "<I", 0xFFFFFFFF), "cannot be read"),
    "number of tensors": (lambda raw: struct.pack_into("<i", raw, find_directory(raw), 1 << 30), "tensors"),
    "no tensors": (lambda raw: struct.pack_into("<i", raw, find_directory(raw), 0), "tensors"),
    "name of a tensor": (rename(b"l11.fo.w", b"l11.xo.w"), "no tensor"),
    "name of the words": (rename(b"emb.word", b"emb.worm"), "no tensor"),
    "kind of a matrix": (change_entry(b"l3.q.w", 0, "<B", 0), "was expected"),
    "kind of a vector": (change_entry(b"l3.q.b", 0, "<B", 1), "was expected"),
    "elements of the words": (change_entry(b"emb.word", 1, "<I", 384), "was expected"),
    "elements of a vector": (change_entry(b"l7.oln.b", 1, "<I", 1536), "was expected"),
    "offset behind the end": (change_entry(b"l0.k.w", 5, "<Q", 71_622_399), "cannot be read"),
    "infinite scale": (patch(59_438_848 + 18 * 100, "<H", 0x7C00), "no numbers"),
    "huge offset": (change_entry(b"l0.k.b", 5, "<Q", (1 << 64) - 1), "cannot be read"),
}


def find_directory(raw: bytearray) -> int:
    """Return the position of the number of tensors, just before the first name."""
    return raw.index(struct.pack("<H", 8) + b"emb.word", PIECES) - 4


@pytest.mark.parametrize("name", DAMAGES)
def test_load_damaged_file_is_named(e5_stored: StoredE5File, tmp_path: Path, name: str) -> None:
    damage, message = DAMAGES[name]
    raw = bytearray(e5_stored.raw)
    damage(raw)
    (tmp_path / FILE_NAME).write_bytes(raw)
    with pytest.raises(WeightsDamaged, match=message):
        load(tmp_path)


@pytest.mark.parametrize("size", [0, 3, 43, 60, 71, 100_000, 1_500_000, 4_000_000, 4_640_000, 40_000_000, 71_622_399])
def test_load_truncated_file_is_damaged(e5_stored: StoredE5File, tmp_path: Path, size: int) -> None:
    (tmp_path / FILE_NAME).write_bytes(e5_stored.raw[:size])
    with pytest.raises(WeightsDamaged, match=FILE_NAME):
        load(tmp_path)


def test_load_missing_file_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(WeightsDamaged, match=FILE_NAME):
        load(tmp_path)


def test_load_other_content_is_damaged(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"<html>not found</html>" * 1000)
    with pytest.raises(WeightsDamaged, match="another model"):
        load(tmp_path)
