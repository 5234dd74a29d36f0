"""Time slice of a job: when the job must give its worker slot to a job of another tenant."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from app.errors import AppError

# A preempted job later fetches, parses and chunks its document again. A job is therefore preempted only after at least
# 10 seconds of work, and four times the time of the preparation. The repetition then adds at most a fourth.
MIN_WORK_SECONDS = 10.0
MIN_PREPARATION_MULTIPLE = 4.0


class JobPreempted(AppError):
    """The job gives its worker slot to a job of another tenant. Its vectors are checkpointed and no attempt counts."""

    code = "preempted"


def _return_false() -> bool:
    return False


@dataclass(slots=True)
class PreemptionTimer:
    """Timer of one job in its worker slot.

    Attributes:
        is_requested: Returns whether a job of another tenant waits because no slot is free.
        clock: Monotonic clock, in seconds.
    """

    is_requested: Callable[[], bool] = _return_false
    clock: Callable[[], float] = time.monotonic
    _started_at: float = field(init=False)
    _prepared_at: float | None = None

    def __post_init__(self) -> None:
        self._started_at = self.clock()

    def check_preemption(self) -> None:
        """Check between two slices of work whether the job must end. The first call marks the end of the preparation.

        Raises:
            JobPreempted: A job of another tenant waits, and this job has worked for the minimum time.
        """
        now = self.clock()
        if self._prepared_at is None:
            self._prepared_at = now
            return
        min_work_seconds = max(MIN_WORK_SECONDS, MIN_PREPARATION_MULTIPLE * (self._prepared_at - self._started_at))
        if now - self._prepared_at >= min_work_seconds and self.is_requested():
            raise JobPreempted
