"""``locator`` of results, chunks and sources of answers: page, lines, sheet, rows, sections and web address."""

import io
from itertools import pairwise
from typing import Any

import pytest
import xlsxwriter  # type: ignore[import-untyped]  # xlsxwriter ships no types

from harness.running_service import Service, Tenant

PARTS = [f"Bolt M{number} of hardened steel for the chassis of the van" for number in range(1, 61)]
LINES = ["# Rules", "", "The first rule.", "It has two lines.", "", "", "## Ferries", "", "The ferry leaves at nine."]
CODE = "import os\n\n\ndef sail(ferry: str) -> str:\n    return os.path.join(ferry, 'harbour')\n\n\nFERRY = 'Ada'\n"


def build_workbook() -> bytes:
    """Build a workbook whose second sheet has two blank rows, a header and a row for each part."""
    file = io.BytesIO()
    with xlsxwriter.Workbook(file) as book:
        book.add_worksheet("Notes").write_row(0, 0, ["The parts are on the next sheet."])
        sheet = book.add_worksheet("Parts")
        sheet.write_row(2, 0, ["Part", "Price EUR"])
        for number, part in enumerate(PARTS):
            sheet.write_row(3 + number, 0, [part, number])
    return file.getvalue()


@pytest.fixture(scope="module")
def library(service: Service) -> Tenant:
    return service.create_tenant("locating")


def upload(tenant: Tenant, kb: str, name: str, data: bytes, **fields: str) -> str:
    chunking = {"max_tokens": 100, "overlap_tokens": 0}
    tenant.admin.post("/v1/knowledge-bases", json={"name": kb, "chunking": chunking}).raise_for_status()
    path = f"/v1/knowledge-bases/{kb}/documents"
    reply = tenant.admin.post(path, files={"file": (name, data)}, data=fields, params={"wait": 60})
    document: str = reply.raise_for_status().json()["id"]
    return f"{path}/{document}"


def search(tenant: Tenant, kb: str, query: str, **body: Any) -> list[dict[str, Any]]:
    reply = tenant.admin.post(f"/v1/knowledge-bases/{kb}/search", json={"query": query, **body})
    results: list[dict[str, Any]] = reply.raise_for_status().json()["results"]
    return results


def list_chunks(tenant: Tenant, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = tenant.admin.get(f"{path}/chunks", params={"limit": 200}).json()["items"]
    return items


def check_rows(items: list[dict[str, Any]], first_row: int) -> None:
    """Check that each text has exactly the parts of its rows."""
    assert any("rows" in item["locator"] for item in items)
    for item in items:
        if "rows" in item["locator"]:
            first, last = item["locator"]["rows"]
            shown = [number for number, part in enumerate(PARTS, start=first_row) if part in item["text"]]
            assert (shown[0], shown[-1]) == (first, last)


@pytest.mark.capability("search-locator")
def test_locator_of_sheet_has_name_and_rows(library: Tenant) -> None:
    path = upload(library, "workbook", "parts.xlsx", build_workbook())
    results = search(library, "workbook", "Bolt M17", top_k=20)
    parts = [result for result in results if "Bolt" in result["text"]]
    check_rows(parts, 4)
    assert {result["locator"]["sheet"] for result in parts} == {"Parts"}
    for result in parts:
        first, last = result["locator"]["rows"]
        shown = f"row {first}" if first == last else f"rows {first}\u2013{last}"
        assert result["citation"] == f"parts.xlsx \u203a Parts, {shown}"
    chunks = list_chunks(library, path)
    rows = [chunk["locator"]["rows"] for chunk in chunks if "Bolt" in chunk["text"]]
    assert (rows[0][0], rows[-1][1]) == (4, 63)
    assert all(before[1] + 1 == after[0] for before, after in pairwise(rows))
    check_rows(search(library, "workbook", "Bolt M17", expand="window"), 4)


def test_locator_of_csv_has_rows_and_no_sheet(library: Tenant) -> None:
    rows = "".join(f"{part},{number}\n" for number, part in enumerate(PARTS))
    path = upload(library, "csv", "parts.csv", f"Part,Price EUR\n{rows}".encode())
    check_rows(list_chunks(library, path), 2)
    assert not any("sheet" in chunk["locator"] or "lines" in chunk["locator"] for chunk in list_chunks(library, path))


@pytest.mark.parametrize("name", ["rules.md", "rules.txt"])
@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_locator_of_text_has_lines(library: Tenant, name: str, line_break: str) -> None:
    kb = f"{name.replace('.', '-')}-{len(line_break)}"
    path = upload(library, kb, name, line_break.join(LINES).encode())
    for item in [*list_chunks(library, path), *search(library, kb, "ferry rules", expand="section")]:
        first, last = item["locator"]["lines"]
        assert LINES[first - 1].strip("# ") in item["text"]
        assert LINES[last - 1].strip("# ") in item["text"]
        assert item["text"].startswith(LINES[first - 1].strip("# ")) or item["text"].startswith(LINES[first - 1])
        assert item["text"].endswith(LINES[last - 1].strip("# "))


def test_locator_of_source_code_has_lines(library: Tenant) -> None:
    path = upload(library, "code", "sail.py", CODE.encode())
    (chunk,) = list_chunks(library, path)
    assert chunk["locator"]["lines"] == [1, 8]


def test_locator_of_web_page_has_address_and_sections(library: Tenant) -> None:
    page = b"<h1>Fleet</h1><p>We own vans.</p><h2>Vans</h2><p>The vans are blue.</p>"
    upload(library, "page", "fleet.html", page, source_uri="https://example.com/fleet")
    for result in search(library, "page", "blue vans"):
        assert result["citation"] == "https://example.com/fleet"
        assert result["locator"] == {"section_path": result["section_titles"], "url": "https://example.com/fleet"}
    upload(library, "file", "fleet.html", page)
    assert not any("url" in result["locator"] for result in search(library, "file", "blue vans"))


def test_locator_of_pages_and_provided_chunks(library: Tenant) -> None:
    library.admin.post("/v1/knowledge-bases", json={"name": "own"}).raise_for_status()
    chunks = [{"text": "The ferry leaves at nine.", "page": 3}]
    body = {"chunks": chunks, "title": "Timetable"}
    reply = library.admin.post("/v1/knowledge-bases/own/documents", json=body, params={"wait": 60})
    reply.raise_for_status()
    (result,) = search(library, "own", "ferry")
    assert result["locator"] == {"page": 3, "page_end": 3}
    chunk = library.admin.get(f"/v1/chunks/{result['chunk_id']}").json()
    assert chunk["locator"] == result["locator"]


def test_archive_has_rows_and_lines(library: Tenant) -> None:
    path = upload(library, "before", "rules.md", "\n".join(LINES).encode())
    archive = library.admin.get("/v1/knowledge-bases/before/export").raise_for_status().content
    library.admin.post("/v1/knowledge-bases", json={"name": "after"}).raise_for_status()
    headers = {"Content-Type": "application/x-tar"}
    library.admin.post("/v1/knowledge-bases/after/import", content=archive, headers=headers).raise_for_status()
    listed = library.admin.get("/v1/knowledge-bases/after/chunks", params={"limit": 200}).json()["items"]
    assert [chunk["locator"] for chunk in listed] == [chunk["locator"] for chunk in list_chunks(library, path)]
    assert all("lines" in chunk["locator"] for chunk in listed)
