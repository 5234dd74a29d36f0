"""``pytest --unit``: the rule that selects tests, and a run without the application and the database driver."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit_tests import REFUSED, ROOT, SourceImports

NUMBER = 3000


def run_pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--unit", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def imports() -> SourceImports:
    return SourceImports()


def test_unit_run_collects_thousands_of_tests_and_none_with_a_service() -> None:
    done = run_pytest("--collect-only")
    assert done.returncode == 0, done.stdout[-2000:]
    tests = [line for line in done.stdout.splitlines() if "::" in line]
    assert len(tests) >= NUMBER
    files = {test.partition("::")[0] for test in tests}
    assert {"tests/lexical/test_weights.py", "tests/documents/test_media_type.py"} <= files
    assert "tests/api/test_documents.py" not in files
    # In one module, a test with a fixture that starts a process is left out; the others remain.
    assert "tests/ingestion/parsers/test_hostile_text.py::test_hostile_text_formats_are_registered" in tests
    assert not any("test_seed_files_are_parsed_in_process" in test for test in tests)


@pytest.mark.parametrize("module", REFUSED)
def test_unit_run_refuses_import_of_application_or_driver(tmp_path: Path, module: str) -> None:
    path = tmp_path / "test_hidden_import.py"
    path.write_text(f"import importlib\n\ndef test_import():\n    importlib.import_module('{module}')\n")
    done = run_pytest("-p", "tests.unit_tests", "--rootdir", str(tmp_path), str(path))
    assert done.returncode == 1
    assert f"{module} is imported with --unit" in done.stdout


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("app.lexical.weights", set()),
        ("app.main", {"app.main", "asyncpg"}),
        ("harness.running_service", {"app.main", "asyncpg", "subprocess", "app.sandbox.process", "uvicorn"}),
        ("harness.protocol_servers.chat", {"http.server"}),
        ("tests.fixtures.databases", set()),  # imports for types only, and inside functions
    ],
)
def test_impure_modules_are_found_through_imports(imports: SourceImports, module: str, expected: set[str]) -> None:
    found = imports.find_impure(module)
    assert expected <= found
    assert bool(expected) == bool(found)


def test_import_inside_function_counts_for_that_function_alone(imports: SourceImports) -> None:
    assert imports.find_impure_in_function("tests.fixtures.databases", "owner") == {"asyncpg"}
    assert "asyncpg" in imports.find_impure_in_function("tests.fixtures.databases", "make_database")
    assert imports.find_impure_in_function("tests.fixtures.databases", "make_empty_database") == set()


def test_stored_imports_of_changed_file_are_read_again(imports: SourceImports) -> None:
    imports.find_impure("app.lexical.weights")
    changed, read = imports.stored["app.lexical.weights"]
    assert read[""]
    current = SourceImports({"app.lexical.weights": (changed, {"": ["subprocess"]})})
    assert current.find_impure("app.lexical.weights") == {"subprocess"}
    outdated = SourceImports({"app.lexical.weights": (changed - 1, {"": ["subprocess"]})})
    assert outdated.find_impure("app.lexical.weights") == set()
