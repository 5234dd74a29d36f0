"""Supervisor that restarts ended processes until the end of the proof and records unexpected ends as faults."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from proofs.kill.clients import Tally

SUPERVISION_INTERVAL_SECONDS = 0.2
ReviveFunction = Callable[[], list[str]]
"""Function that restarts ended processes and returns the faults."""


@asynccontextmanager
async def supervision(revive: ReviveFunction, tally: Tally) -> AsyncIterator[None]:
    """Supervise the processes during the block and once at its end. An exception of the supervisor is raised there."""
    supervisor = asyncio.create_task(_supervise(revive, tally))
    try:
        yield
    finally:
        supervisor.cancel()
        with suppress(asyncio.CancelledError):
            await supervisor
        _revive_and_record(revive, tally)


async def _supervise(revive: ReviveFunction, tally: Tally) -> None:
    """Restart ended processes until cancelled, also after the last kill, when an API may find no database."""
    while True:
        _revive_and_record(revive, tally)
        await asyncio.sleep(SUPERVISION_INTERVAL_SECONDS)


def _revive_and_record(revive: ReviveFunction, tally: Tally) -> None:
    for wrong in revive():
        tally.record_fault(wrong)
