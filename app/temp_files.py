"""Temporary folders for uploads, originals that are being parsed or drawn, and documents of archives."""

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

Purpose = Literal["ingest", "upload", "import", "render"]
DIRECTORY_PREFIXES: tuple[str, ...] = tuple(f"carrel-{purpose}-" for purpose in get_args(Purpose))
"""Prefixes of the names, by which the folders of killed processes are found."""


# Part of the names of locked folders. Folders of earlier versions are not locked.
LOCKED_MARKER = "locked-"
# A folder is locked a moment after its creation, so younger folders count as in use.
MIN_AGE_SECONDS = 2.0


class TempDiskFull(UnavailableError):
    """The disk for temporary files is full. Try again later, or free space."""

    code = "temp_disk_full"


@contextmanager
def create_temp_directory(purpose: Purpose) -> Iterator[Path]:
    """Yield a folder that is deleted at the end of the block.

    The process locks the folder, and the lock ends with the process. A folder that is no longer locked is therefore
    abandoned.

    Args:
        purpose: Use of the folder, which is part of its name.

    Raises:
        TempDiskFull: The disk is full. The error of a write inside the block is translated too.
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
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # the sweeper may hold the lock for a moment
        yield
    finally:
        os.close(descriptor)


def is_abandoned(folder: Path) -> bool:
    """Return whether the process that created a folder has ended. Folders that were never locked are not abandoned.

    Args:
        folder: The folder. Links, and folders younger than two seconds, are not abandoned.
    """
    if f"-{LOCKED_MARKER}" not in folder.name or folder.is_symlink():
        return False
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # it was just deleted, or belongs to another user
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
    """Return the number of this user's abandoned folders in a directory, including the youngest.

    Args:
        directory: Parent of the folders.
    """
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
    """Open a file as the ``opener`` of the built-in ``open``. If the file is created, no other user can read it."""
    return os.open(path, flags, 0o600)


def create_temp_file(folder: Path, name: str) -> Path:
    """Create an empty file that no other user can read, and return its path. Writing to it does not change its mode."""
    path = folder / name
    path.touch(mode=0o600)
    return path
