"""Processes that a sandboxed process left behind. Without a system call filter it could start some.

The service adopts orphans of its descendants, and knows those of the sandbox by a limit that they inherit and that no
process can raise again: files of no length.
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
    """Become the parent of descendants whose own parent ends; other platforms than Linux have no such thing."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def kill_orphans(active_pids: Collection[int]) -> int:
    """Kill the adopted processes of the sandbox, and those that they started; returns how many there were.

    Args:
        known: Process ids of sandboxed processes that are in use.
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
