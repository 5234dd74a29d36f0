"""A circuit breaker for one endpoint in one process: whoever keeps failing is left alone for a while (Nygard, 2007).

The decisions are functions of a state and a moment; ``Breaker`` holds the state.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Literal, Protocol, runtime_checkable

from app.errors import Unavailable
from app.logging import get_logger

logger = get_logger(__name__)

# So many failures in a row open it: one call for documents that was tried to the end, or three searches.
FAILURES = 5
FIRST_SECONDS = 1.0
LONGEST_SECONDS = 60.0
# What callers are told while somebody else finds out whether the endpoint is back.
TRIAL_SECONDS = 1.0

FailureKind = Literal["timeout", "unreachable", "failed", "rate_limited", "garbage"]


class EndpointFailed(Exception):
    """A call that another try may mend; the message holds no content."""

    def __init__(self, reason: str, retry_after: float | None = None, *, kind: FailureKind = "garbage") -> None:
        super().__init__(reason)
        self.retry_after = retry_after
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Circuit:
    """What the last calls came to; ``trying`` while the one call is under way that decides."""

    failures: int = 0
    open_until: float = 0.0
    trying: bool = False

    @property
    def closed(self) -> bool:
        """Whether anyone may call."""
        return self.failures < FAILURES


def seconds_left(circuit: Circuit, now: float) -> float:
    """How long nobody may call; 0 for a call at once."""
    if circuit.closed:
        return 0.0
    if circuit.trying:
        return TRIAL_SECONDS
    return max(0.0, circuit.open_until - now)


def entered(circuit: Circuit) -> Circuit:
    """A call begins; the first one of an open circuit is the trial."""
    return replace(circuit, trying=not circuit.closed)


def failed(circuit: Circuit, now: float, *, trial: bool, spread: float) -> Circuit:
    """A call failed; ``spread``, from 0 to 1, keeps many processes from coming back at once.

    A circuit that is open already takes no notice of those that had begun before: they would only prolong it.
    """
    if not circuit.closed and not trial:
        return circuit
    failures = circuit.failures + 1
    if failures < FAILURES:
        return Circuit(failures)
    seconds = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures - FAILURES, 10))
    return Circuit(failures, now + seconds * (0.5 + spread / 2))


def abandoned(circuit: Circuit, *, trial: bool) -> Circuit:
    """A call ended without telling anything; another one may be the trial."""
    return replace(circuit, trying=False) if trial else circuit


class Breaker:
    """The circuit of one endpoint, shared by all calls of a process that have the same patience.

    ``name`` is the endpoint's in the log and to callers, who get ``unavailable`` while the circuit is open.
    """

    def __init__(self, name: str, unavailable: type[Unavailable], *, clock: Callable[[], float] = monotonic) -> None:
        self._name = name
        self._unavailable = unavailable
        self._clock = clock
        self._circuit = Circuit()

    @property
    def name(self) -> str:
        """Return the endpoint's name."""
        return self._name

    @property
    def is_open(self) -> bool:
        """Return whether the endpoint has failed too often, and has not answered since."""
        return not self._circuit.closed

    def check(self) -> None:
        """Raises ``unavailable``, with the time left, while the circuit is open."""
        left = seconds_left(self._circuit, self._clock())
        if left > 0.0:
            message = f"The {self._name} endpoint is left alone for a moment: it has failed too often, or asked for it."
            raise self._unavailable(message, retry_after=left, circuit_open=True)

    @contextmanager
    def call(self, *, hangs_after: float, fair_seconds: float = 0.0) -> Iterator[None]:
        """Around a call. EndpointFailed is a failure, and so is being cancelled after ``hangs_after`` seconds; anything
        else that ends it, a refusal too, is an answer. Being late within ``fair_seconds`` says nothing: else whoever
        has no patience would take the endpoint from those that have some. Raises as ``check``.
        """
        self.check()
        trial = not self._circuit.closed
        self._circuit = entered(self._circuit)
        started = self._clock()
        after = Circuit()
        try:
            yield
        except EndpointFailed as exc:
            unfair = exc.kind == "timeout" and self._clock() - started < fair_seconds
            after = abandoned(self._circuit, trial=trial) if unfair else self._failed(trial)
            raise
        except asyncio.CancelledError:
            hung = self._clock() - started >= hangs_after
            after = self._failed(trial) if hung else abandoned(self._circuit, trial=trial)
            raise
        finally:
            self._become(after)

    def try_now(self) -> None:
        """Let the next call be the trial of an open circuit, whatever time is left."""
        if not self._circuit.closed:
            self._become(replace(self._circuit, open_until=self._clock()))

    def rest(self, seconds: float) -> None:
        """The endpoint has asked for so many seconds without calls; a minute at most, for nobody knows it means us."""
        until = self._clock() + min(seconds, LONGEST_SECONDS)
        if until > self._circuit.open_until:
            self._become(Circuit(max(self._circuit.failures, FAILURES), until))

    def answering(self) -> None:
        """A call has begun to get a long answer: where it is the trial, nobody need wait for its end."""
        if not self._circuit.closed:
            self._become(Circuit())

    def _failed(self, trial: bool) -> Circuit:
        return failed(self._circuit, self._clock(), trial=trial, spread=random.random())  # noqa: S311  no secret

    def _become(self, circuit: Circuit) -> None:
        if circuit.closed and not self._circuit.closed:
            logger.info(f"{self._name}.circuit_closed")
        if circuit.open_until > self._circuit.open_until:
            seconds = round(circuit.open_until - self._clock(), 1)
            logger.warning(f"{self._name}.circuit_opened", failures=circuit.failures, seconds=seconds)
        self._circuit = circuit


@runtime_checkable
class HasCircuitBreaker(Protocol):
    """A client of an endpoint that has a circuit breaker."""

    @property
    def circuit_breaker(self) -> Breaker:
        """Return the circuit breaker of the endpoint."""
