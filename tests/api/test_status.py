"""GET /v1/status: figures of one tenant, of all tenants for the operator, and of a large queue."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import httpx2
import pytest

from app.db.models.base import SYSTEM_TENANT
from app.ids import decode_id
from app.sandbox.process import find_confinement
from harness.databases import DatabaseFactory
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.problems import assert_problem
from tests.cli.commands import wait_until

NO_WORKER = {"alive": 0, "outages": [], "restarting": None, "parser_confinement": None}
MANY_JOBS = 200_000


@pytest.fixture(scope="module")
def idle(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service without a worker, so that jobs stay as the tests make them."""
    with run_service(build_settings(tmp_path_factory.mktemp("data")), make_database(), worker=False) as running:
        yield running


@pytest.fixture
def endpoint() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as server:
        yield server


def run_sql(url: str, sql: str, *values: object) -> Any:
    async def run() -> Any:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(sql, *values)
        finally:
            await connection.close()

    return asyncio.run(run())


def as_owner(service: Service, sql: str, *values: object) -> Any:
    return run_sql(service.urls.owner, sql, *values)


def tenant_id(tenant: Tenant) -> UUID:
    found = decode_id("ten", tenant.id)
    assert found is not None
    return found


def status(client: httpx2.Client) -> Any:
    return client.get("/v1/status").raise_for_status().json()


ORDINARY = "'delete_documents'"
DELIVERY = "'send_webhook'"


def add_every_kind(service: Service, tenant: Tenant) -> None:
    key = "gen_random_uuid()"
    columns = ("state", "run_at", "priority", "quota_key_id", "kind")
    rows = [
        ("'ready'", "now() - interval '1 min'", "0", "null::uuid", ORDINARY),
        ("'ready'", "now() - interval '2 min'", "-10", "null::uuid", ORDINARY),
        ("'ready'", "now() - interval '5 min'", "10", key, ORDINARY),
        ("'ready'", "now() - interval '3 min'", "0", key, ORDINARY),
        ("'ready'", "now() - interval '4 min'", "0", "null::uuid", DELIVERY),
        ("'ready'", "now() + interval '1 h'", "0", "null::uuid", ORDINARY),
        ("'ready'", "now() + interval '1 h'", "0", key, ORDINARY),
        ("'ready'", "now() + interval '1 h'", "0", "null::uuid", DELIVERY),
        ("'running'", "now()", "0", "null::uuid", ORDINARY),
        ("'dead'", "now() - interval '23 h'", "0", "null::uuid", ORDINARY),
        ("'dead'", "now() - interval '25 h'", "0", "null::uuid", ORDINARY),
    ]
    for row in rows:
        values = dict(zip(columns, row, strict=True))
        kind = values.pop("kind")
        as_owner(
            service,
            f"insert into job (tenant_id, id, kind, {', '.join(values)})"
            f" values ($1, gen_random_uuid(), {kind}, {', '.join(values.values())})",
            tenant_id(tenant),
        )


@pytest.fixture(autouse=True)
def empty_queue(idle: Service) -> None:
    as_owner(idle, "delete from job")
    as_owner(idle, "delete from worker_heartbeat")


def test_status_counts_the_jobs_of_each_index_once(idle: Service) -> None:
    tenant = idle.create_tenant()
    add_every_kind(idle, tenant)
    jobs = status(tenant.admin)["jobs"]
    assert jobs.pop("oldest_waiting_seconds") == pytest.approx(300, abs=60)
    assert jobs.pop("oldest_waiting_since").endswith("Z")
    assert jobs == {"waiting": 5, "postponed": 3, "running": 1, "failed_24h": 1}


def test_status_of_a_tenant_does_not_change_with_jobs_of_another_tenant(idle: Service) -> None:
    tenant, stranger = idle.create_tenant(), idle.create_tenant()
    empty = status(tenant.admin)
    assert empty["jobs"] == {
        "waiting": 0, "oldest_waiting_since": None, "oldest_waiting_seconds": None, "postponed": 0, "running": 0,
        "failed_24h": 0,
    }  # fmt: skip
    for _ in range(3):
        add_every_kind(idle, stranger)
    assert status(tenant.admin) == empty
    add_every_kind(idle, tenant)
    assert status(tenant.admin)["jobs"]["waiting"] == 5
    everything = status(idle.operator)["jobs"]
    assert {name: everything[name] for name in ("waiting", "postponed", "running", "failed_24h")} == {
        "waiting": 20, "postponed": 12, "running": 4, "failed_24h": 4,
    }  # fmt: skip


