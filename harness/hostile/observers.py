"""What others notice of an attack: a neighbour that uploads small texts, and the processes of the service."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import httpx2

from harness.processes import RunningService, process_tree

PAUSE_SECONDS = 1.0
SAMPLE_SECONDS = 0.25
POLL_SECONDS = 0.1
_ENDED = ('"job.done"', '"job.failed"')


@dataclass(frozen=True, slots=True)
class Visit:
    """One small upload of the neighbour: when it was answered and claimed, and the seconds until it was ready."""

    answered: datetime
    claimed: datetime
    seconds: float


@dataclass(slots=True)
class Watch:
    """The largest sizes in MB, by what the process is, and the processes that were workers."""

    peaks: dict[str, float] = field(default_factory=dict)
    workers: set[int] = field(default_factory=set)

    def sample(self, service: RunningService) -> None:
        """Look once; blocking."""
        for name, size in service.peaks().items():
            self.peaks[name] = max(size, self.peaks.get(name, 0.0))
        self.workers |= living_workers(service)

    async def keep(self, service: RunningService) -> None:
        """Look all the time, until cancelled."""
        while True:
            await asyncio.to_thread(self.sample, service)
            await asyncio.sleep(SAMPLE_SECONDS)


def living_workers(service: RunningService) -> set[int]:
    """The processes that serve has started, the database apart."""
    return {one.pid for one in process_tree(service.pid) if one.parent == service.pid and one.program != "postgres"}


async def small_upload(client: httpx2.Client, number: int) -> tuple[datetime, float]:
    """One text until it is ready: when it was answered, and the seconds. Raises RuntimeError where it fails."""
    url, started = "/v1/knowledge-bases/default/documents", time.monotonic()
    text = {"text": f"The neighbour's text of number {number}."}
    reply = await asyncio.to_thread(client.post, url, json=text)
    answered = datetime.now(UTC)
    reply.raise_for_status()
    document = reply.json()
    while document["status"] not in ("ready", "failed"):
        await asyncio.sleep(POLL_SECONDS)
        document = (await asyncio.to_thread(client.get, f"{url}/{document['id']}")).json()
    if document["status"] != "ready":
        raise RuntimeError(f"the neighbour's document was not ingested: {document['error']}")
    return answered, time.monotonic() - started


async def visit(
    owner: asyncpg.Connection, client: httpx2.Client, tenant: object, *, wanted: Callable[[], bool]
) -> list[Visit]:
    """Upload a small text every second while ``wanted``, one after the other."""
    visits: list[Visit] = []
    while wanted():
        answered, seconds = await small_upload(client, len(visits))
        claimed = await owner.fetchval("select last_claim from tenant_queue where tenant_id = $1", tenant)
        visits.append(Visit(answered, claimed, seconds))
        await asyncio.sleep(PAUSE_SECONDS)
    return visits


def ended_meanwhile(log: Path, tenant: object, visits: Sequence[Visit]) -> list[int]:
    """How many jobs of the attacker ended while each of the neighbour's waited for its claim, by the worker's log."""
    ended = [
        datetime.fromisoformat(json.loads(line)["time"])
        for line in log.read_text().splitlines()
        if str(tenant) in line and any(event in line for event in _ENDED)
    ]
    return [sum(one.answered <= moment <= one.claimed for moment in ended) for one in visits]
