"""A knowledge base that is exported and imported elsewhere gives the same search results."""

import hashlib
import json
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import pytest

from harness.archives import ArchiveDocument, format_json_lines
from harness.archives import build_archive as archive_of
from harness.running_service import Service, Tenant
from tests.transfer.conftest import BIRDS, FILES, SAMPLES

QUERIES = [
    *BIRDS.values(), *(f"what about the {name}" for name in BIRDS), "AX-2231", "pelicans number 2", "owl", "kestrel",
    "a chunk with a page", "column", "table of contents", "wartet auf Frösche", "shallow water and gravel",
]  # fmt: skip
ASKED = [
    {"query": query, "top_k": 20, "strategy": strategy, **more}
    for query in QUERIES
    for strategy, more in (
        ("hybrid", {}),
        ("dense", {"scope": {"user_id": "ada"}}),
        ("lexical", {"filter": {"shelf": "nature"}}),
    )
]
# Fields that every knowledge base creates itself.
OWN = {"id", "parent_id", "chunk_id", "document_id", "knowledge_base", "node_id", "node_path", "url", "document"}
PICTURE = {"number": 3, "media_type": "image/png", "width": 64, "height": 64}
ARCHIVE = {"Content-Type": "application/x-tar"}


def found(client: httpx2.Client, kb: str, body: dict[str, Any]) -> list[Any]:
    """Return the results of a search without ids, in their order; equal scores are ordered by text."""
    reply = client.post(f"/v1/knowledge-bases/{kb}/search", json=body)
    reply.raise_for_status()
    results = [plain(result) for result in reply.json()["results"]]
    return sorted(results, key=lambda result: (-result["score"], json.dumps(result, sort_keys=True)))


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items() if name not in OWN}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def documents(client: httpx2.Client, kb: str) -> dict[str, Any]:
    items = client.get(f"/v1/knowledge-bases/{kb}/documents", params={"limit": 200}).json()["items"]
    return {item["sha256"]: {n: v for n, v in plain(item).items() if n != "updated_at"} for item in items}


def take(tenant: Tenant, kb: str, content: bytes) -> httpx2.Response:
    return tenant.admin.post(f"/v1/knowledge-bases/{kb}/import", content=content, headers=ARCHIVE)


def manifest_of(archive: bytes) -> dict[str, Any]:
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        file = tar.extractfile("manifest.json")
        assert file is not None
        manifest: dict[str, Any] = json.load(file)
        return manifest


def new_copy(service: Service, archive: bytes) -> Tenant:
    tenant = service.create_tenant("target")
    settings = manifest_of(archive)["settings"]
    tenant.admin.post("/v1/knowledge-bases", json={"name": "copied", **settings}).raise_for_status()
    return tenant


@pytest.fixture(scope="module")
def target(service: Service, archive: bytes) -> Tenant:
    """Another tenant with the archive under another name."""
    tenant = new_copy(service, archive)
    reply = take(tenant, "copied", archive)
    assert reply.status_code == 200, reply.text
    assert reply.json() | {"chunks": 0} == {"documents": 14, "chunks": 0, "existing": 0, "conflicts": 0}
    return tenant


@pytest.mark.capability("transfer-export")
def test_imported_knowledge_base_gives_same_search_results(source: Tenant, target: Tenant) -> None:
    asked = [(found(source.admin, "birds", body), found(target.admin, "copied", body)) for body in ASKED]
    assert [there for _, there in asked] == [here for here, _ in asked]
    assert all(here for here, _ in asked[:30])


def test_imported_documents_and_settings_are_equal(source: Tenant, target: Tenant) -> None:
    assert documents(target.admin, "copied") == documents(source.admin, "birds")
    told = [
        tenant.admin.get(f"/v1/knowledge-bases/{kb}").json() for tenant, kb in ((source, "birds"), (target, "copied"))
    ]
    for one in told:
        for name in ("id", "name", "created_at", "updated_at"):
            del one[name]
    assert told[0] == told[1]


def test_imported_trees_boxes_and_originals_are_equal(source: Tenant, target: Tenant) -> None:
    both = ((source, "birds"), (target, "copied"))
    for name in FILES:
        seen = []
        for tenant, kb in both:
            path = f"/v1/knowledge-bases/{kb}/documents"
            (one,) = tenant.admin.get(path, params={"external_id": name}).json()["items"]
            here = f"{path}/{one['id']}"
            tree, chunks = tenant.admin.get(f"{here}/tree").json(), tenant.admin.get(f"{here}/chunks").json()
            seen.append((plain(tree), plain(chunks), tenant.admin.get(f"{here}/content").content))
        assert seen[0] == seen[1]


