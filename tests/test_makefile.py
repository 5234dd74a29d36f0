"""The Makefile: eleven targets, and names of benchmarks and proofs that it finds by itself."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TARGETS = ["setup", "demo", "test", "test-unit", "check", "format", "bench", "prove", "docs", "console", "clean"]


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make as in an environment that is set up already."""
    command = ["make", "--no-print-directory", "--assume-old=setup", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def programs(folder: str) -> set[str]:
    """Return the runnable modules of a folder, as a caller names them."""
    modules = [path for path in (ROOT / folder).rglob("*.py") if '__name__ == "__main__"' in path.read_text()]
    names = {(path.parent if path.stem == "__main__" else path).stem.replace("_", "-") for path in modules}
    # Run by other programs: an endpoint of the benchmarks, and the second half of the proof of isolation.
    return names - {"empty-endpoint", "run" if folder == "proofs" else ""}


def test_help_lists_every_target() -> None:
    lines = make().stdout.splitlines()
    assert [line.split()[1] for line in lines] == TARGETS
    defined = re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert defined == ["help", *TARGETS]


@pytest.mark.parametrize(("target", "folder"), [("bench", "benchmarks"), ("prove", "proofs")])
def test_wrong_name_lists_all_programs(target: str, folder: str) -> None:
    done = make(target, "NAME=nothing")
    assert done.returncode == 2
    head, *lines = done.stdout.splitlines()
    assert head == f"make {target} NAME=…, one of"
    assert {line.split()[0] for line in lines} == programs(folder)
    assert all(len(line.split()) > 2 for line in lines)


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("bench",), ".venv/bin/python -m benchmarks.run "),
        (("bench", "NAME=search-steps"), ".venv/bin/python -m benchmarks.search_steps "),
        (("bench", "NAME=scale", "ARGUMENTS=--quick"), ".venv/bin/python -m benchmarks.scale --quick"),
        (("prove", "NAME=noisy-neighbour"), ".venv/bin/python -m proofs.noisy_neighbour "),
        (("prove", "NAME=kill", "ARGUMENTS=--kills 6"), ".venv/bin/python -m proofs.kill --kills 6"),
    ],
)
def test_name_and_arguments_reach_the_program(arguments: tuple[str, ...], command: str) -> None:
    done = make("--dry-run", *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip("\n").endswith(command)


def test_console_installs_the_locked_packages_without_their_scripts() -> None:
    done = make("--dry-run", "console")
    assert "npm ci --ignore-scripts" in done.stdout
