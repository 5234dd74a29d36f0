"""Finding Tesseract's language data: one file a language, put there by the system's packages or by hand."""

from collections.abc import Sequence
from pathlib import Path

from app.ingestion.parsers import LanguageData

DEFAULT_DIRECTORIES = (
    Path("/usr/share/tesseract-ocr/5/tessdata"),
    Path("/usr/share/tesseract-ocr/4.00/tessdata"),
    Path("/usr/share/tessdata"),
    Path("/usr/local/share/tessdata"),
    Path("/opt/homebrew/share/tessdata"),
)


def find_language_data(
    requested: Sequence[str], directory: Path | None, *, default_directories: Sequence[Path] = DEFAULT_DIRECTORIES
) -> LanguageData:
    """What there is of the ``requested`` languages in the ``directory``, else in the first known one that has any."""
    for candidate in default_directories if directory is None else (directory,):
        installed = tuple(language for language in requested if (candidate / f"{language}.traineddata").is_file())
        if installed:
            missing = tuple(language for language in requested if language not in installed)
            return LanguageData(str(candidate), installed, missing)
    return LanguageData(missing=tuple(requested))
