"""Circuit breaker: when it opens, for how long, and which call tests the endpoint again."""

import asyncio
import contextlib
import math
from collections.abc import Callable

import pytest

from app.errors import InvalidInputError, UnavailableError
from app.inference.circuit_breaker import (
    MAX_FAILURES,
    MAX_PAUSE_SECONDS,
    TRIAL_PAUSE_SECONDS,
    CircuitBreaker,
    CircuitState,
    EndpointFailed,
    abandon_call,
    compute_remaining_seconds,
    record_failure,
    start_call,
)
from harness.manual_clock import ManualClock

OPEN = CircuitState(MAX_FAILURES, open_until=110.0)
TRYING = CircuitState(MAX_FAILURES, open_until=110.0, is_in_trial=True)


@pytest.mark.parametrize(
    ("circuit", "now", "left"),
    [
        (CircuitState(), 100.0, 0.0),
        (CircuitState(MAX_FAILURES - 1), 100.0, 0.0),
        (OPEN, 100.0, 10.0),
        (OPEN, 110.0, 0.0),
        (OPEN, 500.0, 0.0),
        (TRYING, 500.0, TRIAL_PAUSE_SECONDS),
    ],
)
def test_remaining_seconds_depend_on_circuit_state(circuit: CircuitState, now: float, left: float) -> None:
    assert compute_remaining_seconds(circuit, now) == left


@pytest.mark.parametrize(
    ("before", "trying"), [(CircuitState(), False), (CircuitState(MAX_FAILURES - 1), False), (OPEN, True)]
)
def test_start_call_first_call_of_open_circuit_is_trial(before: CircuitState, trying: bool) -> None:
    assert start_call(before).is_in_trial is trying


@pytest.mark.parametrize(
    ("before", "trial", "spread", "after"),
    [
        (CircuitState(), False, 1.0, CircuitState(1)),
        (CircuitState(MAX_FAILURES - 2), False, 1.0, CircuitState(MAX_FAILURES - 1)),
        (CircuitState(MAX_FAILURES - 1), False, 1.0, CircuitState(MAX_FAILURES, 101.0)),
        (CircuitState(MAX_FAILURES - 1), False, 0.0, CircuitState(MAX_FAILURES, 100.5)),
        (TRYING, True, 1.0, CircuitState(MAX_FAILURES + 1, 102.0)),
        (CircuitState(MAX_FAILURES + 3, 90.0, is_in_trial=True), True, 1.0, CircuitState(MAX_FAILURES + 4, 116.0)),
        (CircuitState(MAX_FAILURES + 9, 90.0, is_in_trial=True), True, 1.0, CircuitState(MAX_FAILURES + 10, 160.0)),
        (CircuitState(5000, 90.0, is_in_trial=True), True, 0.0, CircuitState(5001, 130.0)),
        # Calls that began before it opened change nothing.
        (OPEN, False, 1.0, OPEN),
        (TRYING, False, 1.0, TRYING),
    ],
)
def test_record_failure_returns_next_state(
    before: CircuitState, trial: bool, spread: float, after: CircuitState
) -> None:
    assert record_failure(before, 100.0, is_trial=trial, jitter=spread) == after


@pytest.mark.parametrize(
    ("before", "trial", "after"),
    [(TRYING, True, OPEN), (TRYING, False, TRYING), (CircuitState(2), False, CircuitState(2)), (OPEN, False, OPEN)],
)
def test_abandon_call_returns_next_state(before: CircuitState, trial: bool, after: CircuitState) -> None:
    assert abandon_call(before, is_trial=trial) == after


class EndpointDown(UnavailableError):
    """An error like an adapter's."""

    code = "endpoint_down"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def breaker(clock: ManualClock) -> CircuitBreaker:
    return CircuitBreaker("parrot", EndpointDown, clock=clock)


def call(breaker: CircuitBreaker, error: BaseException | None = None, *, hangs_after: float = math.inf) -> None:
    with contextlib.suppress(EndpointFailed, InvalidInputError, asyncio.CancelledError):  # noqa: SIM117
        with breaker.call(hang_timeout_seconds=hangs_after):
            if error is not None:
                raise error


def repeat(breaker: CircuitBreaker, make: Callable[[], BaseException | None], times: int, **options: float) -> None:
    for _ in range(times):
        call(breaker, make(), **options)


def test_breaker_consecutive_failures_open_circuit(breaker: CircuitBreaker) -> None:
    repeat(breaker, lambda: EndpointFailed("HTTP 500"), MAX_FAILURES)
    with pytest.raises(EndpointDown, match="The parrot endpoint") as raised:
        breaker.check()
    assert 0.0 < raised.value.retry_after <= 1.0
    with pytest.raises(EndpointDown), breaker.call(hang_timeout_seconds=math.inf):
        pytest.fail("nobody may call")


@pytest.mark.parametrize("answer", [None, InvalidInputError()], ids=["success", "refusal"])
def test_breaker_success_resets_failures(breaker: CircuitBreaker, answer: Exception | None) -> None:
    for _ in range(3):
        repeat(breaker, lambda: EndpointFailed("HTTP 500"), MAX_FAILURES - 1)
        call(breaker, answer)
    breaker.check()


