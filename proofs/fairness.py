"""``make prove NAME=fairness``: upload a document while another tenant has 10,000 waiting documents.

The proof starts a real service with a worker. SQL inserts the documents of the large tenant, and the worker ingests
them. The small tenant uploads one document after the other over HTTP. The proof counts the jobs of the large tenant
that end between the commit of such an upload and the claim of its job. Their number may be at most the concurrency of
the worker.
"""

import asyncio
import json
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import httpx2

from app.ids import decode_id
from app.jobs.queue import CHANNEL
from app.settings import WorkerSettings
from harness.processes import RunningService, embedding_endpoint, exit_on_sigterm, running_service

WAITING_DOCUMENTS = 10_000
ROUNDS = 10
TEXT = "A small document of a tenant that has very many of them. It says nothing new, and it is ingested for real."
FILL_QUEUE_SQL = """
with source as (
  select d.*, o.key from document d join document_object o on (o.tenant_id, o.document_id) = (d.tenant_id, d.id)
   where d.tenant_id = $1
), added as (
  insert into document (tenant_id, kb_id, id, source, media_type, bytes, sha256, scope_key, filterable, external_id)
  select tenant_id, kb_id, gen_random_uuid(), source, media_type, bytes, sha256, scope_key, filterable, 'copy ' || n
    from source, generate_series(1, $2::int) n returning tenant_id, id
), objects as (
  insert into document_object (tenant_id, document_id, version, key)
  select a.tenant_id, a.id, 1, s.key from added a, source s
)
insert into job (tenant_id, id, kind, document_id, payload)
select tenant_id, gen_random_uuid(), 'ingest_document', id, '{"version": 1}' from added"""


@dataclass(frozen=True, slots=True)
class QueueWait:
    """Time from the commit of an upload to the claim of its job, and the large tenant's jobs that ended in it."""

    seconds: float
    ended_jobs: int


@contextmanager
def small_tenant(service: RunningService) -> Iterator[tuple[str, httpx2.Client]]:
    """Create a second tenant; yield its id and a client with its API key."""
    operator = (service.data_dir / "operator-key").read_text().strip()
    headers = {"Authorization": f"Bearer {operator}"}
    created = httpx2.post(f"{service.url}/v1/tenants", json={"name": "small"}, headers=headers, timeout=30)
    created.raise_for_status()
    key = created.json()["api_key"]["key"]
    with httpx2.Client(base_url=service.url, headers={"Authorization": f"Bearer {key}"}, timeout=120) as client:
        yield created.json()["id"], client


def upload(client: httpx2.Client, text: str) -> None:
    """Upload one document and wait until it is ready. A document that is not ready after 60 s is an error."""
    url = "/v1/knowledge-bases/default/documents"
    reply = client.post(url, params={"wait": 60}, json={"text": text, "media_type": "text/plain"})
    reply.raise_for_status()
    if reply.json()["status"] != "ready":
        raise RuntimeError(f"the document is not ready after 60 s: {reply.json()}")


def count_ended_jobs(log: Path, tenant: str, after: datetime, before: datetime) -> int:
    """Count the jobs of a tenant that ended in a time span, according to the log of the worker."""
    count = 0
    for line in log.read_text().splitlines():
        if '"job.done"' in line and tenant in line:
            count += after <= datetime.fromisoformat(json.loads(line)["time"]) <= before
    return count


async def measure(
    owner: asyncpg.Connection, client: httpx2.Client, log: Path, *, large: str, small: str, number: int
) -> QueueWait:
    """Upload one document and return its wait in the queue.

    The time of the commit is that of the queue's notification. The time of the claim is in the table ``tenant_queue``.
    """
    loop = asyncio.get_running_loop()
    committed: asyncio.Future[datetime] = loop.create_future()

    def record_commit(*_: object) -> None:
        if not committed.done():
            committed.set_result(datetime.now(UTC))

    await owner.add_listener(CHANNEL, record_commit)
    await asyncio.to_thread(upload, client, f"Document {number} of a tenant that has few.")
    await owner.remove_listener(CHANNEL, record_commit)
    claimed = await owner.fetchval("select last_claim from tenant_queue where tenant_id = $1", small)
    ended = await asyncio.to_thread(count_ended_jobs, log, large, await committed, claimed)
    return QueueWait((claimed - await committed).total_seconds(), ended)


async def run(service: RunningService) -> list[QueueWait]:
    """Fill the queue of the large tenant, then measure uploads of the small tenant at random times."""
    log, pauses = service.data_dir.parent / "serve.log", random.Random(1)
    with service.create_client() as first, small_tenant(service) as (small_id, client):
        await asyncio.to_thread(upload, first, TEXT)
        runtime = json.loads((service.data_dir / "runtime.json").read_text())
        owner = await asyncpg.connect(runtime["admin_database_url"])
        try:
            large = await owner.fetchval("select tenant_id from document")
            small = decode_id("ten", small_id)
            await owner.execute(FILL_QUEUE_SQL, large, WAITING_DOCUMENTS)
            await owner.execute("analyze job; analyze document")
            waits = []
            for number in range(ROUNDS):
                await asyncio.sleep(pauses.uniform(0.2, 0.7))
                waits.append(await measure(owner, client, log, large=str(large), small=str(small), number=number))
            left = await owner.fetchval("select count(*) from job where tenant_id = $1", large)
            print(
                f"{WAITING_DOCUMENTS - left} of the large tenant's {WAITING_DOCUMENTS} documents were ingested "
                f"during the measurement, {left} wait"
            )
        finally:
            await owner.close()
    return waits


def main() -> int:
    places = WorkerSettings().concurrency
    with embedding_endpoint() as embedding_url, running_service(embedding_url) as service:
        waits = asyncio.run(run(service))
    print("\n| upload | commit to claim, ms | jobs of the large tenant that ended in that time |")
    print("| --- | --- | --- |")
    for number, wait in enumerate(waits, 1):
        print(f"| {number} | {wait.seconds * 1000:.0f} | {wait.ended_jobs} |")
    worst = max(wait.ended_jobs for wait in waits)
    print(f"\nat most {worst} (target: at most {places}, the concurrency of the worker)")
    return int(worst > places)


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main())
