"""Where a data directory's cluster lives, who may own it, and the locks that prove it."""

import fcntl
import hashlib
import os
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from app.embedded_postgres.account import Account
from app.embedded_postgres.binaries import Binaries
from app.embedded_postgres.errors import ClusterUnusable, DataDirectoryInUse
from app.embedded_postgres.ownership import move_cluster
from app.logging import get_logger

logger = get_logger(__name__)

AWAY = Path("/var/lib/carrel")
# sun_path holds 108 bytes on Linux and 104 on macOS, its end included.
_SOCKET_PATH_LIMIT = 100
_LONGEST_SOCKET_NAME = ".s.PGSQL.65535.lock"
_SHUTDOWN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Place:
    """One cluster's directory and what goes with it; ``relocated`` where it is not below the data directory.

    ``server_lock`` is a locked descriptor for Postgres to inherit: its processes hold the lock as long as one lives.
    """

    location: Path
    sockets: Path
    binaries: Binaries
    account: Account
    relocated: bool
    server_lock: int

    @property
    def pgdata(self) -> Path:
        """Postgres' own data directory."""
        return self.location / "pgdata"

    @property
    def log(self) -> Path:
        """What initdb and the server have to say."""
        return self.location / "postgres.log"

    @classmethod
    def claim(cls, data_dir: Path, binaries: Binaries, locks: ExitStack) -> Self:
        """Lock ``data_dir`` (absolute, resolved) until ``locks`` is closed, and choose or find its cluster's place.

        A cluster that exists stays where it is. A new one goes below the data directory, or where Postgres' user
        cannot reach that or the programs, below ``/var/lib/carrel``. Missing directories are made, the modes of
        existing ones never change. Raises DataDirectoryInUse, ClusterUnusable, EmbeddedPostgresError, OSError.
        """
        home = data_dir / "postgres"
        away = AWAY / _short_name(data_dir)
        account = Account.choose([home / "pgdata", away / "pgdata"] if os.geteuid() == 0 else [home / "pgdata"])
        make_directory(data_dir, account.directory_mode)
        make_directory(home, account.directory_mode)
        _lock_for_owner(home, data_dir, locks)
        programs_out_of_reach = account.first_out_of_reach(binaries.witnesses())
        if (home / "pgdata").exists():
            relocated = False
        elif account.foreign and (away / "pgdata").exists():
            relocated = True
        else:
            relocated = bool(programs_out_of_reach or account.first_out_of_reach([home]))
        if relocated or programs_out_of_reach:
            make_directory(AWAY, 0o755)
            make_directory(away, account.directory_mode)
            # The data directory's own lock is not enough: it goes when somebody removes and remakes the directory.
            _lock_for_owner(away, data_dir, locks)
        if programs_out_of_reach:
            binaries = binaries.copy_below(away)
        location = away if relocated else home
        server_lock = _lock_for_server(location, locks)
        account = move_cluster(location / "pgdata", _socket_path(location), account)
        if account.is_shared:
            logger.warning("embedded_postgres.shared_user", user=account.name, pgdata=str(location / "pgdata"))
        sockets = _socket_directory(location, account)
        out_of_reach = account.first_out_of_reach([location, sockets, *binaries.witnesses()])
        if out_of_reach:
            raise ClusterUnusable(f"user {account.name}, whom Postgres runs as, cannot get to {out_of_reach}")
        return cls(location, sockets, binaries, account, relocated, server_lock)


def make_directory(path: Path, mode: int) -> None:
    """Make ``path`` with exactly ``mode``, whatever the umask; one that exists is left alone. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    path.chmod(mode)


def _short_name(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def _socket_path(location: Path) -> Path:
    sockets = location / "run"
    if len(os.fsencode(sockets / _LONGEST_SOCKET_NAME)) > _SOCKET_PATH_LIMIT:
        return Path(tempfile.gettempdir()) / f"carrel-{_short_name(location)}"
    return sockets


def _socket_directory(location: Path, account: Account) -> Path:
    sockets = _socket_path(location)
    make_directory(sockets, 0o700)
    if sockets.lstat().st_uid == os.geteuid():
        account.own(sockets)
    found = sockets.lstat()
    # In a temporary directory anyone may have been first: only a directory that is ours and closed will do.
    if (found.st_mode, found.st_uid) != (0o040700, account.uid):
        raise ClusterUnusable(f"{sockets} must be a directory of user {account.name} with mode 0700")
    return sockets


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _lock_for_owner(directory: Path, data_dir: Path, locks: ExitStack) -> None:
    lock = _open_lock(directory / "owner.lock")
    locks.callback(os.close, lock)
    if not _try_lock(lock):
        owner = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
        raise DataDirectoryInUse(
            f"the data directory {data_dir} is in use by another Carrel" + (f" (process {owner})" if owner else "")
        )
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode("ascii"), 0)


def _lock_for_server(location: Path, locks: ExitStack) -> int:
    """Wait until nothing is left of the Postgres of an earlier owner, and lock.

    The owner's lock goes at the moment its process is killed, while Postgres needs a little to shut down. This lock is
    inherited by its processes, so it tells without trusting process ids.
    """
    lock = _open_lock(location / "server.lock")
    locks.callback(os.close, lock)
    end = time.monotonic() + _SHUTDOWN_SECONDS
    while not _try_lock(lock):
        if time.monotonic() > end:
            raise ClusterUnusable(f"a Postgres of an earlier run still works in {location}")
        time.sleep(0.02)
    return lock


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
