"""Tables over HTTP: a question for a row finds its chunk first, with the names of the columns above the row."""

import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.table_files import RENDERERS
from benchmarks.table_questions import CHANNELS, QuestionSet, build_price_list, has_heads, has_row
from harness.running_service import Service, Tenant

ROWS = 24
ASKED = (0, 11, 20, 23)
HANG_SECONDS = 60
HEAD = "| Part | Description | Unit | Price EUR | Stock |\n| --- | --- | --- | --- | --- |"


@pytest.fixture(scope="module")
def questions() -> QuestionSet:
    return build_price_list(ROWS)


@pytest.fixture(scope="module")
def shop(service: Service, questions: QuestionSet, tmp_path_factory: pytest.TempPathFactory) -> Tenant:
    """A tenant with a knowledge base for each format."""
    tenant = service.create_tenant("shop")
    folder = tmp_path_factory.mktemp("shop")
    for extension, render in RENDERERS.items():
        tenant.admin.post("/v1/knowledge-bases", json={"name": extension}).raise_for_status()
        path = folder / f"table.{extension}"
        path.write_bytes(render(questions.table))
        document = tenant.upload(path, kb=extension)
        assert (document["status"], document["warnings"]) == ("ready", [])
    return tenant


def list_chunks(tenant: Tenant, kb: str) -> list[dict[str, Any]]:
    path = f"/v1/knowledge-bases/{kb}/documents/{_get_document_id(tenant, kb)}/chunks"
    items: list[dict[str, Any]] = tenant.admin.get(path, params={"limit": 200}).json()["items"]
    return items


def read_text(tenant: Tenant, kb: str) -> str:
    path = f"/v1/knowledge-bases/{kb}/documents/{_get_document_id(tenant, kb)}"
    root = list_chunks(tenant, kb)[0]["node_path"][0]
    text: str = tenant.admin.get(f"{path}/nodes/{root}").raise_for_status().json()["text"]
    return text


def search(tenant: Tenant, kb: str, query: str, **body: Any) -> list[dict[str, Any]]:
    reply = tenant.admin.post(f"/v1/knowledge-bases/{kb}/search", json={"query": query, **body})
    results: list[dict[str, Any]] = reply.raise_for_status().json()["results"]
    return results


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("extension", RENDERERS)
def test_question_for_row_finds_its_chunk_first(
    shop: Tenant, questions: QuestionSet, extension: str, channel: str
) -> None:
    for number in ASKED:
        row = questions.table.rows[number]
        passage = CHANNELS[channel](shop.admin, extension, questions.questions[number])
        assert has_row(passage, row), passage
        assert has_heads(passage, questions.table, row), passage


@pytest.mark.parametrize("extension", RENDERERS)
def test_chunks_and_results_mark_repeated_head(shop: Tenant, extension: str) -> None:
    chunks, text = list_chunks(shop, extension), read_text(shop, extension)
    assert len(chunks) == ROWS
    assert chunks[0]["table_head"] is None
    for chunk in chunks[1:]:
        assert chunk["table_head"].endswith(HEAD)
        assert chunk["text"] == f"{chunk['table_head']}\n{text[chunk['start'] : chunk['end']]}"
        one = shop.admin.get(
            f"/v1/knowledge-bases/{extension}/documents/{_get_document_id(shop, extension)}/chunks/{chunk['id']}"
        ).json()
        assert (one["text"], one["table_head"]) == (chunk["text"], chunk["table_head"])
    by_id = {chunk["id"]: chunk for chunk in chunks}
    for result in search(shop, extension, "Hinge brass", top_k=10):
        chunk = by_id[result["chunk_id"]]
        assert {name: result[name] for name in ("text", "table_head", "start", "end")} == {
            name: chunk[name] for name in ("text", "table_head", "start", "end")
        }


