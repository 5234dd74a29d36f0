"""The registry of capabilities agrees with the markers of the tests."""

from pathlib import Path

import pytest

from scripts.docs.capability_table import (
    Capability,
    MarkedTest,
    find_faults,
    find_marked_tests,
    read_capabilities,
)

FOUND = Capability("found", "Search", "Finds.", "`POST /v1/search`", False)
PLANNED = Capability("planned", "Search", "Finds more.", "", True)


def test_every_capability_has_a_test_and_every_marker_a_capability() -> None:
    assert find_faults(read_capabilities(), list(find_marked_tests())) == []


@pytest.mark.parametrize(
    ("capabilities", "ids", "faults"),
    [
        ([FOUND, PLANNED], ("found",), []),
        ([FOUND], (), ["found has no test"]),
        ([FOUND], ("found", "fuond"), ["tests/test_a.py::test_a names 'fuond', which the registry lacks"]),
        ([FOUND, PLANNED], ("found", "planned"), ["planned has a test, so it is not missing"]),
        ([FOUND, FOUND], ("found",), ["found stands twice in the registry"]),
    ],
    ids=["complete", "untested", "unknown", "missing with a test", "twice"],
)
def test_find_faults_names_each_disagreement(
    capabilities: list[Capability], ids: tuple[str, ...], faults: list[str]
) -> None:
    assert find_faults(capabilities, [MarkedTest("tests/test_a.py", "test_a", ids)]) == faults


def test_find_marked_tests_reads_all_ids_of_all_markers(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text(
        "import pytest\n"
        '@pytest.mark.capability("one", "two")\n@pytest.mark.capability("three")\nasync def test_a(): ...\n'
        "def test_b(): ...\n"
    )
    assert list(find_marked_tests(tmp_path)) == [MarkedTest("tests/test_a.py", "test_a", ("one", "two", "three"))]
