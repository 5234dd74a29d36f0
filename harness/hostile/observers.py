"""Observers of an attack: another tenant that uploads small texts, and measurements of the service's processes."""

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
    """Small upload of the other tenant: times of its response and of its claim, and the seconds until it was ready."""

    answered_at: datetime
    claimed_at: datetime
    seconds: float


@dataclass(slots=True)
class ProcessWatch:
    """Peak memory in MB by kind of process, and the ids of all processes that were workers."""

    peaks_mb: dict[str, float] = field(default_factory=dict)
    worker_pids: set[int] = field(default_factory=set)

    def sample(self, service: RunningService) -> None:
        """Measure once; blocking."""
        for name, size in service.measure_peaks_mb().items():
            self.peaks_mb[name] = max(size, self.peaks_mb.get(name, 0.0))
        self.worker_pids |= list_living_workers(service)

    async def run(self, service: RunningService) -> None:
        """Measure until cancelled."""
        while True:
            await asyncio.to_thread(self.sample, service)
            await asyncio.sleep(SAMPLE_INTERVAL_SECONDS)


def list_living_workers(service: RunningService) -> set[int]:
    """Return the ids of the processes that ``serve`` has started, without Postgres."""
    return {
        item.pid
        for item in list_process_tree(service.pid)
        if item.parent_pid == service.pid and item.program != "postgres"
    }


async def upload_small_text(client: httpx2.Client, number: int) -> tuple[datetime, float]:
    """Upload one text and wait until it is ready.

    Args:
        client: Client of the tenant.
        number: Number in the text, so that each text is new.

    Returns:
        Time of the response, and the seconds until the document was ready.

    Raises:
        RuntimeError: The ingestion failed.
    """
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
    """Upload small texts one after the other, with pauses of a second.

    Args:
        owner: Connection of the role that owns the tables.
        client: Client of the tenant.
        tenant: Id of the tenant.
        wanted: Returns whether to continue.
    """
    visits: list[NeighbourUpload] = []
    while wanted():
        answered, seconds = await upload_small_text(client, len(visits))
        claimed = await owner.fetchval("select last_claim from tenant_queue where tenant_id = $1", tenant)
        visits.append(NeighbourUpload(answered, claimed, seconds))
        await asyncio.sleep(UPLOAD_INTERVAL_SECONDS)
    return visits


def count_ended_jobs(log: Path, tenant: object, visits: Sequence[NeighbourUpload]) -> list[int]:
    """Count the jobs of the attacker that ended while each upload of the other tenant waited for its claim.

    Args:
        log: Log of the worker.
        tenant: Id of the attacker's tenant.
        visits: Uploads of the other tenant.

    Returns:
        One number for each upload.
    """
    ended = [
        datetime.fromisoformat(json.loads(line)["time"])
        for line in log.read_text().splitlines()
        if str(tenant) in line and any(event in line for event in _ENDED_EVENTS)
    ]
    return [sum(item.answered_at <= moment <= item.claimed_at for moment in ended) for item in visits]
