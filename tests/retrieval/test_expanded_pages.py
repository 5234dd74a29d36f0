"""Pages and citation of expanded results, and the page as the section of files without headings."""

from pathlib import Path
from typing import Any

import pymupdf
import pytest

from harness.running_service import Service, Tenant

PAGES = 5
WORDS = ("amber", "birch", "cedar", "damson", "elder")


def build_pdf(path: Path, *, headings: bool) -> Path:
    """Write a PDF with six paragraphs a page; chapters begin on the pages 1 and 4 if it has headings."""
    with pymupdf.open() as document:  # type: ignore[no-untyped-call]  # PyMuPDF ships no types
        for number, word in enumerate(WORDS):
            page = document.new_page()
            if headings and number in (0, 3):
                page.insert_text((72, 60), f"Chapter of {word}", fontsize=22, fontname="hebo")
            for row in range(6):
                text = f"Paragraph {row} of page {number + 1} describes the {word} tree, its leaves and its fruit."
                page.insert_text((72, 110 + 90 * row), text, fontsize=10)
        document.save(path)
    return path


@pytest.fixture(scope="module")
def trees(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Tenant:
    tenant = service.create_tenant("trees")
    folder = tmp_path_factory.mktemp("trees")
    for kb, headings in (("chapters", True), ("plain", False)):
        body = {"name": kb, "chunking": {"strategy": "recursive", "max_tokens": 40, "overlap_tokens": 0}}
        tenant.admin.post("/v1/knowledge-bases", json=body).raise_for_status()
        assert tenant.upload(build_pdf(folder / f"{kb}.pdf", headings=headings), kb=kb)["status"] == "ready"
    return tenant


def search(tenant: Tenant, kb: str, word: str, **body: Any) -> dict[str, Any]:
    request = {"query": word, "strategy": "lexical", "top_k": 1, **body}
    reply = tenant.admin.post(f"/v1/knowledge-bases/{kb}/search", json=request).raise_for_status().json()
    result: dict[str, Any] = reply["results"][0]
    return result


def pages_of(text: str) -> tuple[int, int]:
    numbers = [number for number in range(1, PAGES + 1) if f"of page {number} describes" in text]
    return numbers[0], numbers[-1]


@pytest.mark.capability("expand-pages")
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("kb", ["chapters", "plain"])
@pytest.mark.parametrize(
    "body",
    [
        {"expand": "none"},
        {"expand": "window", "expand_options": {"window": 1}},
        {"expand": "window", "expand_options": {"window": 8}},
        {"expand": "section"},
        {"expand": "parent"},
        {"expand": "parent", "expand_options": {"merge": 0.01}, "top_k": 10},
    ],
)
def test_pages_and_citation_are_those_of_expanded_text(trees: Tenant, kb: str, word: str, body: dict[str, Any]) -> None:
    result = search(trees, kb, word, **body)
    first, last = pages_of(result["text"])
    assert (result["page"], result["page_end"]) == (first, last)
    shown = f"p. {first}" if first == last else f"pp. {first}\u2013{last}"
    assert result["citation"] == f"{kb}.pdf, {shown}"


def test_section_is_the_chapter_or_without_headings_the_page(trees: Tenant) -> None:
    assert pages_of(search(trees, "chapters", "birch", expand="section")["text"]) == (1, 3)
    assert pages_of(search(trees, "chapters", "elder", expand="section")["text"]) == (4, 5)
    result = search(trees, "plain", "birch", expand="section")
    assert pages_of(result["text"]) == (2, 2)
    assert all(f"Paragraph {row} of page 2" in result["text"] for row in range(6))


def test_cut_section_has_pages_of_its_part(trees: Tenant) -> None:
    result = search(trees, "chapters", "amber", expand="section", expand_options={"max_characters": 300})
    assert (result["page"], result["page_end"]) == (1, 1)
