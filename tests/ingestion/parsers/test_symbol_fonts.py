"""Symbol fonts: codes become the characters that a reader sees."""

import unicodedata

import pytest

from app.ingestion.parsers.toolkit import symbol_font_tables
from app.ingestion.parsers.toolkit.symbol_fonts import find_symbol, is_symbol_font, replace_symbols

TABLES = {
    name: value for name, value in vars(symbol_font_tables).items() if isinstance(value, str) and len(value) > 100
}


@pytest.mark.parametrize("name", [name for name in TABLES if name != "__doc__"])
def test_symbol_table_has_a_character_for_each_code(name: str) -> None:
    table = TABLES[name]
    assert len(table) == 0x100 - symbol_font_tables.FIRST_CODE
    assert {unicodedata.category(character) for character in table}.isdisjoint({"Cn", "Co", "Cc"})
    assert unicodedata.normalize("NFC", table.replace("〈", "").replace("〉", "")) == table.replace("〈", "").replace(
        "〉", ""
    )


@pytest.mark.parametrize(
    ("font", "code", "character"),
    [
        ("Wingdings", 0xF0FC, "✓"),
        ("Wingdings", 0xFC, "✓"),
        ("WINGDINGS", 0xFB, "✗"),
        ("Wingdings-Regular", 0x20, ""),
        ("Wingdings 2", 0x50, "✓"),
        ("Wingdings2", 0x4F, "✗"),
        ("Wingdings 3", 0x75, "▶"),
        ("Webdings", 0x61, "✓"),
        ("Symbol", 0x62, "β"),
        ("Symbol", 0xB3, "≥"),
        ("Symbol", 0xD6, "√"),
        ("ZapfDingbats", 0x33, "✓"),
        ("ITC Zapf Dingbats", 0x38, "✘"),
        ("Zapf Dingbats", 0x6E, "■"),
        ("Arial", 0x41, ""),
        ("Wingdings", 0x1F, ""),
        ("Wingdings", 0x1000, ""),
        ("", 0xF0B7, "•"),
    ],
)
def test_find_symbol_code_of_a_font_returns_its_character(font: str, code: int, character: str) -> None:
    assert find_symbol(font, code) == character


def test_replace_symbols_leaves_characters_beyond_the_font() -> None:
    assert replace_symbols("ü 返却 Δ", "Wingdings") == ("✓ 返却 Δ", 0)
    assert replace_symbols("ü", "Arial") == ("ü", 0)
    assert replace_symbols("\uf0ff\uf0fc", "Wingdings") == ("✓", 1)


def test_is_symbol_font_ignores_case_and_spaces() -> None:
    assert [is_symbol_font(name) for name in ("wing dings", "SYMBOL", "Segoe UI Symbol", "")] == [
        True,
        True,
        False,
        False,
    ]
