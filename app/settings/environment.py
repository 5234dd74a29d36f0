"""What the process is given from outside: variables, and places for what can be fetched again or does not stay."""

import os
from pathlib import Path

from dotenv import dotenv_values

USUAL_TEMPORARY = ("/tmp", "/var/tmp", "/usr/tmp")  # noqa: S108  (as Python has them)


def environment() -> dict[str, str]:
    """The process's variables, and below them those of ``.env`` where it was started."""
    return {name: value or "" for name, value in dotenv_values(".env").items()} | dict(os.environ)


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
