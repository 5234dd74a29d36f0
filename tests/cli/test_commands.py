"""Commands by name: summaries, help, and the start of client commands without the service's code."""

import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.cli.commands import COMMANDS, load_command

WHAT_IS_IMPORTED = """
import sys
from app.cli.commands import load_command
load_command(sys.argv[1])
print(sorted({"fastapi", "sqlalchemy", "numpy"} & {*sys.modules}))
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_command_summary_is_first_line_of_help(name: str) -> None:
    first = load_command(name).help.partition("\n\n")[0]
    assert " ".join(first.split()) == COMMANDS[name][1]


def test_completion_is_installed_at_root_only() -> None:
    assert "--install-completion" in CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    assert "--install-completion" not in CliRunner().invoke(app, ["kb", "--help"], env={"COLUMNS": "200"}).output


@pytest.mark.parametrize("name", COMMANDS)
def test_command_help_has_example_and_json_option(name: str) -> None:
    """--help names an example, and every client command can print JSON."""

    def walk(command: Any, words: list[str]) -> list[tuple[list[str], Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            return [(words, command)]
        return [found for name, one in sorted(inner.items()) for found in walk(one, [*words, name])]

    for words, command in walk(load_command(name), [name]):
        examples = command.help.partition("Example")[2]
        assert f"carrel {' '.join(words)}" in examples, words
        if name in ("kb", "documents", "jobs", "keys", "tenants", "upload", "search"):
            assert "--json" in [option for one in command.params for option in one.opts], words


def test_root_help_lists_all_commands() -> None:
    result = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert [name for name in COMMANDS if COMMANDS[name][1] not in result.output] == []


@pytest.mark.parametrize("name", ["upload", "search", "documents", "keys"])
def test_client_command_imports_no_server_code(name: str) -> None:
    found = subprocess.run([sys.executable, "-c", WHAT_IS_IMPORTED, name], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
