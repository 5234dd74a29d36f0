"""Hostile archives: refused with the name of the fault, and no document of them is visible."""

import hashlib
import json
import tarfile
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pytest

from app.ids import decode_id
from app.lexical.weights import MAX_TERMS
from app.transfer.tar import END_MARKER, build_header, build_member
from app.transfer.types import FORMAT_VERSION, MAX_PART_BYTES
from harness.archives import (
    DEFAULT_IDENTITY,
    ArchiveDocument,
    build_archive,
    build_manifest,
    build_tar,
    format_json_lines,
)
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem
from tests.transfer.test_round_trip import ARCHIVE, documents, take

TEXTS = ["The tern dives.", "The heron stands."]


@pytest.fixture(scope="module")
def target(service: Service) -> Tenant:
    return service.create_tenant("hostile")


def with_parts(**parts: bytes) -> bytes:
    """Return an archive whose document has these bytes in its parts, with their right hashes."""
    made = ArchiveDocument(TEXTS)
    names = {"text": "text.txt", "nodes": "nodes.jsonl", "pages": "pages.jsonl", "chunks": "chunks.jsonl"}
    names |= {"vectors": "vectors.f16", "original": "original"}
    made.parts |= {names[name]: content for name, content in parts.items()}
    return build_archive(made)


def with_facts(**facts: Any) -> bytes:
    return build_archive(ArchiveDocument(TEXTS, facts))


def vectors(first: float, rows: int = 2, width: int = 384) -> bytes:
    made = np.zeros((rows, width), "<f2")
    made[:, 0] = first
    return made.tobytes()


def chunk(**changes: Any) -> bytes:
    return format_json_lines([{"start": 0, "end": 15, "tokens": 5, "path": [0], **changes}] * 2)


def node(**changes: Any) -> bytes:
    root = {"kind": "document", "level": 0, "start": 0, "end": 34}
    return format_json_lines([root, {"path": [0], "kind": "paragraph", "level": 0, "start": 0, "end": 15, **changes}])


def renamed(old: str, new: str) -> bytes:
    members = {"manifest.json": build_manifest(), **ArchiveDocument(TEXTS).list_members("documents/0000001")}
    return build_tar({new if name == old else name: content for name, content in members.items()})


def linked() -> bytes:
    info = tarfile.TarInfo("documents/0000001/document.json")
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return build_member("manifest.json", build_manifest()) + info.tobuf() + END_MARKER


def changed_byte() -> bytes:
    made = build_archive(ArchiveDocument(TEXTS))
    at = made.rindex(b"heron")
    return made[:at] + b"H" + made[at + 1 :]


def endless_chunks() -> bytes:
    made = ArchiveDocument(TEXTS)
    made.parts["chunks.jsonl"] = format_json_lines([{"start": 0, "end": 1, "tokens": 0, "embedded": False}]) * 100_001
    return build_archive(made)


def huge(name: str) -> bytes:
    made = ArchiveDocument(TEXTS)
    record = json.loads(made.list_members("d")["d/document.json"])
    for part in record["parts"]:
        if part["name"] == name:
            part["bytes"] = MAX_PART_BYTES + 1 if name != "original" else 1 << 32
    content = json.dumps(record).encode()
    return build_member("manifest.json", build_manifest()) + build_member("documents/0000001/document.json", content)


def with_replies(**reply: Any) -> bytes:
    """Return an archive whose document has one reply of the enrichment."""
    made = ArchiveDocument(TEXTS)
    parts = list(made.parts.items())
    original = [name for name, _ in parts].index("original")
    made.parts = dict([*parts[:original], ("replies.jsonl", format_json_lines([reply])), *parts[original:]])
    return build_archive(made)


def without_parts() -> bytes:
    record = json.dumps({**ArchiveDocument(TEXTS).record, "parts": []}).encode()
    return build_tar({"manifest.json": build_manifest(), "documents/0000001/document.json": record})


