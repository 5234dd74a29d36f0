"""Search over HTTP: the reply's shape, scopes, several knowledge bases, sources, offsets and citations."""

from pathlib import Path
from typing import Any

import pytest

from harness.running_service import Service, Tenant
from tests.api.breakable_service import BreakableService
from tests.api.problems import assert_problem
from tests.fixtures.service_warnings import warning_json

SAMPLES = Path(__file__).parents[2] / "samples"
KB_SEARCH = "/v1/knowledge-bases/default/search"
DOCUMENTS = "/v1/knowledge-bases/default/documents"


@pytest.fixture(scope="module")
def shelf(service: Service) -> Tenant:
    """A PDF handbook, a slide deck, and short texts in two knowledge bases and five scopes."""
    tenant = service.create_tenant("shelf")
    tenant.admin.post("/v1/knowledge-bases", json={"name": "faq"}).raise_for_status()
    tenant.upload(SAMPLES / "handbook.pdf")
    tenant.upload(SAMPLES / "product-tour.pptx")
    tenant.add_text("Zeppelins float over the tenant.", kb="faq", title="Airships", source_uri="https://a.example/z")
    in_chat = {"chat_id": "c", "agent_id": "a"}
    for scope in (
        *({"user_id": "u"}, {"chat_id": "c"}, in_chat, {"user_id": "u", "chat_id": "c"}, {"user_id": "u", **in_chat}),
        {"user_id": "v", "chat_id": "c"},
    ):
        tenant.add_text(f"Zeppelins float over {'-'.join(scope)}.", kb="faq", **scope)
    return tenant


def search(tenant: Tenant, path: str = "/v1/search", **body: Any) -> dict[str, Any]:
    reply = tenant.create_client("reader").post(path, json=body)
    reply.raise_for_status()
    found: dict[str, Any] = reply.json()
    return found


@pytest.mark.capability("search-reply")
def test_search_reply_has_documented_fields(shelf: Tenant) -> None:
    found = search(shelf, KB_SEARCH, query="cancellation of one-way rentals", top_k=3)
    assert set(found) == {"results", "queries", "strategy", "degraded", "warnings", "timings_ms"}
    assert found["queries"] == ["cancellation of one-way rentals"]
    assert (found["strategy"], found["warnings"]) == ("hybrid", [])
    assert found["timings_ms"]["total"] > 0
    results = found["results"]
    assert len(results) == 3
    assert [result["score"] for result in results] == sorted((result["score"] for result in results), reverse=True)
    for result in results:
        assert set(result) == {
            "score", "text", "table_head", "chunk_id", "chunk_index", "total_chunks", "document", "knowledge_base",
            "similarity", "page", "page_end", "slide", "section_titles", "node_path", "image", "metadata", "citation",
            "scores", "start", "end", "chunk_start", "chunk_end", "flags", "locator",
        }  # fmt: skip
        assert set(result["document"]) == {"id", "source", "title", "metadata", "source_uri", "source_created_at"}
        assert result["text"].strip()
        assert -1 <= result["similarity"] <= 1
        document = shelf.admin.get(f"{DOCUMENTS}/{result['document']['id']}").json()
        assert result["total_chunks"] == document["chunk_count"]
        chunks = shelf.admin.get(f"{DOCUMENTS}/{document['id']}/chunks", params={"limit": 200}).json()["items"]
        chunk = chunks[result["chunk_index"]]
        assert (result["start"], result["end"]) == (result["chunk_start"], result["chunk_end"])
        same = ("text", "table_head", "start", "end", "page", "page_end", "slide", "section_titles", "node_path")
        assert {name: chunk[name] for name in same} == {name: result[name] for name in same}
        assert chunk["id"] == result["chunk_id"]
    assert len({(result["document"]["id"], result["chunk_index"]) for result in results}) == 3


@pytest.mark.capability("search-citation")
def test_search_citations_name_pages_and_slides(shelf: Tenant) -> None:
    results = search(shelf, KB_SEARCH, query="rental vehicle product", top_k=200)["results"]
    kinds = set()
    for result in results:
        source = result["document"]["source"]
        if result["slide"] is not None:
            kinds.add("slide")
            assert result["citation"] == f"product-tour.pptx, slide {result['slide']}"
        elif result["page"] == result["page_end"]:
            kinds.add("page")
            assert result["citation"] == f"{source}, p. {result['page']}"
        else:
            kinds.add("pages")
            assert result["citation"] == f"{source}, pp. {result['page']}\u2013{result['page_end']}"
    assert {"slide", "page"} <= kinds
    assert search(shelf, query="zeppelins", knowledge_bases=["faq"])["results"][0]["citation"] == "Airships"


