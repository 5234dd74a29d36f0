"""The service as a subprocess of ``carrel serve``. CPU time and memory of its processes are read from ``/proc``."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import httpx2

from harness.embedding_endpoint import DIMENSIONS

ROOT = Path(__file__).resolve().parents[1]
CLOCK_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
START_TIMEOUT_SECONDS = 90
INGESTION_TIMEOUT_SECONDS = 120
AnswerT = TypeVar("AnswerT")
# A single fast client exceeds the default rate limit of a tenant.
FAST_CLIENT_SETTINGS = MappingProxyType({"CARREL_TENANT_SEARCHES_PER_SECOND": "100000"})


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """Usage of one process: CPU seconds, including those of children it has waited for, and peak memory in MB."""

    pid: int
    parent_pid: int
    program: str
    cpu_seconds: float
    peak_mb: float


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """CPU seconds of Carrel's processes and of Postgres' processes."""

    carrel: float
    postgres: float

    def __sub__(self, other: "CpuSeconds") -> "CpuSeconds":
        return CpuSeconds(self.carrel - other.carrel, self.postgres - other.postgres)


@dataclass(frozen=True, slots=True)
class RunningService:
    """Running ``carrel serve`` with a separate data directory."""

    pid: int
    url: str
    key: str
    data_dir: Path
    embedding_url: str | None

    def measure_cpu(self) -> CpuSeconds:
        """Return the CPU time since the start."""
        tree = list_process_tree(self.pid)
        postgres = sum(process.cpu_seconds for process in tree if process.program == "postgres")
        return CpuSeconds(sum(process.cpu_seconds for process in tree) - postgres, postgres)

    def measure_peaks_mb(self) -> dict[str, float]:
        """Return the peak memory in MB of the API, of the largest worker and of the largest parser process."""
        tree = [process for process in list_process_tree(self.pid) if process.program != "postgres"]
        workers = [process for process in tree if process.parent_pid == self.pid]
        below = {process.pid for process in workers}
        return {
            "API": next(process.peak_mb for process in tree if process.pid == self.pid),
            "worker": max((process.peak_mb for process in workers), default=0.0),
            "parser": max((process.peak_mb for process in tree if process.parent_pid in below), default=0.0),
        }

    def create_client(self) -> httpx2.Client:
        """Create a client with the API key of the first tenant."""
        return httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=120)

    @property
    def database_url(self) -> str:
        """Address of the database, with the role that owns no tables."""
        result: str = json.loads((self.data_dir / "runtime.json").read_text())["database_url"]
        return result


def read_process(pid: int) -> ProcessUsage:
    """Read the usage of a process from ``/proc``.

    Args:
        pid: Id of the process.

    Raises:
        OSError: The process has ended.
    """
    directory = Path("/proc") / str(pid)
    head, _, remainder = (directory / "stat").read_text().rpartition(")")
    fields = remainder.split()
    status = (directory / "status").read_text().splitlines()
    peak = next((int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:")), 0.0)
    return ProcessUsage(
        pid, int(fields[1]), head.partition("(")[2], sum(map(int, fields[11:15])) / CLOCK_TICKS_PER_SECOND, peak
    )


def list_process_tree(root: int) -> list[ProcessUsage]:
    """Return the usage of a process and of all its descendants.

    Args:
        root: Id of the process.
    """
    everything: list[ProcessUsage] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                everything.append(read_process(int(entry.name)))
            except OSError:
                continue
    below = {root}
    while True:
        more = {process.pid for process in everything if process.parent_pid in below} - below
        if not more:
            return [process for process in everything if process.pid in below]
        below |= more


def wait_until_ingested(client: httpx2.Client, kb: str, *, timeout_seconds: float = INGESTION_TIMEOUT_SECONDS) -> None:
    """Wait until all documents of a knowledge base are ingested.

    Args:
        client: Client of the service.
        kb: Name or id of the knowledge base.
        timeout_seconds: Maximum time without a change. Long files need more than the default.

    Raises:
        RuntimeError: A document failed, or the number of pending documents did not change for ``timeout_seconds``.
    """
    url, left, end = f"/v1/knowledge-bases/{kb}/documents", -1, 0.0
    while left:
        before = left
        left = sum(
            len(client.get(url, params={"status": status, "limit": 200}).json()["items"])
            for status in ("queued", "parsing", "chunking", "embedding")
        )
        end = time.monotonic() + timeout_seconds if left != before or left >= 200 else end
        if time.monotonic() > end:
            raise RuntimeError(f"{left} documents of {kb} are not being ingested")
        time.sleep(0.2)
    failed = client.get(url, params={"status": "failed", "limit": 1}).json()["items"]
    if failed:
        raise RuntimeError(f"{kb}: {failed[0]['source']} failed: {failed[0]['error']}")


def exit_on_sigterm() -> None:
    """Raise SystemExit on SIGTERM, so that ``finally`` blocks stop the processes that this process started."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


