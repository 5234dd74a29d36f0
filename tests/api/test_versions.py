"""Versions of documents: equal bytes, other bytes with the same external id, concurrent uploads, old originals."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.documents.types import PARSE_RESULT_SUFFIX
from app.ids import decode_id
from harness.running_service import Service, Tenant

SAMPLES = Path(__file__).parents[1] / "samples"
DOCUMENTS = "/v1/knowledge-bases/default/documents"
THREADS = 8


def put(
    client: httpx2.Client, content: bytes | str, *, wait: int = 60, name: str = "a.txt", **fields: str
) -> httpx2.Response:
    files = {"file": (name, content if isinstance(content, bytes) else content.encode())}
    return client.post(DOCUMENTS, params={"wait": wait}, files=files, data=fields)


def texts(tenant: Tenant, query: str, **body: Any) -> list[str]:
    reply = tenant.admin.post("/v1/search", json={"query": query, "top_k": 50, **body})
    reply.raise_for_status()
    return [result["text"] for result in reply.json()["results"]]


def objects(service: Service, tenant: Tenant) -> list[bytes]:
    """Return the originals of a tenant."""
    folder = service.settings.server.data_dir / "objects" / str(decode_id("ten", tenant.id))
    return sorted(path.read_bytes() for path in folder.glob("*/*") if path.suffix != PARSE_RESULT_SUFFIX)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.capability("doc-same-bytes")
def test_upload_same_bytes_returns_existing_document(tenant: Tenant) -> None:
    first = put(tenant.admin, "The ferry sails at noon.", title="Ferry", metadata='{"year": 2023}')
    assert first.status_code == 201
    again = put(tenant.admin, "The ferry sails at noon.", name="other.txt")
    assert (again.status_code, again.json()) == (200, first.json())
    changed = put(
        tenant.admin,
        "The ferry sails at noon.",
        title="Ships",
        metadata='{"year": 2024}',
        source_uri="https://a.example/f",
    ).json()
    assert (changed["id"], changed["version"]) == (first.json()["id"], 1)
    assert (changed["title"], changed["metadata"], changed["source_uri"]) == (
        "Ships",
        {"year": 2024},
        "https://a.example/f",
    )
    assert changed["updated_at"] > first.json()["updated_at"]
    for filter_, found in (
        ({"year": 2023}, 0),
        ({"year": 2024}, 1),
        ({"$title": "Ships"}, 1),
        ({"$title": "Ferry"}, 0),
        ({"$source_uri": "https://a.example/f"}, 1),
    ):
        assert len(texts(tenant, "ferry", filter=filter_)) == found, filter_
    assert len(tenant.admin.get(DOCUMENTS).json()["items"]) == 1


def test_upload_same_bytes_can_become_dynamic(tenant: Tenant) -> None:
    steps: list[tuple[dict[str, Any], bool]] = [
        ({}, False),
        ({"dynamic": "true"}, True),
        ({}, True),
        ({"dynamic": "false"}, False),
    ]
    for said, dynamic in steps:
        shown = put(tenant.admin, "The lock of the canal.", **said).json()
        assert (shown["version"], shown["dynamic"]) == (1, dynamic)
        assert len(texts(tenant, "canal", exclude_dynamic=True)) == (not dynamic)
        assert len(texts(tenant, "canal", filter={"$dynamic": True})) == dynamic


def test_upload_same_bytes_elsewhere_creates_document(tenant: Tenant) -> None:
    tenant.admin.post("/v1/knowledge-bases", json={"name": "other"}).raise_for_status()
    ids = {put(tenant.admin, "Same words.", wait=0).json()["id"]}
    for fields in ({"user_id": "u"}, {"chat_id": "c"}, {"chat_id": "c", "agent_id": "a"}, {"external_id": "e"}):
        reply = put(tenant.admin, "Same words.", wait=0, **fields)
        assert reply.status_code == 202
        ids.add(reply.json()["id"])
    other = tenant.admin.post("/v1/knowledge-bases/other/documents", files={"file": ("a.txt", b"Same words.")})
    assert len({*ids, other.json()["id"]}) == 6


@pytest.mark.capability("doc-retry")
def test_upload_again_retries_failed_document(tenant: Tenant) -> None:
    content = (SAMPLES / "truncated.pdf").read_bytes()
    failed = put(tenant.admin, content, name="a.pdf")
    assert (failed.status_code, failed.json()["status"]) == (202, "failed")
    again = put(tenant.admin, content, wait=0, name="a.pdf")
    assert (again.status_code, again.json()["status"], again.json()["error"]) == (202, "queued", None)
    assert again.json()["id"] == failed.json()["id"]
    last = put(tenant.admin, content, name="a.pdf").json()
    assert (last["status"], last["version"]) == ("failed", 1)


@pytest.mark.capability("doc-version")
def test_upload_other_bytes_with_external_id_creates_next_version(service: Service, tenant: Tenant) -> None:
    first = put(tenant.admin, "The harbour opens at six.", external_id="h").json()
    second = put(tenant.admin, "The harbour opens at seven.", external_id="h", name="b.txt")
    assert second.status_code == 201
    document = second.json()
    assert (document["id"], document["created_at"]) == (first["id"], first["created_at"])
    assert (document["version"], document["live_version"], document["source"]) == (2, 2, "b.txt")
    assert texts(tenant, "harbour") == ["The harbour opens at seven."]
    content = tenant.admin.get(f"{DOCUMENTS}/{document['id']}/content").content
    assert content == b"The harbour opens at seven."
    eventually(lambda: objects(service, tenant) == [content])


@pytest.mark.capability("doc-failed-version")
def test_failed_version_leaves_live_version(service: Service, tenant: Tenant) -> None:
    put(tenant.admin, "The lighthouse was built in 1901.", external_id="l", metadata='{"year": 1901}')
    broken = put(tenant.admin, (SAMPLES / "truncated.pdf").read_bytes(), external_id="l", name="b.pdf").json()
    assert (broken["version"], broken["live_version"], broken["status"]) == (2, 1, "failed")
    assert broken["error"]["code"] == "corrupt"
    assert texts(tenant, "lighthouse", filter={"year": 1901}) == ["The lighthouse was built in 1901."]
    found = tenant.admin.post("/v1/search", json={"query": "lighthouse"}).json()["results"][0]
    assert (found["citation"], found["document"]["metadata"]) == ("a.txt", {"year": 1901})
    tenant.admin.patch(f"{DOCUMENTS}/{broken['id']}", json={"title": "Lights"}).raise_for_status()
    found = tenant.admin.post("/v1/search", json={"query": "lighthouse", "filter": {"$source": "a.txt"}}).json()
    assert found["results"][0]["document"]["title"] == "Lights"
    chunks = tenant.admin.get(f"{DOCUMENTS}/{broken['id']}/chunks").json()["items"]
    assert [chunk["text"] for chunk in chunks] == ["The lighthouse was built in 1901."]
    assert tenant.admin.get(f"{DOCUMENTS}/{broken['id']}/tree").json()["version"] == 1
    mended = put(tenant.admin, "The lighthouse was built in 1902.", external_id="l").json()
    assert (mended["version"], mended["live_version"], mended["status"], mended["error"]) == (3, 3, "ready", None)
    assert texts(tenant, "lighthouse") == ["The lighthouse was built in 1902."]
    eventually(lambda: objects(service, tenant) == [b"The lighthouse was built in 1902."])


@pytest.mark.parametrize("dynamic", [True, False])
def test_live_version_preserves_its_dynamic_flag(tenant: Tenant, dynamic: bool) -> None:
    """The new version failed with another value, and a promotion has updated the chunks' metadata since."""
    name, words = f"buoy-{dynamic}", f"The buoy rings, {dynamic}."
    said, other = json.dumps(dynamic), json.dumps(not dynamic)
    put(tenant.admin, words, external_id=name, dynamic=said, user_id="u").raise_for_status()
    damaged = (SAMPLES / "truncated.pdf").read_bytes()
    broken = put(tenant.admin, damaged, external_id=name, dynamic=other, user_id="u", name="b.pdf").json()
    assert (broken["status"], broken["live_version"], broken["dynamic"]) == ("failed", 1, not dynamic)
    tenant.admin.patch(f"{DOCUMENTS}/{broken['id']}", json={"scope": {"level": "tenant"}}).raise_for_status()
    assert words in texts(tenant, "buoy")
    assert (words in texts(tenant, "buoy", exclude_dynamic=True)) == (not dynamic)


