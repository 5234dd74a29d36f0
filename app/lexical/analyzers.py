"""Analyzers by language and version. Each is created once in a process."""

from functools import lru_cache

import Stemmer

from app.errors import InvalidInputError
from app.lexical.analyzer import BIGRAM_LANGUAGES, CURRENT_VERSION, DEFAULT_LANGUAGE, Analyzer
from app.lexical.first_version import FirstAnalyzer

_ANALYZERS: dict[int, type[Analyzer]] = {analyzer.version: analyzer for analyzer in (FirstAnalyzer, Analyzer)}
# Algorithms of Snowball that are variants of english and dutch, kept there for comparison.
_NOT_LANGUAGES = frozenset({"porter", "lovins", "dutch_porter"})


def get_analyzer(language: str = DEFAULT_LANGUAGE, version: int = CURRENT_VERSION) -> Analyzer:
    """Return the analyzer of a language, which is created once in a process.

    Args:
        language: Language of the texts.
        version: Version of the analyzer that built the search index.

    Raises:
        InvalidInputError: The language has no analyzer. The error lists the supported languages.
    """
    return _load_analyzer(language, version)


@lru_cache(maxsize=128)
def _load_analyzer(language: str, version: int) -> Analyzer:
    supported = list_languages()
    if language not in supported:
        raise InvalidInputError(
            f"Unknown language. Use one of {', '.join(supported)}.", loc=("body", "language"), supported=supported
        )
    return _ANALYZERS[version](language)


def list_languages() -> list[str]:
    """Return the languages that have an analyzer, sorted."""
    return sorted((set(Stemmer.algorithms()) - _NOT_LANGUAGES) | BIGRAM_LANGUAGES)


def list_older_versions() -> list[int]:
    """Return the versions before the current version that still analyze texts for their search indexes."""
    return [version for version in _ANALYZERS if version < CURRENT_VERSION]


def is_same_analyzer(first: object, second: object) -> bool:
    """Return whether two analyzer ids name analyzers of one language, in versions that this service knows."""
    ids = [str(analyzer_id).rpartition("-v") for analyzer_id in (first, second)]
    supported_versions = {str(version) for version in _ANALYZERS}
    return first == second or (ids[0][0] == ids[1][0] and {version for _, _, version in ids} <= supported_versions)


def parse_analyzer_version(analyzer_id: object) -> int:
    """Return the version in the analyzer id of a search index; the current version if no analyzer has the version."""
    version = str(analyzer_id).rpartition("-v")[2]
    return int(version) if version.isdecimal() and int(version) in _ANALYZERS else CURRENT_VERSION
