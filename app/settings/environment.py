"""What the process is given from outside: variables, and places for what can be fetched again or does not stay."""

import os
from collections.abc import Mapping
from pathlib import Path

from dotenv import dotenv_values

USUAL_TEMPORARY = ("/tmp", "/var/tmp", "/usr/tmp")  # noqa: S108  (as Python has them)
ENV_FILE = "CARREL_ENV_FILE"
USUAL_FILE = ".env"
PROCESS = "the environment"


class SettingsError(Exception):
    """A setting is wrong; the message is one line that names it."""


def environment() -> dict[str, str]:
    """The process's variables, and below them those of the settings file."""
    return file_variables() | dict(os.environ)


def env_file() -> Path | None:
    """Return the place of the settings file: ``CARREL_ENV_FILE``, else ``.env``; None if that variable is empty."""
    place = os.environ.get(ENV_FILE, USUAL_FILE)
    return Path(place).expanduser().absolute() if place else None


def file_variables() -> dict[str, str]:
    """Read the settings file.

    A ``$`` in a value is a ``$``: the file may come from somebody who must not read the process's other variables.
    Raises SettingsError if the file cannot be read, or if ``CARREL_ENV_FILE`` names one that is not there.
    """
    place = env_file()
    if place is None or not place.exists():
        if place is not None and ENV_FILE in os.environ:
            raise SettingsError(f"{ENV_FILE} names {place}, which does not exist; create it or unset {ENV_FILE}")
        return {}
    if not place.is_file():  # to read a pipe or a device may take for ever
        raise SettingsError(f"cannot read the settings file {place}: it is not a regular file")
    try:
        return {name: value or "" for name, value in dotenv_values(place, interpolate=False).items()}
    except (OSError, UnicodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8 text"
        raise SettingsError(f"cannot read the settings file {place}: {reason}") from None


def sources() -> dict[str, Mapping[str, str]]:
    """Variables that are not empty, in capitals, by the place that they come from; the first place wins.

    A file that ``CARREL_ENV_FILE`` names is the choice of whoever set the environment, and counts as a part of it.
    """
    named = ENV_FILE in os.environ
    process = (file_variables() if named else {}) | dict(os.environ)
    found = {PROCESS: process} if named else {PROCESS: process, USUAL_FILE: file_variables()}
    return {
        place: {name.upper(): value for name, value in variables.items() if value} for place, variables in found.items()
    }


def user_cache_dir() -> Path:
    """Where this user's programs keep what they can fetch again (XDG Base Directory Specification)."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given) if given.startswith("/") else Path.home() / ".cache"


def temporary_directory() -> Path:
    """As Python's ``tempfile`` chooses it, which tries each with a file: a full disk has no room for one."""
    named = (os.environ.get(variable, "") for variable in ("TMPDIR", "TEMP", "TMP"))
    places = [Path(place) for place in (*named, *USUAL_TEMPORARY) if place]
    usable = (place for place in places if place.is_dir() and os.access(place, os.W_OK | os.X_OK))
    return next(usable, Path(USUAL_TEMPORARY[0])).absolute()