@pytest.mark.capability("scope-named")
@pytest.mark.parametrize(
    ("scope", "seen"),
    [
        ({}, {"tenant"}),
        ({"user_id": "u"}, {"tenant", "user_id"}),
        ({"user_id": "w"}, {"tenant"}),
        ({"user_id": "u", "chat_id": "c"}, {"tenant", "user_id", "user_id-chat_id"}),
        ({"user_id": "v", "chat_id": "c"}, {"tenant", "user_id-chat_id"}),
        ({"user_id": "w", "chat_id": "c"}, {"tenant"}),
        ({"chat_id": "c"}, {"tenant", "chat_id"}),
        ({"chat_id": "c", "agent_id": "a"}, {"tenant", "chat_id", "chat_id-agent_id"}),
        (
            {"user_id": "u", "chat_id": "c", "agent_id": "a"},
            {"tenant", "user_id", "user_id-chat_id", "user_id-chat_id-agent_id"},
        ),
    ],
)
def test_search_sees_named_scopes(shelf: Tenant, scope: dict[str, str], seen: set[str]) -> None:
    results = search(shelf, query="zeppelins float", knowledge_bases=["faq"], scope=scope, top_k=10)["results"]
    assert {result["text"].rstrip(".").rpartition(" ")[2] for result in results} == seen


@pytest.mark.capability("search-several")
def test_search_in_several_knowledge_bases_merges_results(shelf: Tenant) -> None:
    faq = shelf.admin.get("/v1/knowledge-bases/faq").json()["id"]
    for names, found in (
        (["faq"], {"faq"}),
        ([faq, "faq"], {"faq"}),
        (["default", faq], {"faq", "default"}),
        (None, {"faq", "default"}),
    ):
        results = search(shelf, query="zeppelins float over rentals", knowledge_bases=names, top_k=20)["results"]
        assert {result["knowledge_base"] for result in results} == found
        assert len({result["chunk_id"] for result in results}) == len(results)
    body = {"query": "x", "knowledge_bases": ["faq", "nothing"]}
    assert_problem(shelf.admin.post("/v1/search", json=body), 404, "knowledge_base_not_found")
    assert_problem(shelf.admin.post(KB_SEARCH, json={"query": "x", "knowledge_bases": ["faq"]}), 422)


@pytest.mark.capability("search-inputs")
def test_search_accepts_query_queries_and_messages(shelf: Tenant) -> None:
    one = search(shelf, KB_SEARCH, query="one-way rentals")["results"]
    assert search(shelf, KB_SEARCH, queries=["one-way rentals"])["results"] == one
    both = search(shelf, KB_SEARCH, query="one-way rentals", queries=["child seats"])
    assert both["queries"] == ["one-way rentals", "child seats"]
    said = search(shelf, KB_SEARCH, messages=[{"role": "user", "content": "one-way rentals"}])
    assert (said["results"], said["queries"]) == (one, ["one-way rentals"])
    assert search(shelf, KB_SEARCH, messages=[])["results"] == []
    assert_problem(shelf.admin.post(KB_SEARCH, json={"top_k": 3}), 422, "invalid")


@pytest.mark.parametrize("query", ["🍕", "…?!", "— – •"])
def test_search_query_without_terms_has_warning(shelf: Tenant, query: str) -> None:
    told = warning_json(
        "query_terms_missing", "The queries have no terms to search: stop words, signs and symbols do not count."
    )
    found = search(shelf, KB_SEARCH, query=query, strategy="lexical")
    assert (found["results"], found["warnings"]) == ([], [told])
    assert search(shelf, KB_SEARCH, query="zeppelins", strategy="lexical")["warnings"] == []
    asked = {"messages": [{"role": "user", "content": query}]}
    assert shelf.admin.post("/v1/agent-search", json=asked).status_code == 200


