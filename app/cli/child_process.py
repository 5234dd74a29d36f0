"""Start Carrel's own commands as child processes, without code or settings from the caller's directory."""

import os
import sys
from pathlib import Path

from app.settings import GROUPS, Settings, variable
from app.settings.environment import ENV_FILE, env_file

# Nobody but the system's administrator can put a module or a settings file there.
DIRECTORY = "/"
_PLACES = ("TMPDIR", "TEMP", "TMP")


def command(*arguments: str) -> list[str]:
    """Return the command line of ``carrel ARGUMENTS``; ``-P`` keeps the working directory off the module path."""
    return [sys.executable, "-P", "-m", "app.cli", *arguments]


def inherited_environment() -> dict[str, str]:
    """Return this process's variables, with paths that mean the same in another directory."""
    found = dict(os.environ)
    found |= {name: str(Path(found[name]).absolute()) for name in _PLACES if found.get(name)}
    # For what the child starts in its turn.
    found["PYTHONSAFEPATH"] = "1"
    if "PYTHONPATH" in found:
        # An empty part would be the working directory.
        parts = [part for part in found["PYTHONPATH"].split(os.pathsep) if part]
        found["PYTHONPATH"] = os.pathsep.join(str(Path(part).absolute()) for part in parts)
    return found


def environment(settings: Settings) -> dict[str, str]:
    """Return the variables of a child with the same settings: the same file, and every path absolute."""
    file = env_file()
    found = {**inherited_environment(), ENV_FILE: str(file) if file is not None and file.exists() else ""}
    return found | _paths(settings)


def _paths(settings: Settings) -> dict[str, str]:
    found = {}
    for name, group in GROUPS.items():
        for field, described in group.model_fields.items():
            value = getattr(getattr(settings, name), field)
            if isinstance(value, Path):
                found[variable(described)] = str(value)
    return found
