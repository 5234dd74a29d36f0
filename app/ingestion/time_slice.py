"""How long a job has had its place, and whether it should hand the place back between two slices of its work."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from app.errors import AppError

# A job that is handed back fetches, parses and chunks its document again. So it first works for at least so long, and
# for a multiple of what the preparation took: the repetition then costs at most a fourth of the whole.
MIN_WORK_SECONDS = 10.0
MIN_PREPARATION_MULTIPLE = 4.0


class JobPreempted(AppError):
    """The job gives its place to another tenant's; its vectors are kept, and no attempt is counted."""

    code = "preempted"


def _return_false() -> bool:
    return False


@dataclass(slots=True)
class PreemptionTimer:
    """One job's time in its place; ``is_requested`` says whether another tenant waits for a place in vain."""

    is_requested: Callable[[], bool] = _return_false
    clock: Callable[[], float] = time.monotonic
    _started_at: float = field(init=False)
    _prepared_at: float | None = None

    def __post_init__(self) -> None:
        self._started_at = self.clock()

    def check_preemption(self) -> None:
        """Raise JobPreempted if another job waits and this one has done enough; the first call ends the preparation."""
        now = self.clock()
        if self._prepared_at is None:
            self._prepared_at = now
            return
        min_work_seconds = max(MIN_WORK_SECONDS, MIN_PREPARATION_MULTIPLE * (self._prepared_at - self._started_at))
        if now - self._prepared_at >= min_work_seconds and self.is_requested():
            raise JobPreempted
