"""Location of a data directory's cluster, its owner, and the locks that protect it."""

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
from app.embedded_postgres.ownership import transfer_cluster
from app.logging import get_logger

logger = get_logger(__name__)

FALLBACK_ROOT = Path("/var/lib/carrel")
# The path of a socket has at most 108 bytes on Linux and 104 on macOS, with its final NUL.
_MAX_SOCKET_PATH_BYTES = 100
_LONGEST_SOCKET_NAME = ".s.PGSQL.65535.lock"
_SHUTDOWN_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ClusterLocation:
    """Directories, programs and user of one cluster.

    Attributes:
        directory: Directory of the cluster, its log and its passwords.
        socket_directory: Directory of the Unix socket.
        binaries: The Postgres programs.
        account: User that runs Postgres.
        is_relocated: Whether ``directory`` is outside the data directory.
        server_lock: Locked file descriptor that Postgres inherits. The lock remains until the last process of Postgres
            ends.
    """

    directory: Path
    socket_directory: Path
    binaries: Binaries
    account: Account
    is_relocated: bool
    server_lock: int

    @property
    def pgdata(self) -> Path:
        """Postgres' data directory."""
        return self.directory / "pgdata"

    @property
    def log_path(self) -> Path:
        """Log of initdb and of the server."""
        return self.directory / "postgres.log"

    @classmethod
    def lock(cls, data_dir: Path, binaries: Binaries, locks: ExitStack) -> Self:
        """Lock a data directory and find the location of its cluster.

        An existing cluster is not moved. A new cluster is created below the data directory. If the user of Postgres
        cannot reach that directory or the programs, it is created below ``/var/lib/carrel``. Missing directories are
        created. The modes of existing directories do not change. A new data directory never gets the cluster of a
        deleted or moved one.

        Args:
            data_dir: The data directory, absolute and resolved.
            binaries: The installed programs.
            locks: Exit stack that holds the locks until it closes.

        Raises:
            DataDirectoryInUse: Another process has locked the data directory.
            ClusterUnusable: The user of Postgres cannot use the cluster, or an earlier Postgres does not end.
            EmbeddedPostgresError: No user can run Postgres.
            OSError: A directory cannot be created.
        """
        default_directory = data_dir / "postgres"
        fallback_directory = FALLBACK_ROOT / _hash_path(data_dir)
        if os.geteuid() == 0 and not default_directory.exists() and (fallback_directory / "pgdata").exists():
            _rename_orphaned_cluster(fallback_directory, data_dir)
        account = Account.choose(
            [default_directory / "pgdata", fallback_directory / "pgdata"]
            if os.geteuid() == 0
            else [default_directory / "pgdata"]
        )
        create_directory(data_dir, account.directory_mode)
        create_directory(default_directory, account.directory_mode)
        _lock_for_owner(default_directory, data_dir, locks)
        unreachable_program = account.find_unreachable_path(binaries.list_probe_paths())
        if (default_directory / "pgdata").exists():
            is_relocated = False
        elif account.is_foreign and (fallback_directory / "pgdata").exists():
            is_relocated = True
        else:
            is_relocated = bool(unreachable_program or account.find_unreachable_path([default_directory]))
        if is_relocated or unreachable_program:
            create_directory(FALLBACK_ROOT, 0o755)
            create_directory(fallback_directory, account.directory_mode)
            # The lock of the data directory is not enough: it disappears if somebody deletes the directory and creates
            # it again.
            _lock_for_owner(fallback_directory, data_dir, locks)
        if unreachable_program:
            binaries = binaries.copy_to(fallback_directory)
        directory = fallback_directory if is_relocated else default_directory
        server_lock = _lock_for_server(directory, locks)
        account = transfer_cluster(directory / "pgdata", _get_socket_directory(directory), account)
        if account.is_shared:
            logger.warning("embedded_postgres.shared_user", user=account.name, pgdata=str(directory / "pgdata"))
        socket_directory = _create_socket_directory(directory, account)
        unreachable_path = account.find_unreachable_path([directory, socket_directory, *binaries.list_probe_paths()])
        if unreachable_path:
            raise ClusterUnusable(
                f"Postgres runs as user {account.name}, who cannot reach {unreachable_path}: change its permissions"
            )
        return cls(directory, socket_directory, binaries, account, is_relocated, server_lock)


def _rename_orphaned_cluster(fallback_directory: Path, data_dir: Path) -> None:
    """Rename a relocated cluster whose data directory was deleted or moved, so that a new one starts empty.

    The name of a relocated cluster depends only on the path of its data directory.

    Raises:
        DataDirectoryInUse: A process still uses the cluster.
        ClusterUnusable: An earlier Postgres does not end.
    """
    with ExitStack() as locks:
        _lock_for_owner(fallback_directory, data_dir, locks)
        _lock_for_server(fallback_directory, locks)
        renamed = fallback_directory.with_name(f"{fallback_directory.name}-{time.strftime('%Y%m%d-%H%M%S')}")
        fallback_directory.rename(renamed)
    logger.warning("embedded_postgres.orphaned_cluster", data_dir=str(data_dir), directory=str(renamed))


def create_directory(path: Path, mode: int) -> None:
    """Create a directory with exactly this mode, whatever the umask is. An existing directory does not change.

    Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    path.chmod(mode)


def _hash_path(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def _get_socket_directory(location: Path) -> Path:
    sockets = location / "run"
    if len(os.fsencode(sockets / _LONGEST_SOCKET_NAME)) > _MAX_SOCKET_PATH_BYTES:
        return Path(tempfile.gettempdir()) / f"carrel-{_hash_path(location)}"
    return sockets


def _create_socket_directory(location: Path, account: Account) -> Path:
    sockets = _get_socket_directory(location)
    create_directory(sockets, 0o700)
    if sockets.lstat().st_uid == os.geteuid():
        account.take_ownership(sockets)
    status = sockets.lstat()
    # In a temporary directory, another user may have created the directory first. Accept only one with the right owner
    # and mode.
    if (status.st_mode, status.st_uid) != (0o040700, account.uid):
        raise ClusterUnusable(
            f"{sockets} is not a directory of user {account.name} with mode 0700: remove it, and it is created again"
        )
    return sockets


def _open_lock_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _lock_for_owner(directory: Path, data_dir: Path, locks: ExitStack) -> None:
    lock = _open_lock_file(directory / "owner.lock")
    locks.callback(os.close, lock)
    if not _try_lock(lock):
        owner = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
        raise DataDirectoryInUse(
            f"the data directory {data_dir} is in use by another Carrel" + (f" (process {owner})" if owner else "")
        )
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode("ascii"), 0)


def _lock_for_server(location: Path, locks: ExitStack) -> int:
    """Wait until all processes of an earlier Postgres have ended, and take the server lock.

    The lock of the data directory disappears when the service is killed, but Postgres takes some time to shut down.
    Postgres' processes inherit the server lock, so the lock shows whether any of them is alive.
    """
    lock = _open_lock_file(location / "server.lock")
    locks.callback(os.close, lock)
    deadline = time.monotonic() + _SHUTDOWN_TIMEOUT_SECONDS
    while not _try_lock(lock):
        if time.monotonic() > deadline:
            raise ClusterUnusable(f"a Postgres of an earlier run still uses {location}: stop it, then try again")
        time.sleep(0.02)
    return lock


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
