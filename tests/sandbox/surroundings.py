"""Surroundings that the tests' own machine may not have: an ordinary user, and a runtime that refuses confinement."""

import ctypes
import errno
import os
import struct

from app.sandbox.kernel import PR_SET_NO_NEW_PRIVS, prctl, syscall

PLAIN_UID = 54_321
_KEEP_CAPABILITIES, _AMBIENT, _RAISE = 8, 47, 2
_READ_SEARCH = 2
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_PRCTL = {"x86_64": 157, "aarch64": 167}


def become_plain_user() -> None:
    """Become a user without rights except for reading, because the interpreter of the tests may be root's alone.

    A sandboxed process gives this capability up like any other.
    """
    prctl(_KEEP_CAPABILITIES, 1)
    os.setgroups([])
    os.setresgid(PLAIN_UID, PLAIN_UID, PLAIN_UID)
    os.setresuid(PLAIN_UID, PLAIN_UID, PLAIN_UID)
    header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))
    bits = 1 << _READ_SEARCH
    data = ctypes.create_string_buffer(struct.pack("6I", bits, bits, bits, 0, 0, 0))
    if ctypes.CDLL(None, use_errno=True).capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    if not prctl(_AMBIENT, _RAISE, _READ_SEARCH):
        raise OSError("the capability cannot be passed on")


def refuse_confinement(*, filters: bool, landlock: bool) -> None:
    """Make the kernel refuse further filters or Landlock from now on, as a container's runtime may."""
    machine = os.uname().machine
    program = [(0x20, 0, 0, 0)]
    refused = [_SECCOMP[machine]] if filters else []
    refused += [444, 445, 446] if landlock else []
    for number in refused:
        program += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | errno.EPERM)]
    if filters:  # prctl(PR_SET_SECCOMP)
        program += [(0x15, 0, 4, _PRCTL[machine]), (0x20, 0, 0, 16), (0x15, 0, 1, 22)]
        program += [(0x06, 0, 0, 0x00050000 | errno.EINVAL), (0x06, 0, 0, 0x7FFF0000)]
    program.append((0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    syscall(_SECCOMP[machine], 1, 0, header)
