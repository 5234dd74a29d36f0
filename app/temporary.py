"""Folders for what is on its way: uploads, originals that are read, documents of an archive."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

from app.errors import Unavailable
from app.settings.environment import temporary_directory

Purpose = Literal["ingest", "upload", "import"]
PREFIXES: tuple[str, ...] = tuple(f"carrel-{purpose}-" for purpose in get_args(Purpose))
"""How their names begin: what killed processes leave is found by it."""


class TemporaryFull(Unavailable):
    """The disk for temporary files is full; try again when there is room."""

    code = "temporary_full"


@contextmanager
def temporary_folder(purpose: Purpose) -> Iterator[Path]:
    """A folder that goes with the block. Raises TemporaryFull for what finds no room in it."""
    try:
        with tempfile.TemporaryDirectory(prefix=f"carrel-{purpose}-", dir=temporary_directory()) as folder:
            yield Path(folder)
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            raise TemporaryFull from exc
        raise


def create_private(path: str, flags: int) -> int:
    """Open a file as ``opener`` of ``open``: if it is created, no other user can read it."""
    return os.open(path, flags, 0o600)


def temporary_file(folder: Path, name: str) -> Path:
    """Create an empty file that no other user can read; writing to it later keeps its mode."""
    path = folder / name
    path.touch(mode=0o600)
    return path