@pytest.mark.capability("search-threshold")
def test_search_score_threshold_cuts_by_similarity(shelf: Tenant) -> None:
    results = search(shelf, KB_SEARCH, query="one-way rentals", top_k=20)["results"]
    middle = sorted(result["similarity"] for result in results)[10]
    cut = search(shelf, KB_SEARCH, query="one-way rentals", top_k=20, score_threshold=middle)["results"]
    assert cut
    assert all(result["similarity"] >= middle for result in cut)
    lexical = search(shelf, KB_SEARCH, query="rentals", strategy="lexical", score_threshold=0.99)
    assert (lexical["results"], lexical["warnings"]) == ([], [])


@pytest.mark.capability("search-metadata")
def test_search_source_metadata_is_returned_and_filterable(tenant: Tenant) -> None:
    facts = {"source_uri": "https://wiki.example/page?x=1", "source_created_at": "2023-06-01T10:00:00+02:00"}
    tenant.add_text("Otters hold hands.", title="Otters", external_id="o", metadata={"a": 1}, **facts)
    tenant.add_text("Otters without a source.", title="Others")
    (result,) = search(tenant, query="otters", filter={"$title": "Otters"})["results"]
    shown = {"source_uri": facts["source_uri"], "source_created_at": "2023-06-01T08:00:00.000Z"}
    assert {name: result["document"][name] for name in shown} == shown
    assert result["metadata"] == result["document"]["metadata"] == {"a": 1}
    listed = tenant.admin.get(DOCUMENTS, params={"external_id": "o"}).json()["items"][0]
    assert {name: listed[name] for name in shown} == shown
    for filter_, found in (
        ({"$source_uri": facts["source_uri"]}, 1),
        ({"$source_uri": "https://wiki.example/"}, 0),
        ({"$source_created_at": {"gte": "2023-06-01T08:00:00Z"}}, 1),
        ({"$source_created_at": {"gt": "2023-06-01T08:00:00Z"}}, 0),
        ({"$source_created_at": {"lt": "2024"}}, 1),
        ({"$source_uri": {"exists": False}}, 1),
        ({"$document_id": result["document"]["id"]}, 1),
        ({"$source": "Otters"}, 1),
        ({"$media_type": "text/plain"}, 2),
        ({"$created_at": {"gte": "2020-01-01"}}, 2),
        ({"$created_at": {"lt": "2020-01-01"}}, 0),
    ):
        assert len(search(tenant, query="otters", filter=filter_)["results"]) == found, filter_


@pytest.mark.capability("filter-invalid")
def test_search_invalid_filter_is_422_with_location(shelf: Tenant) -> None:
    body = {"query": "rentals", "filter": {"or": [{"year": {"gte": "soon"}}]}}
    told = assert_problem(shelf.admin.post(KB_SEARCH, json=body), 422, "invalid")
    assert told["errors"][0]["loc"] == ["body", "filter", "or", 0, "year", "gte"]


def test_search_filters_pages_and_nodes(shelf: Tenant) -> None:
    results = search(shelf, KB_SEARCH, query="rentals", top_k=50, filter={"$page": 3})["results"]
    assert results
    assert {result["page"] for result in results} == {3}
    node = results[0]["node_path"][-1]
    found = search(shelf, KB_SEARCH, query="rentals", filter={"$node": node})["results"]
    assert results[0]["chunk_id"] in {result["chunk_id"] for result in found}


def test_search_with_unavailable_model_has_warning(fragile: BreakableService) -> None:
    tenant = fragile.service.create_tenant("search without a model")
    tenant.add_text("Pelicans fish at dawn.")
    fragile.embedding.fail(503, times=None)
    try:
        found = search(tenant, query="pelicans")
        assert [result["text"] for result in found["results"]] == ["Pelicans fish at dawn."]
        assert [warning["code"] for warning in found["warnings"]] == ["embedding_unavailable"]
        body = {"query": "pelicans", "strategy": "dense", "timeout_seconds": 2}
        assert_problem(tenant.admin.post("/v1/search", json=body), 503)
    finally:
        fragile.embedding.reset()


@pytest.mark.parametrize("seconds", [1e-9, 0.001])
def test_search_with_minimal_timeout_is_200_or_503(shelf: Tenant, seconds: float) -> None:
    reply = shelf.admin.post(KB_SEARCH, json={"query": "rentals", "timeout_seconds": seconds})
    assert reply.status_code in (200, 503)
    if reply.status_code == 503:
        assert_problem(reply, 503)
