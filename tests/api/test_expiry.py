"""Expired documents that are not removed yet: no request returns them, and they block no new document."""

from typing import Any

import asyncpg
import pytest

from app.ids import decode_id
from harness.archives import ArchiveDocument, build_archive
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

DOCUMENTS = "/v1/knowledge-bases/default/documents"
READ = ("", "/chunks", "/tree", "/content", "/events")
WRITTEN: dict[str, tuple[str, str, dict[str, Any]]] = {
    "patch": ("PATCH", "", {"json": {"title": "again"}}),
    "promote": ("PATCH", "", {"json": {"scope": {"level": "tenant"}}}),
    "reindex": ("POST", "/reindex", {}),
}


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.create_tenant("expiry")


async def expire(tenant: Tenant, document: dict[str, Any]) -> None:
    """Let a document expire without the expiry job, which runs once a minute."""
    connection = await asyncpg.connect(tenant.service.urls.owner)
    await connection.execute("update document set expires_at = now() where id = $1", decode_id("doc", document["id"]))
    await connection.close()


def listed(tenant: Tenant) -> list[str]:
    return [one["id"] for one in tenant.admin.get(DOCUMENTS).raise_for_status().json()["items"]]


@pytest.mark.capability("doc-expiry")
async def test_expired_document_is_not_found(tenant: Tenant) -> None:
    kept, gone = tenant.add_text("It stays."), tenant.add_text("It goes.", user_id="u")
    path = f"{DOCUMENTS}/{gone['id']}"
    for end in READ[:-1]:
        assert tenant.admin.get(path + end).status_code == 200, end
    await expire(tenant, gone)
    for end in READ:
        assert_problem(tenant.admin.get(path + end), 404, "document_not_found")
    for method, end, options in WRITTEN.values():
        assert_problem(tenant.admin.request(method, path + end, **options), 404, "document_not_found")
    assert listed(tenant) == [kept["id"]]


async def test_expired_document_can_be_deleted(tenant: Tenant) -> None:
    """A deletion of an expired document returns a receipt, not 404."""
    document = tenant.add_text("It goes.")
    await expire(tenant, document)
    assert tenant.admin.delete(f"{DOCUMENTS}/{document['id']}").is_success
    assert_problem(tenant.admin.delete(f"{DOCUMENTS}/{document['id']}"), 404, "document_not_found")


@pytest.mark.parametrize("fields", [{}, {"external_id": "e"}], ids=["content", "name"])
async def test_expired_document_does_not_block_promotion(tenant: Tenant, fields: dict[str, str]) -> None:
    above, below = tenant.add_text("Gulls cry.", **fields), tenant.add_text("Gulls cry.", user_id="u", **fields)
    path = f"{DOCUMENTS}/{below['id']}"
    assert_problem(tenant.admin.patch(path, json={"scope": {"level": "tenant"}}), 409, "duplicate_identity")
    await expire(tenant, above)
    tenant.admin.patch(path, json={"scope": {"level": "tenant"}}).raise_for_status()
    assert listed(tenant) == [below["id"]]
    found = tenant.admin.post("/v1/knowledge-bases/default/search", json={"query": "gulls"}).raise_for_status().json()
    assert [one["document"]["id"] for one in found["results"]] == [below["id"]]


async def test_expired_document_does_not_block_import(tenant: Tenant) -> None:
    document = tenant.add_text("The old text.", external_id="e")
    content = build_archive(ArchiveDocument(["The text of the archive."], {"external_id": "e"}))

    def take() -> dict[str, int]:
        reply = tenant.admin.post(
            "/v1/knowledge-bases/default/import", content=content, headers={"Content-Type": "application/x-tar"}
        )
        taken: dict[str, int] = reply.raise_for_status().json()
        return taken

    assert take() == {"documents": 0, "chunks": 0, "existing": 0, "conflicts": 1}
    await expire(tenant, document)
    assert take() == {"documents": 1, "chunks": 1, "existing": 0, "conflicts": 0}
    assert listed(tenant) != [document["id"]]
    assert len(listed(tenant)) == 1
