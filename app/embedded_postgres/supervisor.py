"""The supervisor of the Postgres that ``serve`` brings along: it starts, stops and describes the one server."""

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
    """A Postgres 18 with pgvector whose files belong to one data directory and whose life belongs to this process.

    ``fsync=False`` is for tests: fast, and a power cut destroys the cluster. ``settings`` go over the supervisor's own.
    When this process dies, however it dies, Postgres shuts down.
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
        """Make the cluster if there is none, start the server and wait until it accepts connections; blocks.

        Call it from the main thread: the kernel ends Postgres with the thread that started it, not with the process.
        Raises EmbeddedPostgresMissing, DataDirectoryInUse, ClusterUnusable, PortInUse, PostgresFailed, and
        EmbeddedPostgresError where the directory cannot be used at all.
        """
        if not self.is_running:
            self._start_on_ports(find_free_ports() if self._requested_port is None else [self._requested_port])

    def restart(self) -> bool:
        """Start the server again where it has died, on the port that everybody knows; False where it lives; blocks.

        Nothing that was committed is lost: Postgres recovers from its log. Call it, and it raises, as ``start``.
        """
        if self.is_running or self._port is None:
            return False
        self._start_on_ports([self._port])
        return True

    def _start_on_ports(self, ports: Iterable[int]) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise EmbeddedPostgresError("the embedded Postgres must be started from the main thread")
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
        """Shut the server down, wait for its end and let go of the data directory."""
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
        """Whether the server process lives."""
        return self._server is not None and self._server.process.poll() is None

    @property
    def pid(self) -> int:
        """The server's process id. Raises EmbeddedPostgresError when it was not started."""
        return self._require_server().process.pid

    @property
    def port(self) -> int:
        """The loopback port it listens on. Raises EmbeddedPostgresError when it was not started."""
        return self._require_server().port

    @property
    def directory(self) -> Path:
        """Where the cluster, its log and its passwords are. Raises EmbeddedPostgresError before the first start."""
        return self._require_cluster().directory

    @property
    def is_relocated(self) -> bool:
        """Whether that is outside the data directory, which Postgres' user cannot reach. Raises as ``directory``."""
        return self._require_cluster().is_relocated

    @property
    def log_path(self) -> Path:
        """The server's log. Raises as ``directory``."""
        return self._require_cluster().log_path

    def build_url(self, database: str, user: str | None = None, password: str | None = None) -> str:
        """A ``postgresql://`` URL; without a user the superuser's. Raises EmbeddedPostgresError when not started."""
        if user is None:
            user, password = SUPERUSER, self._password
        secret = "" if password is None else f":{quote(password, safe='')}"
        return f"postgresql://{quote(user, safe='')}{secret}@{HOST}:{self.port}/{quote(database, safe='')}"

    def ensure_database(self, name: str = "carrel") -> DatabaseUrls:
        """Make the service's roles and the database ``name`` with pgvector where they are missing; blocking.

        The roles' passwords are kept beside the superuser's. Raises PostgresFailed, EmbeddedPostgresError, OSError.
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
            raise EmbeddedPostgresError("the embedded Postgres is not running")
        return self._server

    def _require_cluster(self) -> ClusterLocation:
        if self._cluster is None:
            raise EmbeddedPostgresError("the embedded Postgres was not started yet")
        return self._cluster
