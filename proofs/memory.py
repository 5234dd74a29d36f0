"""``make prove NAME=memory``: send small hostile inputs to every entry and watch the memory of API and worker.

The proof starts a real service and sends each input, most of them several times at once. Every 50 ms it samples the
resident memory of the API and of the worker, and the proportional memory (PSS) of their child processes. Parser
processes have a separate limit. The exit code is 1 if the API or the worker exceeds its limit, or if the worker dies.
It is also 1 if a request gets status 500 or no reply.
"""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from harness.hostile.memory_inputs import INPUTS, AttackTarget, HostileInput
from harness.processes import ProcessUsage, RunningService, exit_on_sigterm, list_process_tree, running_service

MAX_API_MB, MAX_WORKER_MB = 600, 700
SAMPLE_INTERVAL_SECONDS = 0.05
SETTLE_SECONDS = 1.0
IDLE_TIMEOUT_SECONDS = 200
# The log level; all other settings have their defaults.
SETTINGS = {"CARREL_LOG_LEVEL": "error"}


@dataclass(slots=True)
class MemoryPeaks:
    """Peak memory in MB since the last ``collect_peaks``."""

    api_mb: float = 0
    worker_mb: float = 0
    children_mb: float = 0
    worker_pids: set[int] = field(default_factory=set)


class MemorySampler(threading.Thread):
    """Thread that samples the memory of the service's processes until ``stop``."""

    def __init__(self, service: RunningService) -> None:
        super().__init__(daemon=True)
        self._service = service
        self._peaks = MemoryPeaks()
        self._ended = threading.Event()

    def run(self) -> None:
        """Sample every 50 ms. The list of processes is refreshed with every tenth sample."""
        turn, tree = 0, list_process_tree(self._service.pid)
        while not self._ended.wait(SAMPLE_INTERVAL_SECONDS):
            if turn % 10 == 0:
                tree = list_process_tree(self._service.pid)
            turn += 1
            with suppress(OSError, ValueError):
                self._sample(tree)

    def _sample(self, tree: Sequence[ProcessUsage]) -> None:
        peaks, root = self._peaks, self._service.pid
        peaks.api_mb = max(peaks.api_mb, read_resident_mb(root))
        below = {each.pid for each in tree if each.parent_pid == root and each.program != "postgres"}
        for each in tree:
            pid, parent, program = each.pid, each.parent_pid, each.program
            if program == "postgres" or pid == root:
                continue
            is_worker = parent == root and b"worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
            if is_worker:
                peaks.worker_pids.add(pid)
                peaks.worker_mb = max(peaks.worker_mb, read_resident_mb(pid))
            elif parent in below or parent == root:
                peaks.children_mb = max(peaks.children_mb, read_proportional_mb(pid))

    def collect_peaks(self) -> MemoryPeaks:
        """Return the peaks and reset them."""
        peaks, self._peaks = self._peaks, MemoryPeaks()
        return peaks

    def stop(self) -> None:
        """Stop the thread and wait for its end."""
        self._ended.set()
        self.join()


def read_resident_mb(pid: int) -> float:
    """Return the resident memory of a process in MB. A process that has ended raises OSError."""
    return _read_field_mb(Path(f"/proc/{pid}/status"), "VmRSS:")


def read_proportional_mb(pid: int) -> float:
    """Return the proportional memory (PSS) of a process in MB. A process that has ended raises OSError."""
    return _read_field_mb(Path(f"/proc/{pid}/smaps_rollup"), "Pss:")


def _read_field_mb(file: Path, name: str) -> float:
    lines = file.read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), 0.0)


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Result of one input: a row of the table."""

    name: str
    seconds: float
    peaks: MemoryPeaks
    answers: str
    faults: list[str]


def run_attack(target: AttackTarget, each: HostileInput, sampler: MemorySampler) -> MemoryRow:
    """Send one input with its concurrency, wait until the service is idle, and return the peaks and faults."""
    sampler.collect_peaks()
    begun = time.monotonic()
    with ThreadPoolExecutor(each.concurrency) as threads:
        running = [threads.submit(_send_input, each.send, target, number) for number in range(each.concurrency)]
        reported = [item.result() for item in running]
    with suppress(httpx2.HTTPError):
        target.wait_until_idle(IDLE_TIMEOUT_SECONDS)
    time.sleep(SETTLE_SECONDS)
    peaks = sampler.collect_peaks()
    faults = [f"{name} {mb:.0f} MB" for name, mb, limit in
              (("API", peaks.api_mb, MAX_API_MB), ("worker", peaks.worker_mb, MAX_WORKER_MB)) if mb > limit]  # fmt: skip  # noqa: E501
    faults += [each for each in sorted(set(reported)) if each.startswith(("500", "no answer"))]
    faults += [] if peaks.api_mb and peaks.worker_mb else ["no sample of the API's or the worker's memory"]
    faults += ["the worker died"] if len(peaks.worker_pids) > 1 else []
    summary = ", ".join(
        f"{reported.count(item)} x {item}" if reported.count(item) > 1 else item for item in sorted(set(reported))
    )
    return MemoryRow(each.name, time.monotonic() - begun, peaks, summary, faults)


def _send_input(send: Callable[[AttackTarget, int], str], target: AttackTarget, number: int) -> str:
    try:
        return send(target, number)
    except httpx2.HTTPError as exc:
        return f"no answer ({type(exc).__name__})"


def main(arguments: Sequence[str]) -> int:
    """Run the proof. Return 1 if an input has a fault, else 0."""
    parser = argparse.ArgumentParser(prog="make prove NAME=memory", description=__doc__)
    parser.add_argument("--only", default="", metavar="WORD", help="send only inputs whose names contain this word")
    only: str = parser.parse_args(arguments).only
    begun, rows = time.monotonic(), []
    with running_service(None, settings=SETTINGS) as service, service.create_client() as client:
        sampler = MemorySampler(service)
        sampler.start()
        target = AttackTarget.prepare(client)
        idle = sampler.collect_peaks()
        print(f"ready with one document: API {idle.api_mb:.0f} MB, worker {idle.worker_mb:.0f} MB", flush=True)
        print(f"{'input':44} {'seconds':>7} {'API':>6} {'worker':>6} {'child':>6}  answers")
        for each in (item for item in INPUTS if only in item.name):
            row = run_attack(target, each, sampler)
            rows.append(row)
            peaks = row.peaks
            print(
                f"{row.name:44} {row.seconds:7.1f} {peaks.api_mb:6.0f} {peaks.worker_mb:6.0f} {peaks.children_mb:6.0f}"
                f"  {row.answers}{'  FAULT: ' + '; '.join(row.faults) if row.faults else ''}",
                flush=True,
            )
        sampler.stop()
    bad = sum(bool(row.faults) for row in rows)
    print(f"{len(rows)} inputs in {time.monotonic() - begun:.0f} s: {bad or 'none'} with a fault")
    print(f"limits: API {MAX_API_MB} MB, worker {MAX_WORKER_MB} MB; parser processes CARREL_PARSER_MAX_MEMORY_MB")
    return int(bad > 0)


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
