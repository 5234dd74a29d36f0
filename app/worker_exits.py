"""How often the worker of this process has ended by itself lately, and why it did so the last time."""

import signal
import time
from collections import deque
from dataclasses import dataclass, field

WINDOW_SECONDS = 600.0
# One end may be an accident, and so may two. More within ten minutes have a common cause.
CRASH_LOOP_THRESHOLD = 3
MAX_EXITS = 1000


@dataclass(slots=True)
class WorkerExitHistory:
    """The unexpected ends of a worker process, told by the thread that starts it again."""

    _exit_times: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_EXITS))
    _reason: str = ""

    def record_exit(self, status: int, *, was_unresponsive: bool) -> str:
        """Note an end with the process's return code; return the reason in words."""
        if was_unresponsive:
            self._reason = "it gave no sign of life"
        elif status < 0:
            self._reason = f"signal {signal.Signals(-status).name}"
        else:
            self._reason = f"status {status}"
        self._exit_times.append(time.monotonic())
        return self._reason

    @property
    def count(self) -> int:
        """Return how many ends there were within the last ten minutes."""
        return sum(exit_time > time.monotonic() - WINDOW_SECONDS for exit_time in list(self._exit_times))

    @property
    def is_crash_loop(self) -> bool:
        """Return whether the worker keeps ending."""
        return self.count >= CRASH_LOOP_THRESHOLD

    @property
    def summary(self) -> str:
        """Return the number of ends within the last ten minutes, and the reason of the last end."""
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"{times} within ten minutes, the last time by {self._reason}"

    def format_status(self) -> str | None:
        """Return a sentence about the ends within the last ten minutes; None without any."""
        if not self.count:
            return None
        return f"restarting: it ended {self.count} times within ten minutes, the last time by {self._reason}"
