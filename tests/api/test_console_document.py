"""Screen of a document in the console, in Chromium. Needs Node, `make console`, Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymupdf
import pytest

from harness.console_browser import BROWSER_MARKS, run_browser

if TYPE_CHECKING:
    from harness.running_service import Service, Tenant

ROOT = Path(__file__).parents[2]
PATH = "/v1/knowledge-bases/default/documents"

pytestmark = BROWSER_MARKS


@pytest.fixture(scope="module")
def tenant(service: Service) -> Tenant:
    tenant = service.create_tenant("document-screen")
    tenant.upload(ROOT / "samples/handbook.pdf")
    return tenant


@pytest.fixture(scope="module")
def chunks(tenant: Tenant) -> list[dict[str, Any]]:
    """Chunks of the handbook in detail, as they were before the browser changed anything."""
    (document,) = tenant.admin.get(PATH).json()["items"]
    base = f"{PATH}/{document['id']}"
    listed = tenant.admin.get(f"{base}/chunks", params={"limit": 25}).json()["items"]
    return [tenant.admin.get(f"{base}/chunks/{chunk['id']}").json() for chunk in listed]


def _build_pdf(path: Path) -> Path:
    """Write a PDF with one chapter on two pages."""
    with pymupdf.open() as document:  # type: ignore[no-untyped-call]  # PyMuPDF ships no types
        for number in (1, 2):
            page = document.new_page()
            if number == 1:
                page.insert_text((72, 60), "Chapter of trees", fontsize=22, fontname="hebo")
            for row in range(6):
                text = f"Paragraph {row} of page {number} describes the tree, its leaves and its fruit."
                page.insert_text((72, 110 + 90 * row), text, fontsize=10)
        document.save(path)
    return path


@pytest.fixture(scope="module")
def crossing(tenant: Tenant, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Chunk that begins on one page and ends on another."""
    body = {"name": "large", "chunking": {"strategy": "recursive", "max_tokens": 200, "overlap_tokens": 0}}
    tenant.admin.post("/v1/knowledge-bases", json=body).raise_for_status()
    document = tenant.upload(_build_pdf(tmp_path_factory.mktemp("crossing") / "trees.pdf"), kb="large")
    base = f"/v1/knowledge-bases/large/documents/{document['id']}"
    chunks = tenant.admin.get(f"{base}/chunks").json()["items"]
    chunk = next(chunk for chunk in chunks if chunk["page_end"] != chunk["page"])
    detail: dict[str, Any] = tenant.admin.get(f"{base}/chunks/{chunk['id']}").json()
    return {**detail, "path": f"{base.removeprefix('/v1')}?chunk={chunk['id']}"}


@pytest.fixture(scope="module")
def report(service: Service, tenant: Tenant, chunks: list[dict[str, Any]], crossing: dict[str, Any]) -> dict[str, Any]:
    """Report of one run of ``console/tests/document.mjs``."""
    (document,) = tenant.admin.get(PATH).json()["items"]
    keys = {"admin": tenant.key}
    for role in ("writer", "reader"):
        keys[role] = tenant.admin.post("/v1/api-keys", json={"name": f"a {role}", "role": role}).json()["key"]
    return run_browser(
        "document.mjs",
        service.url,
        keys,
        path=f"/knowledge-bases/default/documents/{document['id']}",
        chunk=chunks[1]["id"],
        line=chunks[0]["id"],
        crossing=crossing["path"],
    )


def test_document_screen_is_accessible_and_breaks_no_policy(report: dict[str, Any]) -> None:
    for name in ("reports", "errors", "foreign", "leaks", "markup", "violations", "overflow"):
        assert report[name] == [], name


def test_chosen_chunk_marks_its_node_in_the_tree(report: dict[str, Any], chunks: list[dict[str, Any]]) -> None:
    assert report["nodeOfChunk"] == chunks[1]["node_path"][-1]


def test_chosen_node_lists_its_chunks_and_scrolls_to_them(report: dict[str, Any], chunks: list[dict[str, Any]]) -> None:
    assert chunks[1]["id"] in report["listed"]
    assert report["listed"] == report["chunksOfNode"]
    assert report["isScrolled"] is True
    assert report["currentNodes"] == 1


def test_branch_of_the_tree_closes_by_keyboard(report: dict[str, Any]) -> None:
    assert report["closed"] is True


def test_chunk_that_crosses_pages_shows_each_page_with_all_boxes(
    report: dict[str, Any], crossing: dict[str, Any]
) -> None:
    assert report["pageImages"] == len(crossing["page_sizes"]) == 2
    assert report["rects"] == len(crossing["boxes"])
    assert {box["page"] for box in crossing["boxes"]} == {crossing["page"], crossing["page_end"]}


def test_line_over_its_page_image_is_selectable_text(report: dict[str, Any], chunks: list[dict[str, Any]]) -> None:
    assert len(chunks[0]["boxes"]) == 1
    assert report["selected"] == chunks[0]["text"]


def test_reader_downloads_the_original_and_changes_nothing(report: dict[str, Any]) -> None:
    assert report["fileName"] == "handbook.pdf"
    assert report["fileStart"] == "%PDF-"
    assert report["readerButtons"] == ["Download", "Refresh"]


def test_edit_of_a_document_that_somebody_changed_saves_nothing(report: dict[str, Any]) -> None:
    assert "The document changed meanwhile" in report["stale"]


def test_deleted_document_shows_its_receipt_at_zero(report: dict[str, Any], tenant: Tenant) -> None:
    assert report["reindexed"] == 202
    assert tenant.admin.get(PATH).json()["items"] == []
    assert tenant.admin.get(f"/v1/deletions/{report['receipt']}").json()["finished_at"] is not None