def test_exporting_an_import_gives_same_archive(archive: bytes, target: Tenant) -> None:
    again = target.admin.get("/v1/knowledge-bases/copied/export").content
    files = [set(sums(one).values()) for one in (archive, again)]
    # Only the manifest differs: in the name and the time.
    assert len(files[0] - files[1]) == len(files[1] - files[0]) == 1


def sums(archive: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        file = tar.extractfile("SHA256SUMS")
        assert file is not None
        return {line[66:]: line[:64] for line in file.read().decode().splitlines()}


def test_archive_is_verified_by_sha256sum(archive: bytes, tmp_path: Path) -> None:
    (tmp_path / "birds.tar").write_bytes(archive)
    subprocess.run(["tar", "xf", "birds.tar"], cwd=tmp_path, check=True)
    subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS"], cwd=tmp_path, check=True)


@pytest.mark.capability("transfer-again")
def test_importing_again_changes_nothing(target: Tenant, archive: bytes) -> None:
    before = documents(target.admin, "copied")
    assert take(target, "copied", archive).json() == {"documents": 0, "chunks": 0, "existing": 14, "conflicts": 0}
    assert documents(target.admin, "copied") == before


def test_import_leaves_existing_document_with_other_bytes(service: Service, archive: bytes) -> None:
    tenant = new_copy(service, archive)
    tenant.add_text("My own notes.", kb="copied", external_id="notes.md")
    reply = take(tenant, "copied", archive)
    assert reply.json() | {"chunks": 0} == {"documents": 13, "chunks": 0, "existing": 0, "conflicts": 1}
    (own,) = found(tenant.admin, "copied", {"query": "My own notes.", "top_k": 1})
    assert own["text"] == "My own notes."


def test_export_and_import_include_images(service: Service) -> None:
    tenant, picture = service.create_tenant("pictures"), (SAMPLES / "photo.png").read_bytes()
    made = ArchiveDocument(["A photo of a tern.", "A text."], {"images": [PICTURE]})
    original = made.parts.pop("original")
    chunks = [json.loads(line) for line in made.parts["chunks.jsonl"].splitlines()]
    made.parts |= {"chunks.jsonl": format_json_lines([{**chunks[0], "image": 3}, chunks[1]]), "images/3": picture}
    made.parts["original"] = original
    assert take(tenant, "default", archive_of(made)).json()["documents"] == 1
    results = tenant.admin.post("/v1/search", json={"query": "photo of a tern"}).json()["results"]
    (image,) = [result["image"] for result in results if result["image"]]
    assert tenant.admin.get(image["url"]).content == picture
    again = tenant.admin.get("/v1/knowledge-bases/default/export").content
    files = {name: digest for name, digest in sums(again).items() if "images/" in name}
    assert files == {"documents/0000001/images/3": hashlib.sha256(picture).hexdigest()}
    assert take(service.create_tenant("more pictures"), "default", again).json()["documents"] == 1


def test_export_and_import_carry_warnings_of_documents(service: Service) -> None:
    warnings = [{"code": "images_not_read", "message": "1 image was not read.", "count": 1}]
    tenant = service.create_tenant("warnings")
    assert (
        take(tenant, "default", archive_of(ArchiveDocument(["A text."], {"warnings": warnings}))).json()["documents"]
        == 1
    )
    assert [document["warnings"] for document in documents(tenant.admin, "default").values()] == [warnings]
    again = tenant.admin.get("/v1/knowledge-bases/default/export").content
    with tarfile.open(fileobj=BytesIO(again)) as tar:
        file = tar.extractfile("documents/0000001/document.json")
        assert file is not None
        assert json.load(file)["warnings"] == warnings


def test_export_leaves_out_and_names_documents_that_are_not_ready(service: Service) -> None:
    tenant = service.create_tenant("half")
    tenant.add_text("The tern.")
    reply = tenant.admin.post(
        "/v1/knowledge-bases/default/documents", params={"wait": 60}, files={"file": ("x.pdf", b"%PDF-1.4 x")}
    )
    assert reply.json()["status"] == "failed"
    content = tenant.admin.get("/v1/knowledge-bases/default/export").content
    with tarfile.open(fileobj=BytesIO(content)) as tar:
        file = tar.extractfile("skipped.jsonl")
        assert file is not None
        assert [json.loads(line)["source"] for line in file] == ["x.pdf"]
        assert [name for name in tar.getnames() if name.endswith("/original")] == ["documents/0000001/original"]
