"""Change feed of documents: the database notifies waiting callers, again after a lost connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from uuid import UUID, uuid4

import asyncpg
import pytest

from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.db.session import Database
from app.documents.change_feed import DocumentChangeFeed, DocumentSubscription
from app.documents.types import DocumentNotFound
from app.embedded_postgres import EmbeddedPostgres
from tests.ingestion.workshop import HANG_SECONDS, Workshop, add_text, until

LONG = 60.0


@pytest.fixture
async def watch(workshop: Workshop) -> AsyncIterator[DocumentChangeFeed]:
    """Change feed that listens already, so that no change is missed."""
    made = DocumentChangeFeed(workshop.resources.database)
    async with made.subscribe(uuid4(), uuid4()) as change:
        await notified(change)
    yield made
    await made.close()


async def notified(change: DocumentSubscription) -> None:
    """Wait for a notification; a periodic check does not count."""
    async with asyncio.timeout(HANG_SECONDS):
        await change.event.wait()
    change.event.clear()


async def touch(workshop: Workshop, document: DocumentRow, column: str = "status") -> None:
    await workshop.owner.execute(f"update document set {column} = {column} where id = $1", document.id)


@pytest.mark.parametrize(
    "sql",
    [
        "update document set status = 'failed' where id = $1",
        "update document set progress = '{}' where id = $1",
        "update document set version = 2 where id = $1",
        "delete from document where id = $1",
    ],
)
async def test_change_feed_notifies_of_every_kind_of_change(
    workshop: Workshop, services: TenantServices, watch: DocumentChangeFeed, sql: str
) -> None:
    document = await add_text(services, "Watched.")
    async with watch.subscribe(document.tenant_id, document.id) as one, watch.subscribe(*ids(document)) as two:
        await workshop.owner.execute(sql, document.id)
        await notified(one)
        await notified(two)


def ids(document: DocumentRow) -> tuple[UUID, UUID]:
    return document.tenant_id, document.id


async def test_change_feed_notifies_only_of_its_document(
    workshop: Workshop, services: TenantServices, watch: DocumentChangeFeed
) -> None:
    mine, other = await add_text(services, "Mine."), await add_text(services, "Other.")
    async with (
        watch.subscribe(*ids(mine)) as change,
        watch.subscribe(*ids(other)) as others,
        watch.subscribe(uuid4(), mine.id) as strangers,
    ):
        await touch(workshop, other)
        await notified(others)
        assert not change.event.is_set()
        await touch(workshop, mine)
        await notified(change)
        assert not strangers.event.is_set()


async def test_change_feed_lost_connection_notifies_and_reconnects(
    workshop: Workshop, services: TenantServices, watch: DocumentChangeFeed, postgres_server: EmbeddedPostgres
) -> None:
    document = await add_text(services, "Watched through it.")
    superuser = await asyncpg.connect(postgres_server.build_url("postgres"))
    async with watch.subscribe(*ids(document)) as change:
        for _ in range(2):
            ended = await superuser.fetchval(
                """select count(pg_terminate_backend(pid)) from pg_stat_activity
                    where datname = $1 and query ilike 'listen%carrel_document%'""",
                await workshop.owner.fetchval("select current_database()"),
            )
            assert ended >= 1
            await notified(change)  # a notification may have been missed
            await touch(workshop, document)
            await notified(change)
    await superuser.close()


async def test_change_feed_without_database_checks_periodically() -> None:
    database = Database.connect("postgresql://nobody@127.0.0.1:1/nothing", pool_size=1)
    watch = DocumentChangeFeed(database)
    async with watch.subscribe(uuid4(), uuid4()) as change, asyncio.timeout(HANG_SECONDS):
        await change.wait(0.01)
        await change.wait(-1)
        assert not change.event.is_set()
    await watch.close()
    await database.close()


async def test_change_feed_removes_ended_subscriptions(watch: DocumentChangeFeed) -> None:
    tenant, document = uuid4(), uuid4()
    async with watch.subscribe(tenant, document):
        async with watch.subscribe(tenant, document):
            ((_, places),) = watch._subscriptions.items()
            assert len(places) == 2
        assert len(places) == 1
    assert watch._subscriptions == {}


async def test_stream_states_yields_each_state_once(workshop: Workshop, services: TenantServices) -> None:
    document = await add_text(services, "Followed.")
    async with aclosing(services.documents.stream_states("default", document.id, LONG)) as states:
        for status in ("queued", "parsing", "embedding", "failed"):
            await workshop.owner.execute("update document set status = $2 where id = $1", document.id, status)
            state = await anext(states)
            assert state is not None
            assert state.status == status
            await touch(workshop, document)
        with pytest.raises(StopAsyncIteration):
            await anext(states)


async def test_stream_states_repeats_state_after_pulse(workshop: Workshop, services: TenantServices) -> None:
    document = await add_text(services, "With a pulse.")
    async with aclosing(
        services.documents.stream_states("default", document.id, LONG, repeat_interval_seconds=0.0)
    ) as states:
        for _ in range(3):
            state = await anext(states)
            assert state is not None
            assert state.status == "queued"
            await touch(workshop, document)


async def test_stream_states_ends_with_document(workshop: Workshop, services: TenantServices) -> None:
    document = await add_text(services, "Followed to the end.")
    async with aclosing(services.documents.stream_states("default", document.id, LONG)) as states:
        assert await anext(states) is not None
        await services.deletions.delete("default", document.id)
        assert [state async for state in states] == [None]
    with pytest.raises(DocumentNotFound):
        await anext(services.documents.stream_states("default", document.id, LONG))


async def test_wait_until_settled_returns_last_state(workshop: Workshop, services: TenantServices) -> None:
    document = await add_text(services, "Waited for.")
    assert (await services.documents.wait_until_final(document, 0)).status == "queued"
    waiting = asyncio.create_task(services.documents.wait_until_final(document, LONG))
    await until(lambda: is_waited_for(services))
    await workshop.ingest(document)
    assert (await waiting).status == "ready"
    newer = await add_text(services, "Deleted meanwhile.")
    waiting = asyncio.create_task(services.documents.wait_until_final(newer, LONG))
    await until(lambda: is_waited_for(services))
    await services.deletions.delete("default", newer.id)
    with pytest.raises(DocumentNotFound):
        await waiting


async def is_waited_for(services: TenantServices) -> bool:
    return bool(services.documents.change_feed._subscriptions)
