"""The worker that ``serve`` keeps: a process of its own, started again when it dies, gone when ``serve`` is."""

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from app.cli import child_process
from app.logging import get_logger
from app.settings import Settings

logger = get_logger(__name__)

STOP_SECONDS = 30.0
SHORT_LIFE_SECONDS = 20.0
LONGEST_PAUSE_SECONDS = 30.0


class WorkerProcess:
    """One child and the thread that watches it.

    Its standard input is a pipe from here: however this process ends, the kernel closes the pipe, and the child goes.
    """

    def __init__(self, settings: Settings) -> None:
        self._environment = child_process.environment(settings)
        self._changing = threading.Lock()
        self._stopping = threading.Event()
        self._child = self._spawn()
        self._keeper = threading.Thread(target=self._keep, name="worker-keeper", daemon=True)
        self._keeper.start()

    def stop(self) -> None:
        """Ask the child to finish or hand back its jobs, and wait for its end; after half a minute by force."""
        self._stopping.set()
        with self._changing:
            child = self._child
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        self._keeper.join()

    def _spawn(self) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C in the terminal is for serve, which then stops the worker in order.
        return subprocess.Popen(  # noqa: S603  (our own program)
            child_process.command("worker", "--attached"),
            stdin=subprocess.PIPE,
            env=self._environment,
            cwd=child_process.DIRECTORY,
            start_new_session=True,
        )

    def _keep(self) -> None:
        pause = 1.0
        while True:
            started = time.monotonic()
            status = self._child.wait()
            if self._stopping.is_set():
                return
            lived = time.monotonic() - started
            pause = 1.0 if lived > SHORT_LIFE_SECONDS else min(LONGEST_PAUSE_SECONDS, 2 * pause)
            logger.error("worker.died", status=status, restart_seconds=pause)
            if self._stopping.wait(pause):
                return
            with self._changing:
                if self._stopping.is_set():
                    return
                if self._child.stdin is not None:
                    self._child.stdin.close()
                self._child = self._spawn()


@contextmanager
def worker_process(settings: Settings) -> Iterator[WorkerProcess]:
    """Run a worker with the same settings for as long as the block runs."""
    process = WorkerProcess(settings)
    try:
        yield process
    finally:
        process.stop()
