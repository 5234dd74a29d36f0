"""OCR: the choice of language data, the time limit, and warnings."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.ingestion.parsers import NO_OCR, LanguageData, ParseOptions
from app.ingestion.parsers.formats.pdf.ocr import (
    TIME_LIMIT_REASON,
    OcrEngine,
    format_install_hint,
    format_page_ranges,
    list_language_warnings,
)
from app.ingestion.parsers.toolkit.tessdata import find_language_data
from app.warnings import ServiceWarning
from tests.ingestion.parsers.images import NOWHERE, SENTENCE, reading, text_image


def install(directory: Path, *languages: str) -> Path:
    directory.mkdir()
    for language in languages:
        (directory / f"{language}.traineddata").touch()
    return directory


def test_find_language_data_first_directory_with_a_language_wins(tmp_path: Path) -> None:
    known = [tmp_path / "none", install(tmp_path / "a", "fra"), install(tmp_path / "b", "deu"), install(tmp_path / "c")]
    assert find_language_data(["eng", "deu"], None, default_directories=known) == LanguageData(
        str(known[2]), ("deu",), ("eng",)
    )
    assert find_language_data(["fra"], None, default_directories=known) == LanguageData(str(known[1]), ("fra",))
    assert find_language_data(["eng"], None, default_directories=known) == LanguageData(missing=("eng",))


def test_find_language_data_configured_directory_is_the_only_one(tmp_path: Path) -> None:
    known, named = [install(tmp_path / "known", "eng")], install(tmp_path / "named", "deu")
    assert find_language_data(["eng"], named, default_directories=known) == LanguageData(missing=("eng",))
    assert find_language_data(["deu", "eng"], named, default_directories=known) == LanguageData(
        str(named), ("deu",), ("eng",)
    )


@pytest.mark.parametrize(
    ("ocr", "seconds", "obstacle"),
    [
        (NO_OCR, 100.0, "no OCR language data is installed"),
        (LanguageData(missing=("eng",)), 100.0, "no OCR language data is installed"),
        (NOWHERE, 0.0, TIME_LIMIT_REASON),
        (NOWHERE, 1000.0, ""),
    ],
)
def test_ocr_engine_names_reason_if_unavailable(
    ocr: LanguageData, seconds: float, obstacle: str, options: ParseOptions
) -> None:
    assert OcrEngine(replace(options, ocr=ocr, cpu_timeout_seconds=seconds)).unavailable_reason == obstacle


def test_ocr_reads_image_line_by_line(options: ParseOptions) -> None:
    grey = text_image(f"{SENTENCE} It is green.", width=220).convert("L")
    first, second = OcrEngine(reading(options)).read_image(grey.tobytes(), *grey.size)
    assert f"{first.text} {second.text}" == f"{SENTENCE} It is green."
    assert first.y0 < first.y1 < second.y1
    assert first.size == second.size


def test_ocr_starts_only_images_that_fit_in_time(options: ParseOptions) -> None:
    """80 of 100 seconds are for OCR. An image took 30 seconds, so that another one fits at 49 seconds and not at 50."""
    times = iter([0.0, 0.0, 30.0, 49.0, 50.0])
    limits = replace(reading(options), cpu_timeout_seconds=100.0, wall_clock_timeout_seconds=10_000.0)
    recogniser = OcrEngine(limits, cpu_clock=lambda: next(times))
    assert recogniser.read_image(bytes([255]) * 400, 20, 20) == []
    assert [recogniser.unavailable_reason, recogniser.unavailable_reason] == ["", TIME_LIMIT_REASON]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([4], "Page 4"),
        ([1, 2], "Pages 1-2"),
        ([2, 5, 6, 7, 9], "Pages 2, 5-7, 9"),
        (range(1, 4001), "Pages 1-4000"),
        (range(1, 81, 2), f"Pages {', '.join(map(str, range(1, 61, 2)))} and 10 more ranges"),
    ],
)
def test_format_page_ranges_joins_consecutive_pages(numbers: list[int], text: str) -> None:
    assert format_page_ranges(numbers) == text


def test_ocr_missing_languages_are_named() -> None:
    assert format_install_hint(LanguageData(missing=("eng", "chi_sim"))).endswith(
        "tesseract-ocr-eng tesseract-ocr-chi-sim)"
    )
    assert format_install_hint(NO_OCR).endswith("tesseract-ocr-eng)")
    assert list_language_warnings(LanguageData("x", ("eng",))) == []
    assert list_language_warnings(LanguageData(missing=("eng",))) == []
    assert list_language_warnings(LanguageData("x", ("eng", "deu"), ("fra",))) == [
        ServiceWarning("ocr_languages_missing", "OCR used only eng, deu: the language data of fra is not installed.")
    ]
