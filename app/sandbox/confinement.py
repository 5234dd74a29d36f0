"""What a sandboxed process does to itself before it reads a hostile byte: user, limits, Landlock, system call filter.

Each measure that the platform lacks is named, never passed over. The measures can't be undone by the process.
"""

import gc
import os
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from app.sandbox import landlock
from app.sandbox.directory_access import DescriptorPathResolver, list_code_paths, list_system_paths
from app.sandbox.identity import change_user
from app.sandbox.kernel import PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, is_linux, prctl
from app.sandbox.seccomp import install_filter

NICENESS = 10
MAX_THREADS = 64
_FORBIDDEN_EVENTS = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn"}
)


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits of a sandboxed process: address space in MiB, open files, and the paths that it may read.

    ``modules`` are imported later; their code may be read too. Code that is loaded already needs no mention.
    """

    memory_mb: int
    max_open_files: int = 64
    readable_paths: tuple[Path, ...] = ()
    modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Confinement:
    """The measures in force: own user, system call filter, version of Landlock (0: none); and what is missing, why."""

    own_user: bool
    system_call_filter: bool
    landlock: int
    missing: tuple[str, ...] = ()

    @property
    def level(self) -> str:
        """``full``: filter and file access are limited by the kernel; ``partial``: one of them; ``none``."""
        files = self.own_user or self.landlock > 0
        return (
            "full" if self.system_call_filter and files else "partial" if self.system_call_filter or files else "none"
        )

    def describe(self) -> str:
        """Return the measures in one line for people."""
        measures = {
            "own user": self.own_user,
            "system call filter": self.system_call_filter,
            f"Landlock {self.landlock}": self.landlock > 0,
        }
        in_force = ", ".join(name for name, is_active in measures.items() if is_active) or "nothing"
        return "; ".join([f"in force: {in_force}", *(f"missing {reason}" for reason in self.missing)])

    @classmethod
    def from_message(cls, message: Any) -> Self:
        """Read what ``asdict`` made. Raises KeyError, TypeError, ValueError for anything else."""
        missing = tuple(str(reason)[:200] for reason in message["missing"][:10])
        return cls(bool(message["own_user"]), bool(message["system_call_filter"]), int(message["landlock"]), missing)


class ConfinedProcess:
    """The confinement that this process has put on itself, and the way to files that its new user cannot reach."""

    def __init__(self, confinement: Confinement, path_resolver: DescriptorPathResolver) -> None:
        self.confinement = confinement
        self._path_resolver = path_resolver

    def resolve_path(self, path: str) -> str:
        """Return a path that this process can open, for one of the readable paths."""
        return self._path_resolver.resolve_path(path) if path else path


def confine(limits: SandboxLimits, *, parent: int) -> ConfinedProcess:
    """Confine this process for good; it ends when the process ``parent`` does. Import everything else before.

    Args:
        limits: What the process needs.
        parent: The process id of the parent; a process whose parent has gone exits.

    Returns:
        The measures that are in force, and those that this platform lacks.
    """
    gc.freeze()
    sys.dont_write_bytecode = True
    os.nice(NICENESS)  # interactive work goes first
    missing: list[str] = []
    readable = [*list_code_paths(limits.modules), *limits.readable_paths]
    rules = _build_ruleset(readable, missing)
    path_resolver = DescriptorPathResolver(readable if is_linux() else (), limits.modules)
    _set_resource_limits(limits)
    if is_linux() and (reason := change_user()):
        missing.append(f"user: {reason}")
    own_user = is_linux() and not any(reason.startswith("user:") for reason in missing)
    path_resolver.redirect_imports()
    _harden_process(parent)
    version = _enforce_ruleset(rules, missing)
    reason = install_filter() if is_linux() else "this platform has none"
    if reason:
        missing.append(f"system call filter: {reason}")
    sys.addaudithook(_refuse_forbidden_event)
    return ConfinedProcess(Confinement(own_user, reason is None, version, tuple(missing)), path_resolver)


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent dies. Exits if the parent has gone already."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above took effect
        sys.exit(1)


def _harden_process(parent: int) -> None:
    """Gain no rights, show no memory, die with the parent; the kernel forgets the last when the user changes."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_DUMPABLE, 0)
    die_with_parent(parent)


def _set_resource_limits(limits: SandboxLimits) -> None:
    memory = limits.memory_mb << 20
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits.max_open_files, limits.max_open_files))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    if is_linux() and os.geteuid() == 0:  # it counts per user: elsewhere it would count the service's own threads
        resource.setrlimit(resource.RLIMIT_NPROC, (MAX_THREADS, MAX_THREADS))


def _build_ruleset(readable: Sequence[Path], missing: list[str]) -> landlock.Ruleset | None:
    version = landlock.find_version() if is_linux() else 0
    if not version:
        missing.append("landlock: the kernel, or the runtime of this container, offers none")
        return None
    rules = landlock.Ruleset(version)
    rules.allow_reading([*readable, *list_system_paths()])
    return rules


def _enforce_ruleset(rules: landlock.Ruleset | None, missing: list[str]) -> int:
    if rules is None:
        return 0
    try:
        rules.enforce()
    except OSError as exc:
        missing.append(f"landlock: the kernel refuses it ({exc.strerror})")
        return 0
    return rules.version


def _refuse_forbidden_event(event: str, _arguments: tuple[Any, ...]) -> None:
    """Refuse in Python what the filter refuses anyway: a clearer error, and a hint where there is no filter."""
    if event.startswith("socket.") or event in _FORBIDDEN_EVENTS:
        raise PermissionError(f"{event} is not allowed in a sandboxed process")
