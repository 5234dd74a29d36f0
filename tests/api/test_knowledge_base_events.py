"""Events of a knowledge base: changes of all documents, deletions, resumption, and who sees what."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

DOCUMENTS = "/v1/knowledge-bases/default/documents"


@dataclass(frozen=True)
class ChangeEvent:
    """One event of a stream."""

    kind: str
    id: str
    data: Any


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.create_tenant()


@contextmanager
def following(
    client: httpx2.Client, seen: str | None = None, *, kb: str = "default"
) -> Iterator[Iterator[ChangeEvent]]:
    headers = {} if seen is None else {"Last-Event-ID": seen}
    with client.stream("GET", f"/v1/knowledge-bases/{kb}/events", headers=headers, timeout=40) as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"].startswith("text/event-stream")
        yield iter_events(reply)


def iter_events(reply: httpx2.Response) -> Iterator[ChangeEvent]:
    fields: dict[str, str] = {}
    for line in reply.iter_lines():
        name, _, value = line.partition(": ")
        if line == "" and fields:
            yield ChangeEvent(fields["event"], fields["id"], json.loads(fields["data"]))
            fields = {}
        elif line and not line.startswith(":"):
            fields[name] = value


def add(tenant: Tenant, text: str, **fields: Any) -> str:
    """Upload a text without waiting and return the id of its document."""
    reply = tenant.admin.post(DOCUMENTS, json={"text": text, **fields})
    reply.raise_for_status()
    identifier: str = reply.json()["id"]
    return identifier


def read_until_ready(stream: Iterator[ChangeEvent], documents: set[str]) -> list[ChangeEvent]:
    """Read events until each document was ready once."""
    seen = []
    waiting = set(documents)
    while waiting:
        event = next(stream)
        seen.append(event)
        if event.kind == "document" and event.data["status"] == "ready":
            waiting.discard(event.data["id"])
    return seen


@pytest.mark.capability("kb-events")
def test_stream_sends_changes_of_all_documents_and_deletions(tenant: Tenant) -> None:
    earlier = tenant.add_text("The first ferry leaves at eight.")["id"]
    with following(tenant.admin) as stream:
        start = next(stream)
        assert (start.kind, start.data) == ("start", {"knowledge_base": "default"})
        added = {add(tenant, f"Ferry {number} crosses the strait.") for number in range(3)}
        events = read_until_ready(stream, added)
        assert earlier not in {event.data["id"] for event in events}
        assert [int(event.id) for event in events] == sorted(int(event.id) for event in events)
        tenant.admin.patch(f"{DOCUMENTS}/{earlier}", json={"title": "Renamed"}).raise_for_status()
        renamed = next(event for event in stream if event.data["id"] == earlier)
        assert renamed.data["title"] == "Renamed"
        tenant.admin.delete(f"{DOCUMENTS}/{earlier}").raise_for_status()
        deletion = next(event for event in stream if event.kind == "deletion")
        assert (deletion.data["kind"], deletion.data["object"], deletion.data["documents"]) == ("document", earlier, 1)


@pytest.mark.capability("kb-events")
def test_stream_resumes_without_a_gap(tenant: Tenant) -> None:
    with following(tenant.admin) as stream:
        start = next(stream)
    missed = {tenant.add_text(f"Missed ferry {number}.")["id"] for number in range(3)}
    removed = tenant.add_text("A ferry that sinks.")["id"]
    tenant.admin.delete(f"{DOCUMENTS}/{removed}").raise_for_status()
    with following(tenant.admin, start.id) as stream:
        assert next(stream).kind == "start"
        events = read_until_ready(stream, missed)
        deletion = next(event for event in stream if event.kind == "deletion")
        assert deletion.data["object"] == removed
    assert removed not in {event.data["id"] for event in events}


def test_stream_of_deleted_knowledge_base_ends(tenant: Tenant) -> None:
    tenant.admin.post("/v1/knowledge-bases", json={"name": "short"}).raise_for_status()
    with following(tenant.admin, kb="short") as stream:
        next(stream)
        tenant.admin.delete("/v1/knowledge-bases/short").raise_for_status()
        assert next(stream).kind == "deleted"
        assert list(stream) == []


def test_stream_shows_only_documents_that_the_key_may_read(service: Service, tenant: Tenant) -> None:
    restricted = tenant.create_client("reader", user_id="ada")
    with following(restricted) as stream:
        next(stream)
        foreign = add(tenant, "Ben's private ferry.", user_id="ben")
        gone = tenant.add_text("A ferry for all.")["id"]
        own = add(tenant, "Ada's private ferry.", user_id="ada")
        events = read_until_ready(stream, {own})
        tenant.admin.delete(f"{DOCUMENTS}/{gone}").raise_for_status()
        last = tenant.add_text("One more ferry for all.")["id"]
        events += read_until_ready(stream, {last})
    assert foreign not in {event.data["id"] for event in events}
    assert {event.kind for event in events} == {"document"}
    stranger = service.create_tenant("stranger")
    kb = tenant.admin.get("/v1/knowledge-bases/default").json()["id"]
    assert_problem(stranger.admin.get(f"/v1/knowledge-bases/{kb}/events"), 404, "knowledge_base_not_found")


@pytest.mark.parametrize("seen", ["x", "-1", "1" * 17, "1.5"])
def test_stream_with_unreadable_id_is_refused(tenant: Tenant, seen: str) -> None:
    reply = tenant.admin.get("/v1/knowledge-bases/default/events", headers={"Last-Event-ID": seen})
    assert_problem(reply, 422, "invalid")


async def test_stream_sees_every_document_of_parallel_uploads(tenant: Tenant) -> None:
    def upload_all() -> set[str]:
        return {add(tenant, f"Parallel ferry {number}.") for number in range(30)}

    def read() -> set[str]:
        with following(tenant.admin, "0") as stream:
            ready: set[str] = set()
            for event in stream:
                if event.kind == "document" and event.data["status"] == "ready":
                    ready.add(event.data["id"])
                if len(ready) == 30:
                    return ready
        return ready

    added, ready = await asyncio.gather(asyncio.to_thread(upload_all), asyncio.to_thread(read))
    assert ready == added
