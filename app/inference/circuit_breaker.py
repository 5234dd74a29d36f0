"""A circuit breaker for one endpoint in one process: an endpoint that keeps failing gets no calls (Nygard, 2007).

The decisions are functions of a state and a moment; ``CircuitBreaker`` holds the state.
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

# Consecutive failures that open it: one call for documents with all its attempts, or three searches.
MAX_FAILURES = 5
FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 60.0
# The pause that callers get while a trial call tests the endpoint.
TRIAL_PAUSE_SECONDS = 1.0

FailureKind = Literal["timeout", "unreachable", "failed", "rate_limited", "invalid_response"]


class EndpointFailed(Exception):
    """A call that another try may mend; the message holds no content."""

    def __init__(
        self, reason: str, retry_after: float | None = None, *, kind: FailureKind = "invalid_response"
    ) -> None:
        super().__init__(reason)
        self.retry_after = retry_after
        self.kind = kind


@dataclass(frozen=True, slots=True)
class CircuitState:
    """The outcome of the last calls; ``is_in_trial`` while the trial call runs."""

    failures: int = 0
    open_until: float = 0.0
    is_in_trial: bool = False

    @property
    def is_closed(self) -> bool:
        """Whether anyone may call."""
        return self.failures < MAX_FAILURES


def compute_remaining_seconds(state: CircuitState, now: float) -> float:
    """Return the seconds until the next call is allowed; 0 for now."""
    if state.is_closed:
        return 0.0
    if state.is_in_trial:
        return TRIAL_PAUSE_SECONDS
    return max(0.0, state.open_until - now)


def start_call(state: CircuitState) -> CircuitState:
    """Start a call; the first one after the pause of an open circuit is the trial."""
    return replace(state, is_in_trial=not state.is_closed)


def record_failure(state: CircuitState, now: float, *, is_trial: bool, jitter: float) -> CircuitState:
    """Return the state after a failure; ``jitter``, from 0 to 1, spreads the next calls of many processes.

    A circuit that is open already takes no notice of those that had begun before: they would only prolong it.
    """
    if not state.is_closed and not is_trial:
        return state
    failures = state.failures + 1
    if failures < MAX_FAILURES:
        return CircuitState(failures)
    seconds = min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(failures - MAX_FAILURES, 10))
    return CircuitState(failures, now + seconds * (0.5 + jitter / 2))


def abandon_call(state: CircuitState, *, is_trial: bool) -> CircuitState:
    """Return the state after a call without a verdict; another call may be the trial."""
    return replace(state, is_in_trial=False) if is_trial else state


class CircuitBreaker:
    """The circuit of one endpoint, shared by all calls of a process that have the same patience.

    ``name`` is the endpoint's in the log and to callers, who get ``error_type`` while the circuit is open.
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
        """Raises ``error_type``, with the time left, while the circuit is open."""
        remaining_seconds = compute_remaining_seconds(self._state, self._clock())
        if remaining_seconds > 0.0:
            message = f"The {self._name} endpoint is left alone for a moment: it has failed too often, or asked for it."
            raise self._error_type(message, retry_after=remaining_seconds, circuit_open=True)

    @contextmanager
    def call(self, *, hang_timeout_seconds: float, grace_seconds: float = 0.0) -> Iterator[None]:
        """Around a call. EndpointFailed is a failure, and so is being cancelled after ``hang_timeout_seconds``;
        any other end, also a refusal, is an answer. A timeout within ``grace_seconds`` has no effect: else callers with
        short timeouts would open the circuit for those with long ones. Raises as ``check``.
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
        """Let the next call be the trial of an open circuit, whatever time is left."""
        if not self._state.is_closed:
            self._set_state(replace(self._state, open_until=self._clock()))

    def pause(self, seconds: float) -> None:
        """Pause calls as the endpoint has asked, for a minute at most: the request may not concern this process."""
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
