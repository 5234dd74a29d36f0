"""How often the worker of this process has ended by itself lately, and why it did so the last time."""

import signal
import time
from collections import deque
from dataclasses import dataclass, field

WITHIN_SECONDS = 600.0
# One end may be an accident, and so may two. More within ten minutes have a common cause.
LOOP = 3
MOST = 1000


@dataclass(slots=True)
class WorkerEnds:
    """The unexpected ends of a worker process, told by the thread that starts it again."""

    _at: deque[float] = field(default_factory=lambda: deque(maxlen=MOST))
    _reason: str = ""

    def add(self, status: int, *, was_silent: bool) -> str:
        """Note an end with the process's return code; return the reason in words."""
        if was_silent:
            self._reason = "it gave no sign of life"
        elif status < 0:
            self._reason = f"signal {signal.Signals(-status).name}"
        else:
            self._reason = f"status {status}"
        self._at.append(time.monotonic())
        return self._reason

    @property
    def count(self) -> int:
        """Return how many ends there were within the last ten minutes."""
        return sum(at > time.monotonic() - WITHIN_SECONDS for at in list(self._at))

    @property
    def is_loop(self) -> bool:
        """Return whether the worker keeps ending."""
        return self.count >= LOOP

    @property
    def summary(self) -> str:
        """Return the number of ends within the last ten minutes, and the reason of the last end."""
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"{times} within ten minutes, the last time by {self._reason}"

    def told(self) -> str | None:
        """Return a sentence about the ends within the last ten minutes; None without any."""
        if not self.count:
            return None
        return f"restarting: it ended {self.count} times within ten minutes, the last time by {self._reason}"
