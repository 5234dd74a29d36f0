"""Detection of a process in a stage of ingestion, by tables, sessions, files and processes of the service.

Some stages last only milliseconds. A session of the proof then locks a table that the stage needs, so that the process
waits in the stage until the kill.
"""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from proofs.kill.calls import build_external_id
from proofs.kill.endpoint import SlowEmbeddingEndpoint
from proofs.kill.service import ServiceProcesses

STAGE_TIMEOUT_SECONDS = 8.0
POLL_INTERVAL_SECONDS = 0.01
RECENT_SECONDS = STAGE_TIMEOUT_SECONDS + 5.0
REPLACE_TABLES = (
    "node",
    "document_text",
    "chunk",
    "chunk_lexical",
    "chunk_embedding",
    "chunk_entity",
    "entity",
    "term_document_frequency",
    "index_totals",
)
DELETE_TABLES = ("chunk", "term_document_frequency", "entity", "index_totals", "document", "deletion", "deletion")
BLOCKED_SQL = """
select pid, client_port, lower(ltrim(query, E' \\n')) query from pg_stat_activity
 where state = 'active' and wait_event_type = 'Lock' and application_name = 'carrel'"""
COMMITTED_SQL = """
select 1 from job where kind = 'ingest_document' and state = 'ready' and attempts = 0 and run_at <= now()
   and created_at > clock_timestamp() - interval '1 s'"""
RUNNING_SQL = """
select j.worker, d.external_id from job j join document d on (d.tenant_id, d.id) = (j.tenant_id, j.document_id)
 where j.kind = 'ingest_document' and j.state = 'running' and d.status not in ('ready', 'failed')
   and d.version = (j.payload ->> 'version')::int and j.lease_until > clock_timestamp()"""
PURGING_SQL = (
    "select worker from job where kind = 'purge_objects' and state = 'running' and lease_until > clock_timestamp()"
)


@dataclass(frozen=True, slots=True)
class CaughtProcess:
    """Process in the stage, and its Postgres session if known."""

    pid: int
    session: int | None = None


@dataclass(slots=True)
class StageObserver:
    """Sources of information for the detection of a stage."""

    service: ServiceProcesses
    endpoint: SlowEmbeddingEndpoint
    connection: asyncpg.Connection
    rng: random.Random

    async def find_blocked(self, kind: str, *beginnings: str) -> CaughtProcess | None:
        """Return a process of a kind that waits for a lock in a statement with one of the beginnings, or in any."""
        for row in await self.connection.fetch(BLOCKED_SQL):
            if beginnings and not row["query"].startswith(beginnings):
                continue
            pid = find_port_owner(row["client_port"], self.service.list_pids(kind))
            if pid is not None:
                return CaughtProcess(pid, row["pid"])
        return None

    async def list_running(self) -> list[tuple[int, str]]:
        """Return the process ids of workers that ingest a document, with the external id of the document."""
        result = await self.connection.fetch(RUNNING_SQL)
        pairs = [(int(row["worker"].split(":")[1]), row["external_id"]) for row in result]
        return [pair for pair in pairs if self.service.find_name(pair[0]) is not None]


def find_port_owner(port: int, pids: list[int]) -> int | None:
    """Return the process that has the TCP connection with this local port, or None."""
    wanted = f":{port:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    inodes = {f"socket:[{fields[9]}]" for fields in map(str.split, lines) if fields[1].endswith(wanted)}
    for pid in pids:
        try:
            if any(str(entry.readlink()) in inodes for entry in Path(f"/proc/{pid}/fd").iterdir()):
                return pid
        except OSError:
            continue
    return None


async def detect_after_put(look: StageObserver) -> CaughtProcess | None:
    """Find an API that has stored an object and waits to insert its row."""
    caught = await look.find_blocked("API", "with written")
    if caught is None:
        return None
    existing = {row["key"] for row in await look.connection.fetch("select key from document_object")}
    return caught if list_stored_keys(look.service.store, since=time.time() - RECENT_SECONDS) - existing else None


