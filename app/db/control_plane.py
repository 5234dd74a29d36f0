"""Access across tenants: the definer functions of the control plane, and nothing else."""

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
from app.db.session import Database
from app.db.statements import parse_statement

# The database computes the remaining lifetime of a key, because its clock decides; as numbers, because a key may have
# no end.
_AUTHENTICATE = parse_statement("""
select tenant_id, tenant_name, key_id, key_name, role, knowledge_base_ids, user_id,
       coalesce(extract(epoch from expires_at) - extract(epoch from now()), 'infinity')::float8 as seconds_left,
       quotas, key_quotas, key_lineage_id
  from find_key(:hash)""")
_FIND_REJECTED_KEY = parse_statement("select tenant_id, key_id, key_name from find_rejected_key(:hash)")
_REMOVE_OLD_EVENTS = parse_statement("select remove_old_audit_events(:retention, :limit) removed")
# A claim that is lost in a crash of Postgres is claimed again: the transaction does not wait for the disk.
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
    """Transactions without a tenant: they see no tenant's rows but through the functions below."""

    database: Database

    async def authenticate(self, key_hash: bytes) -> AuthenticatedKey | None:
        """The valid key with this SHA-256, if there is one."""
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_AUTHENTICATE, {"hash": key_hash})
        return AuthenticatedKey(**row) if row else None

    async def find_rejected_key(self, key_hash: bytes) -> RejectedKey | None:
        """The key with this SHA-256, if there was one; for one that was refused."""
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_FIND_REJECTED_KEY, {"hash": key_hash})
        return RejectedKey(**row) if row else None

    async def remove_old_audit_events(self, *, retention: timedelta, limit: int) -> int:
        """Remove events that are older, up to 10,000 of them; the last seven days stay. Returns how many went."""
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_REMOVE_OLD_EVENTS, {"retention": retention, "limit": limit})
        assert row is not None
        return int(row["removed"])

    async def list_tenants(self, *, after: tuple[datetime, UUID] | None, limit: int) -> list[ListedTenant]:
        """Newest first, beginning behind ``after``."""
        sql = text("select * from list_tenants(cast(:at as timestamptz), cast(:id as uuid), :limit)")
        at, last_id = after or (None, None)
        async with self.database.transaction(None) as session:
            rows = (await session.execute(sql, {"at": at, "id": last_id, "limit": limit})).all()
        return [ListedTenant(**row._mapping) for row in rows]

    async def claim_work(
        self, worker: str, lease: timedelta, *, tenant_concurrency: int, only_idle: bool = False
    ) -> ClaimedJob | None:
        """Claim the next job in turn, deliveries apart; ``only_idle``: of a tenant that has none running."""
        values = {"worker": worker, "lease": lease, "tenant_concurrency": tenant_concurrency, "idle": only_idle}
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_CLAIM_WORK, values)
        return ClaimedJob(**row) if row else None

    async def claim_delivery(self, worker: str, lease: timedelta, *, tenant_concurrency: int) -> ClaimedJob | None:
        """Claim the next delivery to a webhook in turn."""
        values = {"worker": worker, "lease": lease, "tenant_concurrency": tenant_concurrency}
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_CLAIM_DELIVERY, values)
        return ClaimedJob(**row) if row else None

    async def is_idle_tenant_waiting(self) -> bool:
        """Return whether a tenant without a running job has one that is due."""
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_IDLE_TENANT_WAITS, {})
        return bool(row and row["waits"])

    async def record_heartbeat(
        self, worker: str, outages: Sequence[str] = (), confinement: WorkerConfinement | None = None
    ) -> None:
        """Note a sign of life of a worker, the codes of the outages that it knows, and its parsers' confinement."""
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
        """Forget a worker that has stopped, and workers without a sign of life for a day."""
        async with self.database.transaction(SYSTEM_TENANT) as session:
            await session.fetch_rows(_DELETE_HEARTBEATS, {"tenant": SYSTEM_TENANT, "name": worker})

    async def count_workers(self, *, within: timedelta) -> int:
        """Return how many workers have given a sign of life lately."""
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_COUNT_WORKERS, {"within": within})
        return int(row["workers"]) if row else 0

    async def get_queue_stats(self, tenant_id: UUID | None) -> QueueStats:
        """Return the figures of one tenant's jobs; without a tenant those of all jobs, for the operator alone."""
        async with self.database.transaction(tenant_id) as session:
            row = await session.fetch_row(_QUEUE_STATS, {})
        assert row is not None
        return QueueStats(**row)

    async def list_outages(self, *, within: timedelta) -> list[str]:
        """Return the codes of the outages that workers know which have given a sign of life lately."""
        async with self.database.autocommit() as session:
            rows = await session.fetch_rows(_LIST_OUTAGES, {"within": within})
        return [row["code"] for row in rows]

    async def find_weakest_confinement(self, *, within: timedelta) -> WorkerConfinement | None:
        """Return the weakest confinement that workers with a recent heartbeat have reported, or None."""
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_WEAKEST_CONFINEMENT, {"within": within})
        return WorkerConfinement(**row) if row else None

    async def resume_jobs(self, code: str) -> int:
        """Let the jobs of all tenants run now that wait because of an error with this code; return how many."""
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_RESUME_JOBS, {"code": code})
        return int(row["jobs"]) if row else 0

    async def retry_failed_documents(self, *, limit: int) -> int:
        """Queue documents again that failed by an outage, each a few times at growing distances; return how many."""
        async with self.database.autocommit() as session:
            row = await session.fetch_row(_RETRY_FAILED, {"limit": limit})
        return int(row["documents"]) if row else 0

    async def reap_jobs(self) -> list[ReapedJob]:
        """Take back the jobs of lost workers."""
        async with self.database.autocommit() as session:
            rows = await session.fetch_rows(_REAP_JOBS, {})
        return [ReapedJob(**row) for row in rows]

    async def find_expired_documents(self, *, limit: int) -> list[ExpiredDocument]:
        """Documents whose time has passed, up to 1,000 of them."""
        async with self.database.transaction(None) as session:
            rows = (await session.execute(text("select * from find_expired_documents(:limit)"), {"limit": limit})).all()
        return [ExpiredDocument(**row._mapping) for row in rows]

    async def find_changed_indexes(self, *, limit: int) -> list[ChangedIndex]:
        """Search indexes that have changed since they were last looked after, up to 10,000 of them."""
        async with self.database.autocommit() as session:
            rows = await session.fetch_rows(_CHANGED_INDEXES, {"limit": limit})
        return [ChangedIndex(**row) for row in rows]

    async def find_outdated_indexes(
        self, *, max_drift: float, max_changed_share: float, max_changed_chunks: int, limit: int
    ) -> list[OutdatedIndex]:
        """Search indexes whose mean length is further than the share ``max_drift`` from that of their weights.

        And those of which more than the share ``max_changed_share``, or ``max_changed_chunks`` chunks, are unknown to
        what they are routed by. Up to 10,000.
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
        """Knowledge bases whose restamp has stopped half an hour ago or more, up to 10,000."""
        async with self.database.autocommit() as session:
            rows = await session.fetch_rows(_STALLED_BACKFILLS, {"limit": limit})
        return [StalledBackfill(**row) for row in rows]

    async def find_expired_indexes(self, *, rollback_period: timedelta, limit: int) -> list[ChangedIndex]:
        """Retired search indexes whose rollback period has ended, up to 10,000."""
        async with self.database.autocommit() as session:
            rows = await session.fetch_rows(_EXPIRED_INDEXES, {"rollback_period": rollback_period, "limit": limit})
        return [ChangedIndex(**row) for row in rows]

    async def find_unfinished_deletions(self, *, min_age: timedelta, limit: int) -> list[UnfinishedDeletion]:
        """Deletions that are not over ``min_age`` after they were asked for, the oldest first, up to 10,000."""
        async with self.database.autocommit() as session:
            rows = await session.fetch_rows(_UNFINISHED_DELETIONS, {"age": min_age, "limit": limit})
        return [UnfinishedDeletion(**row) for row in rows]

    async def remove_old_deletions(self, *, retention: timedelta, limit: int) -> int:
        """Remove receipts that are older than ``retention``, which is a week at least; how many, up to 10,000."""
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
        """A turn to call a model provider: milliseconds after which to ask again, or 0 when it is taken."""
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
        """Pause all calls to a provider for ``milliseconds``, ten minutes at most."""
        async with self.database.autocommit() as session:
            await session.fetch_rows(_PAUSE_PROVIDER, {"provider": provider, "milliseconds": milliseconds})
