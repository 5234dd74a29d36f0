"""Expansion of results over HTTP: window, section, parent; and hits with the same expanded text."""

from typing import Any

import pytest

from harness.running_service import Service, Tenant
from tests.retrieval.conftest import post_text, settle

KB = "/v1/knowledge-bases/small"
TOPICS = ("lantern", "ferry", "orchard", "saddle")
PARAGRAPHS = 6


def section(topic: str) -> str:
    lines = [
        f"Paragraph number {number} tells of the {topic}, of nothing else, and ends." for number in range(PARAGRAPHS)
    ]
    return "\n\n".join([f"## The {topic}", *lines])


@pytest.fixture(scope="module")
def book(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Tenant:
    """A book of four sections, in which each paragraph is a passage, and a short text."""
    tenant = service.create_tenant("book")
    kb = {"name": "small", "chunking": {"strategy": "recursive", "max_tokens": 20, "overlap_tokens": 0}}
    tenant.admin.post("/v1/knowledge-bases", json=kb).raise_for_status()
    path = tmp_path_factory.mktemp("book") / "book.md"
    path.write_text("\n\n".join(["# The book", "An introduction.", *map(section, TOPICS)]))
    assert tenant.upload(path, kb="small")["status"] == "ready"
    return tenant


def search(tenant: Tenant, query: str = "lantern", **body: Any) -> list[dict[str, Any]]:
    reply = tenant.admin.post(f"{KB}/search", json={"query": query, **body})
    assert reply.status_code == 200, reply.text
    answer = reply.json()
    assert answer["warnings"] == []
    results: list[dict[str, Any]] = answer["results"]
    return results


def passages(tenant: Tenant, document: str) -> list[dict[str, Any]]:
    reply = tenant.admin.get(f"{KB}/documents/{document}/chunks", params={"limit": 200})
    items: list[dict[str, Any]] = reply.json()["items"]
    return items


def check(result: dict[str, Any], chunks: list[dict[str, Any]]) -> None:
    """Check that the result names its chunk, and that the chunk's text is at its offsets."""
    chunk = chunks[result["chunk_index"]]
    assert (result["chunk_start"], result["chunk_end"]) == (chunk["start"], chunk["end"])
    assert result["chunk_id"] == chunk["id"]
    assert result["start"] <= chunk["start"] < chunk["end"] <= result["end"]
    assert len(result["text"]) == result["end"] - result["start"]
    begins = chunk["start"] - result["start"]
    assert result["text"][begins:].startswith(chunk["text"])


@pytest.mark.capability("expand-window")
@pytest.mark.parametrize("window", [1, 3])
def test_expand_window_has_neighbours_without_repetition(book: Tenant, window: int) -> None:
    plain = search(book, top_k=PARAGRAPHS)
    wide = search(book, top_k=PARAGRAPHS, expand="window", expand_options={"window": window})
    assert [result["chunk_id"] for result in wide] == [result["chunk_id"] for result in plain]
    chunks = passages(book, wide[0]["document"]["id"])
    for result in wide:
        check(result, chunks)
        near = chunks[max(0, result["chunk_index"] - window) : result["chunk_index"] + window + 1]
        assert (result["start"], result["end"]) == (near[0]["start"], near[-1]["end"])
        for one in near:
            assert result["text"].count(one["text"]) == 1


def test_expand_window_ends_at_document_boundaries(book: Tenant) -> None:
    (first,) = search(book, "introduction", top_k=1, strategy="lexical", expand="window")
    assert first["start"] == 0
    chunks = passages(book, first["document"]["id"])
    (last,) = search(book, "saddle number 5", top_k=1, expand="window", expand_options={"window": 10})
    assert last["end"] == chunks[-1]["end"]


@pytest.mark.capability("expand-section")
def test_expand_section_appears_once_and_complete(book: Tenant) -> None:
    results = search(book, top_k=3, expand="section", strategy="lexical")
    (only,) = results
    check(only, passages(book, only["document"]["id"]))
    assert only["text"] == section("lantern").removeprefix("## ")
    (plain,) = search(book, top_k=1, strategy="lexical")
    assert {name: only[name] for name in ("score", "chunk_id")} == {name: plain[name] for name in ("score", "chunk_id")}


def test_expand_top_k_counts_merged_results(book: Tenant) -> None:
    for expand in ("section", "parent"):
        results = search(book, "paragraph that ends", top_k=3, expand=expand)
        assert len(results) == 3
        assert len({(result["start"], result["end"]) for result in results}) == 3
        scores = [result["score"] for result in results]
        assert scores == sorted(scores, reverse=True)
    everything = search(book, "paragraph that ends", top_k=50, expand="section")
    assert {r["section_titles"][-1] for r in everything} >= {f"The {topic}" for topic in TOPICS}


@pytest.mark.capability("expand-parent")
def test_expand_parent_merges_passages_of_one_parent(book: Tenant) -> None:
    (only,) = search(book, top_k=5, strategy="lexical", expand="parent")
    assert only["text"] == section("lantern").removeprefix("## ")


@pytest.mark.capability("expand-limit")
@pytest.mark.parametrize("expand", ["window", "section", "parent"])
def test_expand_text_is_limited_and_contains_passage(book: Tenant, expand: str) -> None:
    options = {"max_characters": 150, "window": 5}
    results = search(book, top_k=PARAGRAPHS, expand=expand, expand_options=options, strategy="lexical")
    assert len(results) >= 4
    for result in results:
        check(result, passages(book, result["document"]["id"]))
        assert len(result["text"]) == 150


def test_expand_never_cuts_the_passage(book: Tenant) -> None:
    text = "lighthouse " * 15
    assert book.add_text(text, kb="small")["status"] == "ready"
    (result,) = search(book, "lighthouse", top_k=1, expand="section", expand_options={"max_characters": 100})
    assert result["chunk_end"] - result["chunk_start"] <= len(result["text"])
    check(result, passages(book, result["document"]["id"]))


@pytest.mark.parametrize("expand", ["window", "section", "parent"])
def test_expand_limit_counts_characters(tenant: Tenant, expand: str) -> None:
    kb = {"name": "small", "chunking": {"strategy": "recursive", "max_tokens": 16, "overlap_tokens": 4}}
    tenant.admin.post("/v1/knowledge-bases", json=kb).raise_for_status()
    lines = [f"Größe \U0001f600 Nummer {number}: Änderungen fürs Öl — naïve café." for number in range(12)]
    document = tenant.add_text("\n\n".join(lines), kb="small")
    chunks = passages(tenant, document["id"])
    for result in search(tenant, "Änderungen", top_k=12, expand=expand, expand_options={"max_characters": 200}):
        check(result, chunks)


def test_expand_uses_version_of_the_hit(tenant: Tenant) -> None:
    kb = {"name": "small", "chunking": {"strategy": "recursive", "max_tokens": 16, "overlap_tokens": 0}}
    tenant.admin.post("/v1/knowledge-bases", json=kb).raise_for_status()
    for word in ("old", "new"):
        lines = [f"The harbor is {word} in line {number}, and quite far away." for number in range(8)]
        tenant.add_text("\n\n".join(lines), kb="small", external_id="one")
        for result in search(tenant, "harbor", top_k=8, expand="window"):
            assert {"old", "new"} & set(result["text"].split()) == {word}


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({"expand": "all"}, ["body", "expand"]),
        ({"expand": None}, ["body", "expand"]),
        ({"expand_options": {"window": 0}}, ["body", "expand_options", "window"]),
        ({"expand_options": {"window": 11}}, ["body", "expand_options", "window"]),
        ({"expand_options": {"max_characters": 99}}, ["body", "expand_options", "max_characters"]),
        ({"expand_options": {"max_characters": 100_001}}, ["body", "expand_options", "max_characters"]),
        ({"expand_options": {"width": 1}}, ["body", "expand_options", "width"]),
        ({"exclude_dynamic": "maybe"}, ["body", "exclude_dynamic"]),
        ({"return_vectors": "maybe"}, ["body", "return_vectors"]),
        ({"explain": "maybe"}, ["body", "explain"]),
        ({"top_k": 501}, ["body", "top_k"]),
        ({"score_threshold": 1.5}, ["body", "score_threshold"]),
    ],
    ids=str,
)
def test_expand_invalid_options_are_422_with_location(book: Tenant, body: dict[str, Any], loc: list[str]) -> None:
    reply = book.admin.post(f"{KB}/search", json={"query": "lantern", **body})
    assert (reply.status_code, reply.json()["errors"][0]["loc"]) == (422, loc)


