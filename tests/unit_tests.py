"""``pytest --unit``: only the tests that need no database, no server, no other process and no model.

A rule selects these tests by the imports in the source. A test is left out if its own module imports a module of
IMPURE, directly or through other modules of the project. The same applies to the imports of a conftest.py in its
folders, of its fixtures and of the test itself. An import inside a function counts for that function alone, so that a
conftest.py can serve both kinds of tests. An import for types alone does not count. A run with ``--unit`` refuses to
import the modules of REFUSED.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
FOLDERS = (ROOT, ROOT / "clients" / "python")
CACHE_KEY = "unit-tests/imports"
REFUSED = ("app.main", "asyncpg", "uvicorn")
IMPURE = {*REFUSED, "subprocess", "multiprocessing", "http.server", "app.sandbox.process", "onnxruntime"}


# The imports of one module: its own under an empty name, the others under the function's name.
Imports = dict[str, list[str]]


@dataclass
class SourceImports:
    """The imports of the project's modules, read from their source.

    ``stored`` has the imports of an earlier run by module, with the modification time of the file.
    """

    stored: dict[str, tuple[int, Imports]] = field(default_factory=dict)
    _modules: dict[str, Imports] = field(default_factory=dict)
    _reached: dict[str, frozenset[str]] = field(default_factory=dict)

    def find_impure(self, module: str) -> frozenset[str]:
        """Return the modules of IMPURE that are imported with this one."""
        if module not in self._reached:
            seen, waiting = {module}, [module]
            while waiting:
                new = set(self._read(waiting.pop()).get("", ())) - seen
                seen |= new
                waiting += new
            self._reached[module] = frozenset(seen & IMPURE)
        return self._reached[module]

    def find_impure_in_function(self, module: str, function: str) -> frozenset[str]:
        """Return the modules of IMPURE that a function imports when it runs."""
        names = self._read(module).get(function, ())
        return frozenset(found for name in names for found in self.find_impure(name))

    def _read(self, module: str) -> Imports:
        if module not in self._modules:
            self._modules[module] = {}
            if path := _find_source(module):
                changed, imports = self.stored.get(module, (0, {}))
                if changed != path.stat().st_mtime_ns:
                    imports = _read_imports(module, path)
                    self.stored[module] = (path.stat().st_mtime_ns, imports)
                self._modules[module] = imports
        return self._modules[module]


def _find_source(module: str) -> Path | None:
    parts = module.split(".")
    for folder in FOLDERS:
        if (folder / parts[0]).is_dir():
            place = folder.joinpath(*parts)
            return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)
    return None


def _read_imports(module: str, path: Path) -> Imports:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found: defaultdict[str, set[str]] = defaultdict(set)
    found[""].update(_packages_of(module))
    for function, name in _imported(ast.parse(path.read_bytes()).body, package, ""):
        found[function].update((name, *_packages_of(name)))
    return {function: sorted(names) for function, names in found.items()}


def _imported(statements: Sequence[ast.AST], package: str, function: str) -> Iterator[tuple[str, str]]:
    """Yield each imported module with the function that imports it; with an empty name if the module itself does.

    An imported name may be the name of a module as well.
    """
    for node in statements:
        if isinstance(node, ast.Import):
            yield from ((function, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            yield from ((function, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imported(node.body, package, function or node.name)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _imported(node.orelse, package, function)
        else:
            for part in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from _imported(getattr(node, part, None) or (), package, function)


def _packages_of(module: str) -> Iterator[str]:
    """Yield the packages around a module, which are imported with it."""
    while module := module.rpartition(".")[0]:
        yield module


class Refusal(MetaPathFinder):
    """Refuses the imports that would make a test need the application or a database."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if fullname in REFUSED:
            raise ImportError(f"{fullname} is imported with --unit: import it inside the fixture that needs it")
        return None


@dataclass(eq=False)
class UnitTests:
    """Selects the unit tests while pytest collects."""

    cache: pytest.Cache | None
    imports: SourceImports = field(init=False)

    def __post_init__(self) -> None:
        self.imports = SourceImports(self.cache.get(CACHE_KEY, {}) if self.cache else {})

    def pytest_sessionfinish(self) -> None:
        """Store the imports for the next run."""
        if self.cache:
            self.cache.set(CACHE_KEY, self.imports.stored)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out files before they are imported, and folders without a unit test before their conftest.py is
        imported.
        """
        if collection_path.is_dir() and TESTS in collection_path.parents:
            return not any(self._is_pure(path) for path in collection_path.rglob("test_*.py")) or None
        if collection_path.suffix == ".py" and TESTS in collection_path.parents:
            return not self._is_pure(collection_path) or None
        return None

    def _is_pure(self, path: Path) -> bool:
        conftests = [folder / "conftest.py" for folder in path.parents if TESTS in (folder, *folder.parents)]
        modules = [_name_of(file) for file in (path, *conftests) if file.exists()]
        return not any(self.imports.find_impure(module) for module in modules)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out tests that import something impure, or that have a fixture with such an import."""
        impure = [item for item in items if self._impure_of(item)]
        config.hook.pytest_deselected(items=impure)
        left_out = set(impure)
        items[:] = [item for item in items if item not in left_out]

    def _impure_of(self, item: pytest.Item) -> frozenset[str]:
        assert isinstance(item, pytest.Function)
        found = self.imports.find_impure_in_function(item.module.__name__, item.function.__name__)
        for definitions in item._fixtureinfo.name2fixturedefs.values():
            for definition in definitions:
                module, name = definition.func.__module__, definition.func.__name__
                found |= self.imports.find_impure(module) | self.imports.find_impure_in_function(module, name)
        return found


def _name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--unit", action="store_true", help="run the tests that need no database, server or other process")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("unit"):
        if early := [name for name in REFUSED if name in sys.modules]:
            raise pytest.UsageError(f"imported before the tests: {', '.join(early)}")
        sys.meta_path.insert(0, Refusal())
        config.pluginmanager.register(UnitTests(getattr(config, "cache", None)), "unit-tests")
