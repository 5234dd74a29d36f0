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
from app.db.statements import statement
from app.errors import Conflict, Unavailable
from app.logging import get_logger

logger = get_logger(__name__)

KEPT_FOR = timedelta(hours=24)
LOCK = timedelta(seconds=60)
# Why an answer is not given again whose subject is gone.
DELETED = "idempotency_answer_deleted"


class RequestInProgress(Conflict):
    """The first request with this Idempotency-Key is still under way."""

    code = "idempotency_in_progress"


class KeyReused(Conflict):
    """This Idempotency-Key came with another body before; a new request needs a new key."""

    code = "idempotency_key_reused"


@dataclass(frozen=True, slots=True)
class Place:
    """What a key is kept under; ``route`` has the method and the concrete path."""

    tenant_id: UUID
    api_key_id: UUID
    route: str
    key: str


@dataclass(frozen=True, slots=True)
class Answer:
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
class Run:
    """A first request under way; the ``answer`` that it has at its end is kept, without one the key is free again."""

    place: Place
    begun: datetime
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class IdempotencyKeys:
    """Who may run, and what those after are answered."""

    database: Database
    renew_seconds: float = 20.0

    async def begin(self, place: Place) -> Run | Answer:
        """The caller runs, or has run before. Raises RequestInProgress, DatabaseUnavailable."""
        row = IdempotencyKey
        lapsed = or_(
            and_(row.status.is_(None), row.locked_until < func.now()),
            and_(row.status.is_not(None), row.created_at < func.now() - KEPT_FOR),
        )
        fresh: dict[str, Any] = {"created_at": func.now(), "locked_until": func.now() + LOCK}
        emptied = dict.fromkeys(("request_hash", "status", "headers", "body"))
        taken = (
            insert(row)
            .values(**_columns(place), **fresh)
            .on_conflict_do_update(index_elements=_columns(place), set_={**fresh, **emptied}, where=lapsed)
            .returning(row.created_at)
        )
        async with self.database.transaction(place.tenant_id) as session:
            begun = await session.scalar(taken)
            if begun is not None:
                return Run(place, begun)
            # The conflict has locked the row, so it is there still.
            found = (await session.scalars(select(row).filter_by(**_columns(place)))).one()
        if found.status is None:
            raise RequestInProgress
        return Answer(found.request_hash, found.status, found.headers or {}, found.body)

    @asynccontextmanager
    async def running(self, run: Run) -> AsyncIterator[None]:
        """Hold the key while the request runs, and settle it at the end."""
        renewing = asyncio.create_task(self._renew(run))
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            try:
                await self._settle(run)
            except Unavailable as error:  # what was done is done, and its answer must be given
                logger.warning("idempotency.not_settled", error=error)

    async def _renew(self, run: Run) -> None:
        while True:
            await asyncio.sleep(self.renew_seconds)
            with suppress(Unavailable):
                async with self.database.transaction(run.place.tenant_id) as session:
                    await session.execute(_held(run, locked_until=func.now() + LOCK))

    async def _settle(self, run: Run) -> None:
        answer = run.answer
        async with self.database.transaction(run.place.tenant_id) as session:
            if answer is None:
                free = delete(IdempotencyKey).filter_by(**_columns(run.place), created_at=run.begun, status=None)
                await session.execute(free)
                return
            kept = _held(
                run,
                request_hash=answer.request_hash,
                status=answer.status,
                headers=dict(answer.headers),
                body=answer.body,
            )
            if (await session.execute(kept.returning(IdempotencyKey.tenant_id))).first() and answer.subjects:
                values = {**_columns(run.place), "subjects": list(answer.subjects)}
                await session.rows(_ADD_SUBJECTS, values)


async def forget_answers(session: Session, tenant_id: UUID, subjects: Sequence[UUID]) -> None:
    """Keep of the answers that are about these only that they were given: a retry must not make them anew."""
    rows = await session.rows(_REMOVE_SUBJECTS, {"tenant_id": tenant_id, "subjects": list(subjects)})
    if rows:
        places = {name: [row[name] for row in rows] for name in ("api_key_id", "route", "key")}
        await session.rows(_WITHHOLD, {"tenant_id": tenant_id, "code": DELETED, **places})


def _columns(place: Place) -> dict[str, Any]:
    return {"tenant_id": place.tenant_id, "api_key_id": place.api_key_id, "route": place.route, "key": place.key}


def _held(run: Run, **values: Any) -> Update:
    """Change the row as long as this run holds it."""
    return update(IdempotencyKey).filter_by(**_columns(run.place), created_at=run.begun, status=None).values(**values)


_ADD_SUBJECTS = statement("""
insert into idempotency_subject (tenant_id, subject_id, api_key_id, route, key)
select :tenant_id, s, :api_key_id, :route, :key from unnest(:subjects::uuid[]) s on conflict do nothing""")
_REMOVE_SUBJECTS = statement("""
delete from idempotency_subject where tenant_id = :tenant_id and subject_id = any(:subjects::uuid[])
returning api_key_id, route, key""")
_WITHHOLD = statement("""
update idempotency_key
   set body = null, request_hash = null, headers = jsonb_build_object('withheld', :code::text)
 where tenant_id = :tenant_id and body is not null
   and (api_key_id, route, key) in (select * from unnest(:api_key_id::uuid[], :route::text[], :key::text[]))""")
