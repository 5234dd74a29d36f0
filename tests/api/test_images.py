"""Images over HTTP: found by their descriptions, named by their chunks, and sent with safe headers."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer, find_colour
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.problems import assert_problem
from tests.ingestion import illustrated


@pytest.fixture(scope="module")
def seeing(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a vision model."""
    with ChatServer() as chat, EmbeddingServer() as embedding:
        settings = build_settings(
            tmp_path_factory.mktemp("seeing"),
            embedding=embedding.settings,
            models=chat.vision_settings,
        )
        with run_service(settings, make_database()) as running:
            yield running


@pytest.fixture
def tenant(seeing: Service) -> Tenant:
    return seeing.create_tenant()


def best(tenant: Tenant, query: str) -> dict[str, Any]:
    reply = tenant.admin.post("/v1/knowledge-bases/default/search", json={"query": query, "top_k": 1})
    found: dict[str, Any] = reply.json()["results"][0]
    return found


@pytest.mark.capability("image-download")
def test_image_is_found_and_downloaded(tenant: Tenant, tmp_path: Path) -> None:
    document = tenant.upload(illustrated.pptx(tmp_path / "ships.pptx"))
    assert document["status"] == "ready"
    assert document["warnings"] == [{"code": "images_not_read", "message": "1 image was not read.", "count": 1}]
    result = best(tenant, "a green square")
    assert result["text"] == "A green square of 120 by 100 dots."
    assert (result["slide"], result["section_titles"]) == (1, ["Ships"])
    url = f"/v1/knowledge-bases/default/documents/{document['id']}/images/0"
    assert result["image"] == {"type": "image/png", "url": url}
    reply = tenant.create_client("reader").get(result["image"]["url"])
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "image/png"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-security-policy"] == "sandbox"
    assert reply.headers["content-disposition"].startswith("inline")
    assert find_colour(Image.open(io.BytesIO(reply.content))) == "green"
    listed = tenant.admin.get(f"/v1/knowledge-bases/default/documents/{document['id']}/chunks").json()["items"]
    images = {item["text"]: item["image"] for item in listed}
    assert {text for text, found in images.items() if found is None} <= {"Ships", "Locks"}
    by_id = images["A green square of 120 by 100 dots."]
    assert tenant.admin.get(by_id["url"]).content == reply.content


def test_text_chunk_has_no_image(tenant: Tenant) -> None:
    tenant.add_text("Nothing but words about cranes.")
    assert best(tenant, "cranes")["image"] is None


@pytest.mark.parametrize("number", ["7", "2147483647"])
def test_unknown_image_is_404(tenant: Tenant, number: str) -> None:
    document = tenant.add_text("No picture.")
    assert_problem(
        tenant.admin.get(f"/v1/knowledge-bases/default/documents/{document['id']}/images/{number}"),
        404,
        "image_not_found",
    )


@pytest.mark.parametrize("number", ["-1", "x", "2147483648", "9" * 30])
def test_invalid_image_number_is_422(tenant: Tenant, number: str) -> None:
    document = tenant.add_text("No picture.")
    assert_problem(tenant.admin.get(f"/v1/knowledge-bases/default/documents/{document['id']}/images/{number}"), 422)


def test_image_of_other_tenant_or_deleted_document_is_404(tenant: Tenant, seeing: Service, tmp_path: Path) -> None:
    path = tmp_path / "red.png"
    path.write_bytes(illustrated.square("red"))
    tenant.upload(path)
    url = best(tenant, "red square")["image"]["url"]
    assert_problem(seeing.create_tenant().admin.get(url), 404, "document_not_found")
    document = url.rpartition("/images/")[0]
    assert tenant.admin.delete(document).status_code == 204
    assert_problem(tenant.admin.get(url), 404, "document_not_found")


def test_images_without_vision_model_are_counted(service: Service, tmp_path: Path) -> None:
    tenant = service.create_tenant()
    document = tenant.upload(illustrated.pptx(tmp_path / "ships.pptx"))
    assert document["warnings"] == [{"code": "images_not_read", "message": "3 images were not read.", "count": 3}]
    listed = tenant.admin.get(f"/v1/knowledge-bases/default/documents/{document['id']}/chunks").json()["items"]
    assert {item["image"] for item in listed} == {None}
