"""Service of the kill proof: Postgres, two APIs and two workers, each a process that can be killed and restarted.

Postgres is the embedded one with its usual settings, including fsync. The kernel keeps the written pages of a killed
process even without fsync. The proof therefore says nothing about a power failure.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from app.embedded_postgres import DatabaseUrls, EmbeddedPostgres
from app.embedded_postgres.errors import EmbeddedPostgresError
from app.embedded_postgres.server import find_free_ports
from harness.embedding_endpoint import DIMENSIONS
from harness.processes import ROOT, list_process_tree
from proofs.kill.endpoint import QUERY_PREFIX

OPERATOR_KEY = "kill-test-operator-key-0123456789abcdef"
PART_NAMES = ("API 1", "API 2", "worker 1", "worker 2")
START_TIMEOUT_SECONDS = 60.0
# Log lines of a worker and of an API that have started.
STARTED_EVENTS = (b'"worker.started"', b"Application startup complete")
SETTINGS = {
    "CARREL_WORKER_LEASE_TIMEOUT_SECONDS": "2",
    # Many kills can hit the ingestion of one document, which must not use up its attempts.
    "CARREL_WORKER_MAX_ATTEMPTS": "50",
    "CARREL_WORKER_TENANT_CONCURRENCY": "4",
    "CARREL_PARSER_PROCESSES": "2",
    "CARREL_WORKER_SWEEP_INTERVAL_SECONDS": "10",
    "CARREL_WORKER_ORPHAN_AGE_SECONDS": "180",
    "CARREL_WORKER_EXPIRY_INTERVAL_SECONDS": "5",
}


@dataclass(slots=True)
class ServicePart:
    """API or worker with its log, the length of the log before the last start, and the current process."""

    name: str
    log: Path
    log_offset: int
    process: "subprocess.Popen[bytes]"

    @property
    def has_started(self) -> bool:
        """Whether the current process has started completely."""
        with self.log.open("rb") as log:
            log.seek(self.log_offset)
            said = log.read()
        return any(word in said for word in STARTED_EVENTS)


@dataclass(slots=True)
class ServiceProcesses:
    """All processes of the service, with their data in one folder."""

    folder: Path
    postgres: EmbeddedPostgres
    urls: DatabaseUrls
    environment: dict[str, str]
    ports: dict[str, int]
    parts: dict[str, ServicePart] = field(default_factory=dict)
    orphans: set[int] = field(default_factory=set)

    @property
    def api_urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports.values()]

    @property
    def store(self) -> Path:
        """Folder of the stored originals."""
        return self.folder / "data" / "objects"

    @property
    def superuser_url(self) -> str:
        """Database URL of the superuser, who can read all sessions and lock tables."""
        return self.postgres.build_url("carrel")

    def start(self, name: str) -> None:
        """Start the API or worker with a name of ``PART_NAMES``."""
        command = [sys.executable, "-m", "app.cli"]
        command += ["serve", "--api-only", "--port", str(self.ports[name])] if name in self.ports else ["worker"]
        log = self.folder / f"{name}.log"
        with log.open("ab") as output:
            said_before = output.tell()
            process = subprocess.Popen(command, stdout=output, stderr=output, env=self.environment, cwd=ROOT)
        self.parts[name] = ServicePart(name, log, said_before, process)

    def start_all(self) -> None:
        """Start all APIs and workers and wait until both APIs are ready."""
        for name in PART_NAMES:
            self.start(name)
        end = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < end:
            with suppress(httpx2.TransportError):
                if all(httpx2.get(f"{url}/readyz", timeout=2).is_success for url in self.api_urls):
                    return
            time.sleep(0.1)
        raise RuntimeError(f"the APIs are not ready:\n{self.parts['API 1'].log.read_text()[-2000:]}")

    def find_name(self, pid: int) -> str | None:
        """Return the name of the API or worker with this process id."""
        return next((name for name, part in self.parts.items() if part.process.pid == pid), None)

    def list_pids(self, kind: str) -> list[int]:
        """Return the process ids of all APIs (``API``) or workers (``worker``)."""
        return [part.process.pid for name, part in self.parts.items() if name.startswith(kind)]

    def kill_part(self, pid: int) -> None:
        """Kill an API or worker with SIGKILL and restart it.

        Its child processes are recorded as orphans, which must end too.
        """
        name = self.find_name(pid)
        assert name is not None
        below = {child.pid for child in list_process_tree(pid)} - {pid}
        os.kill(pid, signal.SIGKILL)
        self.parts[name].process.wait()
        self.orphans |= below
        self.start(name)

    def kill_postgres(self) -> None:
        """Kill the postmaster with SIGKILL and restart it when its last child process has ended."""
        pid = self.postgres.pid
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + START_TIMEOUT_SECONDS
        while self.postgres.is_running:
            time.sleep(0.01)
        while True:
            try:
                self.postgres.start()
                return
            except EmbeddedPostgresError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def revive(self) -> list[str]:
        """Restart processes that ended without a kill, as a supervisor does, and return the faults.

        A process may exit during its start if the database is down. A process that has started must not exit.
        """
        wrong = []
        for name, part in list(self.parts.items()):
            status = part.process.poll()
            if status is not None:
                if part.has_started:
                    wrong.append(f"{name} ended without a kill, with status {status}")
                self.start(name)
        return wrong

    def list_orphans(self) -> set[int]:
        """Return the child processes of killed processes that still run."""
        self.orphans = {pid for pid in self.orphans if Path(f"/proc/{pid}").exists()}
        return self.orphans

    def stop(self) -> None:
        """Stop all APIs and workers with SIGTERM."""
        for part in self.parts.values():
            part.process.send_signal(signal.SIGTERM)
        for part in self.parts.values():
            try:
                part.process.wait(40)
            except subprocess.TimeoutExpired:
                part.process.kill()
                part.process.wait()
        self.parts.clear()


@contextmanager
def killable_service(folder: Path, embedding_url: str) -> Iterator[ServiceProcesses]:
    """Start all processes on an empty database. The embedded Postgres requires a call from the main thread."""
    temporary = folder / "tmp"
    temporary.mkdir()
    ports = dict(zip((name for name in PART_NAMES if name.startswith("API")), find_free_ports(), strict=False))
    settings = {"max_connections": "120"}
    with EmbeddedPostgres(folder / "data", port=next(find_free_ports()), settings=settings) as postgres:
        urls = postgres.ensure_database()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CARREL_")} | {
            **SETTINGS,
            "TMPDIR": str(temporary),
            "CARREL_DATA_DIR": str(folder / "data"),
            "CARREL_DATABASE_URL": urls.app,
            "CARREL_ADMIN_DATABASE_URL": urls.owner,
            "CARREL_OPERATOR_KEY": OPERATOR_KEY,
            "CARREL_EMBEDDING_BASE_URL": embedding_url,
            "CARREL_EMBEDDING_MODEL": "directions",
            "CARREL_EMBEDDING_DIMENSIONS": str(DIMENSIONS),
            "CARREL_EMBEDDING_QUERY_PREFIX": QUERY_PREFIX,
        }
        command = [sys.executable, "-m", "app.cli", "migrate"]
        subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        service = ServiceProcesses(folder, postgres, urls, environment, ports)
        try:
            service.start_all()
            yield service
        finally:
            service.stop()
