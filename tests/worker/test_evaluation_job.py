"""Job of an evaluation: a killed worker, limits of a tenant, a deleted evaluation, a lost job and the rate limit."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.ids import decode_id, derive_id
from harness.databases import DatabaseFactory
from harness.processes import ROOT, build_environment
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.problems import assert_problem
from tests.api.test_evaluations import EVALUATIONS, start, wait_for
from tests.api.test_golden_sets import add_items, create_set

ITEM_COUNT = 150


@pytest.fixture
def service(make_database: DatabaseFactory, tmp_path: Path) -> Iterator[Service]:
    """Service without a worker."""
    with run_service(build_settings(tmp_path), make_database(), worker=False) as running:
        yield running


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.create_tenant()


def fill_set(tenant: Tenant, document: str, count: int = ITEM_COUNT) -> str:
    golden_set = create_set(tenant)
    relevant = [{"document": document}]
    add_items(tenant, golden_set, *({"query": f"leave {number}", "relevant": relevant} for number in range(count)))
    return golden_set


def start_worker(service: Service) -> "subprocess.Popen[bytes]":
    environment = build_environment() | {
        "CARREL_DATABASE_URL": service.urls.app,
        "CARREL_DATA_DIR": str(service.settings.server.data_dir),
        "CARREL_WORKER_LEASE_TIMEOUT_SECONDS": "2",
    }
    return subprocess.Popen([sys.executable, "-m", "app.cli", "worker"], cwd=ROOT, env=environment)


def wait_for_document(tenant: Tenant, document: str) -> None:
    deadline = time.monotonic() + 90
    path = f"/v1/knowledge-bases/default/documents/{document}"
    while tenant.admin.get(path).json()["status"] != "ready":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_evaluation_of_killed_worker_is_continued(service: Service, tenant: Tenant) -> None:
    """A worker is killed in the middle. Another one continues, and every query has one result of each setting."""
    upload = tenant.admin.post("/v1/knowledge-bases/default/documents", json={"text": "Parental leave has 14 months."})
    document = upload.json()["id"]
    killed = start_worker(service)
    try:
        wait_for_document(tenant, document)
        evaluation = start(tenant, fill_set(tenant, document), {}, {"strategy": "lexical"})
        deadline = time.monotonic() + 90
        while (found := tenant.admin.get(f"{EVALUATIONS}/{evaluation}").json())["progress"]["done"] < 2:
            assert time.monotonic() < deadline, found
    finally:
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
    stopped = tenant.admin.get(f"{EVALUATIONS}/{evaluation}").json()
    assert stopped["state"] == "running"
    assert 2 <= stopped["progress"]["done"] < 2 * ITEM_COUNT
    other = start_worker(service)
    try:
        done = wait_for(tenant, evaluation)
    finally:
        other.terminate()
        other.wait(60)
    assert (done["state"], done["progress"]) == ("done", {"done": 2 * ITEM_COUNT, "total": 2 * ITEM_COUNT})
    assert {figure["queries"] for figure in done["figures"]} == {ITEM_COUNT}
    assert done["warnings"] == []


async def fetch(service: Service, query: str, *values: Any) -> Any:
    connection = await asyncpg.connect(service.urls.owner)
    try:
        return await connection.fetchval(query, *values)
    finally:
        await connection.close()


async def add_document(service: Service, tenant: Tenant) -> str:
    """Add a document that no worker ingests."""
    upload = tenant.admin.post("/v1/knowledge-bases/default/documents", json={"text": "A text."})
    return str(upload.json()["id"])


async def test_tenant_has_two_active_evaluations(service: Service, tenant: Tenant) -> None:
    golden_set = fill_set(tenant, await add_document(service, tenant), 1)
    first, _ = start(tenant, golden_set, {}), start(tenant, golden_set, {})
    third = {"set": golden_set, "settings": [{}]}
    assert_problem(tenant.admin.post(EVALUATIONS, json=third), 429, "too_many_evaluations")
    assert len(tenant.admin.get(EVALUATIONS).json()["items"]) == 2
    assert tenant.admin.delete(f"{EVALUATIONS}/{first}").status_code == 204
    start(tenant, golden_set, {})


async def test_evaluation_with_dead_job_has_failed(service: Service, tenant: Tenant) -> None:
    golden_set = fill_set(tenant, await add_document(service, tenant), 1)
    evaluation = start(tenant, golden_set, {})
    job = derive_id("run_evaluation", decode_id("eval", evaluation))
    assert await fetch(service, "update job set state = 'dead' where id = $1 returning 1", job) == 1
    found = tenant.admin.get(f"{EVALUATIONS}/{evaluation}").json()
    assert (found["state"], found["error"]["code"]) == ("failed", "internal")
    start(tenant, golden_set, {})
    start(tenant, golden_set, {})


def test_delete_tenant_removes_golden_sets_and_evaluations(make_database: DatabaseFactory, tmp_path: Path) -> None:
    with run_service(build_settings(tmp_path), make_database()) as service:
        tenant = service.create_tenant()
        golden_set = fill_set(tenant, tenant.add_text("Parental leave.")["id"], 3)
        wait_for(tenant, start(tenant, golden_set, {}))
        counts = "select count(*) from {} where tenant_id = $1"
        own = decode_id("ten", tenant.id)
        tables = ("golden_set", "golden_item", "evaluation", "evaluation_result")
        assert [asyncio.run(fetch(service, counts.format(table), own)) for table in tables] == [1, 3, 1, 3]
        deleted = service.operator.delete(f"/v1/tenants/{tenant.id}")
        receipt = f"/v1/deletions/{deleted.headers['Carrel-Deletion-Id']}"
        deadline = time.monotonic() + 60
        while (found := service.operator.get(receipt).json())["finished_at"] is None:
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        assert [asyncio.run(fetch(service, counts.format(table), own)) for table in tables] == [0, 0, 0, 0]


def test_evaluation_within_rate_limit_of_tenant_ends(make_database: DatabaseFactory, tmp_path: Path) -> None:
    """The rate limit admits fewer searches than the evaluation needs at once. No search is lost."""
    with run_service(build_settings(tmp_path), make_database()) as service:
        tenant = service.create_tenant()
        golden_set = fill_set(tenant, tenant.add_text("Parental leave.")["id"], 12)
        quotas = {"searches_per_second": 4}
        service.operator.patch(f"/v1/tenants/{tenant.id}", json={"quotas": quotas}).raise_for_status()
        done = wait_for(tenant, start(tenant, golden_set, {}))
        assert (done["state"], done["progress"]["done"], done["warnings"]) == ("done", 12, [])
