"""The unprivileged user of a sandboxed process: a user id without account, groups and capabilities."""

import os
from contextlib import suppress

from app.sandbox.kernel import (
    PR_SET_SECUREBITS,
    drop_bounding_set,
    drop_capabilities,
    get_capabilities,
    is_linux,
    prctl,
)

FIRST_UID = 1_900_000_000
"""User id of a sandboxed process minus its process id.

Accounts, services and containers have lower user ids. Process ids are below 2**22, so each process has another user id.
"""

FIRST_LOW_UID, LOW_UID_COUNT = 60_578, 600
"""Range of user ids for a user namespace that maps only 65,536 ids; systemd does not assign them."""

_SETGID, _SETUID, _KILL = 1 << 6, 1 << 7, 1 << 5
_NEEDED_CAPABILITIES = _SETGID | _SETUID | _KILL
"""Capabilities that the change of the user needs. Without CAP_KILL the service could not kill the process later."""

_SECUREBITS_WITHOUT_ROOT = 0b1110_1011
"""Value for PR_SET_SECUREBITS, with the bits that make it permanent.

The bits give uid 0 no capabilities, drop the capabilities when the user changes, and forbid ambient capabilities.
"""


def can_change_user() -> bool:
    """Return whether this process can change to another user and its parent can still kill it."""
    return is_linux() and os.geteuid() == 0 and get_capabilities() & _NEEDED_CAPABILITIES == _NEEDED_CAPABILITIES


def compute_sandbox_uid(pid: int) -> int:
    """Return the user id of the sandboxed process with this process id; its group id is the same number."""
    return FIRST_UID + pid


def change_user() -> str | None:
    """Change permanently to a user id for this process, without groups and capabilities.

    In a user namespace of 65,536 ids, two processes can get the same user id.

    Returns:
        None, or the reason why the user did not change.
    """
    reason = _change_user()
    with suppress(OSError):
        drop_capabilities()
    return reason


def _change_user() -> str | None:
    if os.geteuid() != 0:
        return "the service does not run as root"
    if not can_change_user():
        return "the service lacks the capabilities SETUID, SETGID and KILL"
    prctl(PR_SET_SECUREBITS, _SECUREBITS_WITHOUT_ROOT)
    drop_bounding_set()
    reason = ""
    for uid in (compute_sandbox_uid(os.getpid()), FIRST_LOW_UID + os.getpid() % LOW_UID_COUNT):
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        except OSError as exc:
            reason = f"the kernel refuses another user ({exc.strerror})"
        else:
            return None
    return reason