def traversal() -> bytes:
    made = ArchiveDocument(TEXTS)
    made.parts = {("../../../etc/cron" if name == "text.txt" else name): part for name, part in made.parts.items()}
    return build_archive(made)


def deep() -> bytes:
    return build_manifest()[:-1] + b', "settings": ' + b"[" * 100_000 + b"}"


DAMAGED: dict[str, Callable[[], bytes]] = {
    "nothing": bytes,
    "no archive": lambda: b"PK\x03\x04" + bytes(600),
    "zeros alone": lambda: END_MARKER,
    "no manifest": lambda: build_tar(ArchiveDocument(TEXTS).list_members("documents/0000001")),
    "manifest is no JSON": lambda: build_archive(head=b"{"),
    "manifest nests for ever": lambda: build_archive(head=deep()),
    "another format": lambda: build_archive(head=build_manifest(format="zip")),
    "an average of NaN": lambda: build_archive(head=build_manifest(average_length=float("nan"))),
    "an average of nothing": lambda: build_archive(head=build_manifest(average_length=0)),
    "a link": linked,
    "another name": lambda: renamed("documents/0000001/text.txt", "../../text.txt"),
    "a part with a way out": traversal,
    "no parts": without_parts,
    "a changed byte": changed_byte,
    "cut in the middle": lambda: build_archive(ArchiveDocument(TEXTS))[:-2000],
    "cut before its end": lambda: build_archive(ArchiveDocument(TEXTS))[: -len(END_MARKER)],
    "more behind its end": lambda: build_archive(ArchiveDocument(TEXTS)) + b"x" * 600,
    "text is not UTF-8": lambda: with_parts(text=b"\xff" * 34),
    "text with NUL": lambda: with_parts(text=b"\0" * 34),
    "NaN vectors": lambda: with_parts(vectors=vectors(float("nan"))),
    "infinite vectors": lambda: with_parts(vectors=vectors(float("inf"))),
    "vectors of nothing": lambda: with_parts(vectors=vectors(0)),
    "long vectors": lambda: with_parts(vectors=vectors(2)),
    "wrong dimensions": lambda: with_parts(vectors=vectors(1, width=383)),
    "too few vectors": lambda: with_parts(vectors=vectors(1, rows=1)),
    "no chunks": lambda: with_parts(chunks=b"", vectors=b""),
    "too many chunks": endless_chunks,
    "a chunk behind the text": lambda: with_parts(chunks=chunk(end=35)),
    "an empty chunk": lambda: with_parts(chunks=chunk(start=15)),
    "a chunk of no node": lambda: with_parts(chunks=chunk(path=[7])),
    "a chunk with a huge number": lambda: with_parts(chunks=chunk(tokens=1 << 40)),
    "a chunk with another's id": lambda: with_parts(chunks=chunk(id="chk_0")),
    "a chunk with reserved metadata": lambda: with_parts(chunks=chunk(metadata={"$document_id": "doc_x"})),
    "a chunk with NUL in metadata": lambda: with_parts(chunks=chunk(metadata={"a": "\0"})),
    "a chunk with a image that is not there": lambda: with_parts(chunks=chunk(image=0)),
    "a tree without a root": lambda: with_parts(nodes=b""),
    "a tree that does not hang together": lambda: with_parts(nodes=node(path=[0, 1])),
    "a tree with a node twice": lambda: with_parts(nodes=node(path=[])),
    "a tree behind the text": lambda: with_parts(nodes=node(end=99)),
    "a tree that is too deep": lambda: with_parts(nodes=node(path=[0] * 65)),
    "a position behind its paragraph": lambda: with_parts(nodes=node(source=[0, 99, 0, -1])),
    "a position of three numbers": lambda: with_parts(nodes=node(source=[0, 1, 0])),
    "a position that cannot be stored": lambda: with_parts(nodes=node(source=[0, 15, (1 << 31) - 1, -1])),
    "a page of no numbers": lambda: with_parts(
        pages=format_json_lines([{"page": 1, "width": 9, "height": 9, "lines": [1]}])
    ),
    "a reply without a hash": lambda: with_replies(tokens=1, estimated_tokens=1),
    "a reply of another kind": lambda: with_replies(hash="0" * 64, tokens=1, estimated_tokens=1, extra=1),
    "a reply with a long summary": lambda: with_replies(
        hash="0" * 64, tokens=1, estimated_tokens=1, summary="x" * 1_201
    ),
    "a reply about other text": lambda: with_replies(
        hash="0" * 64, tokens=1, estimated_tokens=1, lines=[{"start": 0, "end": 999, "text": "x"}]
    ),
    "a reply with NUL": lambda: with_replies(hash="0" * 64, tokens=1, estimated_tokens=1, summary="\0"),
    "an empty original": lambda: with_parts(original=b""),
    "metadata with a reserved name": lambda: with_facts(metadata={"$document_id": "doc_x"}),
    "metadata that is too large": lambda: with_facts(metadata={"a": "x" * 20_000}),
    "a type that breaks a header": lambda: with_facts(media_type="text/plain\r\nx: y"),
    "a field of another kind": lambda: with_facts(tenant_id="ten_0"),
    "a title with NUL": lambda: with_facts(title="a\0"),
    "a version below one": lambda: build_archive(head=build_manifest(version=-1)),
    "the version of nothing": lambda: build_archive(head=build_manifest(version=0)),
    "an export in the year one": lambda: build_archive(head=build_manifest(exported_at="0001-01-01T00:00:00Z")),
    "a chunk of more tokens than its text can have": lambda: with_parts(chunks=chunk(tokens=(1 << 31) - 1)),
    "a document of the year one": lambda: with_facts(created_at="0001-01-01T00:00:00Z"),
    "a document of the last year": lambda: with_facts(created_at="9999-12-31T23:59:59.9999999Z"),
    "a source of the year one": lambda: with_facts(source_created_at="0001-01-01T00:00:00+14:00"),
    "an end in the last year": lambda: with_facts(expires_at="9999-12-31T23:59:59Z"),
    "a time without a zone": lambda: with_facts(created_at="2026-01-01T00:00:00"),
}


