"""Facts of the reference pages of filters, webhooks and limits, compared with the code."""

import json
import re
from pathlib import Path

from app.api.v1.option_aliases import ALIASES, OPTIONS_FIELD, OptionAlias, translate_aliases
from app.api.v1.search.search import KnowledgeBaseSearchRequest
from app.filters import RESERVED_NAMES, parser
from app.retrieval.strategies import STRATEGY_ALIASES
from app.settings import KeyLimits, QuotaLimits
from app.webhooks.types import DeliveryStatus, WebhookEventName, WebhookFailureReason

ROOT = Path(__file__).parents[2]


def read_section(page: str, title: str) -> str:
    text = (ROOT / "docs/reference" / page).read_text("utf-8")
    (section,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return str(section)


def read_rows(page: str, title: str) -> list[list[str]]:
    lines = read_section(page, title).splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| `")]


def test_filters_page_lists_reserved_names() -> None:
    assert {row[0].strip("`") for row in read_rows("filters.md", "Reserved names")} == RESERVED_NAMES


def test_filters_page_gives_limits_of_the_parser() -> None:
    rows = [
        line.strip("| ").split(" | ")[1] for line in read_section("filters.md", "Limits").splitlines() if "|" in line
    ]
    numbers = [int(row.split()[0].replace(",", "")) for row in rows if re.match(r"[\d,]+( |$)", row)]
    assert numbers == [
        parser.MAX_CONDITIONS,
        parser.MAX_DEPTH,
        parser.MAX_LIST_VALUES,
        parser.MAX_TOTAL_LIST_VALUES,
        parser.MAX_STRING_CHARACTERS,
        parser.MAX_KEY_CHARACTERS,
        parser.MAX_TOTAL_CHARACTERS,
        parser.MAX_PATTERN_CHARACTERS,
        parser.MAX_PATTERNS,
    ]


def test_webhooks_page_lists_events_statuses_and_reasons() -> None:
    assert {row[0].strip("`") for row in read_rows("webhooks.md", "Events")} == set(WebhookEventName)
    listed = {row[0].strip("`") for row in read_rows("webhooks.md", "Retries")}
    assert listed == {*DeliveryStatus, *WebhookFailureReason}


def test_limits_page_lists_every_quota_with_its_default() -> None:
    documents = [row[0].strip("`") for row in read_rows("limits.md", "Quotas of documents and searches")]
    rows = {row[0].strip("`"): int(row[2].replace(",", "")) for row in read_rows("limits.md", "Quotas of rows")}
    assert documents == list(KeyLimits.model_fields)
    assert {*documents, *rows} == set(QuotaLimits.model_fields)
    sql = (ROOT / "app/db/sql/functions/owner/default_row_quota.sql").read_text()
    assert rows == {name: int(value) for name, value in re.findall(r"when '(\w+)' then (\d+)", sql)}


def describe_values(alias: OptionAlias) -> str:
    """Return the description of an alias's values, as the page gives it."""
    if alias.is_complement:
        return "1 minus the value, a number from 0 to 1"
    if alias.target is None:
        return f"only {', '.join(f'`{value}`' for value in alias.values)}"
    listed = ", ".join(f"`{value}` is `{main}`" for value, main in alias.values.items())
    if alias.has_other_values:
        return f"{listed}; others unchanged"
    return listed or "unchanged"


def test_coming_from_page_lists_every_alias() -> None:
    rows = []
    for alias in ALIASES:
        path = [OPTIONS_FIELD, alias.option] if alias.option else [alias.target]
        main = "none" if alias.target is None else f"`{'.'.join(map(str, path))}`"
        rows.append([f"`{alias.name}`", alias.system, main, describe_values(alias)])
    assert [[cell.strip(" |") for cell in row] for row in read_rows("coming-from.md", "Aliases")] == rows
    section = read_section("coming-from.md", "Aliases")
    assert set(STRATEGY_ALIASES.values()) == {"dense"}
    assert all(f"`{name}` (" in section for name in STRATEGY_ALIASES)


def test_coming_from_page_examples_are_the_same_search() -> None:
    text = (ROOT / "docs/reference/coming-from.md").read_text("utf-8")
    aliased, main = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL))
    assert translate_aliases(aliased, KnowledgeBaseSearchRequest) == main
