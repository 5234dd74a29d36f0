"""When an endpoint that fails is left alone, for how long, and who finds out whether it is back."""

import asyncio
import contextlib
import math
from collections.abc import Callable

import pytest

from app.errors import InvalidInput
from app.inference.embedding import EmbeddingUnavailable
from app.inference.embedding.circuit import (
    FAILURES,
    TRIAL_SECONDS,
    Breaker,
    Circuit,
    EndpointFailed,
    abandoned,
    entered,
    failed,
    seconds_left,
)

OPEN = Circuit(FAILURES, open_until=110.0)
TRYING = Circuit(FAILURES, open_until=110.0, trying=True)


@pytest.mark.parametrize(
    ("circuit", "now", "left"),
    [
        (Circuit(), 100.0, 0.0),
        (Circuit(FAILURES - 1), 100.0, 0.0),
        (OPEN, 100.0, 10.0),
        (OPEN, 110.0, 0.0),
        (OPEN, 500.0, 0.0),
        (TRYING, 500.0, TRIAL_SECONDS),
    ],
)
def test_who_may_call(circuit: Circuit, now: float, left: float) -> None:
    assert seconds_left(circuit, now) == left


@pytest.mark.parametrize(("before", "trying"), [(Circuit(), False), (Circuit(FAILURES - 1), False), (OPEN, True)])
def test_the_first_call_of_an_open_circuit_is_the_trial(before: Circuit, trying: bool) -> None:
    assert entered(before).trying is trying


@pytest.mark.parametrize(
    ("before", "trial", "spread", "after"),
    [
        (Circuit(), False, 1.0, Circuit(1)),
        (Circuit(FAILURES - 2), False, 1.0, Circuit(FAILURES - 1)),
        (Circuit(FAILURES - 1), False, 1.0, Circuit(FAILURES, 101.0)),
        (Circuit(FAILURES - 1), False, 0.0, Circuit(FAILURES, 100.5)),
        (TRYING, True, 1.0, Circuit(FAILURES + 1, 102.0)),
        (Circuit(FAILURES + 3, 90.0, trying=True), True, 1.0, Circuit(FAILURES + 4, 116.0)),
        (Circuit(FAILURES + 9, 90.0, trying=True), True, 1.0, Circuit(FAILURES + 10, 160.0)),
        (Circuit(5000, 90.0, trying=True), True, 0.0, Circuit(5001, 130.0)),
        # Calls that had begun before it opened, however many, change nothing.
        (OPEN, False, 1.0, OPEN),
        (TRYING, False, 1.0, TRYING),
    ],
)
def test_what_a_failure_makes_of_it(before: Circuit, trial: bool, spread: float, after: Circuit) -> None:
    assert failed(before, 100.0, trial=trial, spread=spread) == after


@pytest.mark.parametrize(
    ("before", "trial", "after"),
    [(TRYING, True, OPEN), (TRYING, False, TRYING), (Circuit(2), False, Circuit(2)), (OPEN, False, OPEN)],
)
def test_a_call_that_tells_nothing(before: Circuit, trial: bool, after: Circuit) -> None:
    assert abandoned(before, trial=trial) == after


def call(breaker: Breaker, error: BaseException | None = None, *, hangs_after: float = math.inf) -> None:
    with contextlib.suppress(EndpointFailed, InvalidInput, asyncio.CancelledError):  # noqa: SIM117
        with breaker.call(hangs_after=hangs_after):
            if error is not None:
                raise error


def repeat(breaker: Breaker, make: Callable[[], BaseException | None], times: int, **options: float) -> None:
    for _ in range(times):
        call(breaker, make(), **options)


def test_failures_in_a_row_open_it() -> None:
    breaker = Breaker()
    repeat(breaker, lambda: EndpointFailed("HTTP 500"), FAILURES)
    with pytest.raises(EmbeddingUnavailable) as raised:
        breaker.check()
    assert 0.0 < raised.value.retry_after <= 1.0
    with pytest.raises(EmbeddingUnavailable), breaker.call(hangs_after=math.inf):
        pytest.fail("nobody may call")


@pytest.mark.parametrize("answer", [None, InvalidInput()], ids=["success", "refusal"])
def test_an_answer_between_starts_anew(answer: Exception | None) -> None:
    breaker = Breaker()
    for _ in range(3):
        repeat(breaker, lambda: EndpointFailed("HTTP 500"), FAILURES - 1)
        call(breaker, answer)
    breaker.check()


@pytest.mark.parametrize(("hangs_after", "opens"), [(0.0, True), (math.inf, False)])
def test_being_given_up_counts_where_it_took_long(hangs_after: float, opens: bool) -> None:
    breaker = Breaker()
    repeat(breaker, asyncio.CancelledError, FAILURES, hangs_after=hangs_after)
    with pytest.raises(EmbeddingUnavailable) if opens else contextlib.nullcontext():
        breaker.check()


def test_a_late_answer_closes_it() -> None:
    breaker = Breaker()
    with breaker.call(hangs_after=math.inf):
        repeat(breaker, lambda: EndpointFailed("no connection"), FAILURES)
        with pytest.raises(EmbeddingUnavailable):
            breaker.check()
    breaker.check()
