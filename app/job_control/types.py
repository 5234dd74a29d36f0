"""Types of the list of jobs."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from app.errors import ConflictError, NotFoundError
from app.jobs.waiting_reasons import WaitingReason

JobState = Literal["waiting", "postponed", "scheduled", "running", "failed"]


class JobNotFound(NotFoundError):
    """The job does not exist. A finished job is removed from the queue."""

    code = "job_not_found"


class JobNotFailed(ConflictError):
    """The job has not failed. Only a failed job can be retried."""

    code = "job_not_failed"


@dataclass(frozen=True, slots=True)
class JobFilters:
    """Conditions on jobs. None sets no condition. ``error_code`` is that of the last attempt."""

    state: JobState | None = None
    kind: str | None = None
    error_code: str | None = None
    document_id: UUID | None = None
    kb_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job of the queue, as its tenant or the operator sees it.

    Attributes:
        stage: Stage of the ingestion; None for other jobs.
        max_attempts: Attempts after which the job fails; None for a periodic job, which never fails.
        message: Reason of the last failed attempt.
        run_at: Time from which the job can run.
        waiting_for: Reason why the job waits; None if it does not wait.
    """

    tenant_id: UUID
    id: UUID
    kind: str
    state: JobState
    document_id: UUID | None
    kb_id: UUID | None
    stage: str | None
    attempts: int
    max_attempts: int | None
    code: str | None
    message: str | None
    created_at: datetime
    run_at: datetime
    waiting_for: WaitingReason | None
