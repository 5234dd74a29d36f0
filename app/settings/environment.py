"""The process's environment: variables, the settings file, the cache directory and the temporary directory."""

import os
from collections.abc import Mapping
from pathlib import Path

from dotenv import dotenv_values

DEFAULT_TEMPORARY_DIRECTORIES = ("/tmp", "/var/tmp", "/usr/tmp")  # noqa: S108  (as Python has them)
ENV_FILE = "CARREL_ENV_FILE"
DEFAULT_ENV_FILE = ".env"
PROCESS_SOURCE = "the environment"


class SettingsError(Exception):
    """A setting is wrong; the message is one line that names it."""


def read_environment() -> dict[str, str]:
    """Return the variables of the settings file, overridden by the process's variables."""
    return read_env_file() | dict(os.environ)


def find_env_file() -> Path | None:
    """Return the place of the settings file: ``CARREL_ENV_FILE``, else ``.env``; None if that variable is empty."""
    path = os.environ.get(ENV_FILE, DEFAULT_ENV_FILE)
    return Path(path).expanduser().absolute() if path else None


def read_env_file() -> dict[str, str]:
    """Read the settings file.

    A ``$`` in a value is a ``$``: the file may come from somebody who must not read the process's other variables.
    Raises SettingsError if the file cannot be read, or if ``CARREL_ENV_FILE`` names one that is not there.
    """
    path = find_env_file()
    if path is None or not path.exists():
        if path is not None and ENV_FILE in os.environ:
            raise SettingsError(f"{ENV_FILE} names {path}, which does not exist; create it or unset {ENV_FILE}")
        return {}
    if not path.is_file():  # to read a pipe or a device may take for ever
        raise SettingsError(f"cannot read the settings file {path}: it is not a regular file")
    try:
        return {name: value or "" for name, value in dotenv_values(path, interpolate=False).items()}
    except (OSError, UnicodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8 text"
        raise SettingsError(f"cannot read the settings file {path}: {reason}") from None


def read_sources() -> dict[str, Mapping[str, str]]:
    """Return the variables that are not empty, in capitals, by source; the first source wins.

    A file that ``CARREL_ENV_FILE`` names is chosen in the environment, and counts as a part of it.
    """
    is_explicit = ENV_FILE in os.environ
    process_variables = (read_env_file() if is_explicit else {}) | dict(os.environ)
    variables_by_source = (
        {PROCESS_SOURCE: process_variables}
        if is_explicit
        else {PROCESS_SOURCE: process_variables, DEFAULT_ENV_FILE: read_env_file()}
    )
    return {
        source: {name.upper(): value for name, value in variables.items() if value}
        for source, variables in variables_by_source.items()
    }


def get_user_cache_dir() -> Path:
    """Return the directory of this user's caches (XDG Base Directory Specification)."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    return Path(configured) if configured.startswith("/") else Path.home() / ".cache"


def find_temporary_directory() -> Path:
    """Return the directory that Python's ``tempfile`` chooses, without writing a file to it: the disk may be full."""
    configured = (os.environ.get(variable, "") for variable in ("TMPDIR", "TEMP", "TMP"))
    directories = [Path(directory) for directory in (*configured, *DEFAULT_TEMPORARY_DIRECTORIES) if directory]
    usable = (directory for directory in directories if directory.is_dir() and os.access(directory, os.W_OK | os.X_OK))
    return next(usable, Path(DEFAULT_TEMPORARY_DIRECTORIES[0])).absolute()
