"""Option ``pages`` of every chunker over HTTP, also of the chunker of a plugin: no chunk crosses a page."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymupdf
import pytest

from app.ingestion.chunkers import CHUNKERS
from app.ingestion.chunkers.registry import load_chunkers
from harness.databases import DatabaseFactory
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.problems import assert_problem
from tests.fixtures.plugins import Plugins

ROUTE = "/v1/knowledge-bases"
PAGES = 4
HEADING = "Trees of the valley"
# Chunks of three paragraphs that overlap by one, and that cross pages.
SOURCE = """
from carrel.plugins.chunkers import BlockKind, ChunkerOutput, ChunkerSpec, build_drafts, collect_leaves
from pydantic import BaseModel

class Options(BaseModel, extra="forbid"):
    size: int = 3

def chunk(tree, sizes, options, tools):
    leaves = collect_leaves(tree.root)
    groups = [leaves[start : start + options.size] for start in range(0, len(leaves), options.size - 1)]
    return ChunkerOutput(build_drafts(tree, [(group[0].start, group[-1].end) for group in groups if group]))

CHUNKER = ChunkerSpec("trios", "Chunks of three paragraphs.", Options, chunk)
"""
OWN = SOURCE.replace("size: int = 3", "size: int = 3\n    pages: bool = False").replace('"trios"', '"own"')


@pytest.fixture(scope="module")
def service(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Service that starts with the chunkers of two plugins."""
    installed = Plugins(tmp_path_factory.mktemp("plugins"))
    installed.add("carrel_trios", SOURCE, chunkers={"trios": "carrel_trios:CHUNKER"})
    installed.add("carrel_own_pages", OWN, chunkers={"own": "carrel_own_pages:CHUNKER"})
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(installed.folder)
        load_chunkers.cache_clear()
        with run_service(build_settings(tmp_path_factory.mktemp("pages")), make_database()) as running:
            yield running
    load_chunkers.cache_clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a PDF without headings, and one with a heading over all pages."""
    made = tmp_path_factory.mktemp("trees")
    for name in ("plain", "chapter"):
        with pymupdf.open() as document:  # type: ignore[no-untyped-call]  # PyMuPDF ships no types
            for number in range(1, PAGES + 1):
                page = document.new_page()
                if name == "chapter" and number == 1:
                    page.insert_text((72, 60), HEADING, fontsize=24, fontname="hebo")
                for row in range(4):
                    text = f"Paragraph {row} of page {number} is about tree {row}. It grows in the valley."
                    page.insert_text((72, 130 + 120 * row), text, fontsize=10)
            document.save(made / f"{name}.pdf")
    return made


@pytest.fixture(scope="module")
def reader(service: Service) -> Tenant:
    return service.create_tenant("pages")


def chunk_file(tenant: Tenant, file: Path, strategy: str, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Ingest a file in a new knowledge base, and return its chunks."""
    name = f"kb{len(tenant.admin.get(ROUTE, params={'limit': 200}).json()['items'])}"
    chunking = {"strategy": strategy, "max_tokens": 100, "overlap_tokens": 0, "options": options}
    made = tenant.admin.post(ROUTE, json={"name": name, "chunking": chunking})
    assert made.status_code == 201, made.text
    assert made.json()["chunking"].get("options", {}).get("pages") == options.get("pages")
    document = tenant.upload(file, kb=name)
    assert document["status"] == "ready", document
    reply = tenant.admin.get(f"{ROUTE}/{name}/documents/{document['id']}/chunks", params={"limit": 200})
    found: list[dict[str, Any]] = reply.json()["items"]
    return found


def count_crossing(chunks: list[dict[str, Any]]) -> int:
    return sum(chunk["page"] != chunk["page_end"] for chunk in chunks)


def find_lost_paragraphs(chunks: list[dict[str, Any]]) -> list[str]:
    wanted = [f"Paragraph {row} of page {page} is about" for page in range(1, PAGES + 1) for row in range(4)]
    texts = " ".join(" ".join(chunk["text"].split()) for chunk in chunks)
    return [text for text in wanted if text not in texts]


@pytest.mark.parametrize("strategy", [*CHUNKERS, "trios"])
@pytest.mark.parametrize(("file", "options"), [("plain", {}), ("plain", {"pages": True}), ("chapter", {"pages": True})])
def test_no_chunk_crosses_a_page(
    reader: Tenant, folder: Path, strategy: str, file: str, options: dict[str, Any]
) -> None:
    chunks = chunk_file(reader, folder / f"{file}.pdf", strategy, options)
    assert count_crossing(chunks) == 0
    assert {chunk["page"] for chunk in chunks} == set(range(1, PAGES + 1))
    assert find_lost_paragraphs(chunks) == []
    for chunk in chunks:  # the text is that of its page too
        assert set(re.findall(r"of page (\d)", chunk["text"])) <= {str(chunk["page"])}
    if file == "chapter":
        assert {tuple(chunk["section_titles"]) for chunk in chunks if chunk["page"] > 1} == {(HEADING,)}


@pytest.mark.parametrize("strategy", [name for name in (*CHUNKERS, "trios") if name not in ("sentence", "semantic")])
@pytest.mark.parametrize(("file", "options"), [("plain", {"pages": False}), ("chapter", {})])
def test_chunks_cross_pages_if_allowed(
    reader: Tenant, folder: Path, strategy: str, file: str, options: dict[str, Any]
) -> None:
    chunks = chunk_file(reader, folder / f"{file}.pdf", strategy, options)
    assert count_crossing(chunks) > 0
    assert find_lost_paragraphs(chunks) == []


def test_plugin_chunker_that_declares_pages_applies_it_by_itself(reader: Tenant, folder: Path) -> None:
    assert count_crossing(chunk_file(reader, folder / "plain.pdf", "own", {"pages": True})) > 0


def test_pages_of_plugin_chunker_is_checked_and_listed(reader: Tenant) -> None:
    chunking = {"strategy": "trios", "options": {"pages": "some"}}
    problem = assert_problem(reader.admin.post(ROUTE, json={"name": "k", "chunking": chunking}), 422, "invalid")
    assert problem["errors"][0]["loc"] == ["body", "chunking", "options", "pages"]
    chunking = {"strategy": "trios", "options": {"sizes": 1}}
    problem = assert_problem(reader.admin.post(ROUTE, json={"name": "k", "chunking": chunking}), 422, "invalid")
    assert "Choose one of: size, pages." in problem["errors"][0]["msg"]
    listed = {one["name"]: one["options"] for one in reader.admin.get("/v1/capabilities").json()["chunkers"]}
    options = listed["trios"]["properties"]["options"]["properties"]
    assert options.keys() == {"size", "pages"}
    assert options["pages"] == listed["headered"]["properties"]["options"]["properties"]["pages"]


def test_search_finds_chunk_of_plugin_with_its_page(reader: Tenant, folder: Path) -> None:
    reader.admin.post(ROUTE, json={"name": "trios", "chunking": {"strategy": "trios"}}).raise_for_status()
    reader.upload(folder / "plain.pdf", kb="trios")
    body = {"query": "paragraph 3 of page 2 tree 3", "strategy": "lexical", "top_k": 50}
    hits = reader.admin.post(f"{ROUTE}/trios/search", json=body).json()["results"]
    assert {hit["citation"] for hit in hits} == {f"plain.pdf, p. {page}" for page in range(1, PAGES + 1)}
