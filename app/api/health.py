"""Routes for liveness and readiness checks of orchestrators."""

import asyncio

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from app.api.dependencies import CurrentResources
from app.bootstrap import Resources
from app.errors import UnavailableError
from app.jobs.waiting_reasons import MAX_WORKER_SILENCE

router = APIRouter(tags=["health"])


class HealthOut(BaseModel):
    """State of the process."""

    status: str = Field(
        description="`ok`, `degraded` (no worker ingests, or a worker keeps ending) or `unavailable`.", examples=["ok"]
    )
    checks: dict[str, str] = Field(
        {},
        description="State of each dependency; empty for `/healthz`.",
        examples=[{"database": "ok", "object_store": "ok", "worker": "ok"}],
    )


@router.get("/healthz", summary="Check liveness", response_model=HealthOut)
async def check_liveness() -> HealthOut:
    """Return `ok` if the process answers."""
    return HealthOut(status="ok")


@router.get("/readyz", summary="Check readiness", response_model=HealthOut, responses={503: {"model": HealthOut}})
async def check_readiness(resources: CurrentResources) -> HealthOut | JSONResponse:
    """Check that database and object store answer, and whether a worker has sent a heartbeat within a minute.

    Without a worker the body has the status `degraded`, and the HTTP status is 200: searches work, and uploads wait in
    the queue. The status is also `degraded` if the worker of this process keeps ending while another worker lives. Then
    the check `worker_restarts` has the number of ends and the reason. Otherwise the check is left out.
    """
    checks: dict[str, str] = {}
    for name, check in (("database", resources.database.check), ("object_store", resources.objects.check)):
        try:
            async with asyncio.timeout(3):
                await check()
            checks[name] = "ok"
        except (UnavailableError, TimeoutError):
            checks[name] = "unavailable"
    if all(state == "ok" for state in checks.values()):
        checks["worker"] = await _check_worker(resources)
        if resources.worker_exits.is_crash_loop:
            checks["worker_restarts"] = f"it ended {resources.worker_exits.summary}"
        is_healthy = checks["worker"] == "ok" and "worker_restarts" not in checks
        return HealthOut(status="ok" if is_healthy else "degraded", checks=checks)
    return JSONResponse(HealthOut(status="unavailable", checks=checks).model_dump(), 503, {"Retry-After": "2"})


async def _check_worker(resources: Resources) -> str:
    """Return ``ok``, ``absent``, ``unknown``, or the state of the worker that this process keeps restarting."""
    try:
        async with asyncio.timeout(3):
            if await resources.control_plane.count_workers(within=MAX_WORKER_SILENCE):
                return "ok"
    except (UnavailableError, TimeoutError):
        return "unknown"
    return resources.worker_exits.format_status() or "absent"