@pytest.mark.parametrize(("hangs_after", "opens"), [(0.0, True), (math.inf, False)])
def test_breaker_cancelled_calls_count_if_they_hung(breaker: CircuitBreaker, hangs_after: float, opens: bool) -> None:
    repeat(breaker, asyncio.CancelledError, MAX_FAILURES, hangs_after=hangs_after)
    with pytest.raises(EndpointDown) if opens else contextlib.nullcontext():
        breaker.check()


def test_breaker_late_success_closes_circuit(breaker: CircuitBreaker) -> None:
    with breaker.call(hang_timeout_seconds=math.inf):
        repeat(breaker, lambda: EndpointFailed("no connection"), MAX_FAILURES)
        with pytest.raises(EndpointDown):
            breaker.check()
    breaker.check()


def open_up(breaker: CircuitBreaker) -> None:
    repeat(breaker, lambda: EndpointFailed("HTTP 500"), MAX_FAILURES)


@pytest.mark.parametrize("answer", [None, InvalidInputError()], ids=["success", "refusal"])
def test_breaker_successful_trial_closes_circuit(
    breaker: CircuitBreaker, clock: ManualClock, answer: Exception | None
) -> None:
    open_up(breaker)
    clock.now += 1.0
    call(breaker, answer)
    repeat(breaker, lambda: EndpointFailed("HTTP 500"), MAX_FAILURES - 1)
    breaker.check()


def test_breaker_allows_one_trial_at_a_time(breaker: CircuitBreaker, clock: ManualClock) -> None:
    open_up(breaker)
    clock.now += 1.0
    with breaker.call(hang_timeout_seconds=math.inf):
        with pytest.raises(EndpointDown) as raised:
            breaker.check()
        assert raised.value.retry_after == TRIAL_PAUSE_SECONDS
    breaker.check()


def test_breaker_other_calls_do_not_wait_for_end_of_long_trial(breaker: CircuitBreaker, clock: ManualClock) -> None:
    open_up(breaker)
    clock.now += 1.0
    with contextlib.suppress(EndpointFailed), breaker.call(hang_timeout_seconds=math.inf):
        breaker.mark_streaming()
        repeat(breaker, lambda: EndpointFailed("HTTP 500"), MAX_FAILURES - 2)
        raise EndpointFailed("it breaks off")
    breaker.check()
    call(breaker, EndpointFailed("HTTP 500"))
    with pytest.raises(EndpointDown):
        breaker.check()


def test_breaker_failed_trial_doubles_pause(breaker: CircuitBreaker, clock: ManualClock) -> None:
    open_up(breaker)
    clock.now += 1.0
    call(breaker, EndpointFailed("HTTP 500"))
    with pytest.raises(EndpointDown) as raised:
        breaker.check()
    assert 1.0 <= raised.value.retry_after <= 2.0
    clock.now += 2.0
    breaker.check()


def test_breaker_cancelled_trial_is_left_to_next_call(breaker: CircuitBreaker, clock: ManualClock) -> None:
    open_up(breaker)
    clock.now += 1.0
    call(breaker, asyncio.CancelledError())
    breaker.check()
    with breaker.call(hang_timeout_seconds=math.inf), pytest.raises(EndpointDown):
        breaker.check()


def test_breaker_hang_is_measured_by_clock(breaker: CircuitBreaker, clock: ManualClock) -> None:
    for _ in range(MAX_FAILURES):
        with contextlib.suppress(asyncio.CancelledError), breaker.call(hang_timeout_seconds=5.0):
            clock.now += 5.0
            raise asyncio.CancelledError
    with pytest.raises(EndpointDown):
        breaker.check()


def test_breaker_requested_pause_is_respected(breaker: CircuitBreaker, clock: ManualClock) -> None:
    breaker.pause(30.0)
    with pytest.raises(EndpointDown) as raised:
        breaker.check()
    assert raised.value.retry_after == 30.0
    breaker.pause(10.0)
    clock.now += 29.0
    with pytest.raises(EndpointDown):
        breaker.check()
    clock.now += 1.0
    call(breaker)
    breaker.check()


def test_breaker_requested_pause_is_limited(breaker: CircuitBreaker, clock: ManualClock) -> None:
    breaker.pause(86_400.0)
    clock.now += MAX_PAUSE_SECONDS
    breaker.check()


@pytest.mark.parametrize(("seconds", "opens"), [(0.2, False), (0.3, True)])
def test_breaker_timeouts_of_short_calls_do_not_count(
    breaker: CircuitBreaker, clock: ManualClock, seconds: float, opens: bool
) -> None:
    for _ in range(MAX_FAILURES):
        with contextlib.suppress(EndpointFailed), breaker.call(hang_timeout_seconds=math.inf, grace_seconds=0.3):
            clock.now += seconds + 1e-9
            raise EndpointFailed("no answer in time", kind="timeout")
    with pytest.raises(EndpointDown) if opens else contextlib.nullcontext():
        breaker.check()
