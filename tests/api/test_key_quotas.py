"""Storage quotas of a key: enforced under concurrency, inherited by rotation, and separate for each key."""

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import httpx2

from app.db.control_plane import ControlPlaneDatabase
from app.db.models.control_plane_rows import ClaimedJob
from app.db.session import Database
from app.embedded_postgres import DatabaseUrls
from app.ids import decode_id
from app.jobs.queue import JobQueue
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.problems import assert_problem
from tests.api.test_quotas import CLIENTS, DOCUMENTS, refused, set_quotas, settled

PARTS = "\n\n".join(f"# Part {number}\n\nThe heron of part {number} stands still." for number in range(6))


def new_key(tenant: Tenant, **quotas: float) -> tuple[str, httpx2.Client]:
    """Create a writer's key. Return its id and a client with it."""
    body = {"name": "limited", "role": "writer", "quotas": quotas}
    made = tenant.admin.post("/v1/api-keys", json=body).raise_for_status().json()
    return made["id"], tenant.service.create_client(made["key"])


def add(client: httpx2.Client, text: str, **fields: Any) -> httpx2.Response:
    """Upload a text and wait until it is ready or failed."""
    return client.post(DOCUMENTS, params={"wait": 60}, json={"text": text, **fields})


def used(client: httpx2.Client) -> dict[str, int]:
    found: dict[str, int] = client.get("/v1/me").raise_for_status().json()["usage"]
    return found


async def rows(service: Service, query: str, *values: Any) -> list[dict[str, Any]]:
    connection = await asyncpg.connect(service.urls.owner)
    try:
        return [dict(row) for row in await connection.fetch(query, *values)]
    finally:
        await connection.close()


async def counted(service: Service, key: str) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return the usage that the triggers have counted for a key, and the key's real usage."""
    both = await rows(
        service,
        """select u.documents, u.stored_bytes, u.chunks, d.* from key_usage u cross join lateral (
             select count(*) there, coalesce(sum(bytes), 0)::bigint bytes, coalesce(sum(chunk_count), 0) parts
               from document where tenant_id = u.tenant_id and quota_key_id = u.key_id) d where u.key_id = $1""",
        decode_id("key", key),
    )
    row = both[0]
    kept = {name: row[name] for name in ("documents", "stored_bytes", "chunks")}
    return kept, {"documents": row["there"], "stored_bytes": row["bytes"], "chunks": row["parts"]}


async def test_key_quota_race_admits_exact_number(service: Service, tenant: Tenant) -> None:
    places = 5
    key, limited = new_key(tenant, documents=places + 1)
    assert add(limited, "The first one.").status_code == 201
    tenant.admin.post("/v1/knowledge-bases", json={"name": "other"}).raise_for_status()

    def race(number: int) -> httpx2.Response:
        path = DOCUMENTS if number % 2 else "/v1/knowledge-bases/other/documents"
        with httpx2.Client(base_url=service.url, headers=limited.headers, timeout=60) as client:
            return client.post(path, json={"text": f"A text with the number {number}."})

    with ThreadPoolExecutor(CLIENTS) as pool:
        replies = list(pool.map(race, range(CLIENTS)))
    assert Counter(reply.status_code for reply in replies) == {202: places, 429: CLIENTS - places}
    for reply in replies:
        if reply.status_code == 429:
            assert "This key's quota of 6 documents" in refused(reply, places + 1)["detail"]
    kept, there = await counted(service, key)
    assert kept["documents"] == there["documents"] == used(limited)["documents"] == places + 1
    # Other keys are not affected, a new version is no new document, and a deletion frees its quota immediately.
    assert add(tenant.admin, "Of another key.").status_code == 201
    assert add(limited, "The first one.").status_code == 200
    refused(add(limited, "One more."), places + 1)
    first = next(reply for reply in replies if reply.status_code == 202).json()
    path = f"/v1/knowledge-bases/{first['knowledge_base']}/documents/{first['id']}"
    assert tenant.admin.delete(path).is_success
    assert add(limited, "One more.").status_code == 201
    refused(add(limited, "Another one."), places + 1)


