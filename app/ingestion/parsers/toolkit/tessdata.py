"""Search for the language data of Tesseract, which has one file per language."""

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
    """Find the language data that is installed for OCR.

    Args:
        requested: Languages by their Tesseract names, such as ``eng``.
        directory: Directory of the language data; None searches the default directories.
        default_directories: Directories where packages of operating systems install the data.

    Returns:
        The first directory that contains a requested language, with the installed and the missing languages.
    """
    for candidate in default_directories if directory is None else (directory,):
        installed = tuple(language for language in requested if (candidate / f"{language}.traineddata").is_file())
        if installed:
            missing = tuple(language for language in requested if language not in installed)
            return LanguageData(str(candidate), installed, missing)
    return LanguageData(missing=tuple(requested))