def test_import_of_replies_without_enrichment_is_accepted(tenant: Tenant) -> None:
    content = with_replies(hash="0" * 64, tokens=1, estimated_tokens=1, summary="A text.")
    assert take(tenant, "default", content).status_code == 200


@pytest.mark.parametrize("kind", DAMAGED)
def test_import_damaged_archive_is_refused(target: Tenant, kind: str) -> None:
    found = take(target, "default", DAMAGED[kind]())
    code = "archive_truncated" if kind in ("nothing", "cut in the middle", "cut before its end") else "archive_damaged"
    assert_problem(found, 422, code)
    if kind not in ("cut before its end", "more behind its end"):  # these archives contain the whole document
        assert documents(target.admin, "default") == {}
    for document in target.admin.get("/v1/knowledge-bases/default/documents").json()["items"]:
        target.admin.delete(f"/v1/knowledge-bases/default/documents/{document['id']}").raise_for_status()


def with_identity(**changes: Any) -> bytes:
    return build_archive(head=build_manifest(identity={**DEFAULT_IDENTITY, **changes}))


def with_many_terms() -> bytes:
    return build_archive(ArchiveDocument(["One.", " ".join(f"w{n}" for n in range(MAX_TERMS + 1))]))


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (lambda: build_archive(head=build_manifest(version=FORMAT_VERSION + 1)), 422, "archive_version_unsupported"),
        (lambda: huge("vectors.f16"), 413, "too_large"),
        (lambda: huge("original"), 413, "too_large"),
        (lambda: build_member("manifest.json", b" " * (1 << 20) + build_manifest()), 413, "too_large"),
        (lambda: build_header("manifest.json", 1 << 32), 413, "too_large"),
        (lambda: with_identity(model="other"), 409, "archive_mismatch"),
        (lambda: with_identity(dimensions=8), 409, "archive_mismatch"),
        (lambda: with_identity(analyzer="german-v2"), 409, "archive_mismatch"),
        (lambda: build_archive(head=build_manifest(identity={})), 409, "archive_mismatch"),
        (lambda: with_facts(user_id="u", agent_id="a"), 422, "invalid"),
        (lambda: with_many_terms(), 413, "too_large"),
    ],
    ids=[
        "newer", "vectors", "original", "manifest", "endless", "model", "size", "analyzer", "identity", "scope", "terms"
    ],
)  # fmt: skip
def test_import_unsuitable_archive_is_refused(
    target: Tenant, content: Callable[[], bytes], status: int, code: str
) -> None:
    assert_problem(take(target, "default", content()), status, code)
    assert documents(target.admin, "default") == {}


