"""Command line and environment of Carrel's child processes, without code or settings of the current directory."""

import os
import sys
from pathlib import Path

from app.settings import GROUPS, Settings, get_variable_name
from app.settings.environment import ENV_FILE, find_env_file

# Only the administrator of the machine can create a module or a settings file in this directory.
WORKING_DIRECTORY = "/"
_TEMPORARY_VARIABLES = ("TMPDIR", "TEMP", "TMP")


def build_command(*arguments: str) -> list[str]:
    """Return the command line of ``carrel ARGUMENTS``; ``-P`` keeps the working directory off the module path."""
    return [sys.executable, "-P", "-m", "app.cli", *arguments]


def build_inherited_environment() -> dict[str, str]:
    """Return the variables of this process with absolute paths, because the child runs in another directory."""
    variables = dict(os.environ)
    variables |= {name: str(Path(variables[name]).absolute()) for name in _TEMPORARY_VARIABLES if variables.get(name)}
    # Children of the child do not import modules from their working directory either.
    variables["PYTHONSAFEPATH"] = "1"
    if "PYTHONPATH" in variables:
        # An empty part means the working directory.
        parts = [part for part in variables["PYTHONPATH"].split(os.pathsep) if part]
        variables["PYTHONPATH"] = os.pathsep.join(str(Path(part).absolute()) for part in parts)
    return variables


def build_environment(settings: Settings) -> dict[str, str]:
    """Return the variables of a child with the same settings: the same settings file, and absolute paths."""
    file = find_env_file()
    variables = {**build_inherited_environment(), ENV_FILE: str(file) if file is not None and file.exists() else ""}
    return variables | _list_path_variables(settings)


def _list_path_variables(settings: Settings) -> dict[str, str]:
    variables = {}
    for name, group in GROUPS.items():
        for field, described in group.model_fields.items():
            value = getattr(getattr(settings, name), field)
            if isinstance(value, Path):
                variables[get_variable_name(described)] = str(value)
    return variables
