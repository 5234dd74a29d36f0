"""Idempotency keys: responses to write requests, stored in Postgres for 24 hours, for retries.

The first request with a key inserts its row before any work, and holds a lock on it. The lock is renewed while the
request runs. If its process dies, the lock expires after ``LOCK_TIMEOUT``, and a retry runs the request again.
``created_at`` identifies the holder of the lock. A request that lost the lock neither stores a response nor releases
the key.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Update, and_, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from app.db.models.ingestion_state import IdempotencyKey
from app.db.session import Database, Session
from app.db.statements import parse_statement
from app.errors import ConflictError, UnavailableError
from app.logging import get_logger

logger = get_logger(__name__)

RETENTION = timedelta(hours=24)
LOCK_TIMEOUT = timedelta(seconds=60)
# Reason for not repeating a response: its subject was deleted.
RESPONSE_DELETED_CODE = "idempotency_response_deleted"


class RequestInProgress(ConflictError):
    """The first request with this Idempotency-Key is not finished. Try again later."""

    code = "idempotency_in_progress"


class IdempotencyKeyReused(ConflictError):
    """This Idempotency-Key was used with another body. Send a new key."""

    code = "idempotency_key_reused"


@dataclass(frozen=True, slots=True)
class IdempotencyScope:
    """The scope in which a key is unique. ``route`` has the method and the concrete path."""

    tenant_id: UUID
    api_key_id: UUID
    route: str
    key: str


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A stored response, with the hash of the request's body. A hash of None matches every body.

    Without ``body``, the response cannot be repeated, and ``headers`` have the reason. ``subjects`` are ids of objects.
    If such an object is deleted, the stored response is deleted too.
    """

    request_hash: bytes | None
    status: int
    headers: Mapping[str, str]
    body: bytes | None
    subjects: Collection[UUID] = ()


@dataclass(slots=True)
class InFlightRequest:
    """A first request that is running. At the end its ``response`` is stored, or the key is released without one."""

    scope: IdempotencyScope
    started_at: datetime
    response: StoredResponse | None = None


@dataclass(frozen=True, slots=True)
class IdempotencyStore:
    """Store of idempotency keys: it lets first requests run and returns responses to retries."""

    database: Database
    renew_interval_seconds: float = 20.0

    async def acquire(self, scope: IdempotencyScope) -> InFlightRequest | StoredResponse:
        """Lock a key for a first request, or return the stored response of an earlier one.

        Args:
            scope: The key with its scope.

        Returns:
            An ``InFlightRequest`` if this request is the first with the key; otherwise the stored response.

        Raises:
            RequestInProgress: The first request is not finished.
            DatabaseUnavailable: The database does not answer.
        """
        table = IdempotencyKey
        is_expired = or_(
            and_(table.status.is_(None), table.locked_until < func.now()),
            and_(table.status.is_not(None), table.created_at < func.now() - RETENTION),
        )
        new_values: dict[str, Any] = {"created_at": func.now(), "locked_until": func.now() + LOCK_TIMEOUT}
        cleared_values = dict.fromkeys(("request_hash", "status", "headers", "body"))
        upsert = (
            insert(table)
            .values(**_build_key_columns(scope), **new_values)
            .on_conflict_do_update(
                index_elements=_build_key_columns(scope), set_={**new_values, **cleared_values}, where=is_expired
            )
            .returning(table.created_at)
        )
        async with self.database.transaction(scope.tenant_id) as session:
            started_at = await session.scalar(upsert)
            if started_at is not None:
                return InFlightRequest(scope, started_at)
            # The conflict has locked the row, so the row still exists.
            stored = (await session.scalars(select(table).filter_by(**_build_key_columns(scope)))).one()
        if stored.status is None:
            raise RequestInProgress
        return StoredResponse(stored.request_hash, stored.status, stored.headers or {}, stored.body)

    @asynccontextmanager
    async def maintain_lock(self, request: InFlightRequest) -> AsyncIterator[None]:
        """Hold the lock for this block, then store the response or release the key.

        Args:
            request: The first request. The block sets its ``response``.
        """
        renewal = asyncio.create_task(self._renew_lock(request))
        try:
            yield
        finally:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)
            try:
                await self._finish_request(request)
            except UnavailableError as error:  # the work is done, so the caller must get the response
                logger.warning("idempotency.finish_failed", error=error)

    async def _renew_lock(self, request: InFlightRequest) -> None:
        while True:
            await asyncio.sleep(self.renew_interval_seconds)
            with suppress(UnavailableError):
                async with self.database.transaction(request.scope.tenant_id) as session:
                    await session.execute(_update_if_locked(request, locked_until=func.now() + LOCK_TIMEOUT))

    async def _finish_request(self, request: InFlightRequest) -> None:
        response = request.response
        async with self.database.transaction(request.scope.tenant_id) as session:
            if response is None:
                release = delete(IdempotencyKey).filter_by(
                    **_build_key_columns(request.scope), created_at=request.started_at, status=None
                )
                await session.execute(release)
                return
            save = _update_if_locked(
                request,
                request_hash=response.request_hash,
                status=response.status,
                headers=dict(response.headers),
                body=response.body,
            )
            if (await session.execute(save.returning(IdempotencyKey.tenant_id))).first() and response.subjects:
                values = {**_build_key_columns(request.scope), "subjects": list(response.subjects)}
                await session.fetch_rows(_ADD_SUBJECTS, values)


async def delete_stored_responses(session: Session, tenant_id: UUID, subjects: Sequence[UUID]) -> None:
    """Delete the bodies of stored responses about these subjects. The keys remain, so that a retry does not run again.

    Args:
        session: Transaction that deletes the subjects.
        tenant_id: Tenant of the subjects.
        subjects: Ids of documents, knowledge bases or tenants.
    """
    rows = await session.fetch_rows(_REMOVE_SUBJECTS, {"tenant_id": tenant_id, "subjects": list(subjects)})
    if rows:
        columns = {name: [row[name] for row in rows] for name in ("api_key_id", "route", "key")}
        await session.fetch_rows(_WITHHOLD, {"tenant_id": tenant_id, "code": RESPONSE_DELETED_CODE, **columns})


def _build_key_columns(scope: IdempotencyScope) -> dict[str, Any]:
    return {"tenant_id": scope.tenant_id, "api_key_id": scope.api_key_id, "route": scope.route, "key": scope.key}


def _update_if_locked(request: InFlightRequest, **values: Any) -> Update:
    """Return an update of the row that has an effect only while this request holds the lock."""
    return (
        update(IdempotencyKey)
        .filter_by(**_build_key_columns(request.scope), created_at=request.started_at, status=None)
        .values(**values)
    )


_ADD_SUBJECTS = parse_statement("""
insert into idempotency_subject (tenant_id, subject_id, api_key_id, route, key)
select :tenant_id, s, :api_key_id, :route, :key from unnest(:subjects::uuid[]) s on conflict do nothing""")
_REMOVE_SUBJECTS = parse_statement("""
delete from idempotency_subject where tenant_id = :tenant_id and subject_id = any(:subjects::uuid[])
returning api_key_id, route, key""")
_WITHHOLD = parse_statement("""
update idempotency_key
   set body = null, request_hash = null, headers = jsonb_build_object('withheld', :code::text)
 where tenant_id = :tenant_id and body is not null
   and (api_key_id, route, key) in (select * from unnest(:api_key_id::uuid[], :route::text[], :key::text[]))""")