async def detect_after_commit(look: StageObserver) -> CaughtProcess | None:
    """Find a job that was committed in the last second and not claimed; return a random API or worker."""
    if await look.connection.fetchval(COMMITTED_SQL) is None:
        return None
    return CaughtProcess(look.rng.choice([*look.service.list_pids("API"), *look.service.list_pids("worker")]))


async def detect_in_parse(look: StageObserver) -> CaughtProcess | None:
    """Find a worker that ingests a document and whose parser process is running."""
    for pid, _ in await look.list_running():
        if any(_is_busy_parser(child) for child in _list_children(pid)):
            return CaughtProcess(pid)
    return None


async def detect_in_embed(look: StageObserver) -> CaughtProcess | None:
    """Find a worker whose chunks the embedding endpoint is processing."""
    for pid, name in await look.list_running():
        if any(build_external_id(slot) == name for slot in look.endpoint.list_slots()):
            return CaughtProcess(pid)
    return None


async def detect_in_replace(look: StageObserver) -> CaughtProcess | None:
    """Find a worker that waits in the transaction that replaces a document. Only workers write to its tables."""
    return await look.find_blocked(
        "worker", "with deleted", "delete from chunk", "delete from node", "with nodes", "with made", "with entities"
    )


async def detect_in_delete(look: StageObserver) -> CaughtProcess | None:
    """Find an API that waits in a deletion, or a worker that waits in the purge after a deletion."""
    caught = await look.find_blocked("API", "with deleted", "delete from document", "insert into deletion")
    return caught or await look.find_blocked("worker", "update deletion", "select 1 from deletion")


STAGES: dict[str, tuple[Callable[[StageObserver], Awaitable[CaughtProcess | None]], tuple[str, ...]]] = {
    "after put": (detect_after_put, ("document_object",)),
    "after commit": (detect_after_commit, ("",)),
    "in parse": (detect_in_parse, ()),
    "in embed": (detect_in_embed, ()),
    "in replace": (detect_in_replace, REPLACE_TABLES),
    "in delete": (detect_in_delete, DELETE_TABLES),
}


@asynccontextmanager
async def process_in_stage(
    stage: str, service: ServiceProcesses, endpoint: SlowEmbeddingEndpoint, rng: random.Random
) -> AsyncIterator[CaughtProcess | None]:
    """Yield a process in the stage and hold it there until the block ends; yield None after 8 s without one.

    If Postgres is down, the connection raises OSError or an exception of asyncpg.
    """
    recognise, tables = STAGES[stage]
    holder = await asyncpg.connect(service.superuser_url, timeout=5)
    observer = await asyncpg.connect(service.superuser_url, timeout=5)
    try:
        if tables:
            await _lock_table(holder, rng.choice(tables))
        look, end, caught = (
            StageObserver(service, endpoint, observer, rng),
            time.monotonic() + STAGE_TIMEOUT_SECONDS,
            None,
        )
        while caught is None and time.monotonic() < end:
            caught = await recognise(look)
            if caught is None:
                await asyncio.sleep(POLL_INTERVAL_SECONDS)
        yield caught
    finally:
        holder.terminate()
        observer.terminate()


async def _lock_table(holder: asyncpg.Connection, table: str) -> None:
    """Lock a table against writes until the session ends. An empty name locks the claims of jobs."""
    await holder.execute("set lock_timeout = '5s'")
    await holder.execute("begin")
    if table:
        await holder.execute(f"lock table {table} in share mode")
    else:
        await holder.execute("lock table claim_lock in exclusive mode")


def list_stored_keys(store: Path, *, since: float = 0.0) -> set[str]:
    """Return the keys of the complete objects that were stored since a time in seconds since the epoch."""
    result = set()
    for folder, _, names in os.walk(store):  # unlike rglob, os.walk ignores files that disappear during the walk
        for path in (Path(folder, name) for name in names if not name.startswith("~")):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime >= since:
                    result.add(path.relative_to(store).as_posix())
    return result


def _list_children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _is_busy_parser(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "R" and b"app.ingestion.parsers.sandbox.child" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
