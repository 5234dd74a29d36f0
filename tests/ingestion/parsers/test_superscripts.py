"""Superscripts, subscripts and note marks as plain text."""

import pytest

from app.ingestion.parsers.toolkit.superscripts import format_note_mark, format_subscript, format_superscript


@pytest.mark.parametrize(
    ("text", "before", "expected"),
    [
        ("6", "10", "⁶"),
        ("-3", "10", "⁻³"),
        ("n", "x", "ⁿ"),
        ("a", "x", "^a"),
        ("a+b", "x", "^(a+b)"),
        ("th", "4", "th"),
        ("2 ", "m", "² "),
        ("®", "Carrel", "®"),
        (" ", "x", " "),
    ],
)
def test_superscript_is_never_read_as_part_of_number(text: str, before: str, expected: str) -> None:
    assert format_superscript(text, before=before) == expected


@pytest.mark.parametrize(
    ("text", "before", "expected"), [("2", "H", "₂"), ("max", "v", "_max"), ("i,j", "a", "_(i,j)")]
)
def test_subscript_is_unicode_or_marked(text: str, before: str, expected: str) -> None:
    assert format_subscript(text, before=before) == expected


@pytest.mark.parametrize(
    ("text", "before", "expected"), [("1", "10", " ¹"), ("*", "sum", " *"), ("1", "", "¹"), ("", "a", "")]
)
def test_note_mark_is_separated_from_word(text: str, before: str, expected: str) -> None:
    assert format_note_mark(text, before=before) == expected
