"""Idempotency-Key: a repeated write gets the stored response and is not run again."""

import asyncio
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any

import asyncpg
import httpx2
import pytest

from app.documents.upload.multipart import MAX_FORM_OVERHEAD_BYTES
from harness.running_service import Service, Tenant
from tests.api.breakable_service import UPLOAD_LIMIT, BreakableService
from tests.api.problems import assert_problem
from tests.api.test_roles import NEEDED, READER

BASES = "/v1/knowledge-bases"
DOCUMENTS = f"{BASES}/default/documents"
REPLAYED = "idempotent-replayed"
PER_REQUEST = {"date", "x-request-id", REPLAYED}
JSON = "application/json"


@pytest.fixture(scope="module")
def tenant(service: Service) -> Tenant:
    return service.create_tenant("again and again")


@pytest.fixture
def key() -> dict[str, str]:
    return {"Idempotency-Key": secrets.token_hex(8)}


def word() -> str:
    return f"word-{secrets.token_hex(6)}"


def rows(service: Service, query: str, *values: object) -> list[asyncpg.Record]:
    async def run() -> list[asyncpg.Record]:
        connection = await asyncpg.connect(service.urls.owner)
        try:
            return list(await connection.fetch(query, *values))
        finally:
            await connection.close()

    return asyncio.run(run())


def stored_keys(service: Service, key: dict[str, str]) -> list[asyncpg.Record]:
    return rows(service, "select * from idempotency_key where key = $1", key["Idempotency-Key"])


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def replayed(first: httpx2.Response, again: httpx2.Response) -> bool:
    """Return whether the second response is a replay of the first; fail if it is a different response."""
    assert first.is_success, first.text
    assert REPLAYED not in first.headers
    facts = [
        (reply.status_code, reply.content, {n: v for n, v in reply.headers.items() if n not in PER_REQUEST})
        for reply in (first, again)
    ]
    assert facts[0] == facts[1]
    return bool(again.headers.get(REPLAYED) == "true")


def document(tenant: Tenant) -> str:
    found: str = tenant.admin.post(DOCUMENTS, json={"text": f"A text: {word()}."}).json()["id"]
    return found


Request = tuple[str, str, dict[str, Any]]
WRITES: dict[str, Callable[[Tenant], Request]] = {
    "a new knowledge base": lambda _: ("POST", BASES, {"json": {"name": word()}}),
    "a changed knowledge base": lambda _: ("PATCH", f"{BASES}/default", {"json": {"title": word()}}),
    "a text": lambda _: ("POST", DOCUMENTS, {"json": {"text": word()}}),
    "a file": lambda _: ("POST", DOCUMENTS, {"files": {"file": ("a.txt", word().encode())}, "data": {"title": "A"}}),
    "many files": lambda _: (
        "POST",
        f"{DOCUMENTS}/batch",
        {"files": [("file", (f"{name}.txt", word().encode())) for name in "abc"]},
    ),
    "a changed document": lambda tenant: ("PATCH", f"{DOCUMENTS}/{document(tenant)}", {"json": {"title": word()}}),
    "a deletion": lambda tenant: ("DELETE", f"{DOCUMENTS}/{document(tenant)}", {}),
    "deletions": lambda tenant: ("DELETE", DOCUMENTS, {"params": {"ids": [document(tenant)]}}),
}


@pytest.mark.capability("api-idempotency")
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_idempotency_repeated_write_is_replayed(
    tenant: Tenant, key: dict[str, str], write: Callable[[Tenant], Request]
) -> None:
    method, path, options = write(tenant)
    first, again = (tenant.admin.request(method, path, headers=key, **options) for _ in range(2))
    assert replayed(first, again)


def test_idempotency_repeated_write_changes_nothing(service: Service, tenant: Tenant, key: dict[str, str]) -> None:
    body = {"name": word()}
    first = tenant.admin.post(BASES, json=body, headers=key)
    assert_problem(tenant.admin.post(BASES, json=body), 409, "knowledge_base_exists")
    assert replayed(first, tenant.admin.post(BASES, json=body, headers=key))
    gone = tenant.admin.delete(f"{DOCUMENTS}/{document(tenant)}", headers=key)
    assert gone.headers["carrel-deletion-id"]
    assert replayed(gone, tenant.admin.delete(gone.request.url, headers=key))
    assert_problem(tenant.admin.delete(gone.request.url), 404)
    count = "select count(*) from deletion where tenant_id = $1"
    before = rows(service, count, stored_keys(service, key)[0]["tenant_id"])
    assert replayed(gone, tenant.admin.delete(gone.request.url, headers=key))
    assert rows(service, count, stored_keys(service, key)[0]["tenant_id"]) == before


