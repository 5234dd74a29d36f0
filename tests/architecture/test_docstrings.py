"""Docstrings of ``app`` and ``carrel``: the exceptions and the names in code style that they mention exist."""

import ast
import builtins
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import parse, walk

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for package in ("app", "carrel") for path in (ROOT / package).rglob("*.py"))
CLIENT_ERRORS = ROOT / "clients/python/carrel_client/errors.py"
# Exceptions of libraries whose names do not end in Error, or that no module imports.
LIBRARY_EXCEPTIONS = {"Abort", "ClientDisconnect", "UsageError"}
NAME = r"[A-Z]\w+"
# "Raises A, B or C": the names that follow the word, and compound names up to the end of the sentence.
SENTENCE = re.compile(r"\bRaises\s+((?!:).*?)(?:\.(?=\s|$)|$)", re.DOTALL)
FIRST_NAMES = re.compile(rf"(?:{NAME}(?:,\s+and\s+|,\s+or\s+|,\s+|\s+and\s+|\s+or\s+|;\s+)?)+")
COMPOUND_NAME = re.compile(r"(?<![`\w.])[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+(?![`\w.])(?!'s)")
GOOGLE_SECTION = re.compile(r"^Raises:\n((?:[ ]+.*(?:\n|$))+)", re.MULTILINE)
GOOGLE_ENTRY = re.compile(rf"^ {{4}}(?:\w+\.)*({NAME}):", re.MULTILINE)
# A name in code style, with or without a path before it and arguments after it.
CODE_NAME = re.compile(r"``([A-Za-z_][\w.]*)(?:\(.*\))?``")
# Names of other programs and libraries, and an example of an id.
OTHER_NAMES = {"doc_01h455vb4pex5vsknk084sn02q", "ru_maxrss", "setpriv", "to_string"}


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return {module: parse(module) for module in MODULES}


def find_exceptions(trees: dict[Path, ast.Module]) -> set[str]:
    """Return the names of exception classes: built in, of imported libraries, and of ``app``."""
    nodes = [node for tree in (*trees.values(), parse(CLIENT_ERRORS)) for node in walk(tree)]
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
    for node in walk(tree):
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


def all_docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the docstrings of a module, including the ones of its variables."""
    for node in walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield statement.value


def names_in_code(tree: ast.Module) -> Iterator[str]:
    """Yield the identifiers of a module, and the words of its strings: columns, keys and options."""
    skipped = {id(docstring) for docstring in all_docstrings(tree)}
    for node in walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg | ast.keyword):
            yield node.arg or ""
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield from (*node.name.split("."), node.asname or "")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield from re.findall(r"\w+", node.value)


def test_docstrings_names_in_code_style_exist(trees: dict[Path, ast.Module]) -> None:
    known = {name for tree in trees.values() for name in names_in_code(tree)} | OTHER_NAMES
    known |= {part for module in MODULES for part in module.relative_to(ROOT).with_suffix("").parts}
    known |= {word for file in (ROOT / "app/db/sql").rglob("*.sql") for word in re.findall(r"\w+", file.read_text())}
    known |= {*dir(builtins), *sys.stdlib_module_names}
    mentioned = [
        (f"{module.relative_to(ROOT)}:{docstring.lineno}", part)
        for module, tree in trees.items()
        for docstring in all_docstrings(tree)
        for name in CODE_NAME.findall(str(docstring.value))
        for part in name.removeprefix("CARREL_").split(".")
    ]
    assert len(mentioned) > 500
    assert [(place, part) for place, part in mentioned if part and part not in known] == []
