"""Use cases of evaluations: create, read and delete them. A job of the worker runs the searches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from app.audit.repository import AuditRepository
from app.audit.types import Actor, AuditAction, AuditEvent
from app.db.session import Session, TenantDatabase
from app.evaluations.evaluation_repository import EvaluationRepository
from app.evaluations.golden_set_repository import GoldenSetRepository
from app.evaluations.golden_set_service import require_unrestricted_key
from app.evaluations.search_settings import DEFAULT_TOP_K, SearchSettings
from app.evaluations.types import (
    MAX_ACTIVE_EVALUATIONS,
    RUN_EVALUATION_JOB,
    EvaluationNotFound,
    EvaluationSetting,
    GoldenSetEmpty,
    GoldenSetNotFound,
    ItemOutcome,
    OutcomeChange,
    Position,
    StoredEvaluation,
    TooManyEvaluations,
)
from app.ids import derive_id
from app.jobs.queue import BULK, JobQueue
from app.knowledge_bases.service import KnowledgeBaseService
from app.principal import Principal
from app.retrieval.types import SearchRequest
from app.tenants.auth.caller_snapshot import snapshot_caller

LOST_CODE, LOST_MESSAGE = "internal", "The job of the evaluation ended without a result. Start the evaluation again."


@dataclass(frozen=True, slots=True)
class EvaluationService:
    """Service for evaluations of a tenant. Callers are writers; a restricted key cannot use the service."""

    db: TenantDatabase
    principal: Principal
    knowledge_bases: KnowledgeBaseService
    queue: JobQueue

    async def create(
        self, set_id: UUID, bodies: Sequence[dict[str, Any]], requests: Sequence[SearchRequest]
    ) -> StoredEvaluation:
        """Create an evaluation, which a job runs with the rights of the caller.

        Args:
            set_id: The golden set.
            bodies: Bodies of one or two searches, as the caller sent them.
            requests: The same searches, validated.

        Raises:
            GoldenSetNotFound: The golden set does not exist.
            GoldenSetEmpty: The golden set has no items.
            KnowledgeBaseNotFound: A knowledge base does not exist.
            TooManyEvaluations: Two evaluations of the tenant wait or run.
            RowQuotaExceeded: The quota of evaluations is used up.
            ForbiddenError: The API key is restricted.
        """
        require_unrestricted_key(self.principal)
        for reference in {name for request in requests for name in request.knowledge_bases or ()}:
            await self.knowledge_bases.find(reference)
        settings = [
            EvaluationSetting(body, _to_settings(request, body).to_json())
            for body, request in zip(bodies, requests, strict=True)
        ]
        async with self.db.transaction() as session:
            golden_set = await GoldenSetRepository(session, self.db.tenant_id).lock(set_id)
            if golden_set is None:
                raise GoldenSetNotFound
            if not golden_set.item_count:
                raise GoldenSetEmpty
            repository = self._create_repository(session)
            await self._fail_lost(repository)
            added = await repository.add(set_id, settings, golden_set.item_count * len(settings))
            if len(await repository.list_active_ids()) > MAX_ACTIVE_EVALUATIONS:
                raise TooManyEvaluations(retry_after=10.0)
            await self._enqueue(session, added.id)
            await self._record(session, AuditAction.EVALUATION_CREATE, added.id)
        return added

    async def get(self, evaluation_id: UUID) -> StoredEvaluation:
        """Return an evaluation. Raises EvaluationNotFound, ForbiddenError."""
        require_unrestricted_key(self.principal)
        async with self.db.transaction() as session:
            repository = self._create_repository(session)
            evaluation = _require_evaluation(await repository.find(evaluation_id))
            if evaluation.state.is_active and await self._fail_lost(repository):
                evaluation = _require_evaluation(await repository.find(evaluation_id))
            return evaluation

    async def list_evaluations(
        self, set_id: UUID | None, *, after: Position | None, limit: int
    ) -> Sequence[StoredEvaluation]:
        """Return a page of the evaluations, newest first.

        Args:
            set_id: Golden set of the evaluations; None for all.
            after: Last evaluation of the page before.
            limit: Maximum number of evaluations.

        Raises:
            ForbiddenError: The API key is restricted.
        """
        require_unrestricted_key(self.principal)
        async with self.db.transaction() as session:
            repository = self._create_repository(session)
            await self._fail_lost(repository)
            return await repository.list_evaluations(set_id, after=after, limit=limit)

    async def list_results(
        self, evaluation_id: UUID, measure: str, change: OutcomeChange | None, *, after: UUID | None, limit: int
    ) -> Sequence[ItemOutcome]:
        """Return a page of the results of the queries, in the order of the items' ids.

        Args:
            evaluation_id: The evaluation.
            measure: Label of the measure that ``change`` compares.
            change: Only queries that got better or worse, or stayed equal; None for all.
            after: Item of the last result of the page before.
            limit: Maximum number of queries.

        Raises:
            EvaluationNotFound: The evaluation does not exist.
            ForbiddenError: The API key is restricted.
        """
        require_unrestricted_key(self.principal)
        async with self.db.transaction(snapshot=True) as session:
            repository = self._create_repository(session)
            evaluation = _require_evaluation(await repository.find(evaluation_id))
            return await repository.list_outcomes(evaluation, after=after, limit=limit, measure=measure, change=change)

    async def delete(self, evaluation_id: UUID) -> None:
        """Delete an evaluation with its results. A running one ends. Raises EvaluationNotFound, ForbiddenError."""
        require_unrestricted_key(self.principal)
        async with self.db.transaction() as session:
            if not await self._create_repository(session).remove(evaluation_id):
                raise EvaluationNotFound
            await self._record(session, AuditAction.EVALUATION_DELETE, evaluation_id)

    async def _enqueue(self, session: Session, evaluation_id: UUID) -> None:
        payload = {"evaluation": str(evaluation_id), "caller": snapshot_caller(self.principal)}
        await self.queue.enqueue_unique(
            session,
            RUN_EVALUATION_JOB,
            subject_id=evaluation_id,
            tenant_id=self.db.tenant_id,
            payload=payload,
            priority=BULK,
        )

    async def _fail_lost(self, repository: EvaluationRepository) -> bool:
        """Mark active evaluations without a living job as failed; return whether there were some."""
        jobs = {derive_id(RUN_EVALUATION_JOB, each): each for each in await repository.list_active_ids()}
        live = await repository.find_live_jobs(jobs) if jobs else set()
        lost = [evaluation_id for job_id, evaluation_id in jobs.items() if job_id not in live]
        if lost:
            await repository.fail(lost, LOST_CODE, LOST_MESSAGE)
        return bool(lost)

    async def _record(self, session: Session, action: AuditAction, evaluation_id: UUID) -> None:
        event = AuditEvent(action, [evaluation_id])
        await AuditRepository(session, self.db.tenant_id).add(event, Actor.from_principal(self.principal))

    def _create_repository(self, session: Session) -> EvaluationRepository:
        return EvaluationRepository(session, self.db.tenant_id)


def _to_settings(request: SearchRequest, body: dict[str, Any]) -> SearchSettings:
    """Return the settings of a search. Without own values, it returns 100 results and takes its time."""
    settings = SearchSettings.from_request(request)
    defaults: dict[str, Any] = {} if "timeout_seconds" in body else {"timeout_seconds": 60.0}
    return replace(settings, top_k=request.top_k or DEFAULT_TOP_K, **defaults)


def _require_evaluation(evaluation: StoredEvaluation | None) -> StoredEvaluation:
    if evaluation is None:
        raise EvaluationNotFound
    return evaluation
