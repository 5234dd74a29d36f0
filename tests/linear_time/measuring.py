"""Growth of processor time with the length of a text."""

import contextlib
import gc
import time
from collections.abc import Callable

MAX_GROWTH = 2.5
FIRST_LENGTH = 2_000
MAX_LENGTH = 128_000
# A text is long enough if the call takes this long, or if it has the maximum length and takes more than noise.
SECONDS = 0.02
LENGTH, MIN_SECONDS = 64_000, 0.002
ATTEMPTS = 12


def growth(function: Callable[[str], object], text: Callable[[int], str]) -> float:
    """Return how many times longer the call takes for twice the text; 0 if a long text takes almost no time.

    A ratio above the limit is measured again, at two lengths. A busy machine or the processor's caches spoil some of
    the attempts. A quadratic function is above the limit in each of them.

    Args:
    function: The function under test. An exception counts as a result.
    text: The hostile text of a given length.

    Returns:
    The minimum ratio of several attempts.
    """
    length, single = FIRST_LENGTH, 0.0
    while not _is_significant(length, double := _spent(function, text(length), runs=1)):
        length, single = 2 * length, double
    if double < MIN_SECONDS:
        return 0.0
    least = double / single if single else float("inf")
    for attempt in range(ATTEMPTS):
        if least <= MAX_GROWTH:
            break
        shorter = length if attempt % 2 else length // 2
        single = _spent(function, text(shorter), runs=5)
        least = min(least, _spent(function, text(2 * shorter), runs=5) / single)
    return least


def _is_significant(length: int, seconds: float) -> bool:
    return seconds >= SECONDS or length >= MAX_LENGTH or (length >= LENGTH and seconds >= MIN_SECONDS)


def _spent(function: Callable[[str], object], text: str, *, runs: int) -> float:
    """Return the least processor seconds of this process for one call."""
    gc.disable()
    try:
        return min(_once(function, text) for _ in range(runs))
    finally:
        gc.enable()


def _once(function: Callable[[str], object], text: str) -> float:
    begun = time.process_time()
    with contextlib.suppress(Exception):  # a refused text is a result too
        function(text)
    return time.process_time() - begun
