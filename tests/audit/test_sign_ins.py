"""Failed sign-ins: counted where they are alike, bounded where they are not, and none of it in the caller's way."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import asyncpg
import pytest

from app.access import Origin
from app.audit.sign_ins import MOST_WAITING, SignInAudit
from app.audit.types import SERVICE
from app.db.models.base import SYSTEM_TENANT
from app.db.models.control_rows import RefusedKey
from app.db.session import Database
from app.embedded_postgres import DatabaseUrls
from app.errors import Unavailable
from app.ids import new_id

TENANT, KEY = new_id(), new_id()
OURS = hashlib.sha256(b"ours").digest()
# Longer than any test takes: what is waiting is written at the end.
LONG = 3600.0


async def find_key(key_hash: bytes) -> RefusedKey | None:
    return RefusedKey(TENANT, KEY, "a key") if key_hash == OURS else None


@pytest.fixture
async def connected(database: DatabaseUrls, owner: asyncpg.Connection) -> AsyncIterator[Database]:
    await owner.execute("delete from audit_event")
    opened = Database.connect(database.app, pool_size=2)
    yield opened
    await opened.close()


async def told(owner: asyncpg.Connection) -> list[tuple[UUID, UUID | None, str | None, str | None, int]]:
    rows = await owner.fetch(
        "select tenant_id, actor_id, address, request_id, (counts ->> 'attempts')::int from audit_event"
        " where action = 'sign_in.fail' order by tenant_id desc, address"
    )
    return [tuple(row) for row in rows]


async def test_what_is_alike_is_one_event(connected: Database, owner: asyncpg.Connection) -> None:
    audit = SignInAudit(connected, find_key, seconds=LONG)
    attempts: Sequence[tuple[bytes | None, str, str]] = (
        (OURS, "1", "10.0.0.1"), (OURS, "2", "10.0.0.1"), (OURS, "3", "10.0.0.2"),
        (None, "4", "10.0.0.1"), (hashlib.sha256(b"theirs").digest(), "5", "10.0.0.1"), (None, "6", "10.0.0.1"),
    )  # fmt: skip
    for key_hash, request, address in attempts:
        audit.note(key_hash, Origin(request, address))
    assert await told(owner) == []
    await audit.close()
    assert await told(owner) == [
        (TENANT, KEY, "10.0.0.1", "1", 2),
        (TENANT, KEY, "10.0.0.2", "3", 1),
        (SYSTEM_TENANT, None, "10.0.0.1", "4", 3),
    ]


async def test_it_is_written_without_being_asked(connected: Database, owner: asyncpg.Connection) -> None:
    audit = SignInAudit(connected, find_key, seconds=0.01)
    for number in (1, 2):
        audit.note(OURS, Origin(str(number), "10.0.0.1"))
        async with asyncio.timeout(30):
            while len(await told(owner)) < number:
                await asyncio.sleep(0.01)
    await audit.close()


async def test_a_flood_is_bounded(connected: Database, owner: asyncpg.Connection) -> None:
    audit = SignInAudit(connected, find_key, seconds=LONG)
    for number in range(10 * MOST_WAITING):
        audit.note(None, Origin(str(number), f"10.0.{number // 250}.{number % 250}"))
    await audit.close()
    assert len(await told(owner)) == MOST_WAITING


async def test_keys_that_are_guessed_from_one_place_are_one_event(
    connected: Database, owner: asyncpg.Connection
) -> None:
    audit = SignInAudit(connected, find_key, seconds=LONG)
    for number in range(MOST_WAITING):
        audit.note(hashlib.sha256(str(number).encode()).digest(), Origin(str(number), "10.0.0.1"))
    await audit.close()
    assert await told(owner) == [(SYSTEM_TENANT, None, "10.0.0.1", "0", MOST_WAITING)]


async def test_a_database_that_is_down_stops_nothing(connected: Database, owner: asyncpg.Connection) -> None:
    down = [True]

    async def find(key_hash: bytes) -> RefusedKey | None:
        if down:
            down.pop()
            raise Unavailable
        return await find_key(key_hash)

    audit = SignInAudit(connected, find, seconds=0.01)
    audit.note(OURS, Origin("lost", "10.0.0.1"))
    async with asyncio.timeout(30):
        while down:
            await asyncio.sleep(0.01)
    audit.note(OURS, Origin("told", "10.0.0.1"))
    await audit.close()
    assert [row[3] for row in await told(owner)] == ["told"]


async def test_nothing_is_done_where_nobody_failed(connected: Database) -> None:
    await SignInAudit(connected, find_key, seconds=LONG).close()
    assert SERVICE.origin == Origin()
