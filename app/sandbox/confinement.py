"""Confinement: a process gives up its rights before it reads untrusted bytes, and cannot get them back.

The measures are an unprivileged user, resource limits, Landlock and a system call filter. The result lists each measure
that the platform lacks, so that a weak confinement is never silent.
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
    """Limits of a sandboxed process.

    Attributes:
        memory_mb: Maximum address space in MiB.
        max_open_files: Maximum number of open file descriptors.
        readable_paths: Files and directories that the process may read, in addition to code and system libraries.
        modules: Modules that the process imports after the confinement, so that it may read their code. The code of
            modules that are already imported is readable anyway.
    """

    memory_mb: int
    max_open_files: int = 64
    readable_paths: tuple[Path, ...] = ()
    modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Confinement:
    """Confinement measures that are in force for a process.

    Attributes:
        own_user: Whether the process runs as a user that no other process has.
        system_call_filter: Whether the seccomp filter is installed.
        landlock: Version of Landlock that restricts the process; 0 if Landlock is not in force.
        missing: One text for each missing measure, with the reason.
    """

    own_user: bool
    system_call_filter: bool
    landlock: int
    missing: tuple[str, ...] = ()

    @property
    def level(self) -> str:
        """``full`` if the kernel limits both system calls and file access, ``partial`` if one of them, or ``none``."""
        files = self.own_user or self.landlock > 0
        return (
            "full" if self.system_call_filter and files else "partial" if self.system_call_filter or files else "none"
        )

    def describe(self) -> str:
        """Return a readable line with the measures in force and the missing measures."""
        measures = {
            "own user": self.own_user,
            "system call filter": self.system_call_filter,
            f"Landlock {self.landlock}": self.landlock > 0,
        }
        in_force = ", ".join(name for name, is_active in measures.items() if is_active) or "nothing"
        return "; ".join([f"in force: {in_force}", *(f"missing {reason}" for reason in self.missing)])

    @classmethod
    def from_message(cls, message: Any) -> Self:
        """Return the confinement that a process reported as the dictionary of ``asdict``.

        Raises KeyError, TypeError or ValueError if the message is not such a dictionary.
        """
        missing = tuple(str(reason)[:200] for reason in message["missing"][:10])
        return cls(bool(message["own_user"]), bool(message["system_call_filter"]), int(message["landlock"]), missing)


class ConfinedProcess:
    """The current process after its confinement.

    It resolves paths to files below directories that the unprivileged user cannot enter.
    """

    def __init__(self, confinement: Confinement, path_resolver: DescriptorPathResolver) -> None:
        self.confinement = confinement
        self._path_resolver = path_resolver

    def resolve_path(self, path: str) -> str:
        """Return a path by which this process can open one of its readable paths; an empty path stays empty."""
        return self._path_resolver.resolve_path(path) if path else path


def confine(limits: SandboxLimits, *, parent: int) -> ConfinedProcess:
    """Confine this process permanently. The kernel kills the process when its parent ends.

    Import all modules first: the confined process can read only the files that the limits allow.

    Args:
        limits: Limits of the process.
        parent: Process id of the parent. If the parent has already ended, this process exits.

    Returns:
        The confined process, with the measures that are in force and the missing measures.
    """
    gc.freeze()
    sys.dont_write_bytecode = True
    os.nice(NICENESS)  # the API answers requests first
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
    reason = install_filter() if is_linux() else "only Linux supports it"
    if reason:
        missing.append(f"system call filter: {reason}")
    sys.addaudithook(_refuse_forbidden_event)
    return ConfinedProcess(Confinement(own_user, reason is None, version, tuple(missing)), path_resolver)


def limit_cpu_time(seconds: int) -> None:
    """Limit the processor time of the next request, and nothing after it.

    Only the soft limit is set, so that the next request can raise it.

    Args:
        seconds: Processor time from now on until the kernel kills this process.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def die_with_parent(parent: int) -> None:
    """Make the kernel kill this process when its parent ends; exit if the parent has already ended."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before prctl took effect
        sys.exit(1)


def _harden_process(parent: int) -> None:
    """Protect the memory of this process, deny it new rights, and let it end with its parent.

    ``die_with_parent`` is called a second time because the kernel clears its setting when the user changes.
    """
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_DUMPABLE, 0)
    die_with_parent(parent)


def _set_resource_limits(limits: SandboxLimits) -> None:
    memory = limits.memory_mb << 20
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits.max_open_files, limits.max_open_files))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    # RLIMIT_NPROC counts all threads of a user. Without a change of the user it would count the service's threads.
    if is_linux() and os.geteuid() == 0:
        resource.setrlimit(resource.RLIMIT_NPROC, (MAX_THREADS, MAX_THREADS))


def _build_ruleset(readable: Sequence[Path], missing: list[str]) -> landlock.Ruleset | None:
    version = landlock.find_version() if is_linux() else 0
    if not version:
        missing.append("landlock: the kernel, or the runtime of this container, does not support it")
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
    """Raise PermissionError for a Python audit event that starts a process or uses a socket.

    The system call filter refuses these calls too. The hook gives a clearer error, and works if the filter is missing.
    """
    if event.startswith("socket.") or event in _FORBIDDEN_EVENTS:
        raise PermissionError(f"{event} is not allowed in a sandboxed process")