def test_idempotency_other_boundary_is_same_upload(tenant: Tenant, key: dict[str, str]) -> None:
    """curl, browsers and most clients choose a new boundary for each request."""
    content = f"{word()}\r\n--a\r\n".encode() * 2000

    def send(boundary: str, *, filename: str = "a.txt", piece: int = 1 << 20, more: bytes = b"") -> httpx2.Response:
        head = f'Content-Disposition: form-data; name="file"; filename="{filename}"\r\n\r\n'.encode()
        delimiter = f"--{boundary}".encode()
        body = delimiter + b"\r\n" + head + content + more + b"\r\n" + delimiter + b"--\r\n"
        pieces = (body[start : start + piece] for start in range(0, len(body), piece))
        headers = {**key, "Content-Type": f"multipart/form-data; boundary={boundary}"}
        return tenant.admin.post(DOCUMENTS, content=pieces, headers=headers)

    first = send("one")
    assert replayed(first, send("------------------------another", piece=997))
    assert_problem(send("one", more=b"."), 409, "idempotency_key_reused")
    assert_problem(send("one", filename="b.txt"), 409, "idempotency_key_reused")


@pytest.mark.capability("api-idempotency-409")
def test_idempotency_other_body_is_409(tenant: Tenant, key: dict[str, str]) -> None:
    body = f'{{"name": "{word()}"}}'.encode()

    def send(content: bytes, kind: str = JSON) -> httpx2.Response:
        return tenant.admin.post(BASES, content=content, headers={**key, "Content-Type": kind})

    first = send(body)
    for other in (send(body + b" "), send(b""), send(body, "application/merge-patch+json")):
        assert_problem(other, 409, "idempotency_key_reused")
    assert replayed(first, send(body))


def test_idempotency_unused_body_is_compared(tenant: Tenant, key: dict[str, str]) -> None:
    path = f"{DOCUMENTS}/{document(tenant)}"
    first = tenant.admin.request("DELETE", path, content=b"one", headers=key)
    assert first.status_code == 204
    assert_problem(tenant.admin.request("DELETE", path, content=b"another", headers=key), 409, "idempotency_key_reused")
    assert replayed(first, tenant.admin.request("DELETE", path, content=b"one", headers=key))


def test_idempotency_key_belongs_to_caller_and_route(service: Service, tenant: Tenant, key: dict[str, str]) -> None:
    body = {"name": word()}
    assert tenant.admin.post(BASES, json=body, headers=key).status_code == 201
    assert service.create_tenant().admin.post(BASES, json=body, headers=key).status_code == 201
    assert_problem(tenant.create_client("admin").post(BASES, json=body, headers=key), 409, "knowledge_base_exists")
    for path in (DOCUMENTS, f"{DOCUMENTS}?wait=0", f"{BASES}/{body['name']}/documents"):
        reply = tenant.admin.post(path, json={"text": "A text."}, headers=key)
        assert (reply.is_success, REPLAYED in reply.headers) == (True, False)
    title = tenant.admin.patch(f"{BASES}/{body['name']}", json={"title": "x"}, headers=key)
    assert (title.status_code, REPLAYED in title.headers) == (200, False)


