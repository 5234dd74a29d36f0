"""Docstrings of ``app``: the exceptions that they name exist."""

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "app").rglob("*.py"))
CLIENT_ERRORS = ROOT / "clients/python/carrel_client/errors.py"
# Exceptions of libraries that are not called errors, or that no module imports.
LIBRARY_EXCEPTIONS = {"Abort", "ClientDisconnect", "UsageError"}
NAME = r"[A-Z]\w+"
# "Raises A, B or C": the names that follow the word, and compound names up to the end of the sentence.
SENTENCE = re.compile(r"\bRaises\s+((?!:).*?)(?:\.(?=\s|$)|$)", re.DOTALL)
FIRST_NAMES = re.compile(rf"(?:{NAME}(?:,\s+and\s+|,\s+or\s+|,\s+|\s+and\s+|\s+or\s+|;\s+)?)+")
COMPOUND_NAME = re.compile(r"(?<![`\w.])[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+(?![`\w.])(?!'s)")
GOOGLE_SECTION = re.compile(r"^Raises:\n((?:[ ]+.*(?:\n|$))+)", re.MULTILINE)
GOOGLE_ENTRY = re.compile(rf"^ {{4}}(?:\w+\.)*({NAME}):", re.MULTILINE)


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return {module: ast.parse(module.read_text()) for module in MODULES}


def find_exceptions(trees: dict[Path, ast.Module]) -> set[str]:
    """Return the names of exception classes: built in, of libraries that are imported, and of ``app``."""
    nodes = [node for tree in (*trees.values(), ast.parse(CLIENT_ERRORS.read_text())) for node in ast.walk(tree)]
    named_errors = {name for name in dir(builtins) if is_exception(getattr(builtins, name))} | LIBRARY_EXCEPTIONS
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("app"):
            named_errors |= {alias.name for alias in node.names if alias.name.endswith(("Error", "Exception"))}
        elif isinstance(node, ast.Attribute) and node.attr.endswith(("Error", "Exception")):
            named_errors.add(node.attr)
    bases = {node.name: {name_of(base) for base in node.bases} for node in nodes if isinstance(node, ast.ClassDef)}
    named_errors -= bases.keys()
    while found := {name for name, parents in bases.items() if name not in named_errors and parents & named_errors}:
        named_errors |= found
    return named_errors


def is_exception(item: object) -> bool:
    return isinstance(item, type) and issubclass(item, BaseException)


def name_of(base: ast.expr) -> str:
    return base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""


def raised_names(docstring: str) -> Iterator[str]:
    for sentence in SENTENCE.findall(docstring):
        if first := FIRST_NAMES.match(sentence):
            yield from re.findall(NAME, first[0])
        yield from COMPOUND_NAME.findall(sentence)
    for section in GOOGLE_SECTION.findall(docstring):
        yield from GOOGLE_ENTRY.findall(section)


def test_docstrings_after_raises_name_exceptions_that_exist(trees: dict[Path, ast.Module]) -> None:
    exceptions = find_exceptions(trees)
    assert "InvalidInputError" in exceptions
    named = [
        (f"{module.relative_to(ROOT)}:{line}", name)
        for module, tree in trees.items()
        for line, docstring in docstrings(tree)
        for name in raised_names(docstring)
    ]
    assert len(named) > 300
    assert [(place, name) for place, name in named if name not in exceptions] == []


@pytest.mark.parametrize(
    ("docstring", "names"),
    [
        ("Return it. Raises InvalidInputError, ForbiddenError.", ["InvalidInputError", "ForbiddenError"]),
        ("Raises Corrupt for a name that leads\nout; TextTooLong.", ["Corrupt", "TextTooLong"]),
        (
            "Return it.\n\nRaises:\n    NotThere: It is not there.\n    httpx2.HTTPError: It broke.",
            ["NotThere", "HTTPError"],
        ),
        ("Raises as ``RetrievalService.search``.", []),
    ],
)
def test_raised_names_docstring_returns_names(docstring: str, names: list[str]) -> None:
    assert list(dict.fromkeys(raised_names(docstring))) == names
