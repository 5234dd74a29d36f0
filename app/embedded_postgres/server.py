"""The Postgres server process: start on a loopback port, wait until it is ready, shut down in order."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.embedded_postgres.cluster import open_log
from app.embedded_postgres.data_directory import ClusterLocation
from app.embedded_postgres.errors import PortInUse, PostgresFailed

HOST = "127.0.0.1"


def choose_shared_buffers() -> str:
    """Return the size of the shared buffers: a sixteenth of the memory, from 128 MB to 1 GB.

    The system assigns memory only when a page is used. Pages outside the buffers are copied one by one from the
    system's cache. With larger buffers (450 MB), searches of 100,000 chunks take two thirds of the time.
    """
    return f"{min(max((get_available_memory() >> 20) // 16, 128), 1024)}MB"


def get_available_memory(limit_file: Path = Path("/sys/fs/cgroup/memory.max")) -> int:
    """Return the memory of the machine in bytes, or the limit of the container if that is lower."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(machine, int(limit_file.read_text()))
    except (OSError, ValueError):  # no such file; "max"
        return machine


SETTINGS: Mapping[str, str] = {
    "max_connections": "60",
    "shared_buffers": choose_shared_buffers(),
    "effective_cache_size": "1GB",
    "maintenance_work_mem": "256MB",
    "max_wal_size": "2GB",
    "wal_compression": "on",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
    "jit": "off",
    "password_encryption": "scram-sha-256",
    "idle_in_transaction_session_timeout": "10min",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # The client gets the errors of statements. The log does not, because their text quotes documents.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
}
UNSAFE_SETTINGS: Mapping[str, str] = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}

_START_TIMEOUT_SECONDS = 300.0
_STOP_TIMEOUT_SECONDS = 60.0
_PORT_ATTEMPTS = 5
_SHARED_MEMORY_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A running Postgres server."""

    process: subprocess.Popen[bytes]
    port: int

    def stop(self) -> None:
        """End all sessions, write everything to the disk and wait for the end. After a minute, end it by force."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(_STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            # An immediate shutdown loses no committed data: the next start recovers from the log.
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()


def choose_shared_memory_type(directory: Path) -> str:
    """Return the setting for shared memory: ``posix`` if a directory has 1 GB free, otherwise ``mmap``.

    Containers often have only 64 MB there, and parallel workers of an index build would fail. ``mmap`` uses files in
    the cluster: slower, but without that limit.

    Args:
        directory: Directory of POSIX shared memory.
    """
    try:
        stats = os.statvfs(directory)
    except OSError:
        return "mmap"
    return "posix" if stats.f_bavail * stats.f_frsize >= _SHARED_MEMORY_BYTES else "mmap"


def find_free_ports() -> Iterator[int]:
    """Yield a few loopback ports that no program uses at this moment."""
    for _ in range(_PORT_ATTEMPTS):
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            port: int = probe.getsockname()[1]
        yield port


def start_server(cluster: ClusterLocation, ports: Iterable[int], settings: Mapping[str, str]) -> PostgresServer:
    """Start Postgres on the first free port, and wait until it accepts connections.

    Args:
        cluster: Location of the cluster.
        ports: Ports to try, in this order.
        settings: Settings of Postgres by name.

    Raises:
        PortInUse: Other programs use all the ports.
        PostgresFailed: Postgres ended, or is not ready after five minutes.
        OSError: Postgres could not be started.
    """
    used_ports: list[int] = []
    for port in ports:
        server = PostgresServer(_spawn(cluster, port, settings), port)
        try:
            if _wait_until_ready(server, cluster):
                return server
        except BaseException:
            server.stop()
            raise
        # The log has the reason too, but only as text that can change. Therefore test the port.
        if not _is_port_used(port):
            raise PostgresFailed(
                f"Postgres ended with status {server.process.returncode} at start; read {cluster.log_path}"
            )
        used_ports.append(port)
    raise PortInUse(f"another program uses port {', '.join(map(str, used_ports))} of {HOST}: stop it, then try again")


def _spawn(cluster: ClusterLocation, port: int, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
    # Quoted, because Postgres would split the path at a comma.
    directory = '"' + str(cluster.socket_directory).replace('"', '""') + '"'
    options = {
        "dynamic_shared_memory_type": choose_shared_memory_type(Path("/dev/shm")),  # noqa: S108 - only its free space is read
        **settings,
        "listen_addresses": HOST,
        "port": str(port),
        "unix_socket_directories": directory,
        "unix_socket_permissions": "0700",
    }
    arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    log = open_log(cluster.log_path)
    try:
        return subprocess.Popen(  # noqa: S603
            cluster.account.build_command(
                cluster.binaries.get_program_path("postgres"), "-D", str(cluster.pgdata), *arguments
            ),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            pass_fds=(cluster.server_lock,),
            # Ctrl-C in the terminal stops the service, which then stops Postgres last.
            start_new_session=True,
        )
    finally:
        os.close(log)


def _wait_until_ready(server: PostgresServer, cluster: ClusterLocation) -> bool:
    """Wait until the server accepts connections; return False if it ends. Raises PostgresFailed after five minutes."""
    deadline = time.monotonic() + _START_TIMEOUT_SECONDS
    while server.process.poll() is None:
        if _is_ready(server.process.pid, cluster.pgdata):
            return True
        if time.monotonic() > deadline:
            raise PostgresFailed(f"Postgres is not ready after {_START_TIMEOUT_SECONDS:.0f} s; read {cluster.log_path}")
        time.sleep(0.01)
    return False


def _is_ready(pid: int, pgdata: Path) -> bool:
    lines: list[str] = []
    with suppress(FileNotFoundError):
        lines = (pgdata / "postmaster.pid").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"


def _is_port_used(port: int) -> bool:
    with socket.socket() as probe:
        # Postgres sets the same option, so a closed connection in the state TIME_WAIT does not count as a use of the
        # port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False
