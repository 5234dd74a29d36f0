"""Uploads: accepted bodies, refused bodies, and no remains of a refusal."""

import gzip
import hashlib
import json
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.ids import decode_id
from harness.running_service import OPERATOR_KEY, Service, Tenant
from harness.wait_until import HANG_TIMEOUT_SECONDS
from tests.api.breakable_service import UPLOAD_LIMIT, BreakableService
from tests.api.problems import assert_problem
from tests.documents.compound import container

SAMPLES = Path(__file__).parents[1] / "samples"
DOCUMENTS = "/v1/knowledge-bases/default/documents"
BOUNDARY = "a-boundary"
FORM = f"multipart/form-data; boundary={BOUNDARY}"
FORM_HEAD = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="x.txt"\r\n\r\n'.encode()


@pytest.fixture(scope="module")
def small(fragile: BreakableService) -> Tenant:
    """Tenant of the service with the small limit."""
    return fragile.service.create_tenant("small")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for temporary files that no other process uses."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def left_behind(tenant: Tenant, data_dir: Path, temporary: Path) -> tuple[list[Any], list[Path], list[Path]]:
    """Return rows, objects and temporary files of a tenant; all of them should be empty."""
    documents = tenant.admin.get(DOCUMENTS).json()["items"]
    objects = list((data_dir / "objects" / str(decode_id("ten", tenant.id))).glob("*/*"))
    deadline = time.monotonic() + HANG_TIMEOUT_SECONDS
    while any(temporary.glob("*")) and time.monotonic() < deadline:  # the worker may read another tenant's document
        time.sleep(0.02)
    return documents, objects, list(temporary.glob("*"))


def talk(service: Service, head: str, *, body: bytes = b"") -> bytes:
    """Send a request with an incomplete body, and return the answer."""
    address = httpx2.URL(service.url)
    with socket.create_connection((address.host, address.port or 80), timeout=20) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode() + b"\r\n" + body)
        answer = b""
        while b"\r\n\r\n" not in answer:
            piece = connection.recv(65_536)
            if not piece:
                break
            answer += piece
    return answer


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


@pytest.mark.capability("doc-early")
@pytest.mark.parametrize("path", [DOCUMENTS, "/v1/search", "/v1/agent-search", "/v1/tenants"])
@pytest.mark.parametrize("kind", [FORM, "application/json"])
def test_upload_invalid_key_with_endless_body_is_401_immediately(
    fragile: BreakableService, path: str, kind: str
) -> None:
    head = f"POST {path} HTTP/1.1\nHost: x\nAuthorization: Bearer wrong\nContent-Type: {kind}\n"
    head += "Transfer-Encoding: chunked\n"
    for begun in (b"", chunk(b"x" * 60_000)):
        assert talk(fragile.service, head, body=begun).startswith(b"HTTP/1.1 401 ")


def test_upload_role_and_knowledge_base_are_checked_before_body(fragile: BreakableService, small: Tenant) -> None:
    reader = small.create_client("reader").headers["authorization"]
    admin = small.admin.headers["authorization"]
    for key, kb, status in ((reader, "default", b"403"), (admin, "nothing", b"404")):
        head = (
            f"POST /v1/knowledge-bases/{kb}/documents HTTP/1.1\nHost: x\nAuthorization: {key}\nContent-Type: {FORM}\n"
        )
        assert talk(fragile.service, head + "Content-Length: 100000\n").split(b" ")[1] == status


@pytest.mark.capability("doc-early")
@pytest.mark.parametrize("kind", [FORM, "application/json"])
def test_upload_declared_length_above_limit_is_413_before_body(
    fragile: BreakableService, small: Tenant, kind: str
) -> None:
    key = small.admin.headers["authorization"]
    head = (
        f"POST {DOCUMENTS} HTTP/1.1\nHost: x\nAuthorization: {key}\nContent-Type: {kind}\nContent-Length: {1 << 30}\n"
    )
    assert talk(fragile.service, head).startswith(b"HTTP/1.1 413 ")


