"""Positions of text in its file: the range of the source has every word of a part of the text."""

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import text
from app.ingestion.tree import build_tree
from app.ingestion.types import DocumentTree, ParsedDocument

OPTIONS = ParseOptions(encoding=None, max_pages=100, max_characters=1_000_000)
PARSERS: dict[str, Callable[[Path, ParseOptions], ParsedDocument]] = {"txt": text.parse}
NUMBER = re.compile(r"\bw\d+e\b")
SEEDS = range(30)


def read_tree(folder: Path, data: bytes, suffix: str) -> DocumentTree:
    path = folder / f"file.{suffix}"
    path.write_bytes(data)
    return build_tree(PARSERS[suffix](path, OPTIONS))


def iter_parts(tree: DocumentTree, seed: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of the text as chunkers cut them: at spaces, and sometimes inside of words."""
    choose = random.Random(seed)
    spaces = [match.end() for match in re.finditer(r"\s+", tree.text)] or [0]
    for _ in range(40):
        start, end = sorted((choose.choice(spaces), choose.choice([*spaces, len(tree.text)])))
        if choose.random() < 0.2:
            start = choose.randrange(len(tree.text))
        if start < end:
            yield start, end


def check_numbered_words(tree: DocumentTree, source: str, seed: int) -> None:
    """Check that the range of each part has each numbered word, which the source has once."""
    places = {match[0]: match.span() for match in NUMBER.finditer(source)}
    for start, end in iter_parts(tree, seed):
        source_start, source_end = tree.find_source_range(start, end)
        for match in NUMBER.finditer(tree.text[start:end]):
            word = match[0]
            first, last = places[word]
            assert source_start is not None
            assert source_end is not None
            assert source_start <= first < last <= source_end, (word, tree.text[start:end])


def build_numbered_text(seed: int, line_break: str) -> str:
    """Build a text with repeated paragraphs, headings, odd spaces, accents and base64 data between numbered words."""
    choose, number = random.Random(seed), iter(range(10_000))
    pieces = [
        "w{}e",
        "Same words again.",
        "\u00e9t\u00e9 a\u0301\u00adb",
        "\uff21\uff22 \u4e2d\u6587\u5b57",
        f"{line_break}== Head w{{}}e =={line_break}",
        "  \t",
        line_break,
        line_break * 2,
        line_break * 4,
        "(w{}e), ",
        f"data:image/png;base64,{'QUJD' * 40} ",
    ]
    chosen = (choose.choice(pieces).format(next(number)) + choose.choice([" ", " ", ""]) for _ in range(120))
    return "".join(chosen).replace("ew", "e w")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
@pytest.mark.parametrize("seed", SEEDS)
def test_text_range_has_each_word_of_part(tmp_path: Path, seed: int, line_break: str, encoding: str) -> None:
    source = build_numbered_text(seed, line_break)
    check_numbered_words(read_tree(tmp_path, source.encode(encoding), "txt"), source, seed)


def test_text_copy_has_same_characters(tmp_path: Path) -> None:
    source = "First, with a dash -\r\nand more.\r\n\r\nSame.\r\n\r\nSame.\r\n\r\nLast one."
    tree = read_tree(tmp_path, source.encode("utf-8-sig"), "txt")
    assert tree.source_map is not None
    for part, expected in (("with a dash -\nand more.", "with a dash -\r\nand more."), ("Last", "Last")):
        start = tree.text.index(part)
        found = tree.source_map.find_range(start, start + len(part))
        assert found is not None
        assert source[slice(*found)] == expected
    second = tree.text.rindex("Same.")
    assert tree.source_map.find_range(second, second + 5) == (source.rindex("Same."), source.rindex("Same.") + 5)


def test_text_of_one_encoding_counts_decoded_characters(tmp_path: Path) -> None:
    source = "Überblick über Äpfel.\n\nStraße und Öl."
    tree = read_tree(tmp_path, source.encode("cp1252"), "txt")
    assert tree.source_map is not None
    assert tree.source_map.find_range(tree.text.index("Straße"), len(tree.text)) == (23, len(source))


def test_stored_source_map_restores_same_numbers(tmp_path: Path) -> None:
    tree = read_tree(tmp_path, build_numbered_text(1, "\r\n").encode(), "txt")
    assert tree.source_map is not None
    assert type(tree.source_map).from_stored(tree.source_map.to_stored()) == tree.source_map
