"""Upload of many files in one request: each file has its own result, and a bad file does not stop the others."""

import asyncio
import gzip
import json
import random
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from app.documents.upload.service import MAX_FILES
from app.ids import decode_id
from app.jobs.queue import BULK, INTERACTIVE, URGENT
from harness.running_service import Tenant
from tests.api.breakable_service import UPLOAD_LIMIT, BreakableService
from tests.api.problems import assert_problem
from tests.documents.compound import container

SAMPLES = Path(__file__).parents[1] / "samples"
DOCUMENTS = "/v1/knowledge-bases/default/documents"
BATCH = f"{DOCUMENTS}/batch"
PACKED = gzip.compress(b"words")
Files = list[tuple[str, bytes]]


def send(client: httpx2.Client, files: Files, **fields: str) -> httpx2.Response:
    return client.post(BATCH, files=[("file", one) for one in files], data=fields)


def verdicts(client: httpx2.Client, files: Files, **fields: str) -> list[dict[str, Any]]:
    reply = send(client, files, **fields)
    assert reply.status_code == 200, reply.text
    assert list(reply.json()) == ["items"]
    items: list[dict[str, Any]] = reply.json()["items"]
    return items


def listed(tenant: Tenant, kb: str = "default") -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = tenant.admin.get(f"/v1/knowledge-bases/{kb}/documents").json()["items"]
    return items


@pytest.mark.capability("doc-batch")
def test_batch_upload_returns_result_per_file(tenant: Tenant) -> None:
    files: Files = [
        ("first.txt", b"The first text."),
        ("again.txt", b"The first text."),
        ("nothing.txt", b""),
        ("packed.txt", PACKED),
        ("locked.docx", container("EncryptedPackage")),
        ("../../notes.md", (SAMPLES / "notes.md").read_bytes()),
        ("damaged.pdf", (SAMPLES / "truncated.pdf").read_bytes()),
    ]
    found = verdicts(tenant.create_client("writer"), files)
    told = [(one["filename"], one["status"], one["error"] and one["error"]["code"]) for one in found]
    assert told == [
        ("first.txt", 202, None),
        ("again.txt", 200, None),
        ("nothing.txt", 422, "empty"),
        ("packed.txt", 415, "unsupported_media_type"),
        ("locked.docx", 422, "encrypted"),
        ("notes.md", 202, None),
        ("damaged.pdf", 202, None),
    ]
    for one in found:
        assert (one["document"] is None) == (one["error"] is not None)
        assert one["error"] is None or one["error"]["message"]
    first, again = found[0]["document"], found[1]["document"]
    assert (first["id"], first["source"]) == (again["id"], again["source"]) == (first["id"], "first.txt")
    assert {one["document"]["id"] for one in found if one["document"]} == {one["id"] for one in listed(tenant)}
    last = {
        one["filename"]: tenant.admin.post(DOCUMENTS, params={"wait": 60}, files={"file": file}).json()
        for one, file in zip(found, files, strict=True)
        if one["document"]
    }
    assert {name: one["status"] for name, one in last.items()} == {
        "first.txt": "ready",
        "again.txt": "ready",
        "notes.md": "ready",
        "damaged.pdf": "failed",
    }


@pytest.mark.capability("doc-batch-fields")
def test_batch_upload_fields_apply_to_every_file(tenant: Tenant) -> None:
    fields = {
        "metadata": json.dumps({"team": "ops"}),
        "source_uri": "https://example.org/all",
        "source_created_at": "2024-03-01T12:00:00Z",
        "expires_at": "2999-01-01T00:00:00Z",
        "dynamic": "true",
        "user_id": "u",
    }
    found = verdicts(tenant.admin, [("a.txt", b"One."), ("b.txt", b"Two."), ("c.txt", b"")], **fields)
    assert [one["status"] for one in found] == [202, 202, 422]
    for one in found[:2]:
        document = one["document"]
        assert (document["metadata"], document["source_uri"]) == ({"team": "ops"}, fields["source_uri"])
        assert (document["scope"]["level"], document["scope"]["user_id"]) == ("user", "u")
        assert (document["dynamic"], document["expires_at"]) == (True, "2999-01-01T00:00:00.000Z")
        assert document["source_created_at"] == "2024-03-01T12:00:00.000Z"
    changed = verdicts(tenant.admin, [("a.txt", b"One.")], user_id="u", metadata='{"team": "dev"}')
    assert [(one["status"], one["document"]["metadata"]) for one in changed] == [(200, {"team": "dev"})]


