"""Circuit breaker for one endpoint in one process: an endpoint that keeps failing gets no calls (Nygard, Release It!).

The decisions are functions of a state and a time; ``CircuitBreaker`` holds the state.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Literal, Protocol, runtime_checkable

from app.errors import UnavailableError
from app.logging import get_logger

logger = get_logger(__name__)

MAX_FAILURES = 5
"""Number of consecutive failures that open the circuit: one call for documents with all attempts, or three searches."""

FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 60.0
TRIAL_PAUSE_SECONDS = 1.0
"""Pause that callers get while a trial call tests the endpoint."""

FailureKind = Literal["timeout", "unreachable", "failed", "rate_limited", "invalid_response"]


class EndpointFailed(Exception):
    """A call failed, and a retry may help. The message contains no text of documents or queries."""

    def __init__(
        self, reason: str, retry_after: float | None = None, *, kind: FailureKind = "invalid_response"
    ) -> None:
        super().__init__(reason)
        self.retry_after = retry_after
        self.kind = kind


@dataclass(frozen=True, slots=True)
class CircuitState:
    """State of a circuit: closed, open (no calls for a pause), or in a trial after the pause.

    Attributes:
        failures: Number of consecutive failures.
        open_until: End of the pause of an open circuit, in seconds of the clock.
        is_in_trial: Whether a trial call runs.
    """

    failures: int = 0
    open_until: float = 0.0
    is_in_trial: bool = False

    @property
    def is_closed(self) -> bool:
        """Whether all calls are allowed."""
        return self.failures < MAX_FAILURES


def compute_remaining_seconds(state: CircuitState, now: float) -> float:
    """Return the seconds until the next call is allowed; 0 if a call is allowed now."""
    if state.is_closed:
        return 0.0
    if state.is_in_trial:
        return TRIAL_PAUSE_SECONDS
    return max(0.0, state.open_until - now)


def start_call(state: CircuitState) -> CircuitState:
    """Start a call; the first one after the pause of an open circuit is the trial."""
    return replace(state, is_in_trial=not state.is_closed)


def record_failure(state: CircuitState, now: float, *, is_trial: bool, jitter: float) -> CircuitState:
    """Return the state after a failure.

    Failures of calls that began before the circuit opened are ignored, because they would only prolong the pause.

    Args:
        state: State before the failure.
        now: Current time of the clock, in seconds.
        is_trial: Whether the call was the trial of an open circuit.
        jitter: Random number from 0 to 1, which spreads the next calls of many processes.
    """
    if not state.is_closed and not is_trial:
        return state
    failures = state.failures + 1
    if failures < MAX_FAILURES:
        return CircuitState(failures)
    seconds = min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(failures - MAX_FAILURES, 10))
    return CircuitState(failures, now + seconds * (0.5 + jitter / 2))


def abandon_call(state: CircuitState, *, is_trial: bool) -> CircuitState:
    """Return the state after a call without a result; another call may then be the trial."""
    return replace(state, is_in_trial=False) if is_trial else state


class CircuitBreaker:
    """Circuit breaker of one endpoint, shared by all calls of a process with similar timeouts.

    Its name appears in log events and error messages.
    """

    def __init__(
        self, name: str, error_type: type[UnavailableError], *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._name = name
        self._error_type = error_type
        self._clock = clock
        self._state = CircuitState()

    @property
    def name(self) -> str:
        """Return the endpoint's name."""
        return self._name

    @property
    def is_open(self) -> bool:
        """Return whether the endpoint has failed too often, and has not answered since."""
        return not self._state.is_closed

    def check(self) -> None:
        """Raise the configured error with the remaining pause while the circuit is open."""
        remaining_seconds = compute_remaining_seconds(self._state, self._clock())
        if remaining_seconds > 0.0:
            message = f"The {self._name} endpoint gets no calls for now: it failed too often, or requested a pause."
            raise self._error_type(message, retry_after=remaining_seconds, circuit_open=True)

    @contextmanager
    def call(self, *, hang_timeout_seconds: float, grace_seconds: float = 0.0) -> Iterator[None]:
        """Record the result of the call that the block makes. Refuse the call if ``check`` raises an error.

        EndpointFailed counts as a failure. Any other end of the block counts as an answer, even a refusal by the
        endpoint.

        Args:
            hang_timeout_seconds: Seconds after which a cancelled call counts as a failure.
            grace_seconds: Seconds within which a timeout does not count as a failure. Otherwise, callers with short
                timeouts would open the circuit for callers with long timeouts.
        """
        self.check()
        is_trial = not self._state.is_closed
        self._state = start_call(self._state)
        started = self._clock()
        next_state = CircuitState()
        try:
            yield
        except EndpointFailed as exc:
            is_within_grace = exc.kind == "timeout" and self._clock() - started < grace_seconds
            next_state = (
                abandon_call(self._state, is_trial=is_trial) if is_within_grace else self._record_failure(is_trial)
            )
            raise
        except asyncio.CancelledError:
            has_hung = self._clock() - started >= hang_timeout_seconds
            next_state = self._record_failure(is_trial) if has_hung else abandon_call(self._state, is_trial=is_trial)
            raise
        finally:
            self._set_state(next_state)

    def allow_trial(self) -> None:
        """Let the next call be the trial of an open circuit, even if the pause has not ended."""
        if not self._state.is_closed:
            self._set_state(replace(self._state, open_until=self._clock()))

    def pause(self, seconds: float) -> None:
        """Pause calls at the request of the endpoint, at most a minute: the request may not concern this process."""
        until = self._clock() + min(seconds, MAX_PAUSE_SECONDS)
        if until > self._state.open_until:
            self._set_state(CircuitState(max(self._state.failures, MAX_FAILURES), until))

    def mark_streaming(self) -> None:
        """Close the circuit when a trial call begins to receive a long answer, before its end."""
        if not self._state.is_closed:
            self._set_state(CircuitState())

    def _record_failure(self, is_trial: bool) -> CircuitState:
        return record_failure(self._state, self._clock(), is_trial=is_trial, jitter=random.random())  # noqa: S311  no secret

    def _set_state(self, state: CircuitState) -> None:
        if state.is_closed and not self._state.is_closed:
            logger.info(f"{self._name}.circuit_closed")
        if state.open_until > self._state.open_until:
            seconds = round(state.open_until - self._clock(), 1)
            logger.warning(f"{self._name}.circuit_opened", failures=state.failures, seconds=seconds)
        self._state = state


@runtime_checkable
class HasCircuitBreaker(Protocol):
    """A client of an endpoint that has a circuit breaker."""

    @property
    def circuit_breaker(self) -> CircuitBreaker:
        """Return the circuit breaker of the endpoint."""