async def test_key_quota_limits_bytes_and_chunks(service: Service, tenant: Tenant) -> None:
    key, limited = new_key(tenant, stored_bytes=1000, chunks=3)
    assert add(limited, "heron " * 100, external_id="a").json()["status"] == "ready"
    refused(add(limited, "y" * 401, external_id="b"), 1000)
    refused(add(limited, "z" * 1001, external_id="a"), 1000)
    failed = add(limited, PARTS, external_id="b").json()
    assert failed["status"] == "failed"
    assert (failed["error"]["code"], failed["error"]["retryable"]) == ("quota_exceeded", False)
    assert "This key's quota of 3 chunks" in failed["error"]["message"]
    assert used(limited) == {"stored_bytes": 600 + len(PARTS), "chunks": 1}
    # A retry by any key fails, because the document belongs to this key. It fits under a key without limits.
    path = f"{DOCUMENTS}/{failed['id']}"
    tenant.admin.post(f"{path}/reindex").raise_for_status()
    assert settled(tenant, path)["error"]["code"] == "quota_exceeded"
    assert add(tenant.admin, PARTS + "\n", external_id="b").json()["status"] == "ready"
    assert used(limited) == {"stored_bytes": 600, "chunks": 1}
    kept, there = await counted(service, key)
    assert kept == there


async def test_document_counts_for_key_of_newest_version(service: Service, tenant: Tenant) -> None:
    first, one = new_key(tenant, documents=1, chunks=10)
    second, other = new_key(tenant, documents=1, chunks=5)
    assert add(one, PARTS, external_id="a").json()["chunk_count"] == 6
    # A document passes to another key with its live chunks, which are too many for the other key.
    refused(add(other, "The second key's.", external_id="a"), 5)
    assert add(one, "A shorter one.", external_id="a").json()["chunk_count"] == 1
    assert add(other, "The second key's.", external_id="a").json()["status"] == "ready"
    assert (used(one), used(other)) == ({"documents": 0, "chunks": 0}, {"documents": 1, "chunks": 1})
    refused(add(other, "A second document.", external_id="b"), 1)
    assert add(one, "A document again.", external_id="b").status_code == 201
    refused(add(other, "Over the first key's.", external_id="b"), 1)
    assert add(tenant.admin, "A key without limits takes it.", external_id="a").json()["status"] == "ready"
    assert used(other) == {"documents": 0, "chunks": 0}
    for key in (first, second):
        kept, there = await counted(service, key)
        assert kept == there


async def test_rotation_preserves_quota_and_usage(service: Service, tenant: Tenant) -> None:
    key, old = new_key(tenant, documents=2)
    add(old, "By the old key.", external_id="a").raise_for_status()
    made = tenant.admin.post(f"/v1/api-keys/{key}/rotate").raise_for_status().json()
    again = tenant.admin.post(f"/v1/api-keys/{made['id']}/rotate").raise_for_status().json()
    new = service.create_client(again["key"])
    assert used(new) == used(old) == {"documents": 1}
    assert add(new, "By the new key.", external_id="b").status_code == 201
    for client in (old, new):
        refused(add(client, "By either.", external_id="c"), 2)
    # The documents of a revoked key stay, and their deletion frees the quota.
    for gone in (key, made["id"]):
        tenant.admin.delete(f"/v1/api-keys/{gone}").raise_for_status()
    assert_problem(add(old, "By the old key."), 401)
    assert len(tenant.admin.get(DOCUMENTS).json()["items"]) == 2
    assert tenant.admin.delete(DOCUMENTS, params={"external_id": "a"}).is_success
    assert used(new) == {"documents": 1}
    assert add(new, "In its place.", external_id="d").status_code == 201
    assert (await counted(service, key))[0]["documents"] == 2


def test_key_quota_applies_inside_tenant_quota(tenant: Tenant) -> None:
    _, limited = new_key(tenant, documents=2, stored_bytes=10_000)
    set_quotas(tenant, documents=3, stored_bytes=1000, chunks=100)
    assert add(tenant.admin, "The admin's.").status_code == 201
    assert add(limited, "The key's.").status_code == 201
    me = limited.get("/v1/me").json()
    assert {name: me["limits"][name] for name in ("documents", "stored_bytes", "chunks")} == {
        "documents": 2, "stored_bytes": 1000, "chunks": 100,
    }  # fmt: skip
    assert me["usage"] == {"documents": 1, "stored_bytes": len("The admin's.The key's."), "chunks": 2}
    assert used(tenant.admin) == {"documents": 2, "stored_bytes": len("The admin's.The key's."), "chunks": 2}
    assert "This tenant's quota" in refused(add(limited, "x" * 2000), 1000)["detail"]
    assert add(tenant.admin, "The admin's second.").status_code == 201
    assert "This tenant's quota" in refused(add(limited, "The key's second."), 3)["detail"]
    set_quotas(tenant, documents=5)
    assert add(limited, "The key's second.").status_code == 201
    assert "This key's quota" in refused(add(limited, "The key's third."), 2)["detail"]