def endless(begin: bytes, most: int) -> Iterator[bytes]:
    yield begin
    for _ in range(most // 50_000 + 1):
        yield b"x" * 50_000


@pytest.mark.parametrize("kind", [FORM, "application/json"])
def test_upload_of_unknown_length_above_limit_is_413(
    fragile: BreakableService, small: Tenant, kind: str, temporary: Path
) -> None:
    begin = FORM_HEAD if kind == FORM else b'{"text": "'
    body = endless(begin, 4 * UPLOAD_LIMIT)
    found = assert_problem(small.admin.post(DOCUMENTS, content=body, headers={"Content-Type": kind}), 413, "too_large")
    assert str(UPLOAD_LIMIT) in found["detail"]
    assert left_behind(small, fragile.data_dir, temporary) == ([], [], [])


@pytest.mark.capability("doc-limit")
def test_upload_limit_is_exact(fragile: BreakableService) -> None:
    tenant = fragile.service.create_tenant("exact")
    whole = ("words " * UPLOAD_LIMIT)[:UPLOAD_LIMIT].encode()
    assert_problem(tenant.admin.post(DOCUMENTS, files={"file": ("a.txt", whole + b"x")}), 413, "too_large")
    assert tenant.admin.post(DOCUMENTS, files={"file": ("a.txt", whole)}).json()["bytes"] == UPLOAD_LIMIT


@pytest.mark.capability("doc-upload")
def test_upload_file_creates_document(service: Service, tenant: Tenant) -> None:
    content = (SAMPLES / "notes.md").read_bytes()
    form = {
        "metadata": json.dumps({"team": "ops", "year": 2024}),
        "external_id": "notes-1",
        "title": "Notes",
        "source_uri": "https://example.org/notes",
        "source_created_at": "2024-03-01T12:00:00+02:00",
        "user_id": "",
    }
    before = datetime.now(UTC) - timedelta(seconds=5)
    reply = tenant.admin.post(DOCUMENTS, params={"wait": 60}, files={"file": ("notes.md", content)}, data=form)
    assert reply.status_code == 201
    document = reply.json()
    assert reply.headers["location"] == f"{DOCUMENTS}/{document['id']}"
    assert document["sha256"] == hashlib.sha256(content).hexdigest()
    created = datetime.fromisoformat(document["created_at"])
    assert document["created_at"].endswith("Z")
    assert (
        before < created <= datetime.fromisoformat(document["updated_at"]) <= datetime.now(UTC) + timedelta(seconds=5)
    )
    expected = {
        "knowledge_base": "default",
        "source": "notes.md",
        "title": "Notes",
        "external_id": "notes-1",
        "source_uri": "https://example.org/notes",
        "source_created_at": "2024-03-01T10:00:00.000Z",
        "media_type": "text/markdown",
        "bytes": len(content),
        "version": 1,
        "live_version": 1,
        "status": "ready",
        "progress": None,
        "error": None,
        "metadata": {"team": "ops", "year": 2024},
        "scope": {"level": "tenant", "user_id": None, "chat_id": None, "agent_id": None},
        "dynamic": False,
        "expires_at": None,
    }
    assert {name: document[name] for name in expected} == expected
    assert document["chunk_count"] > 0
    assert tenant.admin.get(reply.headers["location"]).json() == document


def test_upload_without_wait_is_queued(tenant: Tenant) -> None:
    reply = tenant.admin.post(DOCUMENTS, json={"text": "Words that are queued."})
    assert reply.status_code == 202
    assert reply.json()["status"] in ("queued", "parsing", "chunking", "embedding")
    assert reply.json()["live_version"] is None


@pytest.mark.capability("doc-text")
@pytest.mark.parametrize(
    ("text", "given", "kind"),
    [
        ("plain words", None, "text/plain"),
        ("# Title\n\nwords", None, "text/markdown"),
        ("# Title\n\nwords", "text/plain", "text/plain"),
        ("<html><p>words</html>", "text/html", "text/html"),
    ],
)
def test_upload_text_creates_document(tenant: Tenant, text: str, given: str | None, kind: str) -> None:
    body = {"text": text, "metadata": {"a": {"b": [1, None]}}, **({"media_type": given} if given else {})}
    reply = tenant.admin.post(DOCUMENTS, params={"wait": 60}, json=body)
    assert (reply.status_code, reply.json()["media_type"], reply.json()["status"]) == (201, kind, "ready")
    assert reply.json()["metadata"] == {"a": {"b": [1, None]}}


def named(path: str) -> dict[str, Any]:
    return {"files": {"file": (path, (SAMPLES / path).read_bytes())}}


Bad = tuple[dict[str, Any], int, str]


def wrong_fields(data: dict[str, Any]) -> Bad:
    return {**named("notes.md"), "data": data}, 422, "invalid"


def raw(content: bytes, kind: str, status: int = 422, code: str = "invalid") -> Bad:
    return {"content": content, "headers": {"Content-Type": kind}}, status, code


BAD_FILES: dict[str, Bad] = {
    "an empty file": (named("empty.bin"), 422, "empty"),
    "a compressed text": ({"files": {"file": ("a.txt", gzip.compress(b"words"))}}, 415, "unsupported_media_type"),
    "a Visio drawing": ({"files": {"file": ("a.vsd", container("VisioDocument"))}}, 415, "unsupported_media_type"),
    "an encrypted Word document": ({"files": {"file": ("a.docx", container("EncryptedPackage"))}}, 422, "encrypted"),
    "a truncated PDF": (named("truncated.pdf"), 202, "corrupt"),
    "a truncated PPTX": (named("truncated.pptx"), 202, "corrupt"),
    "an encrypted PDF": (named("encrypted.pdf"), 202, "encrypted"),
    "pictures alone": (named("pictures_only.pdf"), 202, "no_text"),
    "metadata that is a list": wrong_fields({"metadata": "[]"}),
    "metadata that is not JSON": wrong_fields({"metadata": "{"}),
    "deep metadata": wrong_fields({"metadata": "[" * 30_000}),
    "metadata of nine levels": wrong_fields({"metadata": '{"a":' * 9 + "1" + "}" * 9}),
    "metadata with a NUL": wrong_fields({"metadata": '{"a": "\\u0000"}'}),
    "metadata with half a pair": wrong_fields({"metadata": '{"\\ud800": 1}'}),
    "metadata with a huge number": wrong_fields({"metadata": '{"a": 1e999}'}),
    "metadata with an endless number": wrong_fields({"metadata": '{"a":' + "9" * 6000 + "}"}),
    "metadata with a reserved name": wrong_fields({"metadata": '{"$source": "x"}'}),
    "metadata of 20 KB": wrong_fields({"metadata": json.dumps({"a": "x" * 20_000})}),
    "an unknown field": wrong_fields({"colour": "red"}),
    "a field without a name": wrong_fields({"": "red"}),
    "a field of 10,000 letters": wrong_fields({"x" * 3000: "red"}),
    "javascript as a source": wrong_fields({"source_uri": "javascript:alert(1)"}),
    "a file as a source": wrong_fields({"source_uri": "file:///etc/passwd"}),
    "FTP as a source": wrong_fields({"source_uri": "ftp://example.org/x"}),
    "a source without a host": wrong_fields({"source_uri": "https:///x"}),
    "a source with a line break": wrong_fields({"source_uri": "https://example.org/\nx"}),
    "a source that is no URL": wrong_fields({"source_uri": "http://["}),
    "a source of 3,000 letters": wrong_fields({"source_uri": "http://a/" + "x" * 3000}),
    "a time without a zone": wrong_fields({"source_created_at": "2024-01-01T00:00:00"}),
    "a time before all time": wrong_fields({"source_created_at": "0001-01-01T00:00:00+14:00"}),
    "a time that is none": wrong_fields({"source_created_at": "yesterday"}),
    "an unknown encoding": wrong_fields({"encoding": "utf-99"}),
    "an encoding that is none": wrong_fields({"encoding": "hex"}),
    "a scope that is none": wrong_fields({"user_id": "u", "agent_id": "a"}),
    "a title with a NUL": wrong_fields({"title": "a\0b"}),
    "a field that is not UTF-8": wrong_fields({"title": b"\xff\xfe"}),
    "a field of 100 KB": ({**named("notes.md"), "data": {"title": "x" * 100_000}}, 413, "too_large"),
    "two files": ({"files": [("file", ("a.txt", b"1")), ("file", ("b.txt", b"2"))]}, 422, "invalid"),
    "no file": ({"files": {"other": ("a.txt", b"1")}}, 422, "invalid"),
    "no boundary": raw(b"x", "multipart/form-data", 415, "unsupported_media_type"),
    "a strange boundary": raw(b"x", "multipart/form-data; boundary*=x''%FF"),
    # A header that is longer than any media type is not parsed.
    "a long boundary": raw(b"x", f"multipart/form-data; boundary={'x' * 5000}", 415, "unsupported_media_type"),
    "the wrong boundary": raw(FORM_HEAD, "multipart/form-data; boundary=y"),
    "half a form": raw(FORM_HEAD + b"x", FORM),
    "an empty body": raw(b"", FORM),
    "a text as plain text": raw(b"x", "text/plain", 415, "unsupported_media_type"),
    "no content type": ({"content": b"x"}, 415, "unsupported_media_type"),
    "a text with a NUL": ({"json": {"text": "a\0b"}}, 422, "invalid"),
    "a text with half a pair": raw(b'{"text": "\\ud800"}', "application/json"),
    "a blank text": ({"json": {"text": " \n"}}, 422, "empty"),
    "no text": ({"json": {"title": "x"}}, 422, "invalid"),
    "a text that is null": ({"json": {"text": None}}, 422, "invalid"),
    "a text that is a number": ({"json": {"text": 5}}, 422, "invalid"),
    "a text of an unknown type": ({"json": {"text": "x", "media_type": "application/pdf"}}, 422, "invalid"),
    "an unknown field beside a text": ({"json": {"text": "x", "colour": "red"}}, 422, "invalid"),
    "an encoding beside a text": ({"json": {"text": "x", "encoding": "utf-8"}}, 422, "invalid"),
    "a text that is dynamic as a word": ({"json": {"text": "x", "dynamic": "perhaps"}}, 422, "invalid"),
    "a file that is dynamic as a word": wrong_fields({"dynamic": "perhaps"}),
    "a text that has expired": ({"json": {"text": "x", "expires_at": "2020-01-01T00:00:00Z"}}, 422, "invalid"),
    "a file that has expired": wrong_fields({"expires_at": "2020-01-01T00:00:00Z"}),
    "an expiry without a zone": wrong_fields({"expires_at": "2999-01-01T00:00:00"}),
    "an expiry that is none": wrong_fields({"expires_at": "soon"}),
    "an expiry after all time": wrong_fields({"expires_at": "9999-12-31T23:59:59-14:00"}),
    "an unknown knowledge base": ({"json": {"text": "x"}, "kb": "nothing"}, 404, "knowledge_base_not_found"),
}  # fmt: skip


def test_upload_invalid_input_is_refused_and_leaves_nothing(service: Service, temporary: Path) -> None:
    tenant = service.create_tenant("bad input")
    failed = 0
    for name, (request, status, code) in BAD_FILES.items():
        request = dict(request)
        path = f"/v1/knowledge-bases/{request.pop('kb', 'default')}/documents"
        reply = tenant.admin.post(path, params={"wait": 60}, **request)
        if status != 202:
            assert assert_problem(reply, status, code), name
            continue
        assert reply.status_code == 202, (name, reply.text)
        document = reply.json()
        assert (document["status"], document["error"]["code"], document["error"]["retryable"]) == (
            "failed",
            code,
            False,
        ), name
        assert document["error"]["message"]
        assert document["live_version"] is None
        failed += 1
    documents, objects, files = left_behind(tenant, service.settings.server.data_dir, temporary)
    assert (len(documents), len(objects), files) == (failed, failed, [])
    assert tenant.add_text("The worker is alive.")["status"] == "ready"


def test_upload_nul_bytes_are_removed_from_text(tenant: Tenant) -> None:
    document = tenant.upload(SAMPLES / "nul.txt")
    assert document["status"] == "ready"
    chunks = tenant.admin.get(f"{DOCUMENTS}/{document['id']}/chunks").json()["items"]
    assert chunks
    assert not any("\0" in chunk["text"] for chunk in chunks)


@pytest.mark.parametrize("wait", ["-1", "61", "nan", "inf", "x", "", "%00"])
def test_upload_invalid_wait_is_422(service: Service, tenant: Tenant, wait: str) -> None:
    assert_problem(tenant.admin.post(f"{DOCUMENTS}?wait={wait}", json={"text": "x"}), 422)


def test_upload_file_name_loses_path(tenant: Tenant) -> None:
    for given, kept in (
        ("../../etc/passwd", "passwd"),
        ("履歴書 2024.txt", "履歴書 2024.txt"),
        ("x" * 3000, "x" * 255),
    ):
        reply = tenant.admin.post(DOCUMENTS, files={"file": (given, f"a file of {given}".encode())})
        assert (reply.status_code, reply.json()["source"]) == (202, kept)


def test_upload_with_revoked_or_expired_key_is_401(service: Service, tenant: Tenant) -> None:
    made = tenant.admin.post("/v1/api-keys", json={"name": "k", "role": "writer"}).json()
    writer = service.create_client(made["key"])
    assert writer.post(DOCUMENTS, json={"text": "before"}).status_code == 202
    assert tenant.admin.delete(f"/v1/api-keys/{made['id']}").status_code == 204
    assert_problem(writer.post(DOCUMENTS, json={"text": "after"}), 401, "unauthorized")
    assert_problem(tenant.admin.delete(f"/v1/api-keys/{made['id']}"), 404, "api_key_not_found")
    assert [document["bytes"] for document in tenant.admin.get(DOCUMENTS).json()["items"]] == [6]


def test_upload_with_unavailable_model_fails_document_with_reason(fragile: BreakableService) -> None:
    tenant = fragile.service.create_tenant("no model")
    fragile.embedding.fail(400, times=None)
    try:
        document = tenant.add_text("words without a vector")
    finally:
        fragile.embedding.reset()
    assert document["status"] == "failed"
    assert document["error"]["code"] == "embedding_unavailable"
    again = tenant.admin.post(DOCUMENTS, params={"wait": 60}, json={"text": "words without a vector"})
    assert (again.status_code, again.json()["status"], again.json()["id"]) == (201, "ready", document["id"])


@pytest.mark.capability("doc-dynamic")
def test_upload_with_expiry_and_dynamic_stores_both(tenant: Tenant) -> None:
    soon = {"expires_at": "2999-01-01T01:00:00+01:00"}
    text = tenant.admin.post(DOCUMENTS, json={"text": "For a while.", "dynamic": True, **soon})
    file = tenant.admin.post(DOCUMENTS, files={"file": ("a.txt", b"A file.")}, data={"dynamic": "true", **soon})
    for reply in (text, file):
        document = reply.json()
        assert (reply.status_code, document["dynamic"]) == (202, True)
        assert document["expires_at"] == "2999-01-01T00:00:00.000Z"
        shown = tenant.admin.get(f"{DOCUMENTS}/{document['id']}").json()
        assert (shown["dynamic"], shown["expires_at"]) == (True, document["expires_at"])


def test_upload_same_bytes_can_extend_expiry(tenant: Tenant) -> None:
    body = {"text": "For a while.", "expires_at": "2998-01-01T00:00:00Z"}
    first = tenant.admin.post(DOCUMENTS, json=body).json()
    for expires_at, shown in (
        ("2999-01-01T00:00:00Z", "2999-01-01T00:00:00.000Z"),
        ("2997-01-01T00:00:00Z", "2997-01-01T00:00:00.000Z"),
        (None, "2997-01-01T00:00:00.000Z"),  # without a value, nothing changes
    ):
        again = tenant.admin.post(DOCUMENTS, json={**body, "expires_at": expires_at})
        assert (again.status_code, again.json()["id"]) == (200, first["id"])
        assert again.json()["expires_at"] == shown
    past = {**body, "expires_at": "2020-01-01T00:00:00Z"}
    assert_problem(tenant.admin.post(DOCUMENTS, json=past), 422, "invalid")
    assert tenant.admin.get(f"{DOCUMENTS}/{first['id']}").json()["expires_at"] == "2997-01-01T00:00:00.000Z"


def test_upload_new_version_has_its_own_expiry(tenant: Tenant) -> None:
    body = {"text": "The first.", "external_id": "e", "expires_at": "2998-01-01T00:00:00Z", "dynamic": True}
    tenant.admin.post(DOCUMENTS, json=body).raise_for_status()
    second = tenant.admin.post(DOCUMENTS, json={"text": "The second.", "external_id": "e"}).json()
    assert (second["version"], second["expires_at"], second["dynamic"]) == (2, None, False)


def test_operator_key_has_system_tenant(service: Service) -> None:
    assert service.create_client(OPERATOR_KEY).get("/v1/me").json()["key"]["role"] == "operator"
    assert_problem(service.create_client(OPERATOR_KEY).get("/v1/knowledge-bases/nothing"), 404)
