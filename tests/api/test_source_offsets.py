"""Offsets into the text of the file over HTTP: in lists of chunks, in one chunk, in search results and in a preview."""

import time
from typing import Any

import pytest

from harness.running_service import Service, Tenant

PARAGRAPHS = [f"Paragraph {number} explains the rule w{number}e in a few words." for number in range(40)]
SOURCES = {
    "rules.txt": ("\r\n\r\n".join(PARAGRAPHS), "text/plain"),
    "rules.md": ("\r\n\r\n".join(PARAGRAPHS), "text/markdown"),
    "rules.html": ("".join(f"<p>{paragraph}</p>\n" for paragraph in PARAGRAPHS), "text/html"),
}


@pytest.fixture(scope="module")
def library(service: Service) -> Tenant:
    return service.create_tenant("library")


def upload(tenant: Tenant, name: str, *, kb: str | None = None) -> str:
    source, media_type = SOURCES[name]
    kb = kb or name.replace(".", "-")
    chunking = {"max_tokens": 64, "overlap_tokens": 0}
    tenant.admin.post("/v1/knowledge-bases", json={"name": kb, "chunking": chunking}).raise_for_status()
    files = {"file": (name, source.encode("utf-8-sig"), media_type)}
    reply = tenant.admin.post(f"/v1/knowledge-bases/{kb}/documents", files=files, params={"wait": 60})
    document: str = reply.raise_for_status().json()["id"]
    return f"/v1/knowledge-bases/{kb}/documents/{document}"


def list_chunks(tenant: Tenant, kb: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = tenant.admin.get(f"/v1/knowledge-bases/{kb}/chunks", params={"limit": 200}).json()[
        "items"
    ]
    return items


def cut(name: str, item: dict[str, Any]) -> str:
    return (
        SOURCES[name][0][item["source_start"] : item["source_end"]].replace("\r\n", "\n").replace("</p>\n<p>", "\n\n")
    )


@pytest.mark.capability("chunk-source-offsets")
@pytest.mark.parametrize("name", SOURCES)
def test_chunk_routes_of_text_show_range_of_source(library: Tenant, name: str) -> None:
    path = upload(library, name)
    chunks = library.admin.get(f"{path}/chunks", params={"limit": 200}).json()["items"]
    assert len(chunks) > 3
    for chunk in chunks:
        assert cut(name, chunk).strip("# \n") == chunk["text"]
    one = library.admin.get(f"{path}/chunks/{chunks[2]['id']}", params={"offsets": "utf16"}).json()
    assert (one["source_start"], one["source_end"]) == (chunks[2]["source_start"], chunks[2]["source_end"])


@pytest.mark.capability("chunk-source-results")
@pytest.mark.parametrize("name", SOURCES)
def test_search_result_shows_range_of_its_text_in_source(library: Tenant, name: str) -> None:
    kb = name.replace(".", "-")
    for expand in ({}, {"expand": "window", "expand_options": {"window": 1}}):
        body = {"query": "the rule w17e", "top_k": 3, **expand}
        results = library.admin.post(f"/v1/knowledge-bases/{kb}/search", json=body).raise_for_status().json()["results"]
        assert any("w17e" in result["text"] for result in results)
        for result in results:
            assert cut(name, result).strip("# \n") == result["text"]


def reindex(tenant: Tenant, kb: str) -> list[dict[str, Any]]:
    """Reindex a knowledge base with larger chunks, and return them."""
    before = list_chunks(tenant, kb)
    body = {"chunking": {"max_tokens": 128, "overlap_tokens": 0}}
    tenant.admin.post(f"/v1/knowledge-bases/{kb}/reindex", json=body).raise_for_status()
    deadline = time.monotonic() + 60
    while len(after := list_chunks(tenant, kb)) >= len(before):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return after


def test_reindex_stores_range_of_source(library: Tenant) -> None:
    assert all(cut("rules.txt", chunk) == chunk["text"] for chunk in reindex(library, "rules-txt"))


@pytest.mark.capability("chunk-source-archive")
def test_archive_has_range_of_source_and_later_reindex(library: Tenant) -> None:
    upload(library, "rules.txt", kb="before")
    archive = library.admin.get("/v1/knowledge-bases/before/export").raise_for_status().content
    library.admin.post("/v1/knowledge-bases", json={"name": "after"}).raise_for_status()
    headers = {"Content-Type": "application/x-tar"}
    library.admin.post("/v1/knowledge-bases/after/import", content=archive, headers=headers).raise_for_status()
    before, after = list_chunks(library, "before"), list_chunks(library, "after")
    names = ("text", "source_start", "source_end")
    assert [[chunk[name] for name in names] for chunk in after] == [[chunk[name] for name in names] for chunk in before]
    reindexed = reindex(library, "after")
    assert all(cut("rules.txt", chunk) == chunk["text"] for chunk in reindexed)


@pytest.mark.capability("chunk-source-preview")
def test_preview_shows_range_of_source(library: Tenant) -> None:
    source = SOURCES["rules.txt"][0]
    reply = library.admin.post("/v1/preview", files={"file": ("rules.txt", source.encode())}).raise_for_status().json()
    assert all(cut("rules.txt", chunk) == chunk["text"] for chunk in reply["chunks"])


def test_chunk_without_known_position_has_no_source_fields(library: Tenant) -> None:
    library.admin.post("/v1/knowledge-bases", json={"name": "tables"}).raise_for_status()
    document = library.admin.post(
        "/v1/knowledge-bases/tables/documents", files={"file": ("a.csv", b"Part,Price\nBolt,3\n")}, params={"wait": 60}
    ).json()["id"]
    chunks = library.admin.get(f"/v1/knowledge-bases/tables/documents/{document}/chunks").json()["items"]
    assert chunks
    assert not any(key.startswith("source") for chunk in chunks for key in chunk)
