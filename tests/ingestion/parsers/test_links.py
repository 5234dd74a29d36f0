"""Links as Markdown."""

import pytest

from app.ingestion.parsers.toolkit.links import format_link, strip_addresses


@pytest.mark.parametrize(
    ("label", "address", "base", "expected"),
    [
        ("Returns", "https://example.com/returns", "", "[Returns](https://example.com/returns)"),
        (" Returns ", "/returns", "https://example.com/a/", " [Returns](https://example.com/returns) "),
        ("example.com", "https://example.com/", "", "example.com"),
        ("a@example.com", "mailto:a@example.com", "", "a@example.com"),
        ("Call us", "tel:+49123", "", "[Call us](tel:+49123)"),
        ("Top", "#top", "", "Top"),
        ("Run", "javascript:alert(1)", "", "Run"),
        ("Relative", "returns.html", "", "Relative"),
        ("Wiki", "https://example.com/a_(b)", "", "[Wiki](https://example.com/a_%28b%29)"),
        ("Broken", "http://[", "", "Broken"),
    ],
)
def test_link_is_markdown_if_its_address_says_more(label: str, address: str, base: str, expected: str) -> None:
    assert format_link(label, address, base=base) == expected


def test_addresses_are_stripped_from_links_and_nothing_else() -> None:
    text = "See [Returns](https://example.com/a_%28b%29) and f[0](x) and [note](see)."
    assert strip_addresses(text) == "See Returns and f[0](x) and [note](see)."
