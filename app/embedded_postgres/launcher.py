"""Program of a child process: change the user, bind its life to the parent process, and execute another program.

Usage: ``launcher.py PARENT UID GID PROGRAM ARGUMENT…`` or ``launcher.py PARENT UID GID --reach PATH…``. With UID ``-``
the user does not change. The second form prints the first path that the user cannot enter (directory) or read (file),
and exits with 1.

The user changes first, because the kernel then clears the parent-death signal. A separate program does this, because
code between fork and exec would run among the threads of the service. It needs no tool such as ``setpriv``. Only the
standard library is imported, before the user changes: afterwards the interpreter's files may be unreadable.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
# The environment of the service contains secrets, so Postgres inherits none of it.
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C"}


def _switch_user(uid: int, gid: int) -> None:
    os.setgroups([gid])
    os.setgid(gid)
    os.setuid(uid)


def _exit_with_parent(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent process is gone")


def _print_unreachable_path(paths: list[str]) -> int:
    for path in paths:
        if not os.access(path, os.X_OK if os.path.isdir(path) else os.R_OK):  # noqa: PTH112 - pathlib is slow to import
            sys.stdout.write(path)
            return 1
    return 0


def _main(parent: str, uid: str, gid: str, program: str, *arguments: str) -> int:
    if uid != "-":
        _switch_user(int(uid), int(gid))
    if program == "--reach":
        return _print_unreachable_path(list(arguments))
    _exit_with_parent(int(parent))
    return os.execve(program, [program, *arguments], ENVIRONMENT)  # noqa: S606 - no shell is the intention


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