async def test_every_deletion_reduces_key_usage(service: Service, tenant: Tenant) -> None:
    keys = [new_key(tenant, documents=9) for _ in range(2)]
    for number in range(6):
        add(keys[number % 2][1], f"The tern number {number}.", metadata={"low": number < 2}).raise_for_status()
    assert tenant.admin.delete(DOCUMENTS, params={"filter": '{"low": true}'}).is_success
    assert [used(client)["documents"] for _, client in keys] == [2, 2]
    tenant.admin.post("/v1/knowledge-bases", json={"name": "other"}).raise_for_status()
    add(keys[0][1], "Deleted with the others.", metadata={"low": False}).raise_for_status()
    assert tenant.admin.delete(DOCUMENTS, params={"filter": '{"low": false}'}).is_success
    for key, client in keys:
        assert used(client) == {"documents": 0}
        assert await counted(service, key) == ({"documents": 0, "stored_bytes": 0, "chunks": 0},) * 2


async def test_key_without_storage_quota_is_not_counted(service: Service, tenant: Tenant) -> None:
    new_key(tenant, searches_per_second=5, upload_bytes=5000)
    add(tenant.create_client("writer"), "Nobody counts this.").raise_for_status()
    add(tenant.create_client("writer", quotas={"searches_per_second": 5}), "Nor this.").raise_for_status()
    own = decode_id("ten", tenant.id)
    assert await rows(service, "select from key_usage where tenant_id = $1", own) == []
    found = await rows(service, "select quota_key_id from document where tenant_id = $1", own)
    assert found == [{"quota_key_id": None}] * 2


def test_standalone_files_count_against_key_quota(tenant: Tenant) -> None:
    _, limited = new_key(tenant, stored_bytes=100)

    def keep(size: int) -> httpx2.Response:
        part = {"file": ("a.txt", b"x" * size)}
        return limited.post("/openai/v1/files", files=part, data={"purpose": "assistants"})

    kept = keep(60).raise_for_status().json()
    assert keep(41).status_code == 429
    assert used(limited) == {"stored_bytes": 60}
    assert add(limited, "y" * 41).status_code == 429
    assert add(limited, "A text of forty bytes, no more and no le").status_code == 201
    assert limited.delete(f"/openai/v1/files/{kept['id']}").is_success
    assert used(limited) == {"stored_bytes": 40}


async def test_key_quota_limits_concurrent_ingestion(database: DatabaseUrls, tmp_path: Path) -> None:
    with run_service(build_settings(tmp_path), database, worker=False) as service:
        tenant = service.create_tenant()
        key, limited = new_key(tenant, concurrent_ingestions=1)
        made = tenant.admin.post(f"/v1/api-keys/{key}/rotate").raise_for_status().json()
        assert limited.get("/v1/me").json()["limits"]["concurrent_ingestions"] == 1
        brought: list[str] = []
        for client in (limited, service.create_client(made["key"]), limited, tenant.admin):
            reply = client.post(DOCUMENTS, json={"text": f"A text with the number {len(brought)}."})
            brought.append(reply.raise_for_status().json()["id"])
        pool = Database.connect(service.urls.app, pool_size=2)
        queue = JobQueue(pool, ControlPlaneDatabase(pool), 5)
        jobs: list[ClaimedJob] = []

        async def claimed() -> str | None:
            job = await queue.claim("w", timedelta(minutes=5), tenant_concurrency=10)
            if job is None:
                return None
            jobs.append(job)
            return next(one for one in brought if decode_id("doc", one) == job.document_id)

        assert [await claimed() for _ in range(3)] == [brought[0], brought[3], None]
        await queue.complete(jobs[0], "w")
        assert [await claimed() for _ in range(2)] == [brought[1], None]
        await queue.complete(jobs[2], "w")
        # Reindexing counts for the requesting key, which has no limit here.
        tenant.admin.post(f"{DOCUMENTS}/{brought[0]}/reindex").raise_for_status()
        assert [await claimed() for _ in range(3)] == [brought[2], brought[0], None]
        await pool.close()
