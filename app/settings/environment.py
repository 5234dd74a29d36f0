"""What the process is given from outside: variables, and the place for what can be fetched again."""

import os
from pathlib import Path

from dotenv import dotenv_values


def environment() -> dict[str, str]:
    """The process's variables, and below them those of ``.env`` where it was started."""
    return {name: value or "" for name, value in dotenv_values(".env").items()} | dict(os.environ)


def user_cache_dir() -> Path:
    """Where this user's programs keep what they can fetch again (XDG Base Directory Specification)."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given) if given.startswith("/") else Path.home() / ".cache"
