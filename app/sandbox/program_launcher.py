"""Launcher of another program in a sandbox: it gives up its rights, and executes the program in its own place.

``python -I -m app.sandbox.program_launcher`` reads one JSON object from standard input. The process gets an
unprivileged user and limits, no network, and access to one directory and to the programs of the system.
"""

import json
import os
import resource
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.sandbox import landlock
from app.sandbox.confinement import MAX_THREADS, NICENESS, die_with_parent
from app.sandbox.identity import can_change_user, change_user, compute_sandbox_uid
from app.sandbox.kernel import PR_SET_NO_NEW_PRIVS, is_linux, prctl
from app.sandbox.seccomp import install_program_filter

UNCONFINED_STATUS = 77
"""Exit status if the machine offers neither an own user nor Landlock, or no system call filter."""

_PROGRAM_DIRECTORIES = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/opt")
_READABLE_PATHS = (
    "/etc", "/proc", "/sys/devices/system/cpu", "/dev/urandom", "/dev/zero", "/var/cache/fontconfig",
    "/var/lib/libreoffice", "/var/spool/libreoffice",
)  # fmt: skip
_SOCKET_DIRECTORIES = ("/tmp",)  # noqa: S108  (LibreOffice creates its socket there, whatever its environment says)
_WRITABLE_PATHS = ("/dev/null",)


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """Limits of a program.

    Attributes:
        memory_mb: Maximum address space of each process in MiB.
        cpu_seconds: Maximum processor time of each process.
        file_mb: Maximum size of a file that the program writes, in MiB.
        open_files: Maximum number of open files of each process.
    """

    memory_mb: int
    cpu_seconds: int
    file_mb: int
    open_files: int = 512

    def to_json(self) -> dict[str, int]:
        """Return the limits as the launcher reads them."""
        return asdict(self)


def main() -> None:
    """Confine this process and execute the program, or exit with ``UNCONFINED_STATUS``."""
    request: dict[str, Any] = json.loads(sys.stdin.readline())
    directory = Path(request["directory"])
    _hand_over(directory)
    rules = _build_ruleset(directory, Path(request["command"][0]))
    _set_limits(ProgramLimits(**request["limits"]))
    has_own_user = is_linux() and change_user() is None
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    die_with_parent(request["parent"])
    has_closed_files = _enforce_ruleset(rules) or has_own_user
    if not has_closed_files or not is_linux() or install_program_filter() is not None:
        sys.exit(UNCONFINED_STATUS)
    os.chdir(directory)
    os.execve(request["command"][0], request["command"], request["environment"])  # noqa: S606  (no shell is needed)


def _enforce_ruleset(rules: landlock.Ruleset | None) -> bool:
    """Enforce the rules, and return whether they are in force."""
    if rules is None:
        return False
    try:
        rules.enforce()
    except OSError:
        return False
    return True


def _hand_over(directory: Path) -> None:
    """Make the files of the directory belong to the user that this process becomes."""
    if not can_change_user():
        return
    uid = compute_sandbox_uid(os.getpid())
    for path in (directory, *directory.rglob("*")):
        try:
            os.chown(path, uid, uid)
        except OSError:  # a user namespace without this user
            path.chmod(0o777 if path.is_dir() else 0o666)


def _build_ruleset(directory: Path, program: Path) -> landlock.Ruleset | None:
    version = landlock.find_version() if is_linux() else 0
    if not version:
        return None
    rules = landlock.Ruleset(version)
    programs = [Path(name) for name in _PROGRAM_DIRECTORIES]
    rules.allow_executing([*programs, program, program.resolve().parent])
    rules.allow_reading(Path(name) for name in _READABLE_PATHS)
    rules.allow_local_sockets(Path(name) for name in _SOCKET_DIRECTORIES)
    rules.allow_writing([directory, *(Path(name) for name in _WRITABLE_PATHS)])
    return rules


def _set_limits(limits: ProgramLimits) -> None:
    os.nice(NICENESS)
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, limits.memory_mb << 20),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_FSIZE, limits.file_mb << 20),
        (resource.RLIMIT_NOFILE, limits.open_files),
    ):
        resource.setrlimit(kind, (value, value))
    # The limit counts all processes of a user. Without a change of the user it would count those of the service.
    if can_change_user():
        resource.setrlimit(resource.RLIMIT_NPROC, (MAX_THREADS, MAX_THREADS))


if __name__ == "__main__":
    main()
