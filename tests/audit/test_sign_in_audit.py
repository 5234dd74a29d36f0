"""Audit of failed sign-ins: equal ones are counted, different ones are limited, and the caller does not wait."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import asyncpg
import pytest

from app.audit.sign_in_audit import MAX_PENDING, SignInAuditLog
from app.audit.types import SERVICE_ACTOR
from app.db.models.base import SYSTEM_TENANT
from app.db.models.control_plane_rows import RejectedKey
from app.db.session import Database
from app.embedded_postgres import DatabaseUrls
from app.errors import UnavailableError
from app.ids import generate_id
from app.principal import RequestOrigin

TENANT, KEY = generate_id(), generate_id()
OURS = hashlib.sha256(b"ours").digest()
# Longer than any test: waiting events are written at the end.
LONG = 3600.0


async def find_key(key_hash: bytes) -> RejectedKey | None:
    return RejectedKey(TENANT, KEY, "a key") if key_hash == OURS else None


@pytest.fixture
async def connected(database: DatabaseUrls, owner: asyncpg.Connection) -> AsyncIterator[Database]:
    await owner.execute("delete from audit_event")
    opened = Database.connect(database.app, pool_size=2)
    yield opened
    await opened.close()


async def sign_in_events(owner: asyncpg.Connection) -> list[tuple[UUID, UUID | None, str | None, str | None, int]]:
    rows = await owner.fetch(
        "select tenant_id, actor_id, address, request_id, (counts ->> 'attempts')::int from audit_event"
        " where action = 'sign_in.fail' order by tenant_id desc, address"
    )
    return [tuple(row) for row in rows]


async def test_sign_in_audit_equal_failures_are_one_event(connected: Database, owner: asyncpg.Connection) -> None:
    audit = SignInAuditLog(connected, find_key, write_delay_seconds=LONG)
    attempts: Sequence[tuple[bytes | None, str, str]] = (
        (OURS, "1", "10.0.0.1"), (OURS, "2", "10.0.0.1"), (OURS, "3", "10.0.0.2"),
        (None, "4", "10.0.0.1"), (hashlib.sha256(b"theirs").digest(), "5", "10.0.0.1"), (None, "6", "10.0.0.1"),
    )  # fmt: skip
    for key_hash, request, address in attempts:
        audit.record(key_hash, RequestOrigin(request, address))
    assert await sign_in_events(owner) == []
    await audit.close()
    assert await sign_in_events(owner) == [
        (TENANT, KEY, "10.0.0.1", "1", 2),
        (TENANT, KEY, "10.0.0.2", "3", 1),
        (SYSTEM_TENANT, None, "10.0.0.1", "4", 3),
    ]


async def test_sign_in_audit_writes_in_background(connected: Database, owner: asyncpg.Connection) -> None:
    audit = SignInAuditLog(connected, find_key, write_delay_seconds=0.01)
    for number in (1, 2):
        audit.record(OURS, RequestOrigin(str(number), "10.0.0.1"))
        async with asyncio.timeout(30):
            while len(await sign_in_events(owner)) < number:
                await asyncio.sleep(0.01)
    await audit.close()


async def test_sign_in_audit_pending_events_are_limited(connected: Database, owner: asyncpg.Connection) -> None:
    audit = SignInAuditLog(connected, find_key, write_delay_seconds=LONG)
    for number in range(10 * MAX_PENDING):
        audit.record(None, RequestOrigin(str(number), f"10.0.{number // 250}.{number % 250}"))
    await audit.close()
    assert len(await sign_in_events(owner)) == MAX_PENDING


async def test_sign_in_audit_guessed_keys_from_one_address_are_one_event(
    connected: Database, owner: asyncpg.Connection
) -> None:
    audit = SignInAuditLog(connected, find_key, write_delay_seconds=LONG)
    for number in range(MAX_PENDING):
        audit.record(hashlib.sha256(str(number).encode()).digest(), RequestOrigin(str(number), "10.0.0.1"))
    await audit.close()
    assert await sign_in_events(owner) == [(SYSTEM_TENANT, None, "10.0.0.1", "0", MAX_PENDING)]


async def test_sign_in_audit_database_failure_stops_nothing(connected: Database, owner: asyncpg.Connection) -> None:
    down = [True]

    async def find(key_hash: bytes) -> RejectedKey | None:
        if down:
            down.pop()
            raise UnavailableError
        return await find_key(key_hash)

    audit = SignInAuditLog(connected, find, write_delay_seconds=0.01)
    audit.record(OURS, RequestOrigin("lost", "10.0.0.1"))
    async with asyncio.timeout(30):
        while down:
            await asyncio.sleep(0.01)
    audit.record(OURS, RequestOrigin("told", "10.0.0.1"))
    await audit.close()
    assert [row[3] for row in await sign_in_events(owner)] == ["told"]


async def test_sign_in_audit_without_failures_writes_nothing(connected: Database) -> None:
    await SignInAuditLog(connected, find_key, write_delay_seconds=LONG).close()
    assert SERVICE_ACTOR.origin == RequestOrigin()
