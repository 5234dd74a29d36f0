"""The kill test's supervisor does not end unnoticed, and no process ends after its last check."""

import asyncio

import pytest

from proofs.kill.clients import Tally
from proofs.kill.supervisor import supervision


async def test_supervisor_error_is_raised() -> None:
    def revive() -> list[str]:
        raise OSError("no process can be started")

    with pytest.raises(OSError, match="no process"):
        async with supervision(revive, Tally()):
            await asyncio.sleep(0.01)


async def test_supervisor_reports_process_ended_at_last_check() -> None:
    ended: list[str] = []

    def revive() -> list[str]:
        return [ended.pop()] if ended else []

    tally = Tally()
    async with supervision(revive, tally):
        await asyncio.sleep(0.01)
        ended.append("worker 1 ended by itself with status 1")
    assert tally.faults == ["worker 1 ended by itself with status 1"]
