"""``GET /v1/status``: live workers, waiting and failed jobs, and endpoints that do not answer."""

from datetime import UTC, datetime

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin, CurrentResources
from app.errors import ForbiddenError
from app.jobs.waiting_reasons import MAX_WORKER_SILENCE
from app.principal import Role

router = APIRouter(tags=["status"], route_class=AuthenticatedRoute)


class ParserConfinementOut(BaseModel):
    """Confinement of the processes that read untrusted files."""

    level: str = Field(
        description="`full` if the kernel limits both system calls and access to files, `partial` if it limits "
        "one of them, `none` if it limits neither.",
        examples=["full"],
    )
    detail: str | None = Field(
        description="The measures in force, and what is missing and why. Only the operator gets it; null for admins.",
        examples=[None],
    )


class WorkersOut(BaseModel):
    """Workers of the whole service."""

    alive: int = Field(
        description="Number of workers that have given a sign of life within the last minute.", examples=[1]
    )
    outages: list[str] = Field(
        description="Error codes of the dependencies that these workers cannot reach: `embedding_unavailable`, "
        "`object_store_unavailable` or `vision_unavailable`.",
        examples=[[]],
    )
    restarting: str | None = Field(
        description="A sentence about a worker that keeps ending, if this API process starts the worker. Only the "
        "operator gets it; null for admins.",
        examples=[None],
    )
    parser_confinement: ParserConfinementOut | None = Field(
        description="Confinement of parser processes as these workers have measured it: that of the worker with the "
        "weakest one. Null if no worker has measured it yet."
    )


class JobCountsOut(BaseModel):
    """Jobs of the tenant, or of all tenants for the operator. The numbers stop at 1,000, except `running`."""

    waiting: int = Field(description="Number of jobs that can run now and wait for a worker.", examples=[12])
    oldest_waiting_since: datetime | None = Field(
        description="Time since which the oldest waiting job can run; null if no job waits.",
        examples=["2026-03-02T09:30:00Z"],
    )
    oldest_waiting_seconds: float | None = Field(description="The same time as an age in seconds.", examples=[41.5])
    postponed: int = Field(
        description="Number of jobs that run later: after an outage, a rate limit or a failure.", examples=[3]
    )
    running: int = Field(description="Number of jobs that workers work on now.", examples=[2])
    failed_24h: int = Field(description="Number of jobs that were given up within the last 24 hours.", examples=[1])


class StatusOut(BaseModel):
    """State of ingestion."""

    workers: WorkersOut = Field(description="Workers of the service.")
    jobs: JobCountsOut = Field(description="Jobs of the tenant, or of all tenants for the operator.")
    open_circuits: list[str] = Field(
        description="Model endpoints whose circuit breaker is open in the API process that answers: `embedding`, "
        "`chat` or `rerank`. A circuit breaker is open from five failures in a row until the endpoint "
        "answers.",
        examples=[[]],
    )


@router.get("/status", response_model=StatusOut, summary="Get the status")
async def get_status(resources: CurrentResources, tenant: CurrentAdmin) -> StatusOut:
    """Return live workers, waiting and failed jobs, and model endpoints that do not answer.

    An admin gets the jobs of the tenant. The operator gets the jobs of all tenants. Restricted keys get 403.
    """
    principal = tenant.principal
    if principal.knowledge_base_ids is not None or principal.user_id is not None:
        raise ForbiddenError("A restricted key cannot read the status. Use a key without restrictions.")
    is_operator = principal.role is Role.OPERATOR
    system = resources.control_plane
    confinement = await system.find_weakest_confinement(within=MAX_WORKER_SILENCE)
    figures = await system.get_queue_stats(None if is_operator else principal.tenant_id)
    oldest = figures.oldest_at
    return StatusOut(
        workers=WorkersOut(
            alive=await system.count_workers(within=MAX_WORKER_SILENCE),
            outages=await system.list_outages(within=MAX_WORKER_SILENCE),
            restarting=resources.worker_exits.format_status() if is_operator else None,
            parser_confinement=confinement
            and ParserConfinementOut(level=confinement.level, detail=confinement.detail if is_operator else None),
        ),
        jobs=JobCountsOut(
            waiting=figures.waiting,
            oldest_waiting_since=oldest,
            oldest_waiting_seconds=None if oldest is None else max(0.0, (datetime.now(UTC) - oldest).total_seconds()),
            postponed=figures.postponed,
            running=figures.running,
            failed_24h=figures.failed,
        ),
        open_circuits=resources.list_open_circuits(),
    )
