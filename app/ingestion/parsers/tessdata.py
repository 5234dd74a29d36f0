"""Finding Tesseract's language data: one file a language, put there by the system's packages or by hand."""

from collections.abc import Sequence
from pathlib import Path

from app.ingestion.parsers import LanguageData

KNOWN_DIRECTORIES = (
    Path("/usr/share/tesseract-ocr/5/tessdata"),
    Path("/usr/share/tesseract-ocr/4.00/tessdata"),
    Path("/usr/share/tessdata"),
    Path("/usr/local/share/tessdata"),
    Path("/opt/homebrew/share/tessdata"),
)


def find_language_data(
    wanted: Sequence[str], directory: Path | None, *, known: Sequence[Path] = KNOWN_DIRECTORIES
) -> LanguageData:
    """What there is of the ``wanted`` languages in the ``directory``, else in the first known one that has any."""
    for place in known if directory is None else (directory,):
        found = tuple(language for language in wanted if (place / f"{language}.traineddata").is_file())
        if found:
            missing = tuple(language for language in wanted if language not in found)
            return LanguageData(str(place), found, missing)
    return LanguageData(missing=tuple(wanted))
