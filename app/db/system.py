"""What crosses tenants: the definer functions of the control plane, and nothing else."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text

from app.db.models.control_rows import AuthenticatedKey, ClaimedJob, ExpiredDocument, ListedTenant, ReapedJob
from app.db.session import Database


@dataclass(frozen=True, slots=True)
class SystemDatabase:
    """Transactions without a tenant: they see no tenant's rows but through the functions below."""

    database: Database

    async def authenticate(self, key_hash: bytes) -> AuthenticatedKey | None:
        """The valid key with this SHA-256, if there is one."""
        async with self.database.single_statement() as session:
            row = (await session.execute(text("select * from authenticate(:hash)"), {"hash": key_hash})).one_or_none()
        return AuthenticatedKey(**row._mapping) if row else None

    async def list_tenants(self, *, after: tuple[datetime, UUID] | None, limit: int) -> list[ListedTenant]:
        """Newest first, beginning behind ``after``."""
        sql = text("select * from list_tenants(cast(:at as timestamptz), cast(:id as uuid), :limit)")
        at, last = after or (None, None)
        async with self.database.transaction(None) as session:
            rows = (await session.execute(sql, {"at": at, "id": last, "limit": limit})).all()
        return [ListedTenant(**row._mapping) for row in rows]

    async def claim_job(self, worker: str, lease: timedelta, *, tenant_concurrency: int) -> ClaimedJob | None:
        """The next job in turn, its attempt counted."""
        async with self.database.transaction(None) as session:
            # A claim lost in a crash of Postgres is just claimed again.
            await session.execute(text("set local synchronous_commit = off"))
            sql = text("select * from claim_job(:worker, :lease, :tenant_concurrency)")
            values = {"worker": worker, "lease": lease, "tenant_concurrency": tenant_concurrency}
            row = (await session.execute(sql, values)).one_or_none()
        return ClaimedJob(**row._mapping) if row else None

    async def reap_jobs(self) -> list[ReapedJob]:
        """Take back the jobs of lost workers."""
        async with self.database.transaction(None) as session:
            rows = (await session.execute(text("select * from reap_jobs()"))).all()
        return [ReapedJob(**row._mapping) for row in rows]

    async def expired_documents(self, *, limit: int) -> list[ExpiredDocument]:
        """Documents whose time has passed, up to 1,000 of them."""
        async with self.database.transaction(None) as session:
            rows = (await session.execute(text("select * from expired_documents(:limit)"), {"limit": limit})).all()
        return [ExpiredDocument(**row._mapping) for row in rows]

    async def claim_pace(
        self,
        provider: UUID,
        *,
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
        tokens: int,
        interactive: bool,
    ) -> int:
        """A turn to call a model provider: milliseconds after which to ask again, or 0 when it is taken."""
        sql = text("select claim_pace(:provider, :requests_per_minute, :tokens_per_minute, :tokens, :interactive)")
        values = {
            "provider": provider,
            "requests_per_minute": requests_per_minute or 0,
            "tokens_per_minute": tokens_per_minute or 0,
            "tokens": tokens,
            "interactive": interactive,
        }
        async with self.database.single_statement() as session:
            return int((await session.execute(sql, values)).scalar_one())

    async def pause_provider(self, provider: UUID, *, milliseconds: int) -> None:
        """Give nobody a turn for so long, ten minutes at most."""
        sql = text("select pause_provider(:provider, :milliseconds)")
        async with self.database.single_statement() as session:
            await session.execute(sql, {"provider": provider, "milliseconds": milliseconds})
