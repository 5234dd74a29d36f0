"""Size, private words and coding rules of the project's modules."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import parse, walk

ROOT = Path(__file__).parents[2]
APP = ROOT / "app"
MODULES = sorted(APP.rglob("*.py"))
FORBIDDEN_NAMES = {
    "utils",
    "util",
    "helpers",
    "helper",
    "common",
    "core",
    "misc",
    "manager",
    "managers",
    "base_service",
}
MODULE_LINES = 400
FUNCTION_LINES = 60
# Imports parsers by name, so that a child process imports one parser's library and not all.
BY_NAME = {"ingestion/parsers/sandbox/child.py"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(module: Path) -> str:
    return module.relative_to(APP).as_posix()


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in walk(tree) if isinstance(node, Function))


def attributes(tree: ast.AST) -> set[str]:
    return {
        f"{node.value.id}.{node.attr}"
        for node in walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return {name_of(module): parse(module) for module in MODULES}


def test_modules_of_app_exist() -> None:
    assert len(MODULES) > 100


def test_modules_are_short() -> None:
    lines = {name_of(module): len(module.read_text().splitlines()) for module in MODULES}
    assert {name: count for name, count in lines.items() if count > MODULE_LINES} == {}


def test_functions_are_short(trees: dict[str, ast.Module]) -> None:
    lines = {
        f"{name}:{function.name}": count_code_lines(function)
        for name, tree in trees.items()
        for function in functions(tree)
    }
    assert {name: count for name, count in lines.items() if count > FUNCTION_LINES} == {}


def count_code_lines(function: Function) -> int:
    """Return the number of lines of a function without its docstring."""
    first = function.body[0]
    docstring = first if ast.get_docstring(function, clean=False) is not None else None
    docstring_lines = (docstring.end_lineno or 0) - docstring.lineno + 1 if docstring else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring_lines


def test_modules_begin_with_one_paragraph_of_description(trees: dict[str, ast.Module]) -> None:
    assert [name for name, tree in trees.items() if not re.match(r"\S.*[.…!](\n|$)", first_paragraph(tree))] == []


def first_paragraph(tree: ast.Module) -> str:
    return (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ")


def test_module_names_have_meaning() -> None:
    parts = {part for module in MODULES for part in module.relative_to(APP).with_suffix("").parts}
    assert parts & FORBIDDEN_NAMES == set()


def test_modules_are_imported_by_name(trees: dict[str, ast.Module]) -> None:
    """The import contracts cannot see other imports, such as ``from … import *``."""
    dynamic = {
        name
        for name, tree in trees.items()
        if {"importlib.import_module", "importlib.reload"} & attributes(tree)
        or any(isinstance(node, ast.Name) and node.id == "__import__" for node in walk(tree))
        or any(isinstance(node, ast.ImportFrom) and (node.level or node.names[0].name == "*") for node in walk(tree))
    }
    assert dynamic == BY_NAME


def test_only_the_settings_read_the_environment(trees: dict[str, ast.Module]) -> None:
    """The command line passes the environment to child processes; the package's first module sets one variable."""
    readers = {name for name, tree in trees.items() if {"os.environ", "os.getenv", "os.environb"} & attributes(tree)}
    assert {name for name in readers if not name.startswith("cli/")} == {"__init__.py", "settings/environment.py"}


def test_importing_a_module_calls_nothing(trees: dict[str, ast.Module]) -> None:
    """A module has no bare call at its top level, except for the command line, which registers its commands there."""
    calling = {
        name
        for name, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and not name.startswith("cli/")
    }
    assert calling == set()


def test_errors_are_translated_with_their_cause(trees: dict[str, ast.Module]) -> None:
    """In an ``except`` block, ``raise Something(...)`` without ``from`` hides the cause or reveals too much."""
    bare = {
        f"{name}:{raised.lineno}"
        for name, tree in trees.items()
        for handler in walk(tree)
        if isinstance(handler, ast.ExceptHandler)
        for raised in walk(handler)
        if isinstance(raised, ast.Raise) and raised.exc is not None and raised.cause is None
    }
    assert bare == set()


def test_error_codes_are_words(trees: dict[str, ast.Module]) -> None:
    codes = [
        str(statement.value.value)
        for tree in trees.values()
        for node in walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        and isinstance(statement.value, ast.Constant)
        and "code"
        in {getattr(target, "id", "") for target in getattr(statement, "targets", [getattr(statement, "target", None)])}
    ]
    assert len(codes) > 20
    assert [code for code in codes if not re.fullmatch(r"[a-z]+(_[a-z]+)*", code)] == []


def test_only_tests_import_tests() -> None:
    """The harness is shared; benchmarks and proofs do not import each other."""
    forbidden = {
        "app": {"tests", "harness", "proofs", "benchmarks"},
        "carrel": {"tests", "harness", "proofs", "benchmarks", "carrel_client"},
        "clients": {"tests", "harness", "proofs", "benchmarks", "app", "carrel"},
        "harness": {"tests", "proofs", "benchmarks"},
        "proofs": {"tests", "benchmarks"},
        "benchmarks": {"tests", "proofs"},
        "scripts": {"tests", "proofs", "benchmarks"},
    }
    wrong = {
        f"{module.relative_to(ROOT)}: {package}"
        for root, packages in forbidden.items()
        for module in (ROOT / root).rglob("*.py")
        for package in imported_roots(parse(module)) & packages
    }
    assert wrong == set()


def imported_roots(tree: ast.Module) -> set[str]:
    names = {node.module for node in walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    names |= {alias.name for node in walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return {name.split(".")[0] for name in names}