def test_idempotency_errors_are_not_stored(service: Service, tenant: Tenant, key: dict[str, str]) -> None:
    """A failed write changed nothing. The retry runs with any body, and gets the present result."""
    name = word()
    assert_problem(tenant.create_client("reader").post(BASES, json={"name": name}, headers=key), 403)
    assert_problem(service.create_client().post(BASES, json={"name": name}, headers=key), 401)
    assert_problem(tenant.admin.post(BASES, json={"name": "No Name"}, headers=key), 422)
    assert_problem(tenant.admin.post(BASES, json={"name": "default"}, headers=key), 409, "knowledge_base_exists")
    assert_problem(tenant.admin.post(BASES, content=b"x" * 17_000_000, headers={**key, "Content-Type": JSON}), 413)
    path = f"{BASES}/{name}/documents"
    assert_problem(tenant.admin.post(path, json={"text": "A text."}, headers=key), 404)
    assert_problem(tenant.admin.post(DOCUMENTS, content=b"A text.", headers={**key, "Content-Type": "text/plain"}), 415)
    assert stored_keys(service, key) == []
    first = tenant.admin.post(BASES, json={"name": name}, headers=key)
    assert replayed(first, tenant.admin.post(BASES, json={"name": name}, headers=key))
    assert tenant.admin.post(path, json={"text": "A text."}, headers=key).status_code == 202


@pytest.mark.parametrize("whose", ["a tenant's", "the operator's"])
def test_idempotency_secret_is_not_stored(service: Service, tenant: Tenant, key: dict[str, str], whose: str) -> None:
    caller, path, body = {
        "a tenant's": (tenant.admin, "/v1/api-keys", {"name": word(), "role": "reader"}),
        "the operator's": (service.operator, "/v1/tenants", {"name": word()}),
    }[whose]
    made = caller.post(path, json=body, headers=key)
    assert made.status_code == 201
    secret = made.json().get("key") or made.json()["api_key"]["key"]
    assert_problem(caller.post(path, json={**body, "name": "other"}, headers=key), 409, "idempotency_key_reused")
    found = assert_problem(caller.post(path, json=body, headers=key), 409, "idempotency_secret_shown")
    assert made.json()["id"] in found["detail"]
    assert secret not in str(found)
    (row,) = stored_keys(service, key)
    assert (row["status"], row["body"]) == (201, None)
    assert secret not in str(dict(row))
    listed = [one["name"] for one in caller.get(path, params={"limit": 200}).json()["items"]]
    assert listed.count(body["name"]) == 1


@pytest.mark.parametrize("sent", ["", "a b", "é", "x" * 256, "a\tb"])
def test_idempotency_invalid_key_is_422(tenant: Tenant, sent: str) -> None:
    name = word()
    headers = {b"Idempotency-Key": sent.encode("latin-1")}
    found = assert_problem(tenant.admin.post(BASES, json={"name": name}, headers=headers), 422, "invalid")
    assert found["errors"][0]["loc"] == ["header", "Idempotency-Key"]
    assert_problem(tenant.admin.get(f"{BASES}/{name}"), 404)


def test_idempotency_two_keys_are_422_and_longest_key_is_accepted(tenant: Tenant) -> None:
    two = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    assert_problem(tenant.admin.post(BASES, json={"name": word()}, headers=two), 422, "invalid")
    longest = {"Idempotency-Key": (word() + "!~" * 127)[:255]}
    path = f"{DOCUMENTS}?wait=0&{'x' * 8000}"
    first, again = (tenant.admin.post(path, json={"text": "Long."}, headers=longest) for _ in range(2))
    assert replayed(first, again)


def test_idempotency_searches_and_reads_ignore_key(service: Service, tenant: Tenant) -> None:
    headers = {"Idempotency-Key": f"not a key {word()}"}
    paths = ("/v1/search", f"{BASES}/default/search")
    replies = [tenant.admin.post(path, json={"query": word()}, headers=headers) for path in paths]
    replies.append(tenant.admin.get(BASES, headers=headers))
    assert [(reply.status_code, REPLAYED in reply.headers) for reply in replies] == [(200, False)] * 3
    assert stored_keys(service, headers) == []


def test_idempotency_concurrent_requests_run_once(tenant: Tenant, key: dict[str, str]) -> None:
    body, ready = {"name": word()}, Barrier(8)

    def send(client: httpx2.Client) -> httpx2.Response:
        ready.wait(20)
        return client.post(BASES, json=body, headers=key)

    with ThreadPoolExecutor(8) as threads:
        replies = list(threads.map(send, [tenant.service.create_client(tenant.key) for _ in range(8)]))
    (first,) = [reply for reply in replies if reply.status_code == 201 and REPLAYED not in reply.headers]
    for reply in replies:
        if reply.status_code == 409:
            assert_problem(reply, 409, "idempotency_in_progress")
            assert reply.headers["retry-after"] == "1"
        else:
            assert reply is first or replayed(first, reply)


