"""Jobs of the queue for admins and the operator: what waits, runs or failed, and the retry of failed jobs."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from app.audit.repository import AuditRepository
from app.audit.types import Actor, AuditAction, AuditEvent
from app.db.session import Session, TenantDatabase
from app.errors import ForbiddenError
from app.job_control.repository import JobRepository
from app.job_control.types import JobFilters, JobNotFailed, JobNotFound, ListedJob
from app.principal import Principal, Role

MAX_RETRIED_JOBS = 500


@dataclass(frozen=True, slots=True)
class JobService:
    """Use cases of the list of jobs. An admin sees the jobs of the tenant, the operator those of all tenants.

    The operator gets no messages of other tenants' jobs, because a message may describe a file.
    """

    db: TenantDatabase
    principal: Principal
    tenant_concurrency: int

    async def list_jobs(
        self, filters: JobFilters, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> Sequence[ListedJob]:
        """Return a page of jobs, newest first.

        Args:
            filters: Conditions on the jobs.
            after: Creation time and id of the last job of the previous page; None for the first page.
            limit: Maximum number of jobs.

        Raises:
            ForbiddenError: The key is restricted.
        """
        self._require_unrestricted_key()
        async with self._begin() as session:
            jobs = await self._create_repository(session).list_jobs(filters, after=after, limit=limit)
        return [self._remove_message(job) for job in jobs]

    async def get(self, job_id: UUID) -> ListedJob:
        """Return one job. Raises JobNotFound, ForbiddenError."""
        self._require_unrestricted_key()
        async with self._begin() as session:
            return await self._get_in_session(session, job_id)

    async def retry(self, job_id: UUID) -> ListedJob:
        """Make a failed job due now, and return it. A failed document is queued again.

        Raises:
            JobNotFound: The job does not exist.
            JobNotFailed: The job has not failed.
            ForbiddenError: The key is restricted.
        """
        self._require_unrestricted_key()
        async with self._begin() as session:
            await self._get_in_session(session, job_id)
            retried = await self._create_repository(session).retry(JobFilters(), job_id=job_id, limit=1)
            if not retried:
                raise JobNotFailed
            await self._record(session, retried)
            job = await self._get_in_session(session, job_id)
        await self._record_as_operator(retried)
        return job

    async def retry_many(self, filters: JobFilters) -> tuple[int, bool]:
        """Make failed jobs due now, at most ``MAX_RETRIED_JOBS``, the oldest first.

        Args:
            filters: Conditions on the jobs; ``state`` is ignored.

        Returns:
            The number of jobs, and whether further failed jobs match.

        Raises:
            ForbiddenError: The key is restricted.
        """
        self._require_unrestricted_key()
        async with self._begin() as session:
            repository = self._create_repository(session)
            retried = await repository.retry(filters, limit=MAX_RETRIED_JOBS)
            await self._record(session, retried)
            remaining = await repository.list_jobs(replace(filters, state="failed"), limit=1)
        await self._record_as_operator(retried)
        return len(retried), bool(remaining)

    async def _record(self, session: Session, retried: Sequence[UUID]) -> None:
        """Record the retry in the transaction of the change. Only a transaction of a tenant can write an event."""
        if retried and not self._is_operator:
            await self._add_event(session, retried)

    async def _record_as_operator(self, retried: Sequence[UUID]) -> None:
        """Record a retry by the operator, in the tenant of the operator."""
        if retried and self._is_operator:
            async with self.db.transaction() as session:
                await self._add_event(session, retried)

    async def _add_event(self, session: Session, job_ids: Sequence[UUID]) -> None:
        event = AuditEvent(AuditAction.JOB_RETRY, job_ids)
        await AuditRepository(session, self.db.tenant_id).add(event, Actor.from_principal(self.principal))

    @property
    def _is_operator(self) -> bool:
        return self.principal.role is Role.OPERATOR

    async def _get_in_session(self, session: Session, job_id: UUID) -> ListedJob:
        jobs = await self._create_repository(session).list_jobs(JobFilters(), job_id=job_id, limit=1)
        if not jobs:
            raise JobNotFound
        return self._remove_message(jobs[0])

    def _begin(self) -> AbstractAsyncContextManager[Session]:
        tenant_id = None if self._is_operator else self.db.tenant_id
        return self.db.database.transaction(tenant_id)

    def _create_repository(self, session: Session) -> JobRepository:
        return JobRepository(session, tenant_concurrency=self.tenant_concurrency)

    def _remove_message(self, job: ListedJob) -> ListedJob:
        return job if job.tenant_id == self.db.tenant_id else replace(job, message=None)

    def _require_unrestricted_key(self) -> None:
        """Refuse restricted keys, because the queue has the jobs of the whole tenant."""
        if self.principal.knowledge_base_ids is not None or self.principal.user_id is not None:
            raise ForbiddenError("A restricted key cannot read jobs. Use a key without restrictions.")
