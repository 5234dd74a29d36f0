"""Unexpected exits of the worker that ``carrel serve`` starts: their number within ten minutes, and the last reason."""

import signal
import time
from collections import deque
from dataclasses import dataclass, field

WINDOW_SECONDS = 600.0
# One exit may be an accident, and so may two. Three within ten minutes have a common cause.
CRASH_LOOP_THRESHOLD = 3
MAX_EXITS = 1000


@dataclass(slots=True)
class WorkerExitHistory:
    """Unexpected exits of a worker process, recorded by the thread that restarts it."""

    _exit_times: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_EXITS))
    _reason: str = ""

    def record_exit(self, status: int, *, was_unresponsive: bool) -> str:
        """Record an exit and return its reason in words.

        Args:
            status: Return code of the process.
            was_unresponsive: Whether the process was ended because its heartbeats stopped.
        """
        if was_unresponsive:
            self._reason = "a missing heartbeat"
        elif status < 0:
            self._reason = f"signal {signal.Signals(-status).name}"
        else:
            self._reason = f"status {status}"
        self._exit_times.append(time.monotonic())
        return self._reason

    @property
    def count(self) -> int:
        """Number of exits within the last ten minutes."""
        return sum(exit_time > time.monotonic() - WINDOW_SECONDS for exit_time in list(self._exit_times))

    @property
    def is_crash_loop(self) -> bool:
        """Whether the worker exited at least three times within ten minutes."""
        return self.count >= CRASH_LOOP_THRESHOLD

    @property
    def summary(self) -> str:
        """The number of exits within the last ten minutes, and the reason of the last exit."""
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"{times} within ten minutes, the last time by {self._reason}"

    def format_status(self) -> str | None:
        """Return a sentence about the exits within the last ten minutes, or None if there are none."""
        if not self.count:
            return None
        return f"restarting: it ended {self.count} times within ten minutes, the last time by {self._reason}"
