"""Entities in titles, headings and names of files."""

import re

from app.graph.extraction.names import normalize_name
from app.graph.extraction.types import MAX_NAME_CHARACTERS
from app.graph.extraction.word_lists import GENERIC_FILE_WORDS, GENERIC_TITLES, MONTHS, REFERENCES
from app.lexical.filename_words import list_filename_words

_NUMBERING = re.compile(
    r"\s*(?:#{1,6}\s+|(?:\d{1,3}\.){1,6}\d{0,3}\.?\s+|\d{1,3}[.)]\s+|\(?[a-zA-Z]\)\s+|[IVXLC]{1,6}\.\s+|§\s{0,2}\d{1,4}\s+)"
)
_FILE_NAME = re.compile(r"[^\s/\\]{1,200}\.[A-Za-z][A-Za-z0-9]{1,4}")
_REFERENCE = re.compile(r"(\w+)(?: (?:\d+|[ivxlc]+|\w))?(?: \d+)*")


def read_title(title: str) -> list[str]:
    """Return the entity that a title or a heading names: the title without its number, or nothing.

    Generic titles, such as "Introduction" or "Chapter 3", and titles longer than ``MAX_NAME_CHARACTERS`` name nothing.
    A title that is the name of a file is treated as such.

    Args:
        title: Title of a document or a section.
    """
    title = title[: 4 * MAX_NAME_CHARACTERS]
    numbering = _NUMBERING.match(title)
    name = (title[numbering.end() :] if numbering else title).strip(" \t\n*_:#")
    if not name or len(name) > MAX_NAME_CHARACTERS:
        return []
    if _FILE_NAME.fullmatch(name):
        return list_source_names(name)
    key = normalize_name(name)
    return [] if _is_generic(key) else [name]


def list_source_names(source_name: str) -> list[str]:
    """Return the name in the name of a file, with its words separated; nothing for a name that a program made.

    Args:
        source_name: Name of a file, or a path or an address that ends with one.
    """
    words = list_filename_words(source_name)
    name = " ".join(words)
    key = normalize_name(name)
    is_named = any(len(word) > 2 and word.isalpha() and word.casefold() not in GENERIC_FILE_WORDS for word in words)
    return [name] if is_named and not _is_generic(key) else []


def _is_generic(key: str) -> bool:
    if not any(map(str.isalpha, key)) or key in GENERIC_TITLES or key in MONTHS:
        return True
    match = _REFERENCE.fullmatch(key)
    return match is not None and match[1] in REFERENCES