@pytest.mark.capability("doc-live-version")
def test_live_version_answers_until_new_version_is_complete(tenant: Tenant) -> None:
    def text(number: int) -> str:
        return "\n\n".join(
            f"Paragraph {place} of edition{number} about the quarry. " + "stone " * 120 for place in range(40)
        )

    put(tenant.admin, text(1), external_id="q")
    whole = len(texts(tenant, "quarry"))
    assert whole >= 40
    document = put(tenant.admin, text(2), external_id="q", wait=0).json()
    assert document["live_version"] == 1
    path = f"{DOCUMENTS}/{document['id']}"
    seen = set()
    deadline = time.monotonic() + 60
    while (state := tenant.admin.get(path).json())["live_version"] == 1:
        assert time.monotonic() < deadline, state
        found = texts(tenant, "quarry")
        editions = {word for passage in found for word in passage.split() if word.startswith("edition")}
        assert len(editions) == 1
        assert len(found) >= 40
        seen |= editions
    assert "edition1" in seen
    assert all("edition2" in passage or "edition" not in passage for passage in texts(tenant, "quarry"))


def test_concurrent_uploads_of_same_bytes_create_one_document(service: Service, tenant: Tenant) -> None:
    with ThreadPoolExecutor(THREADS) as threads:
        replies = list(threads.map(lambda n: put(tenant.admin, "All at a time.", title=f"t{n}"), range(THREADS)))
    assert {reply.status_code for reply in replies} <= {200, 201}
    assert len({reply.json()["id"] for reply in replies}) == 1
    (document,) = tenant.admin.get(DOCUMENTS).json()["items"]
    assert (document["status"], document["version"], document["chunk_count"]) == ("ready", 1, 1)
    assert objects(service, tenant) == [b"All at a time."]