@contextmanager
def half_sent(tenant: Tenant, key: dict[str, str], body: bytes) -> Iterator[Callable[[], bytes]]:
    """Send half of an upload. A call of the yielded function sends the rest and returns the status line."""
    address = httpx2.URL(tenant.service.url)
    head = f"POST {DOCUMENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {tenant.key}\r\nContent-Type: {JSON}\r\n"
    head += f"Idempotency-Key: {key['Idempotency-Key']}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((address.host, address.port or 80), timeout=30) as connection:
        connection.sendall(head.encode() + body[:10])
        until(lambda: len(stored_keys(tenant.service, key)) == 1)

        def finish() -> bytes:
            connection.sendall(body[10:])
            return connection.recv(65_536).split(b"\r\n")[0]

        yield finish


def test_idempotency_request_during_first_is_409(tenant: Tenant, key: dict[str, str]) -> None:
    body = f'{{"text": "{word()}"}}'.encode()

    def send(content: bytes) -> httpx2.Response:
        return tenant.admin.post(DOCUMENTS, content=content, headers={**key, "Content-Type": JSON})

    with half_sent(tenant, key, body) as finish:
        for content in (body, b"{}"):
            reply = send(content)
            assert_problem(reply, 409, "idempotency_in_progress")
            assert reply.headers["retry-after"] == "1"
        assert finish() == b"HTTP/1.1 202 Accepted"
    again = send(body)
    assert (again.status_code, again.headers[REPLAYED]) == (202, "true")
    assert_problem(send(b"{}"), 409, "idempotency_key_reused")


def test_idempotency_broken_connection_releases_key(service: Service, tenant: Tenant, key: dict[str, str]) -> None:
    body = f'{{"text": "{word()}"}}'.encode()
    with half_sent(tenant, key, body):
        pass
    until(lambda: stored_keys(service, key) == [])
    reply = tenant.admin.post(DOCUMENTS, content=body, headers={**key, "Content-Type": JSON})
    assert (reply.status_code, REPLAYED in reply.headers) == (202, False)


def test_idempotency_retry_body_above_limit_is_413(fragile: BreakableService, key: dict[str, str]) -> None:
    tenant = fragile.service.create_tenant("a small limit")
    assert tenant.admin.post(DOCUMENTS, files={"file": ("a.txt", b"words")}, headers=key).status_code == 202
    boundary = {"Content-Type": "multipart/form-data; boundary=b"}
    long = (b"x" * 50_000 for _ in range((UPLOAD_LIMIT + MAX_FORM_OVERHEAD_BYTES) // 50_000 + 2))
    assert_problem(tenant.admin.post(DOCUMENTS, content=long, headers={**key, **boundary}), 413, "too_large")


def test_idempotency_response_too_large_to_store_is_409_on_retry(
    fragile: BreakableService, key: dict[str, str]
) -> None:
    tenant = fragile.service.create_tenant("large answers")
    files = [("file", (f"{number}.txt", f"words {number}".encode())) for number in range(75)]
    form = {"metadata": f'{{"note": "{"x" * 15_000}"}}'}
    path = f"{DOCUMENTS}/batch"
    first = tenant.admin.post(path, files=files, data=form, headers=key)
    assert (first.status_code, len(first.content) > 1024 * 1024) == (200, True)
    assert_problem(tenant.admin.post(path, files=files, data=form, headers=key), 409, "idempotency_response_too_large")
    (row,) = stored_keys(fragile.service, key)
    assert row["body"] is None


def test_idempotency_header_is_in_openapi_of_writes(service: Service) -> None:
    """Every write accepts an Idempotency-Key; requests of readers and requests that store nothing do not."""
    told = {
        f"{method.upper()} {path}": "Idempotency-Key" in {one["name"] for one in operation.get("parameters", [])}
        for path, methods in service.app.openapi()["paths"].items()
        for method, operation in methods.items()
    }
    expected = {route: not route.startswith("GET ") and role != READER for route, role in NEEDED.items()}
    expected["POST /v1/preview"] = False
    assert {route: told.get(route) for route in expected} == expected
