"""Superscripts and subscripts as plain text, with the same rule in all formats."""

import re

_LETTER_OR_POINT = re.compile(r"[^\W\d]|[./]")
_SUPERSCRIPTS = str.maketrans("0123456789+-−=()ni", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿⁱ")
_SUBSCRIPTS = str.maketrans("0123456789+-−=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎")


def format_superscript(text: str, *, before: str) -> str:
    """Return a superscript in a form that never reads as a part of the text before it.

    The form is Unicode superscripts, if they exist for all characters (10⁶), else ``^`` and the text
    (x^a). A superscript letter after a digit is an ordinal, such as 1st, and stays plain text.

    Args:
        text: Text of the superscript.
        before: Text directly before it, at least its last character; empty at the start of a line.
    """
    return _format_raised(text, before, _SUPERSCRIPTS, "^")


def format_subscript(text: str, *, before: str) -> str:
    """Return a subscript in a form that never reads as a part of the text before it, such as H₂O.

    Args:
        text: Text of the subscript.
        before: Text directly before it, at least its last character; empty at the start of a line.
    """
    return _format_raised(text, before, _SUBSCRIPTS, "_")


def format_note_mark(text: str, *, before: str) -> str:
    """Return the mark of a footnote as a superscript, with a space before it: 1 after 10 is no power of ten.

    Args:
        text: The mark, such as 1.
        before: Text directly before it, at least its last character; empty at the start of a line.
    """
    mark = _format_raised(text, "", _SUPERSCRIPTS, "")
    return f" {mark}" if mark and before and not before[-1:].isspace() else mark


def _format_raised(text: str, before: str, table: dict[int, int], sign: str) -> str:
    core = text.strip()
    if not core:
        return text
    leading, trailing = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    if all(ord(character) in table for character in core):
        return leading + core.translate(table) + trailing
    if any(character.isdigit() for character in core) and not _LETTER_OR_POINT.search(core):
        return leading + core.translate(table) + trailing
    is_ordinal = before[-1:].isdigit() and core.isalpha() and len(core) <= 3
    is_sign = not any(character.isalnum() for character in core)
    if is_ordinal or is_sign or not before or leading:
        return text
    is_word = all(character.isalpha() or character.isdecimal() for character in core)
    return f"{sign}{core}{trailing}" if len(core) == 1 or is_word else f"{sign}({core}){trailing}"
