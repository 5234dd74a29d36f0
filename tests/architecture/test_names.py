"""Rules of names: no private words, functions begin with verbs, and one name for each class."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.names import (
    FORBIDDEN_WORDS,
    NOUNS_IN_ING,
    SHARED_MODULE_NAMES,
    VERBS,
    faults_of,
    is_verb_first,
)
from tests.architecture.sources import parse, walk

ROOT = Path(__file__).parents[2]
ROOTS = ("app", "carrel", "harness", "proofs", "benchmarks", "scripts")
ALL_ROOTS = (*ROOTS, "benchmarks", "clients", "docs", "harness", "migrations", "proofs", "scripts", "tests")

# Names that a standard or a library fixes, each with its reason. At most ten lines.
EXCEPTIONS = {
    ("app/webhooks/types.py", "GONE"),  # the name of HTTP's status 410
    ("app/graph/extraction/extractor.py", "given"),  # the kind of entities that clients provide, in the API
}
# Functions whose name is a term of the field. At most ten lines.
TERMS = {"debug", "info", "warning", "error", "exception", "transaction", "env_field"}
TERMS |= {"soft_delete", "auto_merge", "murmur_finalize"}
# Classes of the client library with the names of the API or of a framework. At most ten lines.
SHARED_CLASSES = {
    "CarrelRetriever": {"clients/python/carrel_client/langchain.py", "clients/python/carrel_client/llama_index.py"},
    "Message": {"app/retrieval/types.py", "clients/python/carrel_client/types.py"},
    "SqlView": {"app/db/models/sql_views.py", "clients/python/carrel_client/types.py"},
    "Tenant": {"harness/running_service.py", "clients/python/carrel_client/types.py"},
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    modules = sorted(module for root in ROOTS for module in (ROOT / root).rglob("*.py"))
    return {module.relative_to(ROOT).as_posix(): parse(module) for module in modules}


def stored_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield every name that a module defines: functions, classes, parameters, variables, attributes."""
    for node in walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def test_names_contain_no_private_word(trees: dict[str, ast.Module]) -> None:
    found = [
        f"{path}:{line}: {name} {', '.join(faults)}"
        for path, tree in trees.items()
        for name, line in stored_names(tree)
        if (faults := faults_of(name)) and (path, name) not in EXCEPTIONS
    ]
    assert found == []


def test_names_in_tests_contain_no_private_word() -> None:
    """The rule holds for tests, fixtures, helpers and classes. Short names such as ``found`` are allowed there."""
    found = [
        f"{module.relative_to(ROOT).as_posix()}:{node.lineno}: {node.name} {', '.join(faults)}"
        for module in sorted((ROOT / "tests").rglob("*.py"))
        for node in walk(parse(module))
        if isinstance(node, Function | ast.ClassDef)
        and (faults := [fault for fault in faults_of(node.name) if "holds" in fault])
    ]
    assert found == []


def test_name_exceptions_are_few_and_needed(trees: dict[str, ast.Module]) -> None:
    assert len(EXCEPTIONS) <= 10
    assert len(TERMS) <= 10
    assert {(path, name) for path, name in EXCEPTIONS if name not in dict(stored_names(trees[path]))} == set()


def has_free_name(path: str, function: Function) -> bool:
    """Return whether a function may be named without a verb: properties, context managers, routes and commands."""
    if function.name in TERMS or (
        path.startswith("app/cli/") and function.name == Path(path).stem.removesuffix("_proxy")
    ):
        return True
    decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
    free = (
        "property",
        "fixture",
        ".setter",
        "contextmanager",
        "validator",
        "serializer",
        ".command",
        ".callback",
        "overload",
    )
    return any(part in decorator for decorator in decorators for part in free)


def own_methods(tree: ast.Module) -> Iterator[Function]:
    """Yield the functions that do not override a method of a library's class."""
    inherited: set[ast.stmt] = set()
    for node in walk(tree):
        if isinstance(node, ast.ClassDef):
            is_plain = all(ast.unparse(base).split("[")[0] in PLAIN_BASES for base in node.bases)
            inherited.update(child for child in node.body if not is_plain)
    yield from (node for node in walk(tree) if isinstance(node, Function) and node not in inherited)


# Base classes without methods that a subclass overrides.
PLAIN_BASES = {"object", "Protocol", "Generic", "NamedTuple", "StrEnum", "IntEnum", "Enum", "BaseModel", "Exception"}


def test_functions_begin_with_a_verb(trees: dict[str, ast.Module]) -> None:
    found = [
        f"{path}:{function.lineno}: {function.name}"
        for path, tree in trees.items()
        for function in own_methods(tree)
        if not function.name.startswith("__") and not has_free_name(path, function) and not is_verb_first(function.name)
    ]
    assert found == []


def test_one_class_has_one_name() -> None:
    places = defaultdict(set)
    for module in sorted(path for root in ALL_ROOTS for path in (ROOT / root).rglob("*.py")):
        path = module.relative_to(ROOT).as_posix()
        for node in walk(parse(module)):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == SHARED_CLASSES


def test_modules_are_nouns(trees: dict[str, ast.Module]) -> None:
    stems = {path: Path(path).stem for path in trees}
    gerunds = {path for path, stem in stems.items() if stem.endswith("ing") and "_" not in stem}
    assert {path for path in gerunds if stems[path] not in NOUNS_IN_ING} == set()
    parts = {part for path in trees for part in Path(path).with_suffix("").parts}
    assert {part for part in parts if FORBIDDEN_WORDS.intersection(part.split("_"))} == set()


def test_module_name_belongs_to_two_packages_at_most(trees: dict[str, ast.Module]) -> None:
    packages = defaultdict(set)
    for path in trees:
        if path.startswith(("app/", "carrel/")):
            packages[Path(path).stem].add(str(Path(path).parent))
    crowded = {stem: found for stem, found in packages.items() if len(found) > 2 and stem not in SHARED_MODULE_NAMES}
    assert crowded == {}


def test_verbs_are_sorted_and_used(trees: dict[str, ast.Module]) -> None:
    listed = (Path(__file__).with_name("verbs.txt")).read_text().split()
    assert listed == sorted(set(listed))
    functions = (node for tree in trees.values() for node in walk(tree) if isinstance(node, Function))
    firsts = {function.name.strip("_").split("_")[0] for function in functions}
    assert sorted(VERBS - firsts) == []


@pytest.mark.parametrize(
    ("name", "is_good"),
    [
        ("list_documents", True),
        ("_told", False),
        ("LaneResults", False),
        ("most_bytes", False),
        ("one", False),
        ("kept_files", False),
        ("max_bytes", True),
        ("wall_clock_timeout_seconds", True),
        ("wall_seconds", False),
    ],
)
def test_faults_of_returns_faults_of_bad_names_only(name: str, is_good: bool) -> None:
    assert (not faults_of(name)) == is_good


@pytest.mark.parametrize(("name", "is_good"), [("whole", False), ("numbered", False), ("find_binding", True)])
def test_is_verb_first_accepts_verbs_only(name: str, is_good: bool) -> None:
    assert is_verb_first(name) == is_good