@pytest.mark.parametrize(
    "fields",
    [
        {"external_id": "e"},
        {"title": "All of them"},
        {"colour": "red"},
        {"metadata": "["},
        {"expires_at": "2020-01-01T00:00:00Z"},
        {"user_id": "u", "agent_id": "a"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_batch_upload_invalid_field_refuses_all(tenant: Tenant, fields: dict[str, str]) -> None:
    found = assert_problem(send(tenant.admin, [("a.txt", b"One."), ("b.txt", b"Two.")], **fields), 422, "invalid")
    assert next(iter(fields)) in json.dumps(found["errors"]) or "user_id" in fields
    assert listed(tenant) == []


def test_batch_upload_above_max_files_is_422(tenant: Tenant) -> None:
    most = [(f"{number}.txt", PACKED) for number in range(MAX_FILES)]
    assert {one["status"] for one in verdicts(tenant.admin, most)} == {415}
    one_more = [("first.txt", b"Not stored either."), *most]
    found = assert_problem(send(tenant.admin, one_more), 422, "invalid")
    assert str(MAX_FILES) in found["detail"]
    assert listed(tenant) == []


def test_batch_upload_larger_than_json_limit_is_accepted(tenant: Tenant) -> None:
    """The limit of uploads applies to all files together, not the limit of JSON bodies."""
    noise = PACKED + random.Random(1).randbytes(1024 * 1024)
    found = verdicts(tenant.admin, [(f"{number}.gz", noise) for number in range(18)])
    assert [one["status"] for one in found] == [415] * 18


def test_batch_upload_above_upload_limit_is_413(fragile: BreakableService) -> None:
    tenant = fragile.service.create_tenant("large")
    half = b"words " * (UPLOAD_LIMIT // 12 + 1)
    assert_problem(send(tenant.admin, [("a.txt", half), ("b.txt", half)]), 413, "too_large")
    assert listed(tenant) == []
    whole = b"x" * (UPLOAD_LIMIT + 2 * 1024 * 1024)
    assert_problem(send(tenant.admin, [("a.txt", whole)]), 413, "too_large")


def test_batch_upload_priority_is_below_single_uploads(fragile: BreakableService) -> None:
    tenant = fragile.service.create_tenant("priorities")

    async def priority(document: str) -> int:
        connection = await asyncpg.connect(fragile.service.urls.owner)
        found: int = await connection.fetchval(
            "select priority from job where document_id = $1", decode_id("doc", document)
        )
        await connection.close()
        return found

    with fragile.held():
        found = verdicts(tenant.admin, [("a.txt", b"A."), ("b.txt", b"B.")])
        many = [one["document"]["id"] for one in found]
        alone = tenant.admin.post(DOCUMENTS, json={"text": "C."}).json()["id"]
        noted = tenant.admin.post(DOCUMENTS, json={"text": "D.", "chat_id": "c", "dynamic": True}).json()["id"]
        found_priorities = [asyncio.run(priority(one)) for one in (*many, alone, noted)]
        assert found_priorities == [BULK, BULK, INTERACTIVE, URGENT]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"json": {"text": "x"}}, 415),
        ({"content": b"x", "headers": {"Content-Type": "multipart/form-data"}}, 415),
        ({"content": b"x", "headers": {"Content-Type": "multipart/form-data; boundary=y"}}, 422),
        ({"files": {"other": ("a.txt", b"x")}}, 422),
        ({}, 415),
    ],
    ids=["JSON", "no boundary", "no form", "no file", "nothing"],
)
def test_batch_upload_invalid_body_is_refused(tenant: Tenant, request_: dict[str, Any], status: int) -> None:
    assert_problem(tenant.admin.post(BATCH, **request_), status)


def test_batch_upload_requires_writer(tenant: Tenant) -> None:
    assert_problem(send(tenant.create_client("reader"), [("a.txt", b"x")]), 403, "forbidden")
    nowhere = "/v1/knowledge-bases/nothing/documents/batch"
    assert_problem(tenant.admin.post(nowhere, files={"file": ("a.txt", b"x")}), 404, "knowledge_base_not_found")
