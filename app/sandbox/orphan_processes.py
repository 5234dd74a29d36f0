"""Cleanup of processes that a sandboxed process started and left running.

A sandboxed process can start processes only if the system call filter is missing. The service becomes the parent of
such processes when their own parent ends. It recognizes them by a limit that they inherit and cannot raise: a maximum
file size of 0.
"""

import os
import signal
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from app.sandbox.kernel import PR_SET_CHILD_SUBREAPER, prctl

_MAX_ROUNDS = 1000
_FILE_SIZE_LIMIT = "Max file size"


def adopt_orphans() -> None:
    """Make this process the parent of each descendant whose parent ends; do nothing on platforms other than Linux."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def kill_orphans(active_pids: Collection[int]) -> int:
    """Kill the adopted processes of the sandbox and their descendants.

    Killing a process makes its children orphans, so the function repeats until it finds no more.

    Args:
        active_pids: Process ids of sandboxed processes that are in use.

    Returns:
        The number of killed processes.
    """
    killed_count = 0
    for _ in range(_MAX_ROUNDS):
        pids = [pid for pid in _iter_child_pids() if pid not in active_pids and _is_sandboxed(pid)]
        if not pids:
            break
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                killed_count += 1
    return killed_count


def _iter_child_pids() -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                yield int(entry.name)


def _is_sandboxed(pid: int) -> bool:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/limits").read_text().splitlines():
            if line.startswith(_FILE_SIZE_LIMIT):
                return line.removeprefix(_FILE_SIZE_LIMIT).split()[:2] == ["0", "0"]
    return False
