"""Idempotency keys: what a write answered the first time, kept a day for its retries, in the same Postgres.

The first request with a key takes its row before anything is done, and holds it by a lock that is renewed while the
request runs: a process that dies lets go of it within LOCK, and the retry runs anew. ``created_at`` tells one holder
from the next, so that one who lost the lock keeps and releases nothing any more.
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
# Why an answer is not given again whose subject is gone.
RESPONSE_DELETED_CODE = "idempotency_response_deleted"


class RequestInProgress(ConflictError):
    """The first request with this Idempotency-Key is still under way."""

    code = "idempotency_in_progress"


class IdempotencyKeyReused(ConflictError):
    """This Idempotency-Key came with another body before; a new request needs a new key."""

    code = "idempotency_key_reused"


@dataclass(frozen=True, slots=True)
class IdempotencyScope:
    """What a key is kept under; ``route`` has the method and the concrete path."""

    tenant_id: UUID
    api_key_id: UUID
    route: str
    key: str


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """What is kept of an answer, and the hash of the body that it answers; None: of any.

    Without a body it cannot be given again, and ``headers`` hold why. ``subjects`` are what it is about: it goes with
    them.
    """

    request_hash: bytes | None
    status: int
    headers: Mapping[str, str]
    body: bytes | None
    subjects: Collection[UUID] = ()


@dataclass(slots=True)
class InFlightRequest:
    """A first request under way; the ``response`` that it has at its end is kept, without one the key is free again."""

    scope: IdempotencyScope
    started_at: datetime
    response: StoredResponse | None = None


@dataclass(frozen=True, slots=True)
class IdempotencyStore:
    """Who may run, and what those after are answered."""

    database: Database
    renew_interval_seconds: float = 20.0

    async def acquire(self, scope: IdempotencyScope) -> InFlightRequest | StoredResponse:
        """The caller runs, or has run before. Raises RequestInProgress, DatabaseUnavailable."""
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
            # The conflict has locked the row, so it is there still.
            stored = (await session.scalars(select(table).filter_by(**_build_key_columns(scope)))).one()
        if stored.status is None:
            raise RequestInProgress
        return StoredResponse(stored.request_hash, stored.status, stored.headers or {}, stored.body)

    @asynccontextmanager
    async def maintain_lock(self, request: InFlightRequest) -> AsyncIterator[None]:
        """Hold the key while the request runs, and settle it at the end."""
        renewal = asyncio.create_task(self._renew_lock(request))
        try:
            yield
        finally:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)
            try:
                await self._finish_request(request)
            except UnavailableError as error:  # what was done is done, and its answer must be given
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
    """Keep of the answers that are about these only that they were given: a retry must not make them anew."""
    rows = await session.fetch_rows(_REMOVE_SUBJECTS, {"tenant_id": tenant_id, "subjects": list(subjects)})
    if rows:
        columns = {name: [row[name] for row in rows] for name in ("api_key_id", "route", "key")}
        await session.fetch_rows(_WITHHOLD, {"tenant_id": tenant_id, "code": RESPONSE_DELETED_CODE, **columns})


def _build_key_columns(scope: IdempotencyScope) -> dict[str, Any]:
    return {"tenant_id": scope.tenant_id, "api_key_id": scope.api_key_id, "route": scope.route, "key": scope.key}


def _update_if_locked(request: InFlightRequest, **values: Any) -> Update:
    """Change the row as long as this run holds it."""
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
