"""Worker process of ``carrel serve``. ``serve`` restarts a worker that has ended, and the worker ends when ``serve``
ends.
"""

import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.cli import child_process
from app.logging import get_logger
from app.settings import Settings
from app.worker_exits import WorkerExitHistory

logger = get_logger(__name__)

STOP_TIMEOUT_SECONDS = 30.0
MAX_SHORT_LIFE_SECONDS = 20.0
MAX_PAUSE_SECONDS = 30.0
TICK_INTERVAL_SECONDS = 1.0
# A worker that keeps ending counts as recovered after this number of heartbeats.
MIN_RECOVERY_HEARTBEATS = 20
# Before its first heartbeat the child imports its modules, which takes a long time on a busy machine.
MAX_START_TICKS = 300


class WorkerProcess:
    """Child process with a worker, and the thread that watches it.

    The standard input of the child is a socket. The kernel closes the socket when this process ends, and the child
    ends then. The child's event loop writes one byte (a heartbeat) to the socket every second. A child without a
    heartbeat is killed and replaced.
    """

    def __init__(self, settings: Settings, ends: WorkerExitHistory, report: Callable[[str], None]) -> None:
        """Start the child and the thread. The thread calls ``report`` with lines for the person who runs ``serve``."""
        self._environment = child_process.build_environment(settings)
        self._heartbeat_timeout_seconds = settings.worker.heartbeat_timeout_seconds
        self._ends = ends
        self._report = report
        self._is_missing = False
        self._child_lock = threading.Lock()
        self._stop_event = threading.Event()
        self._child = self._spawn()
        self._watcher = threading.Thread(target=self._watch, name="worker-keeper", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """Stop the child: it finishes or returns its jobs. Kill it after 30 seconds."""
        self._stop_event.set()
        with self._child_lock:
            child = self._child
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        self._watcher.join()

    def _spawn(self) -> subprocess.Popen[bytes]:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(TICK_INTERVAL_SECONDS)
        with theirs:
            # A new session: Ctrl-C in the terminal reaches only serve, which then stops the worker in order.
            return subprocess.Popen(  # noqa: S603  (our own program)
                child_process.build_command("worker", "--attached"),
                stdin=theirs.fileno(),
                env=self._environment,
                cwd=child_process.WORKING_DIRECTORY,
                start_new_session=True,
            )

    def _await_end(self) -> bool:
        """Wait for the end of the child; return whether it was killed because it sent no heartbeat.

        The method counts ticks without a byte instead of time: if the whole machine pauses, no tick is counted.
        """
        silent_ticks, max_silent_ticks, heartbeats = 0, MAX_START_TICKS, 0
        while self._child.poll() is None and not self._stop_event.is_set():
            if self._receive_heartbeat():
                silent_ticks, max_silent_ticks, heartbeats = 0, self._heartbeat_timeout_seconds, heartbeats + 1
                self._report_return(heartbeats)
                continue
            silent_ticks += 1
            if silent_ticks >= max_silent_ticks:
                logger.error("worker.silent", seconds=silent_ticks)
                self._child.kill()
                self._child.wait()
                return True
        self._child.wait()
        return False

    def _receive_heartbeat(self) -> bool:
        """Wait at most one tick for a heartbeat, and return whether there was one."""
        try:
            if self._socket.recv(4096):
                return True
        except OSError:  # the tick is over
            return False
        self._stop_event.wait(TICK_INTERVAL_SECONDS)  # the child has closed its socket, and is about to end
        return False

    def _report_return(self, heartbeats: int) -> None:
        if self._is_missing and (heartbeats >= MIN_RECOVERY_HEARTBEATS or not self._ends.is_crash_loop):
            self._is_missing = False
            logger.info("worker.recovered")
            self._report("The worker is back.")

    def _report_end(self, reason: str, *, was_silent: bool, pause: float) -> None:
        self._is_missing = True
        start = f"Carrel starts a new one in {pause:g} s."
        if self._ends.is_crash_loop:
            self._report(f"The worker keeps ending: {self._ends.summary}. {start} See the log for the cause.")
        elif was_silent:
            self._report(
                f"The worker sent no heartbeat for {self._heartbeat_timeout_seconds} s, so Carrel ended it. {start}"
            )
        else:
            self._report(f"The worker ended: {reason}. {start}")

    def _watch(self) -> None:
        pause = 1.0
        while True:
            started = time.monotonic()
            was_silent = self._await_end()
            if self._stop_event.is_set():
                return
            status = self._child.returncode
            reason = self._ends.record_exit(status, was_unresponsive=was_silent)
            lived = time.monotonic() - started
            pause = 1.0 if lived > MAX_SHORT_LIFE_SECONDS else min(MAX_PAUSE_SECONDS, 2 * pause)
            logger.error("worker.died", status=status, reason=reason, ends=self._ends.count, restart_seconds=pause)
            self._report_end(reason, was_silent=was_silent, pause=pause)
            if self._stop_event.wait(pause):
                return
            with self._child_lock:
                if self._stop_event.is_set():
                    return
                self._socket.close()
                self._child = self._spawn()


@contextmanager
def run_worker_process(
    settings: Settings, ends: WorkerExitHistory, report: Callable[[str], None]
) -> Iterator[WorkerProcess]:
    """Run a worker process with the same settings during the block.

    Args:
        settings: Settings of this process.
        ends: History of unexpected ends of the worker.
        report: Shows a line to the person who runs ``serve``; another thread calls it.

    Yields:
        The worker process.
    """
    process = WorkerProcess(settings, ends, report)
    try:
        yield process
    finally:
        process.stop()
