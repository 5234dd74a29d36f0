"""Transfer of a cluster's files from one user to another."""

import os
import shutil
import stat
from pathlib import Path

from app.embedded_postgres.account import Account


def transfer_ownership(directory: Path, old_owner: Account, new_owner: Account) -> None:
    """Give a directory and everything in it to another user. Links are not followed.

    The owner of the directory itself changes last, so the next start notices an interrupted transfer and repeats it.

    Args:
        directory: The directory. No Postgres may use it.
        old_owner: The present owner.
        new_owner: The future owner.

    Raises:
        OSError: A file cannot be changed.
    """
    if old_owner.uid == new_owner.uid:
        return
    for _, directories, files, descriptor in os.fwalk(directory, follow_symlinks=False):
        for name in (*directories, *files):
            os.chown(name, new_owner.uid, new_owner.gid, dir_fd=descriptor, follow_symlinks=False)
    new_owner.take_ownership(directory)


def can_transfer_ownership(directory: Path, old_owner: Account, new_owner: Account) -> bool:
    """Return whether everything in a directory belongs to one of two users, and no link exists. Raises OSError.

    Args:
        directory: The directory.
        old_owner: The present owner.
        new_owner: The future owner.
    """
    owners = {old_owner.uid, new_owner.uid}
    for _, directories, files, descriptor in os.fwalk(directory, follow_symlinks=False):
        for name in (*directories, *files):
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if status.st_uid not in owners or stat.S_ISLNK(status.st_mode):
                return False
    return True


def transfer_cluster(pgdata: Path, sockets: Path, account: Account) -> Account:
    """Give an existing cluster to the user that should own it, and return its owner.

    The owner does not change if the cluster contains links or files of other users.

    Args:
        pgdata: Postgres' data directory.
        sockets: Directory of the Unix socket. It is deleted if it belongs to the old owner.
        account: The present owner.

    Raises:
        OSError: A file cannot be changed.
    """
    new_owner = account.choose_successor()
    if new_owner.uid == account.uid or not pgdata.exists():
        return account
    if not can_transfer_ownership(pgdata, account, new_owner):
        return account
    if sockets.is_dir() and sockets.lstat().st_uid == account.uid:
        shutil.rmtree(sockets)  # created again for the new owner
    transfer_ownership(pgdata, account, new_owner)
    return new_owner
