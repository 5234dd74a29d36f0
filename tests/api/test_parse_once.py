"""Parse results that are read again over HTTP: the rows equal those of a fresh parse, and other options parse again."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.ids import decode_id
from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.ingestion import illustrated

SAMPLES = Path(__file__).parents[1] / "samples"
STATEMENTS = {
    "document": "select media_type, encoding, bytes, sha256, title, warnings, page_count, chunk_count, language"
    " from document where id = $1",
    "document_text": "select * from document_text where document_id = $1",
    "node": "select n.*, p.ordinal as parent_ordinal from node n"
    " left join node p on p.document_id = n.document_id and p.id = n.parent_id"
    " where n.document_id = $1 order by n.ordinal",
    "document_page": "select * from document_page where document_id = $1 order by page",
    "chunk": "select c.*, e.embedding::text as vector from chunk c left join chunk_embedding e on e.chunk_id = c.id"
    " where c.document_id = $1 order by c.ordinal",
    "document_image": "select * from document_image where document_id = $1 order by ordinal",
}


@pytest.fixture(scope="module")
def service(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a vision model, which describes the images."""
    with ChatServer() as chat, EmbeddingServer() as embedding:
        settings = build_settings(
            tmp_path_factory.mktemp("once"), embedding=embedding.settings, models=chat.vision_settings
        )
        with run_service(settings, make_database()) as running:
            yield running


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return create_tenant(service)


def create_tenant(service: Service) -> Tenant:
    tenant = service.create_tenant("once")
    tenant.admin.post("/v1/knowledge-bases", json={"name": "other"}).raise_for_status()
    return tenant


def list_events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.message.startswith("document.parse")]


async def read_rows(service: Service, document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a document by table, without ids, times and object keys."""
    owner = await asyncpg.connect(service.urls.owner)
    try:
        document_id = decode_id("doc", document["id"])
        found = {table: await owner.fetch(statement, document_id) for table, statement in STATEMENTS.items()}
    finally:
        await owner.close()
    return {
        table: [
            {name: value for name, value in row.items() if name != "key" and not isinstance(value, UUID | datetime)}
            for row in rows
        ]
        for table, rows in found.items()
    }


def create_file(kind: str, folder: Path) -> Path:
    """Return a file with images, page boxes or positions in the source."""
    match kind:
        case "pdf":
            return illustrated.pdf(folder / "a.pdf")
        case "docx":
            return illustrated.docx(folder / "a.docx")
        case "pptx":
            return illustrated.pptx(folder / "a.pptx")
        case _:
            return SAMPLES / kind


@pytest.mark.parametrize("kind", ["pdf", "docx", "pptx", "page.html", "two_columns.pdf", "latin1.txt", "workbook.xlsx"])
async def test_rows_of_reused_parse_equal_rows_of_fresh_parse(
    service: Service, tenant: Tenant, kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    file = create_file(kind, tmp_path)
    first = tenant.upload(file)
    assert first["status"] == "ready"
    second, fresh = tenant.upload(file, kb="other"), create_tenant(service).upload(file, kb="other")
    assert list_events(caplog) == ["document.parsed", "document.parse_reused", "document.parsed"]
    reused_rows, fresh_rows = await read_rows(service, second), await read_rows(service, fresh)
    assert reused_rows == fresh_rows
    assert reused_rows["chunk"]
    assert bool(reused_rows["document_image"]) == (kind in ("pdf", "docx", "pptx"))
    assert bool(reused_rows["document_page"]) == kind.endswith("pdf")


def test_declared_encoding_parses_again(tenant: Tenant, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    (tmp_path / "a.txt").write_bytes("Smörgåsbord für Übermut.".encode("latin-1"))
    texts = []
    for place in ({"kb": "default"}, {"kb": "other", "encoding": "cp1251"}, {"kb": "other", "external_id": "b"}):
        document = tenant.upload(tmp_path / "a.txt", **place)
        path = f"/v1/knowledge-bases/{place['kb']}/documents/{document['id']}/chunks"
        texts.append(tenant.admin.get(path).json()["items"][0]["text"])
    assert texts[0] == texts[2] != texts[1]
    assert list_events(caplog) == ["document.parsed", "document.parsed", "document.parse_reused"]


def test_restricted_key_learns_nothing_of_reuse(tenant: Tenant, caplog: pytest.LogCaptureFixture) -> None:
    """The document of a restricted key whose bytes another scope has looks like any other."""
    caplog.set_level("INFO")
    secret = tenant.upload(SAMPLES / "page.html", user_id="ann")
    restricted = tenant.create_client("writer", user_id="bob")
    answers = []
    for name in ("page.html", "page2.html"):
        content = (SAMPLES / "page.html").read_bytes() + (b"" if name == "page.html" else b"<!-- other bytes -->")
        files, data = {"file": (name, content)}, {"user_id": "bob"}
        reply = restricted.post("/v1/knowledge-bases/default/documents", params={"wait": 60}, files=files, data=data)
        assert reply.status_code == 201, reply.text
        answers.append(reply.json())
    assert list_events(caplog) == ["document.parsed", "document.parse_reused", "document.parsed"]
    assert answers[0].keys() == answers[1].keys()
    for name in ("status", "warnings", "progress", "chunk_count", "page_count", "language", "title"):
        assert answers[0].get(name) == answers[1].get(name)
    assert secret["id"] not in str(answers)
