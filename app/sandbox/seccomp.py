"""The system call filter (seccomp): a classic BPF program that the kernel runs before each system call.

``syscalls`` lists the calls with their treatment. A call that is not listed fails with ENOSYS, as on a kernel that does
not have the call: libraries then use an older call. The filter therefore also refuses the calls of future kernels.
"""

import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Callable, Iterator

from app.sandbox.kernel import PR_SET_SECCOMP, SECCOMP_MODE_FILTER, prctl, syscall
from app.sandbox.syscalls import Architecture, find_architecture

_LOAD, _JUMP_EQUAL, _JUMP_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x45, 0x54, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET, _ARGUMENTS_OFFSET = 0, 4, 16
"""Offsets in ``struct seccomp_data``."""

_X32_BIT = 0x40000000
_SET_MODE_FILTER, _ALL_THREADS = 1, 1

_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_TMPFILE", 0o20000000)
_THREAD_FLAGS = 0x00000100 | 0x00000800 | 0x00010000  # CLONE_VM, CLONE_SIGHAND, CLONE_THREAD
_NAMESPACE_FLAGS = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x80
_SAFE_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1034)
"""Allowed commands of fcntl: duplicate a descriptor, read and set flags, record locks, read seals.

F_SETOWN and F_SETSIG are missing, because they send signals to other processes.
"""

_SAFE_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Allowed requests of ioctl: detect a terminal, window size, bytes to read, blocking mode, close on exec."""

_SAFE_PRCTL = (3, 15, 16, 21, 23, 27, 39, 0x53564D41)
"""Allowed options of prctl: read dumpable, seccomp, bounding set, securebits and no-new-privs; set and read the name of
the thread; name a memory mapping.
"""

_Instruction = tuple[int, int, int, int]


def install_filter() -> str | None:
    """Install the filter permanently for all threads of this process. It needs PR_SET_NO_NEW_PRIVS.

    Returns:
        None if the filter is installed, else the reason why it is missing.
    """
    return _install(lambda architecture: _build_program(architecture, os.getpid()))


def install_program_filter() -> str | None:
    """Install a filter for another program, which this process executes next. It needs PR_SET_NO_NEW_PRIVS.

    The program may start processes and write files. It cannot use sockets, except local ones, and it cannot make the
    calls that kill a parser process.

    Returns:
        None if the filter is installed, else the reason why it is missing.
    """
    return _install(_build_program_filter)


def _install(build: Callable[[Architecture], list[_Instruction]]) -> str | None:
    architecture = find_architecture(platform.machine())
    if architecture is None or struct.calcsize("P") != 8:
        return f"the filter does not support the architecture {platform.machine()}"
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in build(architecture))
    memory = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(memory)))
    try:
        syscall(architecture.seccomp_number, _SET_MODE_FILTER, _ALL_THREADS, header)
    except OSError as exc:
        if not prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(header)):
            return f"the kernel refuses it ({exc.strerror})"
    return None


def _build_program_filter(architecture: Architecture) -> list[_Instruction]:
    """Return the filter of another program: everything is allowed, except sockets and fatal calls."""
    instructions = _check_architecture(architecture)
    numbers = architecture.denied_calls
    local_only = [
        _load_argument(0),
        (_JUMP_EQUAL, 0, 1, socket.AF_UNIX),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]
    instructions += _match_call(numbers["socket"], local_only)
    for number in architecture.fatal_calls.values():
        instructions += _match_call(number, [(_RETURN, 0, 0, _ERRNO | errno.EPERM)])
    return [*instructions, (_RETURN, 0, 0, _ALLOW)]


def _check_architecture(architecture: Architecture) -> list[_Instruction]:
    """Return instructions that kill the process for another architecture, and load the number of the call."""
    instructions: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_OFFSET),
        (_JUMP_EQUAL, 1, 0, architecture.audit_number),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_OFFSET),
    ]
    if architecture.name == "x86_64":
        instructions += [(_JUMP_ANY_BIT, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)]
    return instructions


def _build_program(architecture: Architecture, pid: int) -> list[_Instruction]:
    instructions = _check_architecture(architecture)
    for number in architecture.allowed_calls.values():
        instructions += _match_call(number, [(_RETURN, 0, 0, _ALLOW)])
    for name, number in architecture.checked_calls.items():
        instructions += _match_call(number, list(_check_arguments(name, pid)))
    for number in architecture.denied_calls.values():
        instructions += _match_call(number, [(_RETURN, 0, 0, _ERRNO | errno.EPERM)])
    for number in architecture.fatal_calls.values():
        instructions += _match_call(number, [(_RETURN, 0, 0, _KILL)])
    return [*instructions, (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]


def _match_call(number: int, body: list[_Instruction]) -> list[_Instruction]:
    """Return instructions that run ``body`` only for one system call. Every path of ``body`` ends with a return."""
    return [(_JUMP_EQUAL, 0, len(body), number), *body]


def _check_arguments(name: str, pid: int) -> Iterator[_Instruction]:
    """Yield the instructions that check the arguments of one call.

    They check the low 32 bits of an argument: the kernel ignores the high bits of these arguments too.
    """
    match name:
        case "open":
            yield from _refuse_bits(1, _WRITE_FLAGS)
        case "openat":
            yield from _refuse_bits(2, _WRITE_FLAGS)
        case "clone":
            yield from _require_bits(0, _THREAD_FLAGS | _NAMESPACE_FLAGS, _THREAD_FLAGS)
        case "fcntl":
            yield from _require_one_of(1, _SAFE_FCNTL, errno.EPERM)
        case "ioctl":
            yield from _require_one_of(1, _SAFE_IOCTL, errno.ENOTTY)
        case "prctl":
            yield from _require_one_of(0, _SAFE_PRCTL, errno.EPERM)
        case "prlimit64":
            yield from _require_one_of(0, (0, pid), errno.EPERM)
        case "kill" | "tgkill" | "rt_sigqueueinfo" | "rt_tgsigqueueinfo":
            yield from _require_one_of(0, (pid,), errno.EPERM)
        case _:
            raise ValueError(name)


def _load_argument(argument: int) -> _Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS_OFFSET + 8 * argument)


def _refuse_bits(argument: int, bits: int) -> list[_Instruction]:
    # O_TMPFILE includes the bit of O_DIRECTORY, which reading a directory needs. The bit can be ignored, because
    # O_TMPFILE works only together with a write mode.
    bits &= ~os.O_DIRECTORY
    return [
        _load_argument(argument),
        (_JUMP_ANY_BIT, 0, 1, bits),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _require_bits(argument: int, mask: int, value: int) -> list[_Instruction]:
    """Allow the call if ``argument & mask == value``."""
    return [
        _load_argument(argument),
        (_AND, 0, 0, mask),
        (_JUMP_EQUAL, 0, 1, value),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]


def _require_one_of(argument: int, values: tuple[int, ...], error: int) -> list[_Instruction]:
    instructions = [_load_argument(argument)]
    for value in values:
        instructions += [(_JUMP_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
    return [*instructions, (_RETURN, 0, 0, _ERRNO | error)]
