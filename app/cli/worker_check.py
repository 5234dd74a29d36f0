"""The worker checks of ``carrel doctor``: live workers, a worker that keeps ending, and the oldest waiting job."""

from collections.abc import Iterator
from typing import Literal

import httpx2

from app.cli.runtime_state import read_credentials
from app.db.diagnostics import QueueDiagnostics
from app.settings import Settings

WorkerCheckState = Literal["ok", "warning", "failed"]
# A longer wait means that there are too few workers, or that the workers do not work.
MAX_WAITING_MINUTES = 10
MIN_LOST_WORKERS = 3
ANSWER_TIMEOUT_SECONDS = 3.0


def check_workers(queue: QueueDiagnostics) -> Iterator[tuple[str, WorkerCheckState, str]]:
    """Yield the name, state and detail of each check of workers and waiting jobs."""
    if queue.alive:
        yield "workers", "ok", f"{queue.alive} with a heartbeat within a minute"
    else:
        detail = "none has sent a heartbeat within a minute: start `carrel serve` or `carrel worker`"
        yield "workers", "failed" if queue.waiting else "warning", detail
    if queue.lost >= MIN_LOST_WORKERS:
        detail = f"{queue.lost} workers ended unexpectedly within about ten minutes: see their logs for the cause"
        yield "lost workers", "warning", detail
    if queue.confinement is not None:
        state: WorkerCheckState = "ok" if queue.confinement.level == "full" else "warning"
        yield "parser confinement of workers", state, f"{queue.confinement.level}: {queue.confinement.detail}"
    yield "waiting jobs", *_check_waiting_jobs(queue)


def _check_waiting_jobs(queue: QueueDiagnostics) -> tuple[WorkerCheckState, str]:
    if queue.oldest_seconds is None:
        return "ok", "no job waits for a worker"
    number = f"{queue.waiting} or more" if queue.waiting >= 1000 else str(queue.waiting)
    detail = f"{number} wait for a worker, the oldest for {max(0.0, queue.oldest_seconds) / 60:.1f} minutes"
    if queue.oldest_seconds <= MAX_WAITING_MINUTES * 60:
        return "ok", detail
    return (
        "warning" if queue.alive else "failed",
        f"{detail}, which is more than {MAX_WAITING_MINUTES}: start another worker",
    )


async def check_restarts(settings: Settings) -> tuple[WorkerCheckState, str] | None:
    """Return a failure if the worker of the service on the data directory keeps ending, else None."""
    credentials = read_credentials(settings.server.data_dir)
    if credentials is None:
        return None
    try:
        async with httpx2.AsyncClient(timeout=ANSWER_TIMEOUT_SECONDS, trust_env=False) as client:
            checks = (await client.get(f"{credentials.url}/readyz")).json()["checks"]
        restarts = checks.get("worker_restarts")
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TypeError, KeyError, AttributeError):
        return None  # no service runs there now
    return (
        None
        if restarts is None
        else ("failed", f"the worker of {credentials.url} keeps ending ({restarts}): see its log for the cause")
    )
