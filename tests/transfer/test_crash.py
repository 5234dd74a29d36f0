"""An import that dies in the middle of a document: the document is invisible, and the next import continues."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import asyncpg

from app.embedded_postgres import EmbeddedPostgres
from app.ids import decode_id
from harness.archives import ArchiveDocument, build_archive
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem
from tests.transfer.test_round_trip import documents, found, take

CONTENT = build_archive(
    ArchiveDocument(["The first tern."]), ArchiveDocument(["The second tern."]), ArchiveDocument(["The third tern."])
)
KILL = """select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity
 where datname = $1 and wait_event_type = 'Lock' and query ilike '%key share%'"""


@contextmanager
def held_index(service: Service, tenant: Tenant) -> Iterator[None]:
    """Lock the tenant's search indexes, so that the import waits with its document written but not committed."""
    loop = asyncio.new_event_loop()

    async def hold() -> asyncpg.Connection:
        connection = await asyncpg.connect(service.urls.owner)
        await connection.execute("begin")
        sql = "select 1 from search_index where tenant_id = $1 for update"
        await connection.fetch(sql, decode_id("ten", tenant.id))
        return connection

    connection = loop.run_until_complete(hold())
    try:
        yield
    finally:
        loop.run_until_complete(connection.close())
        loop.close()


def killed(postgres: EmbeddedPostgres, service: Service) -> int:
    """Terminate the sessions that wait for that lock; return how many."""

    async def run() -> int:
        connection = await asyncpg.connect(postgres.build_url("postgres"))
        try:
            return int(await connection.fetchval(KILL, service.urls.app.rsplit("/", 1)[1].partition("?")[0]))
        finally:
            await connection.close()

    return asyncio.run(run())


def test_import_killed_in_a_document_leaves_it_complete_or_absent(
    service: Service, postgres_server: EmbeddedPostgres
) -> None:
    tenant = service.create_tenant("crashing")
    first = build_archive(ArchiveDocument(["The first tern."]))
    assert take(tenant, "default", first).json()["documents"] == 1
    with ThreadPoolExecutor(1) as threads:
        with held_index(service, tenant):
            waiting = threads.submit(take, tenant, "default", CONTENT)
            deadline = time.monotonic() + 30
            while not killed(postgres_server, service):
                assert time.monotonic() < deadline
                assert len(documents(tenant.admin, "default")) == 1
        assert_problem(waiting.result(30), 503)
    assert len(documents(tenant.admin, "default")) == 1
    assert [one["text"] for one in found(tenant.admin, "default", {"query": "tern"})] == ["The first tern."]
    objects = service.settings.server.data_dir / "objects" / str(decode_id("ten", tenant.id))
    assert sum(one.is_file() for one in objects.rglob("*")) == 1
    assert take(tenant, "default", CONTENT).json() == {"documents": 2, "chunks": 2, "existing": 1, "conflicts": 0}
    assert len(found(tenant.admin, "default", {"query": "tern"})) == 3
