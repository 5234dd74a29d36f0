"""The files of the cluster. initdb creates them once, and every start checks them."""

import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

from app.embedded_postgres.account import Account
from app.embedded_postgres.binaries import MAJOR_VERSION
from app.embedded_postgres.data_directory import ClusterLocation
from app.embedded_postgres.errors import ClusterUnusable, PostgresFailed
from app.embedded_postgres.ownership import transfer_ownership

SUPERUSER = "postgres"
_LOG_LIMIT_BYTES = 10_000_000


def prepare_cluster(cluster: ClusterLocation, *, sync: bool) -> str:
    """Create the cluster if none exists, and check an existing one.

    Args:
        cluster: Location of the cluster.
        sync: Whether initdb waits until its files are on the disk.

    Returns:
        The superuser's password.

    Raises:
        ClusterUnusable: The cluster has another version, or files are missing.
        PostgresFailed: initdb failed.
        OSError: The files cannot be read or written.
    """
    secret = cluster.directory / "password"
    if not cluster.pgdata.exists():
        password = read_or_create_secret(secret)
        _initialize(cluster, password, sync=sync)
    elif not secret.exists():
        raise ClusterUnusable(f"the database's password file {secret} is missing: restore it from a backup")
    version = _read_version(cluster.pgdata)
    if version != str(MAJOR_VERSION):
        raise ClusterUnusable(
            f"the database in {cluster.pgdata} is of Postgres {version}, this Carrel runs {MAJOR_VERSION}. "
            "Export it with the release that wrote it, then import it into a new data directory"
        )
    _neutralize_stale_pid_file(cluster)
    return read_or_create_secret(secret)


def read_or_create_secret(path: Path) -> str:
    """Return the secret in a file with mode 0600. If the file does not exist, create it with a random secret.

    Raises OSError.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return _create_secret(path)
    with os.fdopen(descriptor, encoding="ascii") as file:
        return file.read().strip()


def _create_secret(path: Path) -> str:
    secret = secrets.token_urlsafe(24)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f"{path.name}.", delete=False) as file:
        file.write(secret)
        file.flush()
        # If a power failure destroyed the password, the cluster would be inaccessible for ever.
        os.fsync(file.fileno())
    os.rename(file.name, path)  # noqa: PTH104 - the temporary file's name is a string
    sync_directory(path.parent)
    return secret


def sync_directory(path: Path) -> None:
    """Make renames in a directory durable with fsync. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_log(path: Path) -> int:
    """Open a log for appending, with mode 0600. Raises OSError.

    A log above 10 MB is renamed first. The renamed log replaces the log that was renamed before.
    """
    if path.exists() and path.stat().st_size > _LOG_LIMIT_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def _initialize(cluster: ClusterLocation, password: str, *, sync: bool) -> None:
    partial = cluster.directory / "pgdata.partial"
    if partial.exists():
        shutil.rmtree(partial)
    account = cluster.account.choose_initdb_account()
    _create_group_directory(partial, account)
    new_pgdata = partial / "pgdata"
    new_pgdata.mkdir(mode=0o700)
    account.take_ownership(new_pgdata)
    with tempfile.NamedTemporaryFile("w", dir=partial, prefix="initdb.") as secret:
        secret.write(password)
        secret.flush()
        account.take_ownership(Path(secret.name))
        options = [
            f"--pgdata={new_pgdata}",
            f"--username={SUPERUSER}",
            f"--pwfile={secret.name}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            # This locale sorts strings identically on all machines and with all versions of libc.
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--locale=C",
            "--no-instructions",
        ] + ([] if sync else ["--no-sync"])
        log = open_log(cluster.log_path)
        try:
            result = subprocess.run(  # noqa: S603
                account.build_command(cluster.binaries.get_program_path("initdb"), *options),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                pass_fds=(cluster.server_lock,),
                start_new_session=True,
                check=False,
            )
        finally:
            os.close(log)
    if result.returncode:
        raise PostgresFailed(f"Postgres could not create a database in {cluster.directory}; read {cluster.log_path}")
    transfer_ownership(new_pgdata, account, cluster.account)
    new_pgdata.rename(cluster.pgdata)
    partial.rmdir()
    sync_directory(cluster.directory)


def _create_group_directory(directory: Path, account: Account) -> None:
    """Create a directory that only the group of the account can enter, not other processes of the same user."""
    directory.mkdir(mode=0o700)
    if account.is_foreign:
        os.chown(directory, -1, account.gid)
        directory.chmod(0o710)


def _read_version(pgdata: Path) -> str:
    try:
        return (pgdata / "PG_VERSION").read_text(encoding="ascii").strip()
    except FileNotFoundError as exc:
        raise ClusterUnusable(
            f"{pgdata} is not a Postgres database, because PG_VERSION is missing: restore it from a backup"
        ) from exc


def _neutralize_stale_pid_file(cluster: ClusterLocation) -> None:
    """Replace the process id in the pid file that a killed server left, so that Postgres starts.

    The server's lock proves that no server of this service runs. Process ids are reused, mostly in restarted
    containers, so Postgres could take another process for a running server. Postgres accepts its parent's id as proof
    that the file is stale. It still checks the shared memory that the file names. The first line of the file therefore
    becomes the id of this process.

    Raises ClusterUnusable if another program has started a Postgres in this directory.
    """
    path = cluster.pgdata / "postmaster.pid"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "r+", encoding="utf-8", errors="surrogateescape") as file:
        pid_line, _, other_lines = file.read().partition("\n")
        if pid_line.isascii() and pid_line.isdigit() and _has_working_directory(int(pid_line), cluster.pgdata):
            raise ClusterUnusable(
                f"a Postgres that Carrel did not start uses {cluster.pgdata}: stop process {pid_line}"
            )
        file.seek(0)
        file.write(f"{os.getpid()}\n{other_lines}")
        file.truncate()


def _has_working_directory(pid: int, directory: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").samefile(directory)
    except OSError:
        # The process does not exist, or belongs to another user, who cannot have opened these files.
        return False