def test_import_valid_archive_is_accepted(service: Service) -> None:
    """The archives above are valid except for their fault."""
    tenant = service.create_tenant("taking")
    archive = build_archive(ArchiveDocument(TEXTS, {"user_id": "u"}), ArchiveDocument(["A."]))
    counts = {"documents": 2, "chunks": 3, "existing": 0, "conflicts": 0}
    assert take(tenant, "default", archive).json() == counts
    index = tenant.admin.get("/v1/knowledge-bases/default").json()["index"]
    assert index["average_length"] == 20.0
    assert (
        take(
            tenant, "default", build_archive(ArchiveDocument(["B."]), head=build_manifest(average_length=50))
        ).status_code
        == 200
    )
    assert tenant.admin.get("/v1/knowledge-bases/default").json()["index"]["average_length"] == 20.0


def test_import_documents_before_damage_stay(service: Service) -> None:
    tenant = service.create_tenant("half")
    content = build_archive(ArchiveDocument(["The first."]), ArchiveDocument(["The second."]))
    assert_problem(take(tenant, "default", content[: content.rindex(b"The second.") - 600]), 422, "archive_truncated")
    assert set(documents(tenant.admin, "default")) == {hashlib.sha256(b"The first.").hexdigest()}
    assert take(tenant, "default", content).json() == {"documents": 1, "chunks": 1, "existing": 1, "conflicts": 0}


@pytest.mark.parametrize(
    ("quotas", "taken"), [({"chunks": 1}, 0), ({"documents": 1}, 1), ({"stored_bytes": 5}, 0)], ids=str
)
def test_import_respects_quotas(service: Service, quotas: dict[str, int], taken: int) -> None:
    tenant = service.create_tenant("small")
    service.operator.patch(f"/v1/tenants/{tenant.id}", json={"quotas": quotas}).raise_for_status()
    said = assert_problem(
        take(tenant, "default", build_archive(ArchiveDocument(TEXTS), ArchiveDocument(["B."]))), 429, "quota_exceeded"
    )["detail"]
    assert next(iter(quotas)).replace("_", " ") in said
    assert len(documents(tenant.admin, "default")) == taken
    objects = tenant.service.settings.server.data_dir / "objects" / str(decode_id("ten", tenant.id))
    assert sum(one.is_file() for one in objects.rglob("*")) == taken


def test_import_other_media_type_is_415(target: Tenant) -> None:
    assert_problem(target.admin.post("/v1/knowledge-bases/default/import", json={}), 415, "unsupported_media_type")


def test_import_and_export_with_user_key_are_403(target: Tenant) -> None:
    client = target.create_client("admin", user_id="u")
    assert_problem(client.get("/v1/knowledge-bases/default/export"), 403, "forbidden")
    reply = client.post("/v1/knowledge-bases/default/import", content=BytesIO(END_MARKER).read(), headers=ARCHIVE)
    assert_problem(reply, 403, "forbidden")


def test_export_leaves_audit_event(target: Tenant) -> None:
    target.admin.get("/v1/knowledge-bases/default/export").raise_for_status()
    (event, *_) = target.admin.get("/v1/audit-events", params={"action": "knowledge_base.export"}).json()["items"]
    assert event["object"]["ids"] == [target.admin.get("/v1/knowledge-bases/default").json()["id"]]
