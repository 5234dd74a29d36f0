"""Jobs of the queue: what waits, runs or failed, and the retry of failed jobs."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin, CurrentPageParams, encode_cursor
from app.api.http import example_values
from app.api.http.path_parameters import JobPath
from app.api.http.request_models import Text
from app.api.v1.schemas import ListResponse, Time
from app.bootstrap import TenantServices
from app.errors import InvalidInputError
from app.ids import decode_id, encode_id
from app.job_control.types import JobFilters, JobNotFound, JobState, ListedJob
from app.jobs.waiting_reasons import WaitingReason
from app.principal import Role

router = APIRouter(prefix="/jobs", tags=["jobs"], route_class=AuthenticatedRoute)


class JobErrorOut(BaseModel):
    """Reason of the last failed attempt."""

    code: str = Field(description="Stable error code.", examples=["embedding_unavailable"])
    message: str | None = Field(
        description="One sentence; null if the caller is the operator and the job belongs to a tenant.",
        examples=["The embedding endpoint does not answer."],
    )


class JobOut(BaseModel):
    """Job of the queue. A finished job is removed from it."""

    id: str = Field(description="Id of the job.", examples=[example_values.JOB_ID])
    tenant: str = Field(description="Id of the tenant.", examples=[example_values.TENANT_ID])
    kind: str = Field(description="Kind of work, for example `ingest_document`.", examples=["ingest_document"])
    state: JobState = Field(
        description="`waiting`: can run now. `postponed`: runs at `due_at`, after an outage, a rate limit or a "
        "failure. `scheduled`: periodic work that runs at `due_at`. `running`: a worker works on it. `failed`: it was "
        "given up, and can be retried.",
        examples=["postponed"],
    )
    waiting_for: WaitingReason | None = Field(
        description="Reason why the job waits: `worker`, `tenant_limit` (running jobs of the tenant), "
        "`rate_limit`, `embedding_endpoint`, `vision_endpoint`, `object_store`, or `retry` (the pause after a "
        "failure). It is null in other states.",
        examples=["embedding_endpoint"],
    )
    stage: str | None = Field(
        description="Stage of the ingestion: the status of the document, or the stage that failed. Null for other "
        "kinds.",
        examples=["embedding"],
    )
    document: str | None = Field(
        description="Id of the document; null if the job is not about one document.",
        examples=[example_values.DOCUMENT_ID],
    )
    knowledge_base: str | None = Field(
        description="Id of the knowledge base; null if the job is not about one knowledge base.",
        examples=[example_values.KNOWLEDGE_BASE_ID],
    )
    attempts: int = Field(description="Number of attempts, with the one that runs.", examples=[2])
    max_attempts: int | None = Field(
        description="Number of attempts after which the job is given up; null for periodic work.", examples=[5]
    )
    error: JobErrorOut | None = Field(description="Reason of the last failed attempt; null without one.")
    created_at: Time = Field(description="Time of creation, in UTC.", examples=[example_values.CREATED_AT])
    age_seconds: float = Field(description="Time since the creation, in seconds.", examples=[41.5])
    due_at: Time = Field(
        description="Time from which the job can run, in UTC; of a failed job, the time of the failure.",
        examples=[example_values.UPDATED_AT],
    )


class JobList(ListResponse[JobOut]):
    """Page of jobs."""


class JobsRetriedOut(BaseModel):
    """Retry of several jobs."""

    retried: int = Field(description="Number of jobs that are due now, at most 500.", examples=[12])
    has_more: bool = Field(
        description="Whether further failed jobs match. Send the request again for them.", examples=[False]
    )


@dataclass(frozen=True, slots=True)
class _JobSelection:
    """Filters of a request, without the state."""

    kind: Annotated[
        Text | None, Query(max_length=100, description="Only jobs of this kind.", examples=["ingest_document"])
    ] = None
    error_code: Annotated[
        Text | None,
        Query(
            max_length=100,
            description="Only jobs whose last attempt failed with this error code.",
            examples=["embedding_unavailable"],
        ),
    ] = None
    knowledge_base: Annotated[
        Text | None,
        Query(
            max_length=63,
            description="Only jobs of this knowledge base, and of documents in it: name or id. The operator names the "
            "knowledge base of a tenant by its id.",
            examples=[example_values.KNOWLEDGE_BASE_ID],
        ),
    ] = None

    async def to_filters(
        self, tenant: TenantServices, *, state: JobState | None = None, document: str | None = None
    ) -> JobFilters:
        """Return the conditions on the jobs.

        Raises:
            InvalidInputError: ``document`` is no id of a document.
            KnowledgeBaseNotFound: The knowledge base does not exist.
        """
        document_id = None if document is None else decode_id("doc", document)
        if document is not None and document_id is None:
            raise InvalidInputError("Not an id that begins with doc_.", loc=("query", "document"))
        kb_id = None if self.knowledge_base is None else await _find_knowledge_base(tenant, self.knowledge_base)
        return JobFilters(state, self.kind, self.error_code, document_id, kb_id)


async def _find_knowledge_base(tenant: TenantServices, reference: str) -> UUID:
    """Return the id of a knowledge base. The operator may name those of all tenants by id."""
    decoded = decode_id("kb", reference)
    if decoded is not None and tenant.principal.role is Role.OPERATOR:
        return decoded
    return (await tenant.knowledge_bases.find(reference)).row.id


def _decode_job_id(text: str) -> UUID:
    """Decode the id of a job in a path. Raises JobNotFound."""
    decoded = decode_id("job", text)
    if decoded is None:
        raise JobNotFound
    return decoded


@router.get("", summary="List jobs", response_model=JobList)
async def list_jobs(
    page: CurrentPageParams,
    tenant: CurrentAdmin,
    selection: Annotated[_JobSelection, Depends()],
    state: Annotated[JobState | None, Query(description="Only jobs in this state.", examples=["failed"])] = None,
    document: Annotated[
        Text | None,
        Query(max_length=64, description="Only jobs of this document.", examples=[example_values.DOCUMENT_ID]),
    ] = None,
) -> dict[str, Any]:
    """Return the jobs of the queue, newest first: what waits, runs or failed, and why.

    An admin gets the jobs of the tenant. The operator gets the jobs of all tenants. Restricted keys get 403.
    """
    jobs = await tenant.jobs.list_jobs(
        await selection.to_filters(tenant, state=state, document=document),
        after=page.parse_cursor(),
        limit=page.row_limit,
    )
    items = jobs[: page.limit]
    cursor = encode_cursor(items[-1].created_at, items[-1].id) if jobs[page.limit :] else None
    return page.build_reply([_to_job_out(job) for job in items], cursor)


@router.post("/retry", summary="Retry failed jobs", response_model=JobsRetriedOut)
async def retry_jobs(tenant: CurrentAdmin, selection: Annotated[_JobSelection, Depends()]) -> JobsRetriedOut:
    """Run all failed jobs again that match the filters, at most 500, the oldest first. Without filters, all match."""
    retried, has_more = await tenant.jobs.retry_many(await selection.to_filters(tenant))
    return JobsRetriedOut(retried=retried, has_more=has_more)


@router.get("/{job}", summary="Get a job", response_model=JobOut)
async def get_job(job: JobPath, tenant: CurrentAdmin) -> JobOut:
    """Return a job of the queue. A finished job is not found."""
    return _to_job_out(await tenant.jobs.get(_decode_job_id(job)))


@router.post("/{job}/retry", summary="Retry a failed job", status_code=202, response_model=JobOut)
async def retry_job(job: JobPath, tenant: CurrentAdmin) -> JobOut:
    """Run a failed job again. Its attempts begin at zero, and a failed document is queued again."""
    return _to_job_out(await tenant.jobs.retry(_decode_job_id(job)))


def _to_job_out(job: ListedJob) -> JobOut:
    return JobOut(
        id=encode_id("job", job.id),
        tenant=encode_id("ten", job.tenant_id),
        kind=job.kind,
        state=job.state,
        waiting_for=job.waiting_for,
        stage=job.stage,
        document=None if job.document_id is None else encode_id("doc", job.document_id),
        knowledge_base=None if job.kb_id is None else encode_id("kb", job.kb_id),
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        error=None if job.code is None else JobErrorOut(code=job.code, message=job.message),
        created_at=job.created_at,
        age_seconds=max(0.0, (datetime.now(UTC) - job.created_at).total_seconds()),
        due_at=job.run_at,
    )
