"""POST /v1/preview: how a file is read and cut, with nothing stored."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pymupdf
import pytest

from app.ids import decode_id
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

ROOT = Path(__file__).parents[2]
TEXT = "# Whales\n\nWhales sing.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n## Food\n\nThey eat krill."


def send(client: httpx2.Client, content: bytes, name: str, **fields: str) -> httpx2.Response:
    return client.post("/v1/preview", files={"file": (name, content)}, data=fields)


def shown(reply: httpx2.Response) -> dict[str, Any]:
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def nodes(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield root
    for child in root["children"]:
        yield from nodes(child)


def files_of(service: Service, tenant: Tenant) -> set[Path]:
    """Return the stored files of this tenant: jobs of other tests' tenants may still store theirs."""
    folder = service.settings.server.data_dir / "objects" / str(decode_id("ten", tenant.id))
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.capability("doc-preview")
def test_preview_text_returns_tree_and_chunks(tenant: Tenant) -> None:
    found = shown(tenant.admin.post("/v1/preview", json={"text": TEXT, "media_type": "text/markdown"}))
    assert (found["media_type"], found["title"], found["page_count"]) == ("text/markdown", "Whales", None)
    assert found["quality"]["tables"] == 1
    assert found["quality"]["garbled_ratio"] == 0
    assert found["quality"]["characters"] > 40
    assert found["quality"]["tokens"] > 10
    assert (found["truncated"], found["total_chunks"], len(found["chunks"])) == (False, 2, 2)
    assert [(node["kind"], node["depth"], node["title"]) for node in nodes(found["tree"]) if node["children"]] == [
        ("document", 0, "Whales"), ("section", 1, "Whales"), ("section", 2, "Food"),
    ]  # fmt: skip
    assert [node["text"] for node in nodes(found["tree"]) if not node["children"]][:2] == ["Whales", "Whales sing."]
    second = found["chunks"][1]
    assert (second["chunk_index"], second["text"]) == (1, "Food\n\nThey eat krill.")
    assert second["section_titles"] == ["Whales", "Food"]
    node = found["tree"]
    for index in second["node_path"]:
        node = node["children"][index]
    assert node["title"] == "Food"


@pytest.mark.capability("doc-preview-equal")
def test_preview_equals_ingestion(tenant: Tenant) -> None:
    chunking = {"strategy": "sentence", "max_tokens": 40, "overlap_tokens": 0}
    tenant.admin.post("/v1/knowledge-bases", json={"name": "k", "chunking": chunking}).raise_for_status()
    handbook = ROOT / "samples" / "handbook.pdf"
    document = tenant.upload(handbook, kb="k")
    path = f"/v1/knowledge-bases/k/documents/{document['id']}"
    stored = tenant.admin.get(f"{path}/chunks", params={"limit": 200}).json()["items"]
    by_name = shown(send(tenant.admin, handbook.read_bytes(), "handbook.pdf", knowledge_base="k"))
    by_value = shown(send(tenant.admin, handbook.read_bytes(), "handbook.pdf", chunking=json.dumps(chunking)))
    assert by_name == by_value
    same = ("chunk_index", "text", "start", "end", "tokens", "page", "page_end", "slide", "section_titles")
    chunks = by_name["chunks"]
    assert len(chunks) == len(stored) > 20
    assert [{name: chunk[name] for name in same} for chunk in chunks] == [
        {name: chunk[name] for name in same} for chunk in stored
    ]
    assert (by_name["title"], by_name["page_count"]) == (document["title"], by_name["quality"]["pages"])


@pytest.mark.capability("doc-preview")
def test_preview_stores_nothing(service: Service, tenant: Tenant) -> None:
    shown(send(tenant.admin, TEXT.encode(), "whales.md", knowledge_base="default"))
    assert tenant.admin.get("/v1/knowledge-bases/default/documents").json()["items"] == []
    assert files_of(service, tenant) == set()
    assert tenant.admin.post("/v1/search", json={"query": "whales sing"}).json()["results"] == []


