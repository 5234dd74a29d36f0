"""OCR: which language data is found, when reading stops, and what is said about it."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.ingestion.parsers import NO_OCR, LanguageData, ParseOptions
from app.ingestion.parsers.ocr import OUT_OF_TIME, Recogniser, advice, missing_languages, page_list
from app.ingestion.parsers.tessdata import find_language_data
from tests.ingestion.parsers.pictures import NOWHERE, SENTENCE, reading, text_picture


def install(directory: Path, *languages: str) -> Path:
    directory.mkdir()
    for language in languages:
        (directory / f"{language}.traineddata").touch()
    return directory


def test_the_first_known_directory_with_any_of_the_languages_is_taken(tmp_path: Path) -> None:
    known = [tmp_path / "none", install(tmp_path / "a", "fra"), install(tmp_path / "b", "deu"), install(tmp_path / "c")]
    assert find_language_data(["eng", "deu"], None, known=known) == LanguageData(str(known[2]), ("deu",), ("eng",))
    assert find_language_data(["fra"], None, known=known) == LanguageData(str(known[1]), ("fra",))
    assert find_language_data(["eng"], None, known=known) == LanguageData(missing=("eng",))


def test_a_directory_that_is_named_is_the_only_one(tmp_path: Path) -> None:
    known, named = [install(tmp_path / "known", "eng")], install(tmp_path / "named", "deu")
    assert find_language_data(["eng"], named, known=known) == LanguageData(missing=("eng",))
    assert find_language_data(["deu", "eng"], named, known=known) == LanguageData(str(named), ("deu",), ("eng",))


@pytest.mark.parametrize(
    ("ocr", "seconds", "obstacle"),
    [
        (NO_OCR, 100.0, "no OCR language data is installed"),
        (LanguageData(missing=("eng",)), 100.0, "no OCR language data is installed"),
        (NOWHERE, 0.0, OUT_OF_TIME),
        (NOWHERE, 1000.0, ""),
    ],
)
def test_what_stands_in_the_way(ocr: LanguageData, seconds: float, obstacle: str, options: ParseOptions) -> None:
    assert Recogniser(replace(options, ocr=ocr, cpu_seconds=seconds)).obstacle == obstacle


def test_a_picture_is_read_line_by_line(options: ParseOptions) -> None:
    grey = text_picture(f"{SENTENCE} It is green.", width=220).convert("L")
    first, second = Recogniser(reading(options)).read_picture(grey.tobytes(), *grey.size)
    assert f"{first.text} {second.text}" == f"{SENTENCE} It is green."
    assert first.y0 < first.y1 < second.y1
    assert first.size == second.size


def test_nothing_is_begun_that_may_not_be_done_in_time(options: ParseOptions) -> None:
    """Of 100 seconds 80 are for OCR; a picture took 30, so that at 49 another one fits and at 50 none."""
    times = iter([0.0, 0.0, 30.0, 49.0, 50.0])
    limits = replace(reading(options), cpu_seconds=100.0, wall_seconds=10_000.0)
    recogniser = Recogniser(limits, cpu=lambda: next(times))
    assert recogniser.read_picture(bytes([255]) * 400, 20, 20) == []
    assert [recogniser.obstacle, recogniser.obstacle] == ["", OUT_OF_TIME]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([4], "Page 4"),
        ([1, 2], "Pages 1-2"),
        ([2, 5, 6, 7, 9], "Pages 2, 5-7, 9"),
        (range(1, 4001), "Pages 1-4000"),
        (range(1, 81, 2), f"Pages {', '.join(map(str, range(1, 61, 2)))} and 10 more places"),
    ],
)
def test_page_list(numbers: list[int], text: str) -> None:
    assert page_list(numbers) == text


def test_what_is_missing_is_named() -> None:
    assert advice(LanguageData(missing=("eng", "chi_sim"))).endswith("tesseract-ocr-eng tesseract-ocr-chi-sim)")
    assert advice(NO_OCR).endswith("tesseract-ocr-eng)")
    assert missing_languages(LanguageData("x", ("eng",))) == missing_languages(LanguageData(missing=("eng",))) == ""
    assert (
        missing_languages(LanguageData("x", ("eng", "deu"), ("fra",)))
        == "Pictures were read as eng, deu alone: no OCR language data for fra."
    )
