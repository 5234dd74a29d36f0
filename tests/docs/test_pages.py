"""The blocks of the pages: each command is run against a running service, and prints the text that the page shows.

``UPDATE_PAGES=1 pytest tests/docs/test_pages.py -k quickstart`` writes the output of each block into the page.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from harness.processes import RunningService, running_service
from tests.docs.output_matching import find_json_difference, format_json, is_same_text, normalize
from tests.docs.page_blocks import PageBlock, read_blocks
from tests.docs.page_session import PageSession
from tests.fixtures.postgres import make_directories

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
RUN = [page for page in PAGES if any(block.marker in {"run", "run fails"} for block in read_blocks(page))]
# Programs of the pages' commands that a bare machine may lack; `.ci/run` installs them.
PROGRAMS = ("curl", "jq", "openssl")
UPDATES = os.environ.get("UPDATE_PAGES") == "1"


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    """``carrel serve`` as a reader starts it, with the embedded model and database."""
    with running_service(None) as running:
        yield running


@pytest.fixture(scope="module")
def make_directory(postgres_directory: Path) -> Callable[[], Path]:
    return make_directories(postgres_directory, "page", 0o711)


def name(page: Path) -> str:
    return page.relative_to(ROOT).with_suffix("").as_posix()


def test_every_command_has_a_marker() -> None:
    unmarked = {name(page) for page in PAGES for block in read_blocks(page) if block.is_command and not block.marker}
    assert unmarked == set(), "mark the commands of these pages: CONTRIBUTING.md explains the markers"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_page_names_tests_that_read_it(page: Path) -> None:
    for block in read_blocks(page):
        if block.marker == "tested by":
            assert page.name in (ROOT / block.argument).read_text(), f"{block.place}: {block.argument}"


@pytest.mark.parametrize("page", RUN, ids=name)
def test_page_commands_print_what_the_page_shows(
    page: Path, service: RunningService, make_directory: Callable[[], Path]
) -> None:
    missing = find_missing_programs(read_blocks(page))
    if missing:
        pytest.skip(f"the commands of the page need {' and '.join(missing)}, which this machine lacks")
    updates: list[tuple[PageBlock, str]] = []
    printed = ""
    with PageSession.open(make_directory(), service, page.stem) as session:
        for block in read_blocks(page):
            if block.marker in {"run", "run fails"}:
                printed = run_block(session, block, updates)
            elif block.marker == "serve":
                session.serve(block.text)
                printed = session.read_service_log()
            elif block.marker == "file":
                session.write_file(block.argument, block.text)
            elif block.marker.startswith("output"):
                compare(block, printed, updates)
    write_updates(page, updates)


def find_missing_programs(blocks: Iterable[PageBlock]) -> list[str]:
    """Return the programs of PROGRAMS that the page's commands use and that are not installed."""
    commands = "\n".join(block.text for block in blocks if block.marker in {"run", "run fails"})
    return [each for each in PROGRAMS if re.search(rf"\b{each}\b", commands) and shutil.which(each) is None]


def run_block(session: PageSession, block: PageBlock, updates: list[tuple[PageBlock, str]]) -> str:
    """Run a block and return its output; a block with prompts shows the output itself."""
    if not block.text.startswith("$ "):
        return run_commands(session, block, block.text)
    transcript = ""
    for command in split_transcript(block.text):
        transcript += f"$ {command}\n" + run_commands(session, block, command).rstrip("\n")
        transcript = transcript.rstrip("\n") + "\n"
    compare(block, transcript, updates)
    return transcript


def run_commands(session: PageSession, block: PageBlock, commands: str) -> str:
    status, printed = session.run(block.language, commands)
    assert (status != 0) == (block.marker == "run fails"), f"{block.place} ended with {status}:\n{printed}"
    return printed


def split_transcript(text: str) -> Iterator[str]:
    """Yield the commands of a transcript: lines after a prompt, continued after a backslash."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command += "\n" + next(lines)
            yield command


def compare(block: PageBlock, printed: str, updates: list[tuple[PageBlock, str]]) -> None:
    """Compare a block with the printed output, or record the output for the page."""
    if block.marker == "output json":
        try:
            difference = find_json_difference(json.loads(block.text or "null"), json.loads(printed))
        except ValueError as error:
            difference = f"no JSON: {error}"
    else:
        same = is_same_text(block.text, printed)
        difference = None if same else f"shown:\n{normalize(block.text)}\nprinted:\n{normalize(printed)}"
    if difference and UPDATES:
        updates.append((block, format_json(printed) if block.marker == "output json" else trim(printed)))
    else:
        assert difference is None, f"{block.place}: {difference}\nAll of the output:\n{printed}"


def trim(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def write_updates(page: Path, updates: list[tuple[PageBlock, str]]) -> None:
    text = page.read_text("utf-8")
    for block, shown in reversed(updates):
        text = text[: block.start] + shown + "\n" + text[block.end :]
    if updates:
        page.write_text(text, "utf-8")


def test_find_missing_programs_names_programs_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    quickstart = read_blocks(ROOT / "docs/tutorials/quickstart.md")
    assert find_missing_programs(quickstart) == ["curl"]
    assert find_missing_programs([]) == []
