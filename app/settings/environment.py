"""Environment of the process: variables, settings file, cache directory and temporary directory."""

import os
from collections.abc import Mapping
from pathlib import Path

from dotenv import dotenv_values

DEFAULT_TEMPORARY_DIRECTORIES = ("/tmp", "/var/tmp", "/usr/tmp")  # noqa: S108  (the defaults of tempfile)
ENV_FILE = "CARREL_ENV_FILE"
DEFAULT_ENV_FILE = ".env"
PROCESS_SOURCE = "the environment"


class SettingsError(Exception):
    """Invalid setting; the message is one line that names the setting."""


def read_environment() -> dict[str, str]:
    """Return the variables of the settings file and of the process; variables of the process override the file."""
    return read_env_file() | dict(os.environ)


def find_env_file() -> Path | None:
    """Return the path of the settings file: ``CARREL_ENV_FILE``, else ``.env``; None if ``CARREL_ENV_FILE`` is
    empty.
    """
    path = os.environ.get(ENV_FILE, DEFAULT_ENV_FILE)
    return Path(path).expanduser().absolute() if path else None


def read_env_file() -> dict[str, str]:
    """Read the variables of the settings file; an empty dictionary if there is no file.

    ``$NAME`` in a value is not replaced: the author of the file may not be allowed to read the process's variables.

    Raises:
        SettingsError: The file cannot be read, or ``CARREL_ENV_FILE`` names a file that does not exist.
    """
    path = find_env_file()
    if path is None or not path.exists():
        if path is not None and ENV_FILE in os.environ:
            raise SettingsError(f"{ENV_FILE} names {path}, which does not exist; create it or unset {ENV_FILE}")
        return {}
    if not path.is_file():  # reading a pipe or a device may never end
        raise SettingsError(f"cannot read the settings file {path}: it is not a regular file; set {ENV_FILE}")
    try:
        return {name: value or "" for name, value in dotenv_values(path, interpolate=False).items()}
    except (OSError, UnicodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8 text"
        raise SettingsError(f"cannot read the settings file {path}: {reason}") from None


def read_sources() -> dict[str, Mapping[str, str]]:
    """Return the non-empty variables of each source, with upper-case names. The first source overrides the second.

    If ``CARREL_ENV_FILE`` names the file, the file and the environment count as one source, because the environment
    chose the file.
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
    """Return the directory of the user's caches (XDG Base Directory Specification)."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    return Path(configured) if configured.startswith("/") else Path.home() / ".cache"


def find_temporary_directory() -> Path:
    """Return the directory that Python's ``tempfile`` would choose, but write no test file, because the disk may be
    full.
    """
    configured = (os.environ.get(variable, "") for variable in ("TMPDIR", "TEMP", "TMP"))
    directories = [Path(directory) for directory in (*configured, *DEFAULT_TEMPORARY_DIRECTORIES) if directory]
    usable = (directory for directory in directories if directory.is_dir() and os.access(directory, os.W_OK | os.X_OK))
    return next(usable, Path(DEFAULT_TEMPORARY_DIRECTORIES[0])).absolute()
