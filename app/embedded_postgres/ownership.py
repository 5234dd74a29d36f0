"""Gives a cluster's files from one user to another."""

import os
import shutil
import stat
from pathlib import Path

from app.embedded_postgres.account import Account


def transfer_ownership(directory: Path, old_owner: Account, new_owner: Account) -> None:
    """Give all of a directory to another user, the directory itself last: what was cut off is done again.

    No Postgres may run in it. Links are not followed. Raises OSError.
    """
    if old_owner.uid == new_owner.uid:
        return
    for _, directories, files, descriptor in os.fwalk(directory, follow_symlinks=False):
        for name in (*directories, *files):
            os.chown(name, new_owner.uid, new_owner.gid, dir_fd=descriptor, follow_symlinks=False)
    new_owner.take_ownership(directory)


def can_transfer_ownership(directory: Path, old_owner: Account, new_owner: Account) -> bool:
    """Return whether all below a directory belongs to one of the two, and no link leads out of it. Raises OSError."""
    owners = {old_owner.uid, new_owner.uid}
    for _, directories, files, descriptor in os.fwalk(directory, follow_symlinks=False):
        for name in (*directories, *files):
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if status.st_uid not in owners or stat.S_ISLNK(status.st_mode):
                return False
    return True


def transfer_cluster(pgdata: Path, sockets: Path, account: Account) -> Account:
    """Give a cluster that exists to the user that it should have, and return the user that it has now.

    It stays where it is only if somebody has put links or files of others into it. Raises OSError.
    """
    new_owner = account.choose_successor()
    if new_owner.uid == account.uid or not pgdata.exists():
        return account
    if not can_transfer_ownership(pgdata, account, new_owner):
        return account
    if sockets.is_dir() and sockets.lstat().st_uid == account.uid:
        shutil.rmtree(sockets)  # made anew, of the other user's
    transfer_ownership(pgdata, account, new_owner)
    return new_owner
