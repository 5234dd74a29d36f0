"""Upload service: rows and results, and no remains of an upload that is refused at the last moment."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select

from app.audit.types import SERVICE_ACTOR
from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.documents.scopes import DocumentScope
from app.documents.types import DocumentFields, DocumentNotFound, UploadResult
from app.documents.upload.service import MAX_UNCHECKED_BYTES
from app.documents.write_repository import UploadRepository
from app.knowledge_bases.service import PURGE_KNOWLEDGE_BASE_JOB
from app.knowledge_bases.types import KnowledgeBaseNotFound, NewKnowledgeBase
from app.retrieval.types import SearchRequest
from tests.documents.test_multipart import BOUNDARY, form, part
from tests.ingestion.workshop import Workshop, add_text

FACTS = DocumentFields(
    metadata={"zebra": 1, "a": 1.0, "many": 1e21, "nested": {"ß": ["\u2028", None, True]}},
    title="Einführung",
    external_id="intro",
    source_uri="https://example.org/ü",
    source_created_at=datetime(2024, 2, 29, 23, 59, 59, 123456, timezone(timedelta(hours=5, minutes=30))),
    dynamic=True,
    expires_at=datetime(2099, 1, 1, tzinfo=UTC),
    scope=DocumentScope(user_id="u"),
)


def columns(document: DocumentRow) -> dict[str, Any]:
    return {attribute.key: getattr(document, attribute.key) for attribute in DocumentRow.__mapper__.column_attrs}


async def stored(services: TenantServices, document_id: UUID) -> dict[str, Any]:
    async with services.documents.db.transaction() as session:
        found = await session.scalar(select(DocumentRow).where(DocumentRow.id == document_id))
        assert found is not None
        return columns(found)


async def upload(services: TenantServices, text: str) -> UploadResult:
    return await services.uploads.upload_text("default", text, FACTS, media_type=None)


async def test_upload_result_equals_stored_document(services: TenantServices) -> None:
    uploaded = await upload(services, "The first version.")
    assert uploaded.created
    assert columns(uploaded.document) == await stored(services, uploaded.document.id)
    read = await services.documents.get("default", uploaded.document.id)
    assert columns(read) == columns(uploaded.document)
    assert (read.version, read.live_version, read.status, read.warnings) == (1, None, "queued", [])
    assert (read.attributes, read.source_created_at) == (FACTS.metadata, FACTS.source_created_at)


async def test_upload_next_version_preserves_live_metadata(workshop: Workshop, services: TenantServices) -> None:
    first = (await upload(services, "The first version.")).document
    await workshop.owner.execute(
        """update document set status = 'failed', live_version = 1, chunk_count = 7, page_count = 2, warnings = '["w"]',
                  progress = '{"done": 1}', error = '{"code": "corrupt"}', updated_at = '2020-01-01' where id = $1""",
        first.id,
    )
    second = (await upload(services, "The second version.")).document
    assert columns(second) == await stored(services, first.id)
    assert (second.version, second.live_version, second.chunk_count, second.page_count) == (2, 1, 7, 2)
    assert (second.status, second.warnings, second.progress, second.error) == ("queued", [], None, None)
    assert second.created_at == first.created_at
    assert second.updated_at >= first.updated_at
    keys = await workshop.owner.fetch("select version, key from document_object where document_id = $1", first.id)
    assert sorted(row["version"] for row in keys) == [1, 2]
    assert len({row["key"] for row in keys}) == 2


@pytest.mark.parametrize(
    ("external_id", "text"), [("note", "Another lantern."), ("note", "A lantern."), (None, "A lantern.")]
)
async def test_upload_with_identity_of_expired_document_creates_new_document(
    workshop: Workshop, services: TenantServices, external_id: str | None, text: str
) -> None:
    """The expired document is not removed yet: an upload with its identity is a new document, and outlives the old
    one.
    """
    old = await add_text(services, "A lantern.", external_id=external_id)
    await workshop.ingest(old)
    await workshop.owner.execute("update document set expires_at = now() where id = $1", old.id)
    new = await services.uploads.upload_text(
        "default", text, DocumentFields(external_id=external_id), media_type="text/plain"
    )
    assert (new.created, new.document.version, new.document.expires_at) == (True, 1, None)
    assert await found(services) == []  # the old text stays hidden during the ingestion of the new text
    await workshop.ingest(new.document)
    assert await found(services) == [(new.document.id, text)]
    with pytest.raises(DocumentNotFound):
        await services.documents.get("default", old.id)
    receipts = "select documents from deletion where tenant_id = $1"
    assert await workshop.owner.fetchval(receipts, tenant_of(services)) == 1


LATER, LAST = datetime(2098, 1, 1, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("first", "second"), [(LATER, LAST), (LATER, None), (None, LAST), (LATER, LATER)])
async def test_upload_with_expiry_changes_expiry_of_live_version(
    workshop: Workshop, first: datetime | None, second: datetime | None
) -> None:
    """The live version expires during the ingestion of the next one, too. Its other filter metadata does not change."""
    services = await workshop.new_tenant()
    old = await add_text(services, "A lantern.", external_id="a", expires_at=first, title="old", metadata={"n": 1})
    await workshop.ingest(old)
    await add_text(services, "A lamp.", external_id="a", expires_at=second, title="new", metadata={"n": 2})
    for lane in ("chunk_embedding", "chunk_lexical"):
        query = f"select metadata from {lane} where tenant_id = $1"
        stamp = json.loads(await workshop.owner.fetchval(query, tenant_of(services)))
        wanted = None if second is None else second.isoformat()
        assert (stamp.get("$expires_at"), stamp["$title"], stamp["n"]) == (wanted, "old", 1)
        moment = stamp["$instants"].get("$expires_at")
        assert moment == (None if second is None else f"{second:%Y-%m-%dT%H:%M:%S.%f}Z")
        assert "$created_at" in stamp["$instants"]


async def found(services: TenantServices) -> list[tuple[UUID, str]]:
    result = await services.retrieval.search(SearchRequest(["lantern"], knowledge_bases=["default"]))
    return [(hit.document.id, hit.chunk.content) for hit in result.hits]


@pytest.mark.parametrize("change", ["none", "same bytes", "another scope", "gone"])
async def test_upload_version_begins_only_on_unchanged_row(
    workshop: Workshop, services: TenantServices, change: str
) -> None:
    document = await add_text(services, "Meant.", external_id="meant")
    wanted = DocumentRow(**columns(document) | {"sha256": b"\1" * 32})
    if change == "same bytes":
        wanted.sha256 = document.sha256
    elif change == "another scope":
        wanted.scope_key = uuid4()
    elif change == "gone":
        await services.deletions.delete("default", document.id)
    async with services.documents.db.transaction() as session:
        begun = await UploadRepository(session, document.tenant_id).begin_version(wanted, "a/key", actor=SERVICE_ACTOR)
    assert (begun is not None) == (change == "none")
    placed = await workshop.owner.fetchval("select count(*) from document_object where key = 'a/key'")
    assert placed == (change == "none")
    await workshop.owner.execute("delete from document_object where key = 'a/key'")


async def test_upload_into_knowledge_base_deleted_during_upload_is_refused(
    workshop: Workshop, services: TenantServices
) -> None:
    await services.knowledge_bases.create(NewKnowledgeBase("brief"))
    body = form(part("file", b"Too late.", filename="a.txt"))

    async def pieces() -> AsyncIterator[bytes]:
        yield body[:20]
        await services.knowledge_bases.delete("brief")
        yield body[20:]

    with pytest.raises(KnowledgeBaseNotFound):
        await services.uploads.upload("brief", pieces(), BOUNDARY, lambda _: DocumentFields())
    assert files_of(workshop, services) == []
    jobs = await workshop.owner.fetch("select kind from job where tenant_id = $1", tenant_of(services))
    assert [row["kind"] for row in jobs] == [PURGE_KNOWLEDGE_BASE_JOB]


def tenant_of(services: TenantServices) -> UUID:
    return services.principal.tenant_id


def files_of(workshop: Workshop, services: TenantServices) -> list[Path]:
    folder = workshop.resources.settings.server.data_dir / "objects" / str(tenant_of(services))
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_upload_with_provided_knowledge_base_does_not_look_it_up(services: TenantServices) -> None:
    found = await services.knowledge_bases.find("default")
    uploaded = await services.uploads.upload_text(found, "Found.", DocumentFields(), media_type=None)
    assert (uploaded.knowledge_base_name, uploaded.document.kb_id) == ("default", found.row.id)


@pytest.mark.parametrize("length", [10, MAX_UNCHECKED_BYTES + 1], ids=["small", "large"])
async def test_upload_same_bytes_stores_one_object(workshop: Workshop, services: TenantServices, length: int) -> None:
    first, again = [
        await services.uploads.upload_text("default", "a" * length, DocumentFields(), media_type=None) for _ in range(2)
    ]
    assert (first.created, again.created) == (True, False)
    assert again.document.id == first.document.id
    (kept,) = files_of(workshop, services)
    assert kept.read_text() == "a" * length
    key = await workshop.owner.fetchval("select key from document_object where document_id = $1", first.document.id)
    assert kept == workshop.resources.settings.server.data_dir / "objects" / key
