"""Database access across tenants, only through SECURITY DEFINER functions of the role ``carrel_control``."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text

from app.db.models.base import SYSTEM_TENANT
from app.db.models.control_plane_rows import (
    AuthenticatedKey,
    ChangedIndex,
    ClaimedJob,
    ExpiredDocument,
    ListedTenant,
    OutdatedIndex,
    QueueStats,
    ReapedJob,
    RejectedKey,
    StalledBackfill,
    UnfinishedDeletion,
    WorkerConfinement,
)
from app.db.page_counts import count_rows
from app.db.session import Database
from app.db.statements import parse_statement

# The database computes the remaining lifetime, because its clock decides when a key expires. The lifetime is a number,
# so that a key without an end can have infinity.
_AUTHENTICATE = parse_statement("""
select tenant_id, tenant_name, key_id, key_name, role, knowledge_base_ids, user_id,
       coalesce(extract(epoch from expires_at) - extract(epoch from now()), 'infinity')::float8 as seconds_left,
       quotas, key_quotas, key_lineage_id
  from find_key(:hash)""")
_FIND_REJECTED_KEY = parse_statement("select tenant_id, key_id, key_name from find_rejected_key(:hash)")
_REMOVE_OLD_EVENTS = parse_statement("select remove_old_audit_events(:retention, :limit) removed")
# The commit of a claim does not wait for the disk: if Postgres crashes and loses the claim, a worker claims again.
_CLAIM_WORK = parse_statement("""
select j.* from set_config('synchronous_commit', 'off', true),
       claim_work(:worker, :lease, :tenant_concurrency, :idle) j""")
_CLAIM_DELIVERY = parse_statement("""
select j.* from set_config('synchronous_commit', 'off', true),
       claim_delivery(:worker, :lease, :tenant_concurrency) j""")
_IDLE_TENANT_WAITS = parse_statement("select is_idle_tenant_waiting() waits")
_COUNT_WORKERS = parse_statement("select count_workers(:within) workers")
_QUEUE_STATS = parse_statement("select waiting, oldest_at, postponed, running, failed from get_queue_stats()")
_LIST_OUTAGES = parse_statement("select code from list_outages(:within) code")
_WEAKEST_CONFINEMENT = parse_statement("select level, detail from find_weakest_confinement(:within)")
_RESUME_JOBS = parse_statement("select resume_jobs(:code) jobs")
_RETRY_FAILED = parse_statement("select retry_failed_documents(:limit) documents")
_RECORD_HEARTBEAT = parse_statement("""
insert into worker_heartbeat as w (tenant_id, name, outages, confinement, confinement_detail)
values (:tenant, :name, :outages::text[], :level, :detail)
on conflict (tenant_id, name) do update
   set heartbeat_at = clock_timestamp(), outages = excluded.outages, confinement = excluded.confinement,
       confinement_detail = excluded.confinement_detail""")
_DELETE_HEARTBEATS = parse_statement("""
delete from worker_heartbeat where tenant_id = :tenant
   and (name = :name or heartbeat_at < clock_timestamp() - interval '1 day')""")
_COUNT_TENANTS = parse_statement("select count_tenants() as total")
_REAP_JOBS = parse_statement("select * from reap_jobs()")
_ACQUIRE_RATE_SLOT = parse_statement("""
select acquire_rate_slot(:provider, :requests_per_minute, :tokens_per_minute, :tokens, :interactive) milliseconds""")
_PAUSE_PROVIDER = parse_statement("select pause_provider(:provider, :milliseconds)")
_CHANGED_INDEXES = parse_statement("select tenant_id, index_id from find_changed_indexes(:limit)")
_OUTDATED_INDEXES = parse_statement("select * from find_outdated_indexes(:max_drift, :max_share, :max_chunks, :limit)")
_STALLED_BACKFILLS = parse_statement("select tenant_id, kb_id from find_stalled_backfills(:limit)")
_UNFINISHED_DELETIONS = parse_statement("select tenant_id, deletion_id from find_unfinished_deletions(:age, :limit)")
_REMOVE_OLD_DELETIONS = parse_statement("select remove_old_deletions(:retention, :limit) as removed")
_EXPIRED_INDEXES = parse_statement("select tenant_id, index_id from find_expired_indexes(:rollback_period, :limit)")


@dataclass(frozen=True, slots=True)
class ControlPlaneDatabase:
    """Operations across tenants. Row-level security hides all tenants' rows, except in SECURITY DEFINER functions."""

    database: Database

    async def authenticate(self, key_hash: bytes) -> AuthenticatedKey | None:
        """Return the valid key with this SHA-256, or None."""
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_AUTHENTICATE, {"hash": key_hash})
        return AuthenticatedKey(**row) if row else None

    async def find_rejected_key(self, key_hash: bytes) -> RejectedKey | None:
        """Return the key with this SHA-256 that is no longer valid, or None."""
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_FIND_REJECTED_KEY, {"hash": key_hash})
        return RejectedKey(**row) if row else None

    async def remove_old_audit_events(self, *, retention: timedelta, limit: int) -> int:
        """Delete audit events that are older than ``retention``, and return their number.

        Args:
            retention: Minimum age of the deleted events. The database always keeps the last seven days.
            limit: Maximum number of deleted events; more than 10,000 count as 10,000.
        """
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_REMOVE_OLD_EVENTS, {"retention": retention, "limit": limit})
        assert row is not None
        return int(row["removed"])

    async def list_tenants(self, *, after: tuple[datetime, UUID] | None, limit: int) -> list[ListedTenant]:
        """Return a page of tenants, the newest first.

        Args:
            after: Creation time and id of the last tenant of the previous page; None for the first page.
            limit: Maximum number of tenants.
        """
        sql = text("select * from list_tenants(cast(:at as timestamptz), cast(:id as uuid), :limit)")
        at, last_id = after or (None, None)
        async with self.database.transaction(None) as session:
            await count_rows(session, limit, _COUNT_TENANTS, {})
            rows = (await session.execute(sql, {"at": at, "id": last_id, "limit": limit})).all()
        return [ListedTenant(**row._mapping) for row in rows]

    async def claim_work(
        self, worker: str, lease: timedelta, *, tenant_concurrency: int, only_idle: bool = False
    ) -> ClaimedJob | None:
        """Claim the next due job of any tenant, except webhook deliveries.

        The tenant with the fewest running jobs comes first, then the tenant that was served longest ago.

        Args:
            worker: Name of the worker.
            lease: Time until the claim expires, unless the worker renews it.
            tenant_concurrency: Maximum number of running jobs of a tenant without a separate limit.
            only_idle: Whether only tenants without a running job are considered.

        Returns:
            The job, or None if no job can be claimed.
        """
        values = {"worker": worker, "lease": lease, "tenant_concurrency": tenant_concurrency, "idle": only_idle}
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_CLAIM_WORK, values)
        return ClaimedJob(**row) if row else None

    async def claim_delivery(self, worker: str, lease: timedelta, *, tenant_concurrency: int) -> ClaimedJob | None:
        """Claim the next due webhook delivery; tenants take turns. ``claim_work`` documents the arguments."""
        values = {"worker": worker, "lease": lease, "tenant_concurrency": tenant_concurrency}
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_CLAIM_DELIVERY, values)
        return ClaimedJob(**row) if row else None

    async def is_idle_tenant_waiting(self) -> bool:
        """Return whether a tenant without a running job has a job that is due."""
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_IDLE_TENANT_WAITS, {})
        return bool(row and row["waits"])

    async def record_heartbeat(
        self, worker: str, outages: Sequence[str] = (), confinement: WorkerConfinement | None = None
    ) -> None:
        """Store the heartbeat of a worker.

        Args:
            worker: Name of the worker.
            outages: Error codes of the outages that the worker sees now.
            confinement: Confinement of the worker's parser processes; None until it is measured.
        """
        values = {
            "tenant": SYSTEM_TENANT,
            "name": worker,
            "outages": list(outages),
            "level": confinement and confinement.level,
            "detail": confinement and confinement.detail,
        }
        async with self.database.transaction(SYSTEM_TENANT) as session:
            await session.fetch_rows(_RECORD_HEARTBEAT, values)

    async def delete_worker(self, worker: str) -> None:
        """Delete the heartbeat of a stopped worker, and every heartbeat that is older than a day."""
        async with self.database.transaction(SYSTEM_TENANT) as session:
            await session.fetch_rows(_DELETE_HEARTBEATS, {"tenant": SYSTEM_TENANT, "name": worker})

    async def count_workers(self, *, within: timedelta) -> int:
        """Return the number of workers whose last heartbeat is at most ``within`` old."""
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_COUNT_WORKERS, {"within": within})
        return int(row["workers"]) if row else 0

    async def get_queue_stats(self, tenant_id: UUID | None) -> QueueStats:
        """Return job statistics of one tenant. If ``tenant_id`` is None, count all tenants' jobs, for the operator
        only.
        """
        async with self.database.transaction(tenant_id) as session:
            row = await session.fetch_row(_QUEUE_STATS, {})
        assert row is not None
        return QueueStats(**row)

    async def list_outages(self, *, within: timedelta) -> list[str]:
        """Return the error codes of outages, from workers whose last heartbeat is at most ``within`` old."""
        async with self.database.autocommit() as session:
            rows = await session.fetch_rows(_LIST_OUTAGES, {"within": within})
        return [row["code"] for row in rows]

    async def find_weakest_confinement(self, *, within: timedelta) -> WorkerConfinement | None:
        """Return the weakest parser confinement of workers whose last heartbeat is at most ``within`` old, or None."""
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_WEAKEST_CONFINEMENT, {"within": within})
        return WorkerConfinement(**row) if row else None

    async def resume_jobs(self, code: str) -> int:
        """Make all postponed jobs with this error code due now, and return their number."""
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_RESUME_JOBS, {"code": code})
        return int(row["jobs"]) if row else 0

    async def retry_failed_documents(self, *, limit: int) -> int:
        """Enqueue documents again that failed because of an outage, and return their number.

        A document is retried a few times, at growing intervals.
        """
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_RETRY_FAILED, {"limit": limit})
        return int(row["documents"]) if row else 0

    async def reap_jobs(self) -> list[ReapedJob]:
        """Release the jobs whose lease has expired, and return them."""
        async with self.database.autocommit() as session:
            rows = await session.fetch_rows(_REAP_JOBS, {})
        return [ReapedJob(**row) for row in rows]

    async def find_expired_documents(self, *, limit: int) -> list[ExpiredDocument]:
        """Return documents whose ``expires_at`` has passed; at most 1,000."""
        async with self.database.transaction(None) as session:
            rows = (await session.execute(text("select * from find_expired_documents(:limit)"), {"limit": limit})).all()
        return [ExpiredDocument(**row._mapping) for row in rows]

    async def find_changed_indexes(self, *, limit: int) -> list[ChangedIndex]:
        """Return search indexes that have changed since their last maintenance; at most 10,000."""
        async with self.database.autocommit() as session:
            rows = await session.fetch_rows(_CHANGED_INDEXES, {"limit": limit})
        return [ChangedIndex(**row) for row in rows]

    async def find_outdated_indexes(
        self, *, max_drift: float, max_changed_share: float, max_changed_chunks: int, limit: int
    ) -> list[OutdatedIndex]:
        """Return search indexes whose term weights or routing profiles are outdated.

        Args:
            max_drift: Largest allowed change of the mean chunk length since the term weights were computed, as a share.
            max_changed_share: Largest allowed share of chunks that changed since the routing profile was made.
            max_changed_chunks: Number of changed chunks from which on a routing profile is outdated, whatever its
                share.
            limit: Maximum number of search indexes; more than 10,000 count as 10,000.
        """
        values = {
            "max_drift": max_drift,
            "max_share": max_changed_share,
            "max_chunks": max_changed_chunks,
            "limit": limit,
        }
        async with self.database.autocommit() as session:
            rows = await session.fetch_rows(_OUTDATED_INDEXES, values)
        return [OutdatedIndex(**row) for row in rows]

    async def find_stalled_backfills(self, *, limit: int) -> list[StalledBackfill]:
        """Return knowledge bases whose metadata backfill has no job, or whose job died at least half an hour ago.

        At most 10,000 are returned.
        """
        async with self.database.autocommit() as session:
            rows = await session.fetch_rows(_STALLED_BACKFILLS, {"limit": limit})
        return [StalledBackfill(**row) for row in rows]

    async def find_expired_indexes(self, *, rollback_period: timedelta, limit: int) -> list[ChangedIndex]:
        """Return retired search indexes whose rollback period has ended; at most 10,000."""
        async with self.database.autocommit() as session:
            rows = await session.fetch_rows(_EXPIRED_INDEXES, {"rollback_period": rollback_period, "limit": limit})
        return [ChangedIndex(**row) for row in rows]

    async def find_unfinished_deletions(self, *, min_age: timedelta, limit: int) -> list[UnfinishedDeletion]:
        """Return deletions that are unfinished ``min_age`` after their request, the oldest first; at most 10,000."""
        async with self.database.autocommit() as session:
            rows = await session.fetch_rows(_UNFINISHED_DELETIONS, {"age": min_age, "limit": limit})
        return [UnfinishedDeletion(**row) for row in rows]

    async def remove_old_deletions(self, *, retention: timedelta, limit: int) -> int:
        """Delete receipts of finished deletions that are older than ``retention``, and return their number.

        Args:
            retention: Minimum age of the deleted receipts. The database always keeps the last seven days.
            limit: Maximum number of deleted receipts; more than 10,000 count as 10,000.
        """
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_REMOVE_OLD_DELETIONS, {"retention": retention, "limit": limit})
        assert row is not None
        return int(row["removed"])

    async def acquire_rate_slot(
        self,
        provider: UUID,
        *,
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
        tokens: int,
        interactive: bool,
    ) -> int:
        """Request one call to a model provider within its rate limits.

        Args:
            provider: Id of the provider's rate limit.
            requests_per_minute: Limit of requests; None means no limit.
            tokens_per_minute: Limit of tokens; None means no limit.
            tokens: Estimated tokens of the call. A negative number gives unused tokens back.
            interactive: Whether a user waits for the call. Such a call may use half a minute's limit in advance, so it
                does not wait for background calls.

        Returns:
            0 if the call is granted. Otherwise the milliseconds after which the caller should try again.
        """
        values = {
            "provider": provider,
            "requests_per_minute": requests_per_minute or 0,
            "tokens_per_minute": tokens_per_minute or 0,
            "tokens": tokens,
            "interactive": interactive,
        }
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_ACQUIRE_RATE_SLOT, values)
        assert row is not None
        return int(row["milliseconds"])

    async def pause_provider(self, provider: UUID, *, milliseconds: int) -> None:
        """Pause all calls to a model provider; the database allows at most ten minutes."""
        async with self.database.autocommit() as session:
            await session.fetch_rows(_PAUSE_PROVIDER, {"provider": provider, "milliseconds": milliseconds})
