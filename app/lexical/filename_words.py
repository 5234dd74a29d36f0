"""Words of a file name, which are indexed with each chunk of the document."""

import re
from urllib.parse import unquote

MAX_FILENAME_WORDS = 12
MAX_FILENAME_CHARACTERS = 255
"""Limits of the words of one file name."""

_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")
_WORD = re.compile(r"[^\W_]+")
# A word that programs make: a long number, or letters and digits in turns.
_MACHINE_WORD = re.compile(r"\d{9,}|(?=.*\d)[0-9a-fA-F]{8,}|(?:[^\W\d_]+\d+){3,}[^\W\d_]*")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Names of uploads without a name, and of exports.
_GENERIC_WORDS = frozenset(
    {"text", "untitled", "document", "file", "upload", "download", "export", "copy", "scan", "chunks", "unnamed"}
)


def list_filename_words(name: str) -> list[str]:
    """Return the words of a file name in their order, without its extension and without words that say nothing.

    The file "price-list_2024.pdf" has the words "price", "list" and "2024". A name that programs made, such as a number
    or a hash, has none.

    Args:
        name: Name of the document: a file name, or a path or an address that ends with one.

    Returns:
        At most ``MAX_FILENAME_WORDS`` words. None if the name has no extension, or no word has three letters.
    """
    last = unquote(name.rstrip("/").replace("\\", "/").rpartition("/")[2])[:MAX_FILENAME_CHARACTERS]
    extension = _EXTENSION.search(last)
    if extension is None:  # a title, or the name of an upload without a file
        return []
    words = [part for word in _WORD.findall(last[: extension.start()]) for part in _split_word(word)]
    if not any(len(word) > 2 and word.isalpha() and word.casefold() not in _GENERIC_WORDS for word in words):
        return []
    return words[:MAX_FILENAME_WORDS]


def _split_word(word: str) -> list[str]:
    """Return the parts of a word that is written in camel case, else the word. A word of a program has none."""
    return [] if _MACHINE_WORD.fullmatch(word) else _CAMEL.split(word)