@pytest.mark.capability("status")
def test_status_shows_live_workers_and_their_outages(idle: Service) -> None:
    tenant = idle.create_tenant()
    assert status(tenant.admin)["workers"] == NO_WORKER
    for name, seconds, outage in (("one", 5, "vision_unavailable"), ("lost", 120, "object_store_unavailable")):
        as_owner(
            idle,
            "insert into worker_heartbeat (tenant_id, name, heartbeat_at, outages)"
            " values ($1, $2, now() - make_interval(secs => $3), array[$4])",
            SYSTEM_TENANT, name, seconds, outage,
        )  # fmt: skip
    assert status(tenant.admin)["workers"] == {**NO_WORKER, "alive": 1, "outages": ["vision_unavailable"]}


def test_status_names_the_weakest_confinement_that_a_live_worker_has_measured(idle: Service) -> None:
    tenant = idle.create_tenant()
    rows = (("a", 5, "full"), ("b", 5, "partial"), ("lost", 120, "none"), ("of an earlier version", 5, None))
    for name, seconds, level in rows:
        as_owner(
            idle,
            "insert into worker_heartbeat (tenant_id, name, heartbeat_at, confinement, confinement_detail)"
            " values ($1, $2, now() - make_interval(secs => $3), $4, $2)",
            SYSTEM_TENANT, name, seconds, level,
        )  # fmt: skip
    assert status(tenant.admin)["workers"]["parser_confinement"] == {"level": "partial", "detail": None}
    assert status(idle.operator)["workers"]["parser_confinement"] == {"level": "partial", "detail": "b"}


def test_status_shows_what_the_worker_has_measured(service: Service) -> None:
    measured = asyncio.run(find_confinement())
    expected = {"level": measured.level, "detail": measured.describe()}
    wait_until(lambda: status(service.operator)["workers"]["parser_confinement"] == expected)


def test_status_names_a_restart_loop_to_the_operator_alone(idle: Service) -> None:
    tenant = idle.create_tenant()
    idle.resources.worker_exits.record_exit(2, was_unresponsive=False)
    assert "status 2" in status(idle.operator)["workers"]["restarting"]
    assert status(tenant.admin)["workers"]["restarting"] is None


def test_status_names_endpoints_whose_circuit_breaker_is_open(
    make_database: DatabaseFactory, tmp_path: Path, endpoint: EmbeddingServer
) -> None:
    settings = build_settings(tmp_path, embedding={**endpoint.settings, "CARREL_EMBEDDING_TIMEOUT_SECONDS": 3})
    with run_service(settings, make_database(), worker=False) as running:
        tenant = running.create_tenant()
        assert status(tenant.admin)["open_circuits"] == []
        endpoint.fail(500, times=None)
        for number in range(6):
            tenant.admin.post("/v1/search", json={"query": f"tern {number}"})
        assert status(tenant.admin)["open_circuits"] == ["embedding"]


def test_status_refuses_restricted_admin_keys(idle: Service) -> None:
    tenant = idle.create_tenant()
    for narrowing in ({"knowledge_bases": ["default"]}, {"user_id": "bob"}):
        assert_problem(tenant.create_client("admin", **narrowing).get("/v1/status"), 403)


def test_status_of_many_jobs_reads_a_part_of_the_table(idle: Service) -> None:
    """The test compares the pages that the function reads, not the time: a full read of 200,000 jobs exceeds the
    limit.
    """
    tenant = idle.create_tenant()
    waiting = "now() - interval '1 min'"
    as_owner(
        idle,
        "insert into job (tenant_id, id, kind, state, run_at, priority)"
        f" select $1, gen_random_uuid(), {ORDINARY}, case n % 4 when 0 then 'dead' else 'ready' end, {waiting}, n % 3"
        " from generate_series(1, $2::int) n",
        tenant_id(tenant), MANY_JOBS,
    )  # fmt: skip
    as_owner(idle, "vacuum analyze job")
    assert status(tenant.admin)["jobs"]["waiting"] == 1000
    assert status(idle.operator)["jobs"]["failed_24h"] == 1000
    run = "explain (analyze, buffers, format json) select * from get_queue_stats()"
    plan = json.loads(run_sql(idle.urls.app, run))[0]
    pages = plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
    assert pages < run_sql(idle.urls.owner, "select pg_relation_size('job') / 8192")
