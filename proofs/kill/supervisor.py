"""What ends by itself is started again, up to the end of the test, and told if it should not have ended."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from proofs.kill.clients import Tally

SUPERVISION_INTERVAL_SECONDS = 0.2
ReviveFunction = Callable[[], list[str]]
"""Starts again what has ended, and returns what is wrong with that."""


@asynccontextmanager
async def supervision(revive: ReviveFunction, tally: Tally) -> AsyncIterator[None]:
    """For this block, with a last look at its end. What the supervisor itself dies of is raised there."""
    supervisor = asyncio.create_task(_supervise(revive, tally))
    try:
        yield
    finally:
        supervisor.cancel()
        with suppress(asyncio.CancelledError):
            await supervisor
        _revive_and_record(revive, tally)


async def _supervise(revive: ReviveFunction, tally: Tally) -> None:
    """Also after the last kill: an API may find no database then."""
    while True:
        _revive_and_record(revive, tally)
        await asyncio.sleep(SUPERVISION_INTERVAL_SECONDS)


def _revive_and_record(revive: ReviveFunction, tally: Tally) -> None:
    for wrong in revive():
        tally.record_fault(wrong)
