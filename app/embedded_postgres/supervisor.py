"""Supervisor of the embedded Postgres: it starts, restarts and stops the server, and creates the service's database."""

import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from app.embedded_postgres.binaries import find_binaries
from app.embedded_postgres.cluster import SUPERUSER, prepare_cluster, read_or_create_secret
from app.embedded_postgres.data_directory import ClusterLocation
from app.embedded_postgres.errors import EmbeddedPostgresError
from app.embedded_postgres.roles import OWNER_ROLE, RUNTIME_ROLE, DatabaseUrls, Superuser
from app.embedded_postgres.server import HOST, SETTINGS, UNSAFE_SETTINGS, PostgresServer, find_free_ports, start_server


class EmbeddedPostgres:
    """A Postgres 18 with pgvector for one data directory. It shuts down when this process dies, for whatever reason.

    Args:
        data_dir: The data directory.
        fsync: False makes tests faster, but a power failure destroys the cluster.
        port: Loopback port; by default a free one.
        settings: Settings of Postgres that replace the defaults.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        fsync: bool = True,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = data_dir.absolute().resolve()
        self._fsync = fsync
        self._requested_port = port
        self._settings = {**SETTINGS, **({} if fsync else UNSAFE_SETTINGS), **(settings or {})}
        self._locks = ExitStack()
        self._cluster: ClusterLocation | None = None
        self._server: PostgresServer | None = None
        self._port: int | None = None
        self._password = ""

    def start(self) -> None:
        """Create the cluster if none exists, start the server, and wait until it accepts connections. The call blocks.

        Call it from the main thread: the kernel ends Postgres when the thread that started it ends.

        Raises:
            EmbeddedPostgresMissing: The package with the programs is not installed.
            DataDirectoryInUse: Another process uses the data directory.
            ClusterUnusable: The files of the cluster cannot be used.
            PortInUse: Another program uses the port.
            PostgresFailed: A Postgres program failed.
            EmbeddedPostgresError: The data directory cannot be used, or this is not the main thread.
        """
        if not self.is_running:
            self._start_on_ports(find_free_ports() if self._requested_port is None else [self._requested_port])

    def restart(self) -> bool:
        """Start the server again on its former port if it has died, and return whether that was needed. The call
        blocks.

        No committed data is lost, because Postgres recovers from its log. Call it from the main thread. Raises the
        errors of ``start``.
        """
        if self.is_running or self._port is None:
            return False
        self._start_on_ports([self._port])
        return True

    def _start_on_ports(self, ports: Iterable[int]) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise EmbeddedPostgresError("the embedded Postgres was not started from the main thread")
        self.stop()
        try:
            self._start_server(ports)
        except OSError as exc:
            self.stop()
            raise EmbeddedPostgresError(
                f"cannot use the data directory {self.data_dir}: {exc.strerror or exc} ({exc.filename})"
            ) from exc
        except BaseException:
            self.stop()
            raise

    def _start_server(self, ports: Iterable[int]) -> None:
        self._cluster = ClusterLocation.lock(self.data_dir, find_binaries(), self._locks)
        self._password = prepare_cluster(self._cluster, sync=self._fsync)
        self._server = start_server(self._cluster, ports, self._settings)
        self._port = self._server.port

    def stop(self) -> None:
        """Stop the server, wait for its end, and unlock the data directory."""
        server, self._server = self._server, None
        try:
            if server is not None:
                server.stop()
        finally:
            self._locks.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether the server process runs."""
        return self._server is not None and self._server.process.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the server. Raises EmbeddedPostgresError if it was not started."""
        return self._require_server().process.pid

    @property
    def port(self) -> int:
        """Loopback port of the server. Raises EmbeddedPostgresError if it was not started."""
        return self._require_server().port

    @property
    def directory(self) -> Path:
        """Directory of the cluster, its log and its passwords. Raises EmbeddedPostgresError before the first start."""
        return self._require_cluster().directory

    @property
    def is_relocated(self) -> bool:
        """Whether the cluster is outside the data directory, because the user of Postgres cannot reach that directory.

        Raises EmbeddedPostgresError before the first start.
        """
        return self._require_cluster().is_relocated

    @property
    def log_path(self) -> Path:
        """The server's log. Raises EmbeddedPostgresError before the first start."""
        return self._require_cluster().log_path

    def build_url(self, database: str, user: str | None = None, password: str | None = None) -> str:
        """Return a ``postgresql://`` URL of a database.

        Args:
            database: Name of the database.
            user: The login; by default the superuser.
            password: Password of the login; not needed for the superuser.

        Raises:
            EmbeddedPostgresError: The server was not started.
        """
        if user is None:
            user, password = SUPERUSER, self._password
        secret = "" if password is None else f":{quote(password, safe='')}"
        return f"postgresql://{quote(user, safe='')}{secret}@{HOST}:{self.port}/{quote(database, safe='')}"

    def ensure_database(self, name: str = "carrel") -> DatabaseUrls:
        """Create the service's roles and database, if they are missing. The call blocks.

        Files next to the superuser's password hold the passwords of the roles.

        Args:
            name: Name of the database.

        Returns:
            The URLs of both roles.

        Raises:
            PostgresFailed: A script failed.
            EmbeddedPostgresError: The server was not started.
            OSError: A password file cannot be read or written.
        """
        cluster = self._require_cluster()
        owner, runtime = (
            read_or_create_secret(cluster.directory / f"{role}.password") for role in (OWNER_ROLE, RUNTIME_ROLE)
        )
        superuser = Superuser(cluster.binaries.get_program_path("psql"), HOST, self.port, SUPERUSER, self._password)
        superuser.ensure_database(name, owner, runtime)
        return DatabaseUrls(
            owner=self.build_url(name, OWNER_ROLE, owner), app=self.build_url(name, RUNTIME_ROLE, runtime)
        )

    def _require_server(self) -> PostgresServer:
        if self._server is None:
            raise EmbeddedPostgresError("the embedded Postgres is not running: start it first")
        return self._server

    def _require_cluster(self) -> ClusterLocation:
        if self._cluster is None:
            raise EmbeddedPostgresError("the embedded Postgres is not started: start it first")
        return self._cluster