def test_preview_reports_pages_without_text(tenant: Tenant) -> None:
    pdf: Any = pymupdf.open()  # type: ignore[no-untyped-call]
    for text in ("The first page.", "", "The third page."):
        page = pdf.new_page()
        if text:
            page.insert_text((72, 72), text)
    found = shown(send(tenant.admin, pdf.tobytes(), "three.pdf"))
    assert (found["page_count"], found["quality"]["pages"]) == (3, 3)
    assert found["quality"]["empty_pages"] == [2]
    assert found["quality"]["suspected_scans"] == [2]


def test_preview_long_text_is_cut(tenant: Tenant) -> None:
    text = "\n\n".join(f"Paragraph {number} of a text that is far too long." for number in range(8000))
    found = shown(tenant.admin.post("/v1/preview", json={"text": text}))
    assert found["truncated"] is True
    assert len(found["chunks"]) == 200 < found["total_chunks"]
    assert sum(1 for _ in nodes(found["tree"])) == 2000
    assert found["quality"]["characters"] > 300_000
    assert found["chunks"][-1]["text"].startswith("Paragraph")


def test_preview_uses_declared_encoding_and_refuses_unknown_one(tenant: Tenant) -> None:
    content = "Жили-были".encode("koi8-r")
    found = shown(send(tenant.admin, content, "a.txt", encoding="koi8-r"))
    assert found["chunks"][0]["text"] == "Жили-были"
    assert_problem(send(tenant.admin, content, "a.txt", encoding="klingon"), 422, "invalid")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("encrypted.pdf", "encrypted"),
        ("truncated.pptx", "corrupt"),
        ("pictures_only.pdf", "no_text"),
        ("empty.bin", "empty"),
    ],
)
def test_preview_unreadable_file_is_422_with_upload_code(tenant: Tenant, name: str, code: str) -> None:
    content = (ROOT / "tests" / "samples" / name).read_bytes()
    assert_problem(send(tenant.admin, content, name), 422, code)


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"chunking": "[]"}, "chunking"),
        ({"chunking": "{"}, "chunking"),
        ({"chunking": "[" * 10_000}, "chunking"),
        ({"chunking": '{"strategy": "nothing"}'}, "strategy"),
        ({"chunking": '{"max_tokens": 1}'}, "max_tokens"),
        ({"chunking": '{"strategy": "semantic", "options": {"percentile": 100}}'}, "percentile"),
        ({"chunking": "{}", "knowledge_base": "default"}, "body"),
        ({"title": "x"}, "title"),
    ],
)
def test_preview_invalid_options_are_422(tenant: Tenant, fields: dict[str, str], place: str) -> None:
    found = assert_problem(send(tenant.admin, b"A text.", "a.txt", **fields), 422, "invalid")
    assert place in str(found["errors"][0]["loc"])


@pytest.mark.parametrize(
    "body",
    [{}, {"text": ""}, {"text": "x", "media_type": "application/pdf"}, {"text": "a\0b"}, {"text": "x", "more": 1}],
)
def test_preview_invalid_text_body_is_422(tenant: Tenant, body: dict[str, Any]) -> None:
    assert_problem(tenant.admin.post("/v1/preview", json=body), 422)


def test_preview_unsupported_file_is_415(tenant: Tenant) -> None:
    assert_problem(send(tenant.admin, b"\x7fELF" + bytes(60), "a.bin"), 415, "unsupported_media_type")
    assert_problem(tenant.admin.post("/v1/preview", content=b"text"), 415)


def test_preview_unknown_knowledge_base_is_404(service: Service, tenant: Tenant) -> None:
    service.create_tenant().admin.post("/v1/knowledge-bases", json={"name": "theirs"}).raise_for_status()
    for name in ("nothing", "theirs"):
        assert_problem(send(tenant.admin, b"A text.", "a.txt", knowledge_base=name), 404, "knowledge_base_not_found")


def test_preview_requires_writer(tenant: Tenant) -> None:
    assert_problem(tenant.create_client("reader").post("/v1/preview", json={"text": "A text."}), 403, "forbidden")
    shown(tenant.create_client("writer").post("/v1/preview", json={"text": "A text."}))
