"""Kernel interfaces that Python's standard library lacks: prctl, capabilities and raw system calls, through ctypes."""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2

_CAPABILITY_VERSION = 0x20080522
_LAST_CAPABILITY = 63


def is_linux() -> bool:
    """Return whether this process runs on Linux; the other functions of this module need Linux."""
    return sys.platform == "linux"


def load_libc() -> ctypes.CDLL:
    """Return the C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


def prctl(option: int, *arguments: int) -> bool:
    """Call prctl(2) and return whether it succeeded; false on other platforms than Linux."""
    if not is_linux():
        return False
    values = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]]
    return bool(load_libc().prctl(ctypes.c_int(option), *values) == 0)


def syscall(number: int, *arguments: object) -> int:
    """Make a system call.

    Args:
        number: Number of the system call on this architecture.
        arguments: Integers, or ctypes values such as buffers.

    Returns:
        The result of the call, 0 or more.

    Raises:
        OSError: The call failed.
    """
    library = load_libc()
    library.syscall.restype = ctypes.c_long
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = library.syscall(ctypes.c_long(number), *values)
    if result < 0:
        error_number = ctypes.get_errno()
        raise OSError(error_number, os.strerror(error_number))
    return int(result)


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def get_capabilities() -> int:
    """Return the effective capabilities of this process as a bit mask; 0 if they are unknown."""
    header, data = _CapabilityHeader(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if not is_linux() or load_libc().capget(ctypes.byref(header), data) != 0:
        return 0
    return int(data[0]) | int(data[3]) << 32


def drop_bounding_set() -> None:
    """Drop the bounding set, so that programs that this process executes gain no capability; needs CAP_SETPCAP."""
    for number in range(_LAST_CAPABILITY + 1):
        prctl(PR_CAPBSET_DROP, number)


def drop_capabilities() -> None:
    """Give up every capability of this process. Raises OSError if the kernel refuses."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header, data = _CapabilityHeader(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if load_libc().capset(ctypes.byref(header), data) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def protect_memory() -> None:
    """Protect memory, environment and descriptors of this process from other processes of the same user.

    The kernel then writes no core dump of this process, and only root can attach a debugger or profiler. The setting
    ends when the process executes another program. On other platforms than Linux the function does nothing.
    """
    prctl(PR_SET_DUMPABLE, 0)
