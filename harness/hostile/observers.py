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

from harness.processes import RunningService, list_process_tree

UPLOAD_INTERVAL_SECONDS = 1.0
SAMPLE_INTERVAL_SECONDS = 0.25
POLL_INTERVAL_SECONDS = 0.1
_ENDED_EVENTS = ('"job.done"', '"job.failed"')


@dataclass(frozen=True, slots=True)
class NeighbourUpload:
    """One small upload of the neighbour: when it was answered and claimed, and the seconds until it was ready."""

    answered_at: datetime
    claimed_at: datetime
    seconds: float


@dataclass(slots=True)
class ProcessWatch:
    """The largest sizes in MB, by what the process is, and the processes that were workers."""

    peaks_mb: dict[str, float] = field(default_factory=dict)
    worker_pids: set[int] = field(default_factory=set)

    def sample(self, service: RunningService) -> None:
        """Look once; blocking."""
        for name, size in service.measure_peaks_mb().items():
            self.peaks_mb[name] = max(size, self.peaks_mb.get(name, 0.0))
        self.worker_pids |= list_living_workers(service)

    async def run(self, service: RunningService) -> None:
        """Look all the time, until cancelled."""
        while True:
            await asyncio.to_thread(self.sample, service)
            await asyncio.sleep(SAMPLE_INTERVAL_SECONDS)


def list_living_workers(service: RunningService) -> set[int]:
    """The processes that serve has started, the database apart."""
    return {
        item.pid
        for item in list_process_tree(service.pid)
        if item.parent_pid == service.pid and item.program != "postgres"
    }


async def upload_small_text(client: httpx2.Client, number: int) -> tuple[datetime, float]:
    """One text until it is ready: when it was answered, and the seconds. Raises RuntimeError where it fails."""
    url, started = "/v1/knowledge-bases/default/documents", time.monotonic()
    text = {"text": f"The neighbour's text of number {number}."}
    reply = await asyncio.to_thread(client.post, url, json=text)
    answered = datetime.now(UTC)
    reply.raise_for_status()
    document = reply.json()
    while document["status"] not in ("ready", "failed"):
        await asyncio.sleep(POLL_INTERVAL_SECONDS)
        document = (await asyncio.to_thread(client.get, f"{url}/{document['id']}")).json()
    if document["status"] != "ready":
        raise RuntimeError(f"the neighbour's document was not ingested: {document['error']}")
    return answered, time.monotonic() - started


async def upload_small_texts(
    owner: asyncpg.Connection, client: httpx2.Client, tenant: object, *, wanted: Callable[[], bool]
) -> list[NeighbourUpload]:
    """Upload a small text every second while ``wanted``, one after the other."""
    visits: list[NeighbourUpload] = []
    while wanted():
        answered, seconds = await upload_small_text(client, len(visits))
        claimed = await owner.fetchval("select last_claim from tenant_queue where tenant_id = $1", tenant)
        visits.append(NeighbourUpload(answered, claimed, seconds))
        await asyncio.sleep(UPLOAD_INTERVAL_SECONDS)
    return visits


def count_ended_jobs(log: Path, tenant: object, visits: Sequence[NeighbourUpload]) -> list[int]:
    """How many jobs of the attacker ended while each of the neighbour's waited for its claim, by the worker's log."""
    ended = [
        datetime.fromisoformat(json.loads(line)["time"])
        for line in log.read_text().splitlines()
        if str(tenant) in line and any(event in line for event in _ENDED_EVENTS)
    ]
    return [sum(item.answered_at <= moment <= item.claimed_at for moment in ended) for item in visits]