def test_mcp_and_dify_mark_repeated_head(shop: Tenant) -> None:
    body = {"knowledge_id": "md", "query": "P-0012", "retrieval_setting": {"top_k": 1, "score_threshold": 0.0}}
    (record,) = shop.admin.post("/dify/retrieval", json=body).raise_for_status().json()["records"]
    assert record["metadata"]["table_head"] == HEAD
    assert record["content"].startswith(f"{HEAD}\n| P-0012 |")
    call = {"name": "search_knowledge", "arguments": {"query": "P-0012", "knowledge_bases": ["md"]}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    reply = shop.admin.post("/mcp", json=message, headers=headers).raise_for_status().json()
    first = reply["result"]["structuredContent"]["results"][0]
    assert (first["table_head"], first["text"]) == (HEAD, record["content"])


@pytest.mark.parametrize("expand", ["window", "section", "parent"])
def test_expanded_text_repeats_head_once(shop: Tenant, expand: str) -> None:
    options = {"window": 2} if expand == "window" else {"max_characters": 300}
    (result,) = search(shop, "md", "P-0012", top_k=1, strategy="lexical", expand=expand, expand_options=options)
    text = read_text(shop, "md")
    assert result["text"].count(HEAD) == 1
    assert result["table_head"] == HEAD
    assert result["text"] == f"{HEAD}\n{text[result['start'] : result['end']]}"
    assert text[result["start"] :].startswith("| P-")
    assert "| P-0011 |" in result["text"]
    assert "| P-0013 |" in result["text"]


def test_expanded_text_of_whole_table_repeats_no_head(shop: Tenant) -> None:
    (result,) = search(shop, "md", "P-0012", top_k=1, strategy="lexical", expand="section")
    assert result["table_head"] is None
    assert result["text"].count(HEAD) == 1
    assert len(result["text"]) == result["end"] - result["start"]


def test_export_and_import_preserve_heads(shop: Tenant, service: Service) -> None:
    archive = shop.admin.get("/v1/knowledge-bases/docx/export").content
    other = service.create_tenant("other-shop")
    reply = other.admin.post(
        "/v1/knowledge-bases/default/import", content=archive, headers={"Content-Type": "application/x-tar"}
    )
    assert reply.json()["documents"] == 1, reply.text
    names = ("text", "table_head", "start", "end", "tokens")
    expected = [{name: chunk[name] for name in names} for chunk in list_chunks(shop, "docx")]
    assert [{name: chunk[name] for name in names} for chunk in list_chunks(other, "default")] == expected


def test_preview_shows_heads_like_stored_chunks(shop: Tenant, questions: QuestionSet, tmp_path: Path) -> None:
    path = tmp_path / "table.html"
    path.write_bytes(RENDERERS["html"](questions.table))
    with path.open("rb") as file:
        preview = shop.admin.post("/v1/preview", files={"file": (path.name, file)}).raise_for_status().json()
    names = ("text", "table_head", "start", "end", "tokens")
    expected = [{name: chunk[name] for name in names} for chunk in list_chunks(shop, "html")]
    assert [{name: chunk[name] for name in names} for chunk in preview["chunks"]] == expected


def test_reindex_cuts_table_the_same_way(shop: Tenant) -> None:
    before = list_chunks(shop, "pdf")
    shop.admin.post("/v1/knowledge-bases/pdf/reindex", json={}).raise_for_status()
    deadline = time.monotonic() + HANG_SECONDS
    while shop.admin.get("/v1/knowledge-bases/pdf").json()["reindex"] is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert [chunk["text"] for chunk in list_chunks(shop, "pdf")] == [chunk["text"] for chunk in before]


def test_file_name_finds_document_with_title(service: Service, tmp_path: Path) -> None:
    tenant = service.create_tenant("names")
    for name, title in (("price-list_2024.md", "Our offer"), ("holiday-plan.md", "Our summer")):
        path = tmp_path / name
        path.write_text(f"# {title}\n\nEverything is written below.\n")
        assert tenant.upload(path, title=title)["status"] == "ready"
    for query, expected in (("price list 2024", "Our offer"), ("holiday plan", "Our summer")):
        results = search(tenant, "default", query, strategy="lexical")
        assert [result["document"]["title"] for result in results] == [expected]


def _get_document_id(tenant: Tenant, kb: str) -> str:
    (document,) = tenant.admin.get(f"/v1/knowledge-bases/{kb}/documents").json()["items"]
    document_id: str = document["id"]
    return document_id
