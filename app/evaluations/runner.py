"""Job of an evaluation: it searches each query with each setting, and can be restarted at any moment."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from uuid import UUID

from app.db.session import DatabaseUnavailable, TenantDatabase
from app.errors import AppError, JobPostponed, TooManyRequestsError, UnavailableError
from app.evaluations.evaluation_repository import EvaluationRepository
from app.evaluations.figures import compute_figures, fail_query, judge_hits, list_warnings
from app.evaluations.golden_set_repository import GoldenSetRepository
from app.evaluations.golden_set_service import locate_items
from app.evaluations.search_settings import DEFAULT_TOP_K, SearchSettings
from app.evaluations.types import LocatedItem, QueryOutcome, StoredEvaluation
from app.quotas.types import DailyTokenLimitReached, RateLimitState
from app.retrieval.types import SearchRequest, SearchResult

BATCH_SIZE = 50
MAX_ATTEMPTS = 3
RETRY_DELAY_SECONDS = 1.0
# The longest pause between two searches while live searches of the tenant use up the rate limit.
MAX_PAUSE_SECONDS = 5.0
# The job waits this long in the queue if the tenant has no searches left.
BUSY_DELAY = timedelta(seconds=15)
NO_QUERY_ANSWERED = "no_query_answered"

Search = Callable[[SearchRequest], Awaitable[tuple[SearchResult, RateLimitState]]]


@dataclass(frozen=True, slots=True)
class EvaluationRunner:
    """Job of evaluations, with the access rights of the caller who created the evaluation.

    Attributes:
        db: The database in the scope of the tenant.
        search: Search within the quotas of the caller.
    """

    db: TenantDatabase
    search: Search

    async def run(self, evaluation_id: UUID) -> None:
        """Run the searches without a result, and compute the figures. A deleted evaluation ends without an error.

        Args:
            evaluation_id: The evaluation.

        Raises:
            DatabaseUnavailable: The database does not answer. The job tries again.
            JobPostponed: The caller has no searches left. The job goes on later.
        """
        async with self.db.transaction() as session:
            evaluation = await EvaluationRepository(session, self.db.tenant_id).start(evaluation_id)
        if evaluation is None:
            return
        settings = [SearchSettings.from_json(setting.request) for setting in evaluation.settings]
        last_id: UUID | None = None
        while located := await self._load_items(evaluation, after=last_id):
            last_id = located[-1].item.id
            if not await self._run_items(evaluation, settings, located):
                return
        await self._finish(evaluation, settings)

    async def fail(self, evaluation_id: UUID, code: str, message: str) -> None:
        """Mark an evaluation as failed."""
        async with self.db.transaction() as session:
            await EvaluationRepository(session, self.db.tenant_id).fail([evaluation_id], code, message)

    async def _load_items(self, evaluation: StoredEvaluation, *, after: UUID | None) -> list[LocatedItem]:
        async with self.db.transaction() as session:
            items = await EvaluationRepository(session, self.db.tenant_id).list_items(
                evaluation.set_id, until=evaluation.created_at, after=after, limit=BATCH_SIZE
            )
            return await locate_items(GoldenSetRepository(session, self.db.tenant_id), items)

    async def _run_items(
        self, evaluation: StoredEvaluation, settings: Sequence[SearchSettings], located: Sequence[LocatedItem]
    ) -> bool:
        """Run the searches of some items that have no result; return False if the evaluation was deleted."""
        async with self.db.transaction() as session:
            item_ids = [entry.item.id for entry in located]
            done = await EvaluationRepository(session, self.db.tenant_id).list_done(evaluation.id, item_ids)
        for entry, (number, setting) in product(located, enumerate(settings)):
            if (entry.item.id, number) in done:
                continue
            outcome = await self._run_query(entry, setting)
            async with self.db.transaction() as session:
                repository = EvaluationRepository(session, self.db.tenant_id)
                if not await repository.add_outcome(evaluation.id, entry.item.id, number, outcome):
                    return False
        return True

    async def _run_query(self, entry: LocatedItem, setting: SearchSettings) -> QueryOutcome:
        """Return the outcome of one search. A search that is refused has an outcome too."""
        relevant = [located.relevance for located in entry.relevant if not located.is_missing]
        missing_count = len(entry.relevant) - len(relevant)
        try:
            result, rate = await self._search_with_retries(setting.to_request(entry.item))
        except (DatabaseUnavailable, JobPostponed, DailyTokenLimitReached):
            raise
        except AppError as exc:
            return fail_query(relevant, missing_count=missing_count, error=exc.code)
        if rate.remaining * 2 < rate.limit:  # leave the other half to live searches
            await asyncio.sleep(min(float(rate.reset_seconds), MAX_PAUSE_SECONDS))
        hits = [(hit.document.id, hit.chunk.id) for hit in result.hits]
        codes = list(dict.fromkeys(str(warning.code) for warning in result.warnings))
        return judge_hits(hits, relevant, missing_count=missing_count, warnings=codes)

    async def _search_with_retries(self, request: SearchRequest) -> tuple[SearchResult, RateLimitState]:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return await self.search(request)
            except DailyTokenLimitReached:
                raise
            except TooManyRequestsError as exc:
                if attempt == MAX_ATTEMPTS:
                    raise JobPostponed(datetime.now(UTC) + BUSY_DELAY) from exc
                await asyncio.sleep(min(exc.retry_after, MAX_PAUSE_SECONDS))
            except UnavailableError:
                if attempt == MAX_ATTEMPTS:
                    raise
                await asyncio.sleep(RETRY_DELAY_SECONDS)
        raise AssertionError

    async def _finish(self, evaluation: StoredEvaluation, settings: Sequence[SearchSettings]) -> None:
        async with self.db.transaction() as session:
            outcomes = await EvaluationRepository(session, self.db.tenant_id).list_outcomes(evaluation)
        top_ks = [setting.top_k or DEFAULT_TOP_K for setting in settings]
        warnings = list_warnings(outcomes, top_ks)
        if outcomes and all(outcome.error for item in outcomes for outcome in item.outcomes):
            await self.fail(
                evaluation.id, NO_QUERY_ANSWERED, f"No query was answered: {outcomes[0].outcomes[0].error}."
            )
            return
        figures = await asyncio.to_thread(compute_figures, outcomes)
        async with self.db.transaction() as session:
            await EvaluationRepository(session, self.db.tenant_id).finish(evaluation.id, figures, warnings)
