"""Idempotency keys on a real database: one request runs, the others are refused, and a lost lock changes nothing."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import UUID

import asyncpg
import pytest

from app.db.session import Database
from app.embedded_postgres import DatabaseUrls
from app.idempotency import IdempotencyScope, IdempotencyStore, InFlightRequest, RequestInProgress, StoredResponse
from app.ids import generate_id

ANSWER = StoredResponse(b"hash", 201, {"content-type": "application/json", "location": "/v1/x"}, b'{"a": 1}')


@pytest.fixture(scope="module")
async def keys(database: DatabaseUrls) -> AsyncIterator[IdempotencyStore]:
    pool = Database.connect(database.app, pool_size=5)
    yield IdempotencyStore(pool, renew_interval_seconds=0.02)
    await pool.close()


@pytest.fixture
async def place(owner: asyncpg.Connection) -> IdempotencyScope:
    return IdempotencyScope(await new_tenant(owner), generate_id(), "POST somewhere", "key-1")


async def new_tenant(owner: asyncpg.Connection) -> UUID:
    tenant = generate_id()
    await owner.execute("insert into tenant (id, name) values ($1, 'x')", tenant)
    return tenant


async def begin(keys: IdempotencyStore, place: IdempotencyScope) -> InFlightRequest:
    found = await keys.acquire(place)
    assert isinstance(found, InFlightRequest)
    return found


async def finish(keys: IdempotencyStore, run: InFlightRequest, answer: StoredResponse | None) -> None:
    async with keys.maintain_lock(run):
        run.response = answer


async def age(owner: asyncpg.Connection, place: IdempotencyScope, column: str, interval: str) -> None:
    changed = f"update idempotency_key set {column} = {column} - interval '{interval}' where tenant_id = $1"
    await owner.execute(changed, place.tenant_id)


async def test_idempotency_first_request_runs_and_next_gets_response(
    keys: IdempotencyStore, place: IdempotencyScope
) -> None:
    run = await begin(keys, place)
    with pytest.raises(RequestInProgress):
        await keys.acquire(place)
    await finish(keys, run, ANSWER)
    assert await keys.acquire(place) == ANSWER
    assert await keys.acquire(place) == ANSWER


async def test_idempotency_key_without_response_is_free(keys: IdempotencyStore, place: IdempotencyScope) -> None:
    await finish(keys, await begin(keys, place), None)
    run = await begin(keys, place)
    with pytest.raises(ZeroDivisionError):
        async with keys.maintain_lock(run):
            raise ZeroDivisionError
    await begin(keys, place)


async def test_idempotency_concurrent_requests_run_once(keys: IdempotencyStore, place: IdempotencyScope) -> None:
    found = await asyncio.gather(*(keys.acquire(place) for _ in range(20)), return_exceptions=True)
    assert sum(isinstance(one, InFlightRequest) for one in found) == 1
    assert sum(isinstance(one, RequestInProgress) for one in found) == 19


async def test_idempotency_key_belongs_to_tenant_api_key_and_route(
    keys: IdempotencyStore, owner: asyncpg.Connection, place: IdempotencyScope
) -> None:
    await finish(keys, await begin(keys, place), ANSWER)
    for other in (
        replace(place, tenant_id=await new_tenant(owner)),
        replace(place, api_key_id=generate_id()),
        replace(place, route="PATCH somewhere"),
        replace(place, key="key-2"),
    ):
        await begin(keys, other)


async def test_idempotency_owner_that_lost_lock_changes_nothing(
    keys: IdempotencyStore, owner: asyncpg.Connection, place: IdempotencyScope
) -> None:
    first = await begin(keys, place)
    await age(owner, place, "locked_until", "61 seconds")
    second = await begin(keys, place)
    with pytest.raises(RequestInProgress):
        await keys.acquire(place)
    await finish(keys, first, replace(ANSWER, status=299))
    await finish(keys, first, None)
    with pytest.raises(RequestInProgress):
        await keys.acquire(place)
    await finish(keys, second, ANSWER)
    assert await keys.acquire(place) == ANSWER


async def test_idempotency_lock_is_renewed_during_request(
    keys: IdempotencyStore, owner: asyncpg.Connection, place: IdempotencyScope
) -> None:
    run = await begin(keys, place)
    async with asyncio.timeout(20), keys.maintain_lock(run):
        await age(owner, place, "locked_until", "61 seconds")
        while await owner.fetchval(
            "select locked_until < now() from idempotency_key where tenant_id = $1", place.tenant_id
        ):
            await asyncio.sleep(0.01)
        with pytest.raises(RequestInProgress):
            await keys.acquire(place)


async def test_idempotency_response_is_removed_after_a_day(
    keys: IdempotencyStore, owner: asyncpg.Connection, place: IdempotencyScope
) -> None:
    await finish(keys, await begin(keys, place), ANSWER)
    await age(owner, place, "created_at", "23 hours 59 minutes")
    assert await keys.acquire(place) == ANSWER
    await age(owner, place, "created_at", "2 minutes")
    await finish(keys, await begin(keys, place), None)


async def test_idempotency_lost_database_does_not_affect_response(
    database: DatabaseUrls, place: IdempotencyScope
) -> None:
    """The request has done its work: it gets its response, even if the response cannot be stored."""
    pool = Database.connect(database.app, pool_size=1)
    run = await begin(IdempotencyStore(pool), place)
    gone = Database.connect("postgresql://nobody@127.0.0.1:9/nothing", pool_size=1)
    await finish(IdempotencyStore(gone), run, ANSWER)
    with pytest.raises(RequestInProgress):
        await IdempotencyStore(pool).acquire(place)
    await gone.close()
    await pool.close()
