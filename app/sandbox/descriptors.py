"""Sealed copies: file descriptors that a process of another user can read and no process can change."""

import asyncio
import fcntl
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_MAX_SMALL_BYTES = 256 * 1024
_NO_EXECUTE_SEAL = 0x8
_SEALS = 0x1 | 0x2 | 0x4 | 0x8
"""F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE."""


@asynccontextmanager
async def create_sealed_copy(path: Path) -> AsyncIterator[int | None]:
    """Copy a file to a read-only memory file, which exists until the block ends.

    A sandboxed process could read from a descriptor of the file itself, but libraries open files by name. Opening by
    name needs rights on the file, which the sandboxed process lacks. Opening ``/proc/self/fd/N`` of the copy needs
    rights on the copy only.

    Args:
        path: File to copy.

    Yields:
        The descriptor of the copy; None on a platform without memory files.

    Raises:
        OSError: The file cannot be read.
    """
    if not hasattr(os, "memfd_create"):
        yield None
        return
    if _is_small(path):  # copying a small file takes less time than starting a thread
        descriptor = _copy_to_memory(path)
    else:
        descriptor = await _copy_in_thread(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_small(path: Path) -> bool:
    return path.stat().st_size <= _MAX_SMALL_BYTES


async def _copy_in_thread(path: Path) -> int:
    copy_task = asyncio.ensure_future(asyncio.to_thread(_copy_to_memory, path))
    try:
        return await asyncio.shield(copy_task)
    except asyncio.CancelledError:
        copy_task.add_done_callback(_close_result)
        raise


def _close_result(copy_task: asyncio.Future[int]) -> None:
    if not copy_task.cancelled() and copy_task.exception() is None:
        os.close(copy_task.result())


def _copy_to_memory(path: Path) -> int:
    descriptor = _create_memory_file()
    try:
        with path.open("rb") as original, os.fdopen(descriptor, "wb", closefd=False) as target:
            shutil.copyfileobj(original, target, 1 << 20)
        os.fchmod(descriptor, 0o444)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _create_memory_file() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("document", flags | _NO_EXECUTE_SEAL)
    except OSError:  # before Linux 6.3
        return os.memfd_create("document", flags)
