"""Boxes of nodes and chunks on the pages of a PDF."""

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.ids import decode_id
from harness.running_service import Service
from tests.api.document_reader import DocumentReader
from tests.ingestion.parsers.images import FITZ

ROOT = Path(__file__).resolve().parents[2]
HANDBOOK = ROOT / "samples" / "handbook.pdf"
DOCUMENTS = "/v1/knowledge-bases/default/documents"
NOTHING: dict[str, Any] = {"boxes": [], "page_sizes": []}


@pytest.fixture(scope="module")
def book(service: Service) -> DocumentReader:
    tenant = service.create_tenant("boxes")
    document = tenant.upload(HANDBOOK)
    assert (document["status"], document["page_count"]) == ("ready", 8)
    return DocumentReader(tenant.create_client("reader"), f"{DOCUMENTS}/{document['id']}", document)


def letters(text: str) -> str:
    """Return the text without the characters that joined lines and Markdown tables add or remove."""
    return "".join(text.replace("-", "").replace("|", "").split())


def text_in(pages: Any, boxes: list[dict[str, Any]]) -> str:
    """Return the letters in some boxes of the original, read with another library."""
    found = []
    for box in boxes:
        for left, top, right, bottom, word, *_ in pages[box["page"] - 1].get_text("words", sort=True):
            x, y = (left + right) / 2, (top + bottom) / 2
            if box["x0"] <= x <= box["x1"] and box["y0"] <= y <= box["y1"]:
                found.append(word)
    return letters("".join(found))


def places(thing: dict[str, Any]) -> dict[str, Any]:
    return {name: thing[name] for name in ("boxes", "page_sizes")}


def test_node_boxes_contain_its_text(book: DocumentReader) -> None:
    with FITZ.open(HANDBOOK) as pages:
        size = {"width": round(pages[0].rect.width, 1), "height": round(pages[0].rect.height, 1)}
        leaves = book.leaves()
        assert len(leaves) > 30
        for leaf in leaves:
            assert not {"boxes", "page_sizes"} & leaf.keys()
            node = book.get(f"/nodes/{leaf['id']}")
            assert text_in(pages, node["boxes"]) == letters(node["text"])
            assert node["page_sizes"] == [{"page": node["page"], **size}]


@pytest.mark.capability("chunk-boxes")
def test_chunk_boxes_contain_its_text(book: DocumentReader) -> None:
    """The boxes hold no more than the chunk's text and the rest of its first and last line."""
    with FITZ.open(HANDBOOK) as pages:
        chunks = book.chunks()
        assert len(chunks) > 8
        for chunk in chunks:
            assert not {"boxes", "page_sizes"} & chunk.keys()
            single = book.get(f"/chunks/{chunk['id']}")
            assert letters(chunk["text"]) in text_in(pages, single["boxes"])
            lines = chunk["text"].count("\n") + 1
            assert len(text_in(pages, single["boxes"])) < len(letters(chunk["text"])) + 200 * lines
            sizes = [one["page"] for one in single["page_sizes"]]
            assert sizes == sorted({box["page"] for box in single["boxes"]})
            assert (sizes[0], sizes[-1]) == (chunk["page"], chunk["page_end"])


def test_root_node_boxes_follow_text_order(book: DocumentReader) -> None:
    leaves = [book.get(f"/nodes/{leaf['id']}") for leaf in book.leaves()]
    root = book.get(f"/nodes/{book.get('/tree', depth=0)['root']['id']}")
    assert root["boxes"] == [box for leaf in leaves for box in leaf["boxes"]]
    assert [one["page"] for one in root["page_sizes"]] == list(range(1, 9))
    assert places(book.get(f"/nodes/{root['id']}", offsets="utf16")) == places(root)
    assert not {"boxes", "page_sizes"} & book.get(f"/nodes/{leaves[0]['id']}/ancestors")["items"][0].keys()


def test_new_version_has_own_boxes_or_none(service: Service) -> None:
    tenant = service.create_tenant("versions of boxes")
    samples = ROOT / "tests" / "samples"
    for number, path in enumerate((HANDBOOK, samples / "two_columns.pdf", samples / "notes.md", HANDBOOK), 1):
        document = tenant.upload(path, external_id="e")
        assert (document["status"], document["live_version"]) == ("ready", number)
        version = DocumentReader(tenant.admin, f"{DOCUMENTS}/{document['id']}", document)
        root = version.get(f"/nodes/{version.get('/tree', depth=0)['root']['id']}")
        chunks = [version.get(f"/chunks/{chunk['id']}") for chunk in version.chunks()]
        if path.suffix == ".md":
            assert [places(root), *map(places, chunks)] == [NOTHING] * (len(chunks) + 1)
        else:
            with FITZ.open(path) as pages:
                assert [one["page"] for one in root["page_sizes"]] == list(range(1, len(pages) + 1))
            assert all(chunk["boxes"] for chunk in chunks)


def test_delete_document_deletes_boxes(service: Service) -> None:
    tenant = service.create_tenant("gone boxes")
    document = tenant.upload(HANDBOOK)

    async def rows() -> int:
        connection = await asyncpg.connect(service.urls.owner)
        try:
            counted = "select count(*) from document_page where document_id = $1"
            return int(await connection.fetchval(counted, decode_id("doc", document["id"])))
        finally:
            await connection.close()

    assert asyncio.run(rows()) == 8
    tenant.admin.delete(f"{DOCUMENTS}/{document['id']}").raise_for_status()
    assert asyncio.run(rows()) == 0