@pytest.mark.parametrize("begun", [False, True])
def test_concurrent_uploads_of_other_bytes_leave_one_newest_version(
    service: Service, tenant: Tenant, begun: bool
) -> None:
    if begun:
        put(tenant.admin, "The beginning of the race.", external_id="race")
    with ThreadPoolExecutor(THREADS) as threads:
        replies = list(
            threads.map(
                lambda n: put(tenant.admin, f"Runner {n} in the race.", external_id="race", wait=0), range(THREADS)
            )
        )
    assert {reply.status_code for reply in replies} == {202}
    versions = sorted(reply.json()["version"] for reply in replies)
    assert versions[-1] == THREADS + begun
    (document,) = tenant.admin.get(DOCUMENTS).json()["items"]
    path = f"{DOCUMENTS}/{document['id']}"
    eventually(lambda: tenant.admin.get(path).json()["live_version"] == THREADS + begun)
    content = tenant.admin.get(f"{path}/content").content
    assert [passage.encode() for passage in texts(tenant, "race")] == [content]
    eventually(lambda: objects(service, tenant) == [content])


def test_upload_concurrent_with_deletion_ends_consistent(service: Service, tenant: Tenant) -> None:
    def delete(_: int) -> int:
        for document in tenant.admin.get(DOCUMENTS).json()["items"]:
            tenant.admin.delete(f"{DOCUMENTS}/{document['id']}")
        return 204

    def upload(number: int) -> int:
        return put(tenant.admin, f"Coming and going {number % 2}.", external_id="x", wait=0).status_code

    with ThreadPoolExecutor(4) as threads:
        statuses = list(threads.map(lambda n: delete(n) if n % 3 == 2 else upload(n), range(30)))
    assert set(statuses) <= {200, 202, 204, 404, 409}
    last = put(tenant.admin, "The last word.", external_id="x").json()
    assert last["status"] == "ready"
    assert texts(tenant, "word coming going") == ["The last word."]
    eventually(lambda: objects(service, tenant) == [b"The last word."])


def test_delete_document_deletes_original(service: Service, tenant: Tenant) -> None:
    document = put(tenant.admin, "Soon to be gone.").json()
    assert objects(service, tenant) == [b"Soon to be gone."]
    assert tenant.admin.delete(f"{DOCUMENTS}/{document['id']}").status_code == 204
    assert texts(tenant, "gone") == []
    eventually(lambda: objects(service, tenant) == [])
    assert tenant.admin.delete(f"{DOCUMENTS}/{document['id']}").status_code == 404
    anew = put(tenant.admin, "Soon to be gone.")
    assert (anew.status_code, anew.json()["version"]) == (201, 1)
    assert anew.json()["id"] != document["id"]
