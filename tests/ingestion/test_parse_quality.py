"""Quality report of parsing: pages without text, noise, tables."""

from collections.abc import Iterator

import pytest

from app.ingestion.preview.parse_quality import compute_garbled_ratio, measure_quality
from app.ingestion.types import Block, BlockKind, ParsedDocument
from app.threads import SLICE_CHARACTERS

PDF, PPTX = "application/pdf", "application/vnd.openxmlformats-officedocument.presentationml.presentation"


def paragraph(text: str, *, page: int | None = None, slide: int | None = None) -> Block:
    return Block(BlockKind.PARAGRAPH, text, page=page, slide=slide)


def test_quality_lists_pages_without_text() -> None:
    blocks = [paragraph("one", page=2), Block(BlockKind.TABLE, "| a |", page=2), paragraph("two", page=4)]
    quality = measure_quality(ParsedDocument(blocks, page_count=5), media_type=PDF)
    assert quality.pages == 5
    assert quality.empty_pages == [1, 3, 5]
    assert quality.suspected_scans == [1, 3, 5]
    assert (quality.tables, quality.characters, quality.garbled_ratio) == (1, 11, 0.0)


def test_quality_counts_images_without_text() -> None:
    blocks = [paragraph("one", page=1), Block(BlockKind.IMAGE, "Picture 1", page=2, image_index=0)]
    quality = measure_quality(ParsedDocument(blocks, page_count=2), media_type=PDF)
    assert (quality.images, quality.characters, quality.suspected_scans) == (1, 3, [2])


def test_quality_empty_slide_is_no_scan() -> None:
    quality = measure_quality(ParsedDocument([paragraph("x", slide=1)], page_count=2), media_type=PPTX)
    assert (quality.pages, quality.empty_pages, quality.suspected_scans) == (2, [2], [])


def test_quality_format_without_pages_has_none() -> None:
    quality = measure_quality(ParsedDocument([paragraph("x")]), media_type="text/plain")
    assert (quality.pages, quality.empty_pages, quality.suspected_scans) == (None, [], [])


@pytest.mark.parametrize(
    ("text", "ratio"),
    [
        ("", 0.0),
        (" \n\t", 0.0),
        ("Plain text, with umlauts: äöü, 漢字, עברית, e\u0301 and 🙂.", 0.0),
        ("São Paulo, Ñandú, Île, «Ça»", 0.0),
        ("\ufffd\ufffd\ufffda", 0.75),
        ("\ue000\ue001ab", 0.5),
        ("a b\x07\x08", 0.5),
        ("(cid:12)(cid:3)abcde", 0.75),
        ("caf\u00c3\u00a9", 0.4),
        ("It\u00e2\u20ac\u2122s", 0.5),
    ],
)
def test_garbled_ratio_is_share_of_noise(text: str, ratio: float) -> None:
    assert compute_garbled_ratio([text]) == ratio


def test_garbled_ratio_counts_all_blocks() -> None:
    assert compute_garbled_ratio(["\ufffd", "abc", "", "abcdef"]) == 0.1


class WholeText(str):
    """Text that refuses an iteration over the whole."""

    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the whole text at once")


@pytest.mark.parametrize("noise", ["(cid:12)", "(cid:12345678901234567890)", "Ã©", "â€™", "\ufffd"])
def test_garbled_ratio_counts_noise_across_slices_once(noise: str) -> None:
    """No other thread runs during the check of a slice."""
    for before in range(SLICE_CHARACTERS - len(noise) - 1, SLICE_CHARACTERS + 2):
        text = " " * before + noise + "y" * len(noise) + " " * SLICE_CHARACTERS
        assert compute_garbled_ratio([WholeText(text)]) == 0.5
    assert compute_garbled_ratio([noise * SLICE_CHARACTERS]) == 1.0
