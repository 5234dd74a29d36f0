"""How long a job has had its place, and whether it should hand the place back between two slices of its work."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from app.errors import AppError

# A job that is handed back fetches, parses and chunks its document again. So it first works for at least so long, and
# for a multiple of what the preparation took: the repetition then costs at most a fourth of the whole.
LEAST_SECONDS = 10.0
LEAST_PREPARATIONS = 4.0


class HandedBack(AppError):
    """The job gives its place to another tenant's; its vectors are kept, and no attempt is counted."""

    code = "handed_back"


def _never() -> bool:
    return False


@dataclass(slots=True)
class Stint:
    """One job's time in its place; ``is_wanted`` says whether another tenant waits for a place in vain."""

    is_wanted: Callable[[], bool] = _never
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    _prepared: float | None = None

    def __post_init__(self) -> None:
        self._began = self.clock()

    def between_slices(self) -> None:
        """Raise HandedBack if the place is wanted and the job has done enough; the first call ends the preparation."""
        now = self.clock()
        if self._prepared is None:
            self._prepared = now
            return
        enough = max(LEAST_SECONDS, LEAST_PREPARATIONS * (self._prepared - self._began))
        if now - self._prepared >= enough and self.is_wanted():
            raise HandedBack
