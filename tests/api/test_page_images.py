"""Images of pages over HTTP: what they show, who may see them, their cache, and their errors."""

import asyncio
import io
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest
from PIL import Image

from app.ids import decode_id
from harness.page_ink import assign_words, list_words, measure_ink
from harness.running_service import Service, Tenant
from harness.wait_until import wait_until
from tests.api.problems import assert_problem
from tests.ingestion.parsers.images import FITZ
from tests.ingestion.parsers.pdf_files import PROSE, prose, write_pages

ROOT = Path(__file__).resolve().parents[2]
HANDBOOK = ROOT / "samples" / "handbook.pdf"
SAMPLES = ROOT / "tests" / "samples"
DOCUMENTS = "/v1/knowledge-bases/default/documents"
SCALE = 2.0


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.create_tenant()


def address(document: dict[str, Any], page: int = 1) -> str:
    return f"{DOCUMENTS}/{document['id']}/pages/{page}.png"


def cached(service: Service, tenant: Tenant) -> list[Path]:
    """Return the cached page images of a tenant."""
    folder = service.settings.server.data_dir / "objects" / str(decode_id("ten", tenant.id))
    return sorted(folder.glob("*/pages/*.png"))


def size_of(reply: httpx2.Response) -> tuple[int, int]:
    assert reply.status_code == 200, reply.text
    return Image.open(io.BytesIO(reply.content)).size


def ferries(tmp_path: Path, pages: int = 2) -> Path:
    return write_pages(tmp_path / "ferries.pdf", [prose(page) for page in range(pages)])


@pytest.mark.capability("page-picture")
def test_page_image_shows_page_and_is_cached(tenant: Tenant, service: Service, tmp_path: Path) -> None:
    document = tenant.upload(ferries(tmp_path))
    reader = tenant.create_client("reader")
    reply = reader.get(address(document), params={"scale": 0.5})
    assert size_of(reply) == (298, 421)
    assert reply.headers["content-type"] == "image/png"
    assert reply.headers["cache-control"] == "private, no-cache"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-security-policy"] == "sandbox"
    assert len(cached(service, tenant)) == 1
    again = reader.get(address(document), params={"scale": 0.5})
    assert (again.content, again.headers["etag"]) == (reply.content, reply.headers["etag"])
    assert size_of(reader.get(address(document))) == (595, 842)
    assert reader.get(address(document, 2)).content != reader.get(address(document)).content
    assert len(cached(service, tenant)) == 3


def test_page_image_known_etag_is_304(tenant: Tenant, tmp_path: Path) -> None:
    document = tenant.upload(ferries(tmp_path))
    etag = tenant.admin.get(address(document)).headers["etag"]
    for header in (etag, f"W/{etag}", f'"other", {etag}'):
        reply = tenant.admin.get(address(document), headers={"If-None-Match": header})
        assert (reply.status_code, reply.content, reply.headers["etag"]) == (304, b"", etag)
    for header in ("*", '"other"', etag.strip('"')):
        assert tenant.admin.get(address(document), headers={"If-None-Match": header}).status_code == 200
    other = tenant.admin.get(address(document), params={"scale": 2}, headers={"If-None-Match": etag})
    assert other.status_code == 200


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("cut", [None, (40, 100, 500, 400)], ids=["whole", "cropped"])
def test_chunk_boxes_cover_ink_of_page_image(
    rotation: int, cut: tuple[int, ...] | None, tenant: Tenant, tmp_path: Path
) -> None:
    path = ferries(tmp_path)
    with FITZ.open(path) as original:
        for page in original:
            if cut:
                page.set_cropbox(FITZ.Rect(*cut))
            page.set_rotation(rotation)
        original.save(tmp_path / "turned.pdf")
    document = tenant.upload(tmp_path / "turned.pdf")
    listed = tenant.admin.get(f"{DOCUMENTS}/{document['id']}/chunks").json()["items"]
    assert "".join(item["text"] for item in listed).count(PROSE[0]) == 2
    with FITZ.open(tmp_path / "turned.pdf") as original:
        words = assign_words(listed, {page: list_words(original, page) for page in (1, 2)})
    for item in listed:
        chunk = tenant.admin.get(f"{DOCUMENTS}/{document['id']}/chunks/{item['id']}").json()
        images = {}
        for size in chunk["page_sizes"]:
            reply = tenant.admin.get(address(document, size["page"]), params={"scale": SCALE})
            assert size_of(reply) == (SCALE * size["width"], SCALE * size["height"])
            images[size["page"]] = reply.content
        count = measure_ink(chunk, words[item["chunk_index"]], images, SCALE)
        assert count.total > 1000
        assert count.aligned_words == count.words
        assert count.share > 0.99


@pytest.mark.parametrize(
    ("page", "query", "status", "code"),
    [
        (3, {}, 404, "page_not_found"),
        (2147483647, {}, 404, "page_not_found"),
        (0, {}, 422, "invalid"),
        ("x", {}, 422, "invalid"),
        (2147483648, {}, 422, "invalid"),
        (1, {"scale": "0"}, 422, "invalid"),
        (1, {"scale": "-1"}, 422, "invalid"),
        (1, {"scale": "9"}, 422, "invalid"),
        (1, {"scale": "nan"}, 422, "invalid"),
        (1, {"scale": "inf"}, 422, "invalid"),
        (1, {"scale": "large"}, 422, "invalid"),
        (1, {"scale": "8"}, 422, "page_image_too_large"),
    ],
)
def test_page_image_invalid_page_or_scale_is_refused(
    page: Any, query: dict[str, str], status: int, code: str, tenant: Tenant, tmp_path: Path
) -> None:
    document = tenant.upload(ferries(tmp_path))
    reply = tenant.admin.get(address(document, page), params=query)
    assert_problem(reply, status, code)
    if code == "page_image_too_large":
        assert "largest scale for this page is 5.65" in reply.json()["detail"]
        assert tenant.admin.get(address(document, page), params={"scale": 5.65}).status_code == 200


