"""Clock for code that takes its clock as a parameter."""

from dataclasses import dataclass


@dataclass
class ManualClock:
    """Clock that shows the time ``now``, in seconds. Tests set ``now``."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now
