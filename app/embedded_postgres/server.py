"""The server process: started on a loopback port, watched until ready, shut down in order."""

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
    """A sixteenth of the memory, from 128 MB to 1 GB; it is taken as it is used.

    Pages that have no room there come from the system's cache, one by one: 100,000 chunks with the 450 MB they want
    are searched in two thirds of the time.
    """
    return f"{min(max((get_available_memory() >> 20) // 16, 128), 1024)}MB"


def get_available_memory(limit_file: Path = Path("/sys/fs/cgroup/memory.max")) -> int:
    """Bytes: the machine's, or what a container may take of it."""
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
    # Errors of statements go to the client, who knows what may be told; their text quotes documents.
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
    """A running server."""

    process: subprocess.Popen[bytes]
    port: int

    def stop(self) -> None:
        """End every session, write everything out and wait for the end; by force after a minute."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(_STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            # Immediate shutdown loses nothing that was committed: the next start recovers from the log.
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()


def choose_shared_memory_type(directory: Path) -> str:
    """How backends share memory: ``posix`` where its ``directory`` has room for building an index, else ``mmap``.

    Containers often have 64 MB there, and parallel workers then fail; files in the cluster are slower but never short.
    """
    try:
        stats = os.statvfs(directory)
    except OSError:
        return "mmap"
    return "posix" if stats.f_bavail * stats.f_frsize >= _SHARED_MEMORY_BYTES else "mmap"


def find_free_ports() -> Iterator[int]:
    """A few loopback ports that nobody listens on at this moment."""
    for _ in range(_PORT_ATTEMPTS):
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            port: int = probe.getsockname()[1]
        yield port


def start_server(cluster: ClusterLocation, ports: Iterable[int], settings: Mapping[str, str]) -> PostgresServer:
    """Start Postgres on the first of ``ports`` that is free when it binds it; return when it accepts connections.

    Raises PortInUse when all are taken, PostgresFailed with the log's path, OSError.
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
        # The log would say so too, but in words: ask the port instead.
        if not _is_port_used(port):
            raise PostgresFailed(
                f"Postgres ended with status {server.process.returncode} at start; see {cluster.log_path}"
            )
        used_ports.append(port)
    raise PortInUse(f"another program listens on port {', '.join(map(str, used_ports))} of {HOST}")


def _spawn(cluster: ClusterLocation, port: int, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
    # Quoted, or a comma in the path would make it a list.
    directory = '"' + str(cluster.socket_directory).replace('"', '""') + '"'
    options = {
        "dynamic_shared_memory_type": choose_shared_memory_type(Path("/dev/shm")),  # noqa: S108 - asked for room, never written to
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
            # Ctrl-C in the terminal is for the service, which then stops Postgres last.
            start_new_session=True,
        )
    finally:
        os.close(log)


def _wait_until_ready(server: PostgresServer, cluster: ClusterLocation) -> bool:
    """Wait for the server to accept connections; False if it ends instead. Raises PostgresFailed if it does neither."""
    deadline = time.monotonic() + _START_TIMEOUT_SECONDS
    while server.process.poll() is None:
        if _is_ready(server.process.pid, cluster.pgdata):
            return True
        if time.monotonic() > deadline:
            raise PostgresFailed(f"Postgres is not ready after {_START_TIMEOUT_SECONDS:.0f} s; see {cluster.log_path}")
        time.sleep(0.01)
    return False


def _is_ready(pid: int, pgdata: Path) -> bool:
    lines: list[str] = []
    with suppress(FileNotFoundError):
        lines = (pgdata / "postmaster.pid").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"


def _is_port_used(port: int) -> bool:
    with socket.socket() as probe:
        # As Postgres does: an old connection that lingers is no listener.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False
