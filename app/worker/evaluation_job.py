"""Job that runs an evaluation in the worker."""

from uuid import UUID

from sqlalchemy.exc import DBAPIError

from app.bootstrap import Resources
from app.bootstrap.tenant_services import TenantServices
from app.db.models.control_plane_rows import ClaimedJob
from app.errors import AppError, JobPostponed
from app.quotas.types import DailyTokenLimitReached
from app.tenants.auth.caller_snapshot import restore_caller
from app.worker.failures import describe_failure


async def run_evaluation_job(resources: Resources, job: ClaimedJob) -> None:
    """Run an evaluation with the rights of the caller who created it.

    If the last attempt fails, the evaluation fails too.

    Args:
        resources: Resources of the worker.
        job: Job whose payload has ``evaluation`` and ``caller``.

    Raises:
        AppError: The job tries again, or goes on later. It can also be DBAPIError.
    """
    caller = await restore_caller(resources.database, job.tenant_id, job.payload["caller"])
    if caller is None:
        return
    runner, evaluation_id = TenantServices(caller, resources).evaluation_runner, UUID(job.payload["evaluation"])
    try:
        await runner.run(evaluation_id)
    except (JobPostponed, DailyTokenLimitReached):
        raise
    except (AppError, DBAPIError) as exc:
        failure = describe_failure(exc)
        if not failure.retryable or job.attempts >= job.max_attempts:
            await runner.fail(evaluation_id, failure.code, failure.message)
        raise
