"""No function that reads an untrusted text outside of a parser process needs quadratic time."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.linear_time.functions import EXCUSED, FUNCTIONS, Function
from tests.linear_time.hostile_texts import HOSTILE_TEXTS
from tests.linear_time.measuring import MAX_GROWTH, growth

_APP = Path("app")
_PARSERS = "app.ingestion.parsers"
# Calls of patterns or Unicode tables, and parsers of addresses and headers.
_CALLS = frozenset(
    """re.compile re.sub re.match re.search re.fullmatch re.findall re.finditer re.split unicodedata.normalize
    unicodedata.category unicodedata.combining urlsplit urljoin urlparse parse_qsl parse_qs parse_options_header
    httpx2.URL""".split()  # noqa: SIM905
)
_HEADERS = frozenset({"email.message", "email.header"})
_CASES = [(module, name, function) for module, each in FUNCTIONS.items() for name, function in each.items()]


@pytest.mark.parametrize(("module", "name", "function"), _CASES, ids=[f"{module}.{name}" for module, name, _ in _CASES])
def test_function_twice_the_text_takes_at_most_two_and_a_half_times(module: str, name: str, function: Function) -> None:
    function(HOSTILE_TEXTS["prose"](200))  # its first call loads data, and no function refuses prose
    slow = {
        each: round(found, 2) for each, text in HOSTILE_TEXTS.items() if (found := growth(function, text)) > MAX_GROWTH
    }
    assert slow == {}


def test_module_with_patterns_is_measured_or_excused() -> None:
    outside = {module for module in _modules() if not module.startswith(f"{_PARSERS}.")}
    shared = {used for module in outside for used in _imported(module) if used.startswith(f"{_PARSERS}.")}
    found = {module for module in outside | shared if _calls(module) & _CALLS or _HEADERS & {*_imported(module)}}
    assert found - FUNCTIONS.keys() - EXCUSED.keys() == set()


def test_measured_modules_exist() -> None:
    assert set(FUNCTIONS) - set(_modules()) == set()


def test_growth_of_quadratic_function_is_detected() -> None:
    def square(text: str) -> int:
        rest, cuts = text, 0
        while rest:
            rest, cuts = rest[1:], cuts + 1
        return cuts

    assert growth(square, HOSTILE_TEXTS["prose"]) > MAX_GROWTH
    assert growth(lambda text: text.split(), HOSTILE_TEXTS["one-letter words"]) <= MAX_GROWTH


@cache
def _modules() -> dict[str, Path]:
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in _APP.rglob("*.py")}


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_modules()[module].read_text())


def _imported(module: str) -> Iterator[str]:
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


def _calls(module: str) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(_tree(module)) if isinstance(node, ast.Call)}
