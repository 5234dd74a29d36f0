"""Events of a document: each state once and in order, to each reader, until the last state."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import asyncpg
import httpx2
import pytest

from app.api.v1.documents.document_events import _stream_events
from app.bootstrap.tenant_services import TenantServices
from app.db.session import Database
from app.documents.change_feed import DocumentChangeFeed
from app.embedded_postgres import EmbeddedPostgres
from app.ids import decode_id
from app.principal import Principal, Role
from harness.running_service import Tenant
from tests.api.breakable_service import BreakableService
from tests.api.problems import assert_problem

DOCUMENTS = "/v1/knowledge-bases/default/documents"
PING = "ping"


@dataclass(frozen=True)
class Event:
    """One event of a stream. A comment is an event of kind PING."""

    kind: str
    id: str = ""
    data: Any = None


@pytest.fixture(scope="module")
def tenant(fragile: BreakableService) -> Tenant:
    return fragile.service.create_tenant("followed")


def events(reply: httpx2.Response) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in reply.iter_lines():
        name, _, value = line.partition(": ")
        if line == "" and fields:
            yield Event(fields["event"], fields["id"], json.loads(fields["data"]))
            fields = {}
        elif line.startswith(":"):
            yield Event(PING)
        elif line:
            assert name not in fields
            fields[name] = value
    assert fields == {}


@contextmanager
def following(client: httpx2.Client, document: dict[str, Any], seen: str | None = None) -> Iterator[Iterator[Event]]:
    headers = {"Last-Event-ID": seen} if seen is not None else {}
    path = f"/v1/knowledge-bases/{document['knowledge_base']}/documents/{document['id']}/events"
    with client.stream("GET", path, headers=headers) as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert reply.headers["cache-control"] == "no-store"
        yield events(reply)


def put_chunks(tenant: Tenant, count: int, *, kb: str = "default") -> dict[str, Any]:
    """Upload a document that is embedded in slices."""
    chunks = [{"text": f"Passage {number} of {time.monotonic_ns()}."} for number in range(count)]
    return put(tenant, {"chunks": chunks}, kb=kb)


def put(tenant: Tenant, body: dict[str, Any], *, kb: str = "default") -> dict[str, Any]:
    reply = tenant.admin.post(f"/v1/knowledge-bases/{kb}/documents", json=body)
    reply.raise_for_status()
    document: dict[str, Any] = reply.json()
    return document


def until_embedding(stream: Iterator[Event]) -> Event:
    return next(event for event in stream if event.data and event.data["status"] == "embedding")


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.capability("doc-events")
def test_event_stream_sends_every_state_in_order(fragile: BreakableService, tenant: Tenant) -> None:
    fragile.embedding.latency_seconds = 0.6
    try:
        document = put_chunks(tenant, 200)
        with following(tenant.create_client("reader"), document) as stream:
            told = list(stream)
    finally:
        fragile.embedding.latency_seconds = 0.0
    assert [event.kind for event in told if event.kind != "progress"][-1] == told[-1].kind == "ready"
    assert {event.kind for event in told[:-1]} <= {"status", "progress"}
    assert told[0].kind == "status"
    assert len({event.id for event in told}) == len(told)
    order = ["queued", "parsing", "chunking", "embedding", "ready"]
    statuses = [order.index(event.data["status"]) for event in told]
    assert statuses == sorted(statuses)
    # A `status` event if the status changed since the last event, else `progress`.
    for before, event in pairwise(told[:-1]):
        assert (event.kind == "progress") == (event.data["status"] == before.data["status"])
    counts = [event.data["progress"] for event in told if event.data["status"] == "embedding"]
    done = [count["done"] for count in counts]
    assert done == sorted(set(done))
    assert {*done} <= {0, 64, 128, 192}
    assert done[-1] > 0
    assert {(count["total"], count["unit"]) for count in counts} == {(200, "chunks")}
    assert told[-1].data == tenant.admin.get(f"{DOCUMENTS}/{document['id']}").json()
    assert told[-1].data["progress"] is None


def test_event_stream_ends_after_failure(fragile: BreakableService, tenant: Tenant) -> None:
    fragile.embedding.fail(400, times=None)
    try:
        with following(tenant.admin, put_chunks(tenant, 1)) as stream:
            *_, last = stream
    finally:
        fragile.embedding.reset()
    assert (last.kind, last.data["error"]["code"]) == ("failed", "embedding_unavailable")
    assert last.data["error"]["stage"] == "embedding"


def test_event_stream_of_settled_document_sends_one_event(tenant: Tenant) -> None:
    document = tenant.add_text("Settled long ago.")
    with following(tenant.admin, document) as stream:
        (only,) = stream
    assert (only.kind, only.data) == ("ready", document)
    path = f"{DOCUMENTS}/{document['id']}/events"
    again = tenant.admin.get(path, headers={"Last-Event-ID": only.id})
    assert (again.status_code, again.content) == (204, b"")
    for other in ("1.embedding.64", "0.ready.", "deleted", "nonsense", ""):
        with following(tenant.admin, document, other) as stream:
            assert list(stream) == [only]


def test_event_stream_of_new_version_sends_new_event(tenant: Tenant) -> None:
    document = tenant.add_text("The first edition.", external_id="edition")
    with following(tenant.admin, document) as stream:
        (first,) = stream
    newer = tenant.add_text("The second edition.", external_id="edition")
    with following(tenant.admin, newer, first.id) as stream:
        (second,) = stream
    assert (second.kind, second.data["version"]) == ("ready", 2)


@pytest.mark.capability("doc-events-resume")
def test_event_stream_resumes_after_last_event(fragile: BreakableService, tenant: Tenant) -> None:
    with fragile.held():
        document = put_chunks(tenant, 1)
        with following(tenant.admin, document) as stream:
            told = [until_embedding(stream)]
        with following(tenant.admin, document, told[0].id) as stream:
            assert next(stream) == Event(PING)
            fragile.release()
            told += [event for event in stream if event.kind != PING]
    assert told[-1].kind == "ready"
    assert len({event.id for event in told}) == len(told)


def test_event_stream_ends_after_deletion(fragile: BreakableService, tenant: Tenant) -> None:
    with fragile.held():
        document = put_chunks(tenant, 1)
        with following(tenant.admin, document) as stream:
            until_embedding(stream)
            tenant.admin.delete(f"{DOCUMENTS}/{document['id']}").raise_for_status()
            *_, last = stream
    assert last == Event("deleted", "deleted", {"id": document["id"]})
    path = f"{DOCUMENTS}/{document['id']}/events"
    assert_problem(tenant.admin.get(path, headers={"Last-Event-ID": last.id}), 404, "document_not_found")


def test_event_stream_ends_after_deletion_of_knowledge_base(fragile: BreakableService, tenant: Tenant) -> None:
    tenant.admin.post("/v1/knowledge-bases", json={"name": "brief"}).raise_for_status()
    with fragile.held():
        document = put_chunks(tenant, 1, kb="brief")
        with following(tenant.admin, document) as stream:
            until_embedding(stream)
            tenant.admin.delete("/v1/knowledge-bases/brief").raise_for_status()
            *_, last = stream
    assert last == Event("deleted", "deleted", {"id": document["id"]})


def test_two_event_streams_receive_same_events(fragile: BreakableService, tenant: Tenant) -> None:
    def all_of(client: httpx2.Client) -> list[Event]:
        with following(client, document) as stream:
            return list(stream)

    with fragile.held(), ThreadPoolExecutor(2) as threads:
        document, other = put_chunks(tenant, 1), put_chunks(tenant, 1)
        both = [threads.submit(all_of, tenant.create_client("reader")) for _ in range(2)]
        with following(tenant.admin, other) as stream:
            until_embedding(stream)
            fragile.release()
            *_, last = stream
    assert last.data["id"] == other["id"]
    for told in both:
        assert {event.data["id"] for event in told.result() if event.data} == {document["id"]}
        assert told.result()[-1].kind == "ready"


def test_event_stream_disconnect_frees_subscription(fragile: BreakableService, tenant: Tenant) -> None:
    waiting = fragile.service.resources.change_feed._subscriptions
    with fragile.held():
        document = put_chunks(tenant, 1)
        with following(tenant.create_client("reader"), document) as stream:
            until_embedding(stream)
            ((_, places),) = waiting.items()
            before = len(places)  # the worker listens too
            with following(tenant.admin, document) as other:
                until_embedding(other)
                assert len(places) == before + 1
            eventually(lambda: len(places) == before)
        eventually(lambda: len(places) == before - 1)
    eventually(lambda: waiting == {})


def test_upload_wait_ends_when_document_is_deleted(fragile: BreakableService, tenant: Tenant) -> None:
    with fragile.held(), ThreadPoolExecutor(1) as threads:
        body = {"chunks": [{"text": "Waited for in vain."}], "external_id": "vain"}
        waiting = threads.submit(lambda: tenant.admin.post(DOCUMENTS, params={"wait": 60}, json=body))
        other = tenant.create_client("admin")
        eventually(lambda: bool(other.get(DOCUMENTS, params={"external_id": "vain"}).json()["items"]))
        assert other.delete(DOCUMENTS, params={"external_id": "vain"}).json()["deleted"] == 1
        assert_problem(waiting.result(), 404, "document_not_found")


def test_upload_wait_ends_after_its_seconds(fragile: BreakableService, tenant: Tenant) -> None:
    with fragile.held():
        reply = tenant.admin.post(DOCUMENTS, params={"wait": 0.5}, json={"text": "Not in time."})
        assert reply.status_code == 202
        assert reply.json()["status"] not in ("ready", "failed")


LISTENING = "datname = $1 and query ilike 'listen%carrel_document%'"


async def listeners(server: EmbeddedPostgres, name: str, *, end: bool = False) -> list[int]:
    """Return the backends that listen for documents; terminate them if ``end`` is true."""
    superuser = await asyncpg.connect(server.build_url("postgres"))
    what = "pid, pg_terminate_backend(pid)" if end else "pid"
    rows = await superuser.fetch(f"select {what} from pg_stat_activity where {LISTENING}", name)
    await superuser.close()
    return [row["pid"] for row in rows]


def test_event_stream_survives_lost_listen_connection(
    fragile: BreakableService, tenant: Tenant, postgres_server: EmbeddedPostgres
) -> None:
    name = fragile.service.urls.app.rpartition("/")[2]
    with fragile.held():
        with following(tenant.admin, put_chunks(tenant, 1)) as stream:
            until_embedding(stream)
            eventually(lambda: len(asyncio.run(listeners(postgres_server, name))) == 1)
            (ended,) = asyncio.run(listeners(postgres_server, name, end=True))
            fragile.release()
            *_, last = stream
        assert last.kind == "ready"
        eventually(lambda: len(set(asyncio.run(listeners(postgres_server, name))) - {ended}) == 1)


def test_event_stream_without_database_ends_without_final_event(fragile: BreakableService, tenant: Tenant) -> None:
    """The stream stops without a final event, so that readers connect again."""
    key = decode_id("ten", tenant.id)
    assert key is not None

    async def collect_events() -> list[bytes]:
        nowhere = Database.connect("postgresql://nobody@127.0.0.1:1/nothing", pool_size=1)
        watch = DocumentChangeFeed(nowhere)
        lost = replace(fragile.service.resources, database=nowhere, change_feed=watch)
        services = TenantServices(Principal(key, "lost", Role.READER), lost)
        try:
            return [
                event async for event in _stream_events(services, "default", "doc_01h455vb4pex5vsknk084sn02q", None)
            ]
        finally:
            await watch.close()
            await nowhere.close()

    assert asyncio.run(collect_events()) == []


def test_event_stream_of_unknown_document_is_404(tenant: Tenant) -> None:
    for document in ("nothing", "doc_01h455vb4pex5vsknk084sn02q"):
        assert_problem(tenant.admin.get(f"{DOCUMENTS}/{document}/events"), 404, "document_not_found")
    assert_problem(tenant.admin.get("/v1/knowledge-bases/nothing/documents/nothing/events"), 404)
