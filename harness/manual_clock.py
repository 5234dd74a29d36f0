"""A clock for code that takes its clock as a parameter."""

from dataclasses import dataclass


@dataclass
class ManualClock:
    """Show the time ``now``, in seconds, until a test sets another."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now
