"""Export and import of a knowledge base with entities and relations: both knowledge bases have the same graph."""

import asyncio
import json
from typing import Any

import asyncpg

from app.ids import decode_id
from harness.archives import ArchiveDocument, build_archive, format_json_lines
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