@dataclass(frozen=True, slots=True)
class ListeningProcess:
    """Server in a separate process."""

    address: str
    pid: int

    def measure_cpu_seconds(self) -> float:
        """Return the CPU seconds since the start."""
        return read_process(self.pid).cpu_seconds


@contextmanager
def listening_process(module: str, *arguments: str) -> Iterator[ListeningProcess]:
    """Run a module that prints its port and serves until its standard input ends.

    Args:
        module: Name of the module.
        arguments: Arguments of the command.

    Yields:
        The running server.
    """
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield ListeningProcess(f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid)
        finally:
            process.stdin.close()
            process.wait(20)


@contextmanager
def embedding_endpoint() -> Iterator[str]:
    """Run the embedding endpoint in a separate process, and yield its base URL."""
    with listening_process("harness.embedding_endpoint") as server:
        yield f"{server.address}/v1"


@contextmanager
def running_service(
    embedding_url: str | None, *, settings: Mapping[str, str] = MappingProxyType({}), root: Path = ROOT
) -> Iterator[RunningService]:
    """Run ``carrel serve`` on an empty data directory until the block ends.

    Args:
        embedding_url: Base URL of the embedding endpoint; None for the embedded model.
        settings: Settings by name. This checkout runs without a rate limit unless they set one.
        root: Checkout to run. Another checkout runs with the virtual environment inside it.

    Yields:
        The running service.
    """
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as folder:
        Path(folder).chmod(0o711)  # if root runs the benchmark, Postgres runs as another user, who needs access
        data_dir = Path(folder) / "data"
        log = Path(folder) / "serve.log"
        fast = FAST_CLIENT_SETTINGS if root == ROOT else {}
        environment = {**build_environment(embedding_url), **fast, **settings}
        python = sys.executable if root == ROOT else str(root / ".venv" / "bin" / "python")
        command = [python, "-m", "app.cli", "serve", "--port", "0", "--data-dir", str(data_dir)]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=root)
        try:
            url, key = _wait_until_ready(process, data_dir, log)
            yield RunningService(process.pid, url, key, data_dir, embedding_url)
        finally:
            _stop_process(process)


def _wait_until_ready(process: "subprocess.Popen[bytes]", data_dir: Path, log: Path) -> tuple[str, str]:
    def read_credentials() -> tuple[str, str] | None:
        result = json.loads((data_dir / "credentials.json").read_text())
        is_ready = httpx2.get(f"{result['url']}/readyz", timeout=2).is_success
        return (result["url"], result["api_key"]) if is_ready else None

    result = wait_for_answer(process, read_credentials)
    if result is None:
        raise RuntimeError(f"the service did not start:\n{log.read_text()[-3000:]}")
    return result


def wait_for_answer(process: "subprocess.Popen[bytes]", ask: Callable[[], AnswerT | None]) -> AnswerT | None:
    """Call ``ask`` until it returns an answer.

    Args:
        process: Process of the service.
        ask: Function that returns None, or raises a connection error, while the service starts.

    Returns:
        The answer; None if the process ended or did not start within ``START_TIMEOUT_SECONDS``.
    """
    end = time.monotonic() + START_TIMEOUT_SECONDS
    while process.poll() is None and time.monotonic() < end:
        # Errors are expected until the service listens and has completely written its files.
        with suppress(OSError, ValueError, httpx2.TransportError):
            if (answer := ask()) is not None:
                return answer
        time.sleep(0.1)
    return None


def build_environment(embedding_url: str | None = None) -> dict[str, str]:
    """Return the environment of this process without Carrel's settings, but with those of the embedding endpoint.

    Args:
        embedding_url: Base URL of the embedding endpoint; None for the embedded model.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CARREL_")}
    if embedding_url is not None:
        environment |= {
            "CARREL_EMBEDDING_BASE_URL": embedding_url,
            "CARREL_EMBEDDING_MODEL": "directions",
            "CARREL_EMBEDDING_DIMENSIONS": str(DIMENSIONS),
        }
    return environment


def _stop_process(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
