"""Gives a cluster's files from one user to another."""

import os
import shutil
import stat
from pathlib import Path

from app.embedded_postgres.account import Account


def give_away(directory: Path, giver: Account, taker: Account) -> None:
    """Give all of a directory to another user, the directory itself last: what was cut off is done again.

    No Postgres may run in it. Links are not followed. Raises OSError.
    """
    if giver.uid == taker.uid:
        return
    for _, directories, files, descriptor in os.fwalk(directory, follow_symlinks=False):
        for name in (*directories, *files):
            os.chown(name, taker.uid, taker.gid, dir_fd=descriptor, follow_symlinks=False)
    taker.own(directory)


def can_be_given(directory: Path, giver: Account, taker: Account) -> bool:
    """Return whether all below a directory belongs to one of the two, and no link leads out of it. Raises OSError."""
    owners = {giver.uid, taker.uid}
    for _, directories, files, descriptor in os.fwalk(directory, follow_symlinks=False):
        for name in (*directories, *files):
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if found.st_uid not in owners or stat.S_ISLNK(found.st_mode):
                return False
    return True


def move_cluster(pgdata: Path, sockets: Path, account: Account) -> Account:
    """Give a cluster that exists to the user that it should have, and return the user that it has now.

    It stays where it is only if somebody has put links or files of others into it. Raises OSError.
    """
    taker = account.successor()
    if taker.uid == account.uid or not pgdata.exists():
        return account
    if not can_be_given(pgdata, account, taker):
        return account
    if sockets.is_dir() and sockets.lstat().st_uid == account.uid:
        shutil.rmtree(sockets)  # made anew, of the other user's
    give_away(pgdata, account, taker)
    return taker