def test_page_image_of_other_format_is_404_with_known_formats(tenant: Tenant) -> None:
    document = tenant.add_text("Words without pages.")
    reply = tenant.admin.get(address(document))
    assert_problem(reply, 404, "page_images_unsupported")
    assert "application/pdf" in reply.json()["detail"]


def test_page_image_of_failed_document_is_422(tenant: Tenant) -> None:
    document = tenant.upload(SAMPLES / "truncated.pdf")
    reply = tenant.admin.get(address(document))
    assert reply.status_code in (200, 422)
    if reply.status_code == 422:
        assert_problem(reply, 422, "page_image_failed")
    assert tenant.admin.get(address(tenant.upload(HANDBOOK))).status_code == 200


def test_page_image_needs_right_to_read_document(tenant: Tenant, service: Service, tmp_path: Path) -> None:
    path = ferries(tmp_path)
    document = tenant.upload(path, user_id="ada")
    ada, eve = tenant.create_client(user_id="ada"), tenant.create_client(user_id="eve")
    assert ada.get(address(document)).status_code == 200
    etag = ada.get(address(document)).headers["etag"]
    other = service.create_tenant()
    copy = other.upload(path)
    for client in (eve, other.admin):
        for headers in ({}, {"If-None-Match": etag}):
            assert_problem(client.get(address(document), headers=headers), 404, "document_not_found")
    assert cached(service, other) == []
    assert other.admin.get(address(copy)).headers["etag"] != etag
    assert len(cached(service, other)) == 1


async def test_delete_document_deletes_cached_page_images(tenant: Tenant, service: Service, tmp_path: Path) -> None:
    document = tenant.upload(ferries(tmp_path))
    etag = tenant.admin.get(address(document)).headers["etag"]
    assert len(cached(service, tenant)) == 1
    reply = tenant.admin.delete(f"{DOCUMENTS}/{document['id']}")
    assert reply.status_code == 204
    assert_problem(tenant.admin.get(address(document)), 404, "document_not_found")
    assert_problem(tenant.admin.get(address(document), headers={"If-None-Match": etag}), 404, "document_not_found")
    receipt = f"/v1/deletions/{reply.headers['carrel-deletion-id']}"
    await wait_until(lambda: tenant.admin.get(receipt).json()["finished_at"] is not None)
    assert tenant.admin.get(receipt).json()["remaining"]["objects"] == 0
    assert cached(service, tenant) == []


async def test_expired_document_has_no_page_images(tenant: Tenant, tmp_path: Path) -> None:
    document = tenant.upload(ferries(tmp_path))
    assert tenant.admin.get(address(document)).status_code == 200
    connection = await asyncpg.connect(tenant.service.urls.owner)
    await connection.execute("update document set expires_at = now() where id = $1", decode_id("doc", document["id"]))
    await connection.close()
    assert_problem(tenant.admin.get(address(document)), 404, "document_not_found")


def test_new_version_has_own_page_images(tenant: Tenant, service: Service, tmp_path: Path) -> None:
    first = tenant.upload(ferries(tmp_path), external_id="e")
    before = tenant.admin.get(address(first))
    second = tenant.upload(HANDBOOK, external_id="e")
    assert first["id"] == second["id"]
    after = tenant.admin.get(address(second), headers={"If-None-Match": before.headers["etag"]})
    assert after.status_code == 200
    assert after.content != before.content
    failed = tenant.upload(SAMPLES / "encrypted.pdf", external_id="e")
    assert failed["status"] == "failed"
    assert tenant.admin.get(address(second)).content == after.content


async def test_parallel_page_images_of_one_tenant_wait_for_each_other(tenant: Tenant) -> None:
    document = tenant.upload(HANDBOOK)
    replies = await asyncio.gather(
        *(asyncio.to_thread(tenant.admin.get, address(document, page)) for page in range(1, 9))
    )
    assert [reply.status_code for reply in replies] == [200] * 8


def test_page_image_has_one_channel_only_without_colour(tenant: Tenant, tmp_path: Path) -> None:
    drawing = FITZ.open()
    for colour in ((0, 0, 0), (1, 0, 0), (0.4, 0.4, 0.6)):
        drawing.new_page().draw_rect((50, 50, 90, 90), color=colour, fill=colour)
    drawing[0].insert_text((100, 100), "ferry")
    drawing.save(tmp_path / "squares.pdf")
    document = tenant.upload(tmp_path / "squares.pdf")
    reader = tenant.create_client("reader")
    images = [Image.open(io.BytesIO(reader.get(address(document, page)).content)) for page in (1, 2, 3)]
    assert [image.mode for image in images] == ["L", "RGB", "RGB"]
    assert [image.convert("RGB").getpixel((70, 70)) for image in images] == [(0, 0, 0), (255, 0, 0), (102, 102, 153)]