@pytest.mark.capability("search-exclude-dynamic")
def test_exclude_dynamic_leaves_out_dynamic_documents(tenant: Tenant) -> None:
    post_text(tenant, "the harbor stays")
    post_text(tenant, "the harbor of today", dynamic=True)
    post_text(tenant, "the harbor of tomorrow", dynamic=True, metadata={"kind": "note"})
    settle(tenant)
    path = "/v1/knowledge-bases/default/search"
    for strategy in ("dense", "lexical", "hybrid"):
        for body, texts in (
            ({}, {"the harbor stays", "the harbor of today", "the harbor of tomorrow"}),
            ({"exclude_dynamic": True}, {"the harbor stays"}),
            ({"exclude_dynamic": True, "filter": {"kind": "note"}}, set()),
            ({"filter": {"$dynamic": True}}, {"the harbor of today", "the harbor of tomorrow"}),
        ):
            reply = tenant.admin.post(path, json={"query": "harbor", "strategy": strategy, **body}).json()
            assert {result["text"] for result in reply["results"]} == texts, (strategy, body)
            assert all("$dynamic" not in result["metadata"] for result in reply["results"])
    explained = tenant.admin.post(path, json={"query": "harbor", "exclude_dynamic": True, "explain": True}).json()
    assert explained["explain"]["knowledge_bases"][0]["filter"] == {"$dynamic": {"exists": False}}
