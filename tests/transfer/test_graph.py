"""Export and import of a knowledge base with entities and relations: both knowledge bases have the same graph."""

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from app.ids import decode_id
from harness.archives import ArchiveDocument, build_archive, build_manifest, format_json_lines
from harness.running_service import Service, Tenant
from tests.graph.graph_rows import read_graph
from tests.transfer.test_round_trip import new_copy, take

PROVIDED = {
    "entities": [{"name": "Mira Vale", "type": "person", "count": 3}],
    "relations": [{"subject": "Mira Vale", "predicate": "works for", "object": "Harbour Authority"}],
}


def create_source(service: Service) -> Tenant:
    """Create a tenant with a document of an archive, whose chunk came with entities, and with texts of two scopes."""
    provided = ArchiveDocument(["A note about the harbour."], {"external_id": "given"})
    (chunk,) = (json.loads(line) for line in provided.parts["chunks.jsonl"].splitlines())
    provided.parts["chunks.jsonl"] = format_json_lines([chunk | PROVIDED])
    archive = build_archive(provided)
    tenant = new_copy(service, archive)
    take(tenant, "copied", archive).raise_for_status()
    text = "# Harbour Rules\n\nThen Anna Smith met Mira Vale, who set max_size."
    tenant.add_text(text, kb="copied", external_id="open", title="Port Elms", media_type="text/markdown")
    tenant.add_text("Then Bob Jones met Anna Smith at sea.", kb="copied", external_id="private", user_id="ada")
    return tenant


def read_rows(service: Service, tenant: Tenant) -> dict[str, list[tuple[Any, ...]]]:
    kb_id = decode_id("kb", tenant.admin.get("/v1/knowledge-bases/copied").json()["id"])
    tenant_id = decode_id("ten", tenant.id)
    assert kb_id is not None
    assert tenant_id is not None

    async def read() -> dict[str, list[tuple[Any, ...]]]:
        owner = await asyncpg.connect(service.urls.owner)
        try:
            return await read_graph(owner, tenant_id, "copied", kb_id)
        finally:
            await owner.close()

    return asyncio.run(read())


def forget_positions(tenant: Tenant) -> None:
    """Remove the positions of texts in their files, as documents from before them have none."""

    async def run() -> None:
        owner = await asyncpg.connect(tenant.service.urls.owner)
        try:
            statement = "update document_text set source_map = null, place_map = null where tenant_id = $1"
            await owner.execute(statement, decode_id("ten", tenant.id))
        finally:
            await owner.close()

    asyncio.run(run())


@pytest.mark.capability("transfer-graph")
def test_imported_graph_equals_exported_graph(service: Service) -> None:
    source = create_source(service)
    archive = source.admin.get("/v1/knowledge-bases/copied/export").content
    target = new_copy(service, archive)
    reply = take(target, "copied", archive)
    assert reply.json() | {"chunks": 0} == {"documents": 3, "chunks": 0, "existing": 0, "conflicts": 0}
    exported, imported = read_rows(service, source), read_rows(service, target)
    assert all(exported.values()), "the documents have rows in every table"
    assert imported == exported
    names = {row[-1] for row in imported["chunk_entity"]}
    assert {"mira vale", "harbour authority", "anna smith", "max_size", "port elms"} <= names
    assert [row[3:6] for row in imported["relation"]] == [("mira vale", "works for", "harbour authority")]


BASE = "/v1/knowledge-bases/copied"


def list_named_corrections(tenant: Tenant) -> set[tuple[str | None, str | None]]:
    """Return the document and the name of each correction; both are None for a merge."""
    documents = tenant.admin.get(f"{BASE}/documents").json()["items"]
    ids = {document["id"]: document["external_id"] for document in documents}
    items = tenant.admin.get(f"{BASE}/entities/corrections").json()["items"]
    return {(ids.get(row["document"]), row["name"]) for row in items}


def list_chunk_counts(tenant: Tenant) -> dict[str, int]:
    items = tenant.admin.get(f"{BASE}/entities", params={"limit": 200}).json()["items"]
    return {item["name"]: item["chunks"] for item in items}


def test_imported_corrections_equal_exported_and_repeat_changes_nothing(service: Service) -> None:
    source = create_source(service)
    items = source.admin.get(f"{BASE}/entities", params={"limit": 200}).json()["items"]
    ids = {item["name"]: item["id"] for item in items}
    (private,) = [
        item["id"] for item in source.admin.get(f"{BASE}/documents").json()["items"] if item["external_id"] == "private"
    ]
    merge = {"entities": [ids["Mira Vale"]], "into": ids["Port Elms"]}
    split = {"entity": ids["Anna Smith"], "documents": [private], "name": "Anna Smith (the sailor from Oban)"}
    positioned = source.admin.get(f"{BASE}/export").content
    forget_positions(source)
    plain = source.admin.get(f"{BASE}/export").content
    source.admin.post(f"{BASE}/entities/merge", json=merge).raise_for_status()
    source.admin.post(f"{BASE}/entities/split", json=split).raise_for_status()
    archive = source.admin.get(f"{BASE}/export").content
    assert (b'"version":4' in positioned, b'"version":2' in plain, b'"version":3' in archive) == (True, True, True)
    target = new_copy(service, archive)
    for _ in range(2):
        take(target, "copied", archive).raise_for_status()
        assert list_named_corrections(target) == list_named_corrections(source)
        assert list_named_corrections(target) == {(None, None), ("private", split["name"])}
        assert list_chunk_counts(target) == list_chunk_counts(source)
    assert "Mira Vale" not in list_chunk_counts(target)
    older = new_copy(service, plain)
    take(older, "copied", plain).raise_for_status()
    assert list_named_corrections(older) == set()


def test_import_refuses_chain_of_merges(service: Service) -> None:
    merges = [{"name": "a", "target": "b"}, {"name": "b", "target": "c"}]
    document = ArchiveDocument(["A note."])
    target = new_copy(service, build_archive(document))
    reply = take(target, "copied", build_archive(document, head=build_manifest(version=3, merges=merges)))
    assert (reply.status_code, reply.json()["type"].rpartition(":")[2]) == (422, "archive_damaged")
    assert list_named_corrections(target) == set()
