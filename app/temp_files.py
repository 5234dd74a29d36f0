"""Folders for what is on its way: uploads, originals that are read, documents of an archive."""

import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, get_args

from app.errors import UnavailableError
from app.settings.environment import find_temporary_directory

Purpose = Literal["ingest", "upload", "import"]
DIRECTORY_PREFIXES: tuple[str, ...] = tuple(f"carrel-{purpose}-" for purpose in get_args(Purpose))
"""How their names begin: what killed processes leave is found by it."""


# Part of the names of folders that are locked; those of earlier versions are not.
LOCKED_MARKER = "locked-"
# Between the creation of a folder and its lock lies a moment.
MIN_AGE_SECONDS = 2.0


class TempDiskFull(UnavailableError):
    """The disk for temporary files is full; try again when there is room."""

    code = "temp_disk_full"


@contextmanager
def create_temp_directory(purpose: Purpose) -> Iterator[Path]:
    """A folder that goes with the block. Raises TempDiskFull for what finds no room in it.

    The process holds a lock on the folder, which ends with the process: a folder without it belongs to nobody.
    """
    prefix = f"carrel-{purpose}-{LOCKED_MARKER}"
    try:
        with (
            tempfile.TemporaryDirectory(prefix=prefix, dir=find_temporary_directory()) as folder,
            _lock_directory(folder),
        ):
            yield Path(folder)
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            raise TempDiskFull from exc
        raise


@contextmanager
def _lock_directory(folder: str) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # who looks after folders may have it for a moment
        yield
    finally:
        os.close(descriptor)


def is_abandoned(folder: Path) -> bool:
    """Return whether the process that made the folder is gone; False too for folders that were never locked."""
    if f"-{LOCKED_MARKER}" not in folder.name or folder.is_symlink():
        return False
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # it has just gone, or is another user's
        return False
    try:
        if time.time() - os.fstat(descriptor).st_mtime < MIN_AGE_SECONDS:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def count_abandoned(directory: Path) -> int:
    """Count the locked folders of this user in ``directory`` whose process is gone, the youngest ones too."""
    count = 0
    for path in directory.glob(f"carrel-*-{LOCKED_MARKER}*"):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                count += os.fstat(descriptor).st_uid == os.getuid()
            finally:
                os.close(descriptor)
    return count


def open_private_file(path: str, flags: int) -> int:
    """Open a file as ``opener`` of ``open``: if it is created, no other user can read it."""
    return os.open(path, flags, 0o600)


def create_temp_file(folder: Path, name: str) -> Path:
    """Create an empty file that no other user can read; writing to it later keeps its mode."""
    path = folder / name
    path.touch(mode=0o600)
    return path
