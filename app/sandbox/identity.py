"""The unprivileged user of a sandboxed process: a uid that no account has, without groups and capabilities."""

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
"""Accounts, services and containers get lower numbers; process ids end at 2**22, so each process has its own uid."""

FIRST_LOW_UID, LOW_UID_COUNT = 60_578, 600
"""For a user namespace that maps 65,536 uids alone; systemd leaves these free."""

_SETGID, _SETUID, _KILL = 1 << 6, 1 << 7, 1 << 5
_NEEDED_CAPABILITIES = _SETGID | _SETUID | _KILL
"""Without CAP_KILL the service could not end a process of another user."""

_SECUREBITS_WITHOUT_ROOT = 0b1110_1011
"""No capabilities for uid 0, none that survive a change of user, no ambient ones; each bit locked."""


def can_change_user() -> bool:
    """Return whether this process may become another user that its parent can still end."""
    return is_linux() and os.geteuid() == 0 and get_capabilities() & _NEEDED_CAPABILITIES == _NEEDED_CAPABILITIES


def compute_sandbox_uid(pid: int) -> int:
    """Return the uid, and gid, of the sandboxed process with this id."""
    return FIRST_UID + pid


def change_user() -> str | None:
    """Become the user that belongs to this process alone, without groups and capabilities, for good.

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
