"""Identifiers, product codes, paths and quotations."""

import pytest

from app.graph.extraction.identifiers import find_identifiers
from tests.graph.extraction.chunks import mentions, names


def identifiers(text: str) -> list[str]:
    return [name for name, _ in find_identifiers(text)]


@pytest.mark.capability("graph-identifiers")
@pytest.mark.parametrize(
    "identifier",
    [
        "max_size",
        "__init__",
        "MAX_SIZE",
        "iHeartMedia",
        "getUserName",
        "v90",
        "F-16",
        "E-4711",
        "6ES7",
        "315-2AG10",
        "CVE-2021-44228",
        "ORA-00942",
        "ERR_CONNECTION_RESET",
        "0x80070005",
        "H2O",
        "B2B",
        "5G",
        "3M",
        "x86",
        "mp3",
        "utf-8",
        "COVID-19",
        "gpt-4o",
        "ABC-123-XYZ",
        "NCC-1701-D",
        "Q3",
        "DE89370400440532013000",
        "/etc/hosts",
        "~/.bashrc",
        "src/app/main.py",
        "config.yaml",
        "README.md",
        "data_2024.csv",
        "C:\\Windows\\System32\\hosts",
        "anna.smith@example.com",
        "https://example.com/a/b",
        "MyClass.run_all",
    ],
)
def test_find_identifiers_finds_identifier_in_a_sentence(identifier: str) -> None:
    assert identifiers(f"See {identifier}, ({identifier}) and {identifier}.") == [identifier] * 3


@pytest.mark.parametrize(
    "text",
    [
        "He ran 10km with 5kg on the 3rd of 1990s in the 20th-century at 5pm, 12V and 100MB.",
        "It is 24/7, and/or, km/h, his/her, 2024-01-15, 12.05.2024, 10:30, 1,000 and 3.5.",
        "A mid-1990s thing, a pre-2008 thing, a 3-day trip and a well-known one.",
        "e.g. this, i.e. that, a.m., etc. and so on...",
        "--- === *** ### 1. 2) (3) [4] {5}",
        "x" * 130 + "_1",
    ],
)
def test_find_identifiers_quantities_dates_and_words_are_none(text: str) -> None:
    assert identifiers(text) == []


def test_find_identifiers_web_address_ends_before_its_query() -> None:
    assert identifiers("see https://example.com/a_b/?q=max_size&x=1#y_z now") == ["https://example.com/a_b"]


def test_extract_mentions_identifier_is_counted_once_in_each_place() -> None:
    found = mentions("The F-16 flies. An F-16 lands, and the iPhone rings.")
    assert {key: (each.kind, each.count) for key, each in found.items()} == {
        "f 16": ("identifier", 2),
        "iphone": ("identifier", 1),
    }


def test_extract_mentions_path_gives_no_names_of_its_folders() -> None:
    assert names("Open C:\\Windows\\System32\\drivers and /Users/Anna/Documents/Plan.md now.") == {
        "C:\\Windows\\System32\\drivers",
        "/Users/Anna/Documents/Plan.md",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the “Order of Merit” was", {"Order of Merit"}),
        ('the "Order of Merit" was', {"Order of Merit"}),
        ("the «Order of Merit» was", {"Order of Merit"}),
        ("the »Order of Merit« was", {"Order of Merit"}),
        ("the „Order of Merit“ was", {"Order of Merit"}),
        ("the „Order of Merit” was", {"Order of Merit"}),
        ("the 「Order of Merit」 was", {"Order of Merit"}),
        ("the “dark matter” was", {"dark matter"}),
        ("the “Harry Potter and the Order of the Phoenix” was", {"Harry Potter and the Order of the Phoenix"}),
        ("the “Who's Afraid of Virginia Woolf?” was", {"Who's Afraid of Virginia Woolf?"}),
        ("he “is not a crook”, and “it rains” is so", set()),
        ("he said “I have a dream that one day this nation will rise up”", set()),
        ("he said, “Whales sing.” and “Whales sing, and so on, again and again.”", set()),
        ("the “so-called” thing", set()),
        ('a 5" pipe and a 7" pipe', set()),
        ("an open “quotation", set()),
    ],
)  # fmt: skip
def test_extract_mentions_short_quotations_are_names(text: str, expected: set[str]) -> None:
    assert names(text) == expected


def test_extract_mentions_quotation_of_lower_case_words_has_the_kind_quoted() -> None:
    assert mentions("the “dark matter” was")["dark matter"].kind == "quoted"
