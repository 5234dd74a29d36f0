"""``progress.waiting_for`` where callers wait: ``?wait=`` of an upload, and the stream of a document's events."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from harness.databases import DatabaseFactory
from harness.running_service import Service, Tenant, build_settings, run_service

DOCUMENTS = "/v1/knowledge-bases/default/documents"


@pytest.fixture(scope="module")
def idle(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service without a worker, so that documents stay queued."""
    with run_service(build_settings(tmp_path_factory.mktemp("data")), make_database(), worker=False) as running:
        yield running


@pytest.fixture(scope="module")
def tenant(idle: Service) -> Tenant:
    return idle.create_tenant()


def first_reason(reply: httpx2.Response) -> Any:
    """Read events until the first one that has a reason; the client's timeout ends a stream without one."""
    for line in reply.iter_lines():
        if line.startswith("data: ") and (progress := json.loads(line[6:])["progress"]):
            return progress["waiting_for"]
    return None


@pytest.mark.capability("doc-waiting")
def test_upload_with_wait_returns_what_the_document_waits_for(tenant: Tenant) -> None:
    reply = tenant.admin.post(DOCUMENTS, params={"wait": 5}, json={"text": "Nobody ingests this."})
    assert reply.status_code == 202
    body = reply.json()
    assert (body["status"], body["progress"]) == ("queued", {"waiting_for": "worker"})


def test_event_stream_sends_what_the_document_waits_for(tenant: Tenant) -> None:
    made = tenant.admin.post(DOCUMENTS, json={"text": "Nobody ingests this either."}).raise_for_status().json()
    assert made["progress"] is None
    with tenant.admin.stream("GET", f"{DOCUMENTS}/{made['id']}/events", timeout=30) as reply:
        assert first_reason(reply) == "worker"
