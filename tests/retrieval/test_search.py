"""Search over HTTP: options, ties, reserved names in filters, several queries and knowledge bases, unusual queries."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.inference.embedding.local_models import DEFAULT_MODEL
from app.inference.embedding.search_defaults import get_search_defaults
from app.retrieval.plan import QUERY_TRUNCATED
from harness.running_service import Tenant
from tests.fixtures.service_warnings import warning_json
from tests.retrieval.conftest import Corpus, ask, ids_of, post_text, results_of, settle

HANDBOOK = Path(__file__).parents[2] / "samples" / "handbook.pdf"


def refusal(client: httpx2.Client, **body: Any) -> dict[str, Any]:
    reply = client.post("/v1/knowledge-bases/default/search", json={"query": "a question", **body})
    assert reply.status_code == 422, reply.text
    problem: dict[str, Any] = reply.json()
    return problem


@pytest.mark.capability("search-unknown-name")
def test_search_unknown_strategy_lists_names(tenant: Tenant) -> None:
    problem = refusal(tenant.admin, strategy="magic")
    assert problem["errors"][0]["loc"] == ["body", "strategy"]
    assert all(name in problem["detail"] for name in ("'magic'", "hybrid", "dense", "lexical"))
    assert "simple" not in problem["detail"]


@pytest.mark.capability("dense-alias")
def test_search_strategy_alias_simple_is_stored_as_dense(tenant: Tenant) -> None:
    searched = tenant.admin.post("/v1/knowledge-bases/default/search", json={"query": "x", "strategy": "simple"})
    assert (searched.status_code, searched.json()["strategy"]) == (200, "dense")
    settings = {"name": "aliased", "retrieval": {"strategy": "simple", "top_k": 3}}
    created = tenant.admin.post("/v1/knowledge-bases", json=settings)
    assert (created.status_code, created.json()["retrieval"]) == (201, {"strategy": "dense", "top_k": 3})
    binding = {"knowledge_bases": ["aliased"], "strategy": "simple"}
    bound = tenant.admin.put("/v1/agents/alias_agent", json=binding)
    assert (bound.status_code, bound.json()["strategy"]) == (201, "dense"), bound.text


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("hybrid", {"weight": 0.5}),
        ("hybrid", {"dense_weight": 1.5}),
        ("hybrid", {"dense_weight": "much"}),
        ("hybrid", {"fusion": "sum"}),
        ("hybrid", {"rrf_k": 0}),
        ("dense", {"dense_weight": 0.5}),
        ("lexical", {"k1": 1.5}),
    ],
)
def test_search_invalid_options_are_422_with_location(tenant: Tenant, strategy: str, options: dict[str, Any]) -> None:
    problem = refusal(tenant.admin, strategy=strategy, strategy_options=options)
    assert problem["errors"][0]["loc"] == ["body", "strategy_options", *options]


@pytest.mark.capability("strategy-stored")
def test_search_uses_strategy_of_knowledge_base(tenant: Tenant) -> None:
    kb = {"name": "words", "retrieval": {"strategy": "lexical", "top_k": 2}}
    tenant.admin.post("/v1/knowledge-bases", json=kb).raise_for_status()
    for number in range(3):
        tenant.add_text(f"a harbor and number {number}", kb="words")
    answer = tenant.admin.post("/v1/knowledge-bases/words/search", json={"query": "harbor"}).json()
    assert (answer["strategy"], len(answer["results"])) == ("lexical", 2)
    several = tenant.admin.post("/v1/search", json={"query": "harbor"}).json()
    assert (several["strategy"], len(several["results"])) == ("mixed", 3)


@pytest.mark.capability("strategy-options-stored")
def test_search_merges_options_of_knowledge_base(tenant: Tenant) -> None:
    own = {"strategy": "hybrid", "top_k": 5, "strategy_options": {"dense_weight": 0.9, "rrf_k": 7}}
    made = tenant.admin.post("/v1/knowledge-bases", json={"name": "tuned", "retrieval": own})
    assert (made.status_code, made.json()["retrieval"]) == (201, own)

    def options(**body: Any) -> dict[str, Any]:
        reply = tenant.admin.post("/v1/knowledge-bases/tuned/search", json={"query": "x", "explain": True, **body})
        reply.raise_for_status()
        found: dict[str, Any] = reply.json()["explain"]["strategy_options"]
        return found

    defaults = {"candidate_multiplier": None}
    assert options() == defaults | {"fusion": "weighted", "dense_weight": 0.9, "rrf_k": 7}
    chosen = options(strategy_options={"dense_weight": 0.1, "fusion": "rrf"})
    assert chosen == defaults | {"fusion": "rrf", "dense_weight": 0.1, "rrf_k": 7}
    assert options(strategy="dense") == {}
    kept = tenant.admin.patch("/v1/knowledge-bases/tuned", json={"retrieval": {"top_k": 3}})
    assert (kept.status_code, kept.json()["retrieval"]) == (200, own | {"top_k": 3})
    alone = tenant.admin.patch("/v1/knowledge-bases/tuned", json={"retrieval": {"strategy_options": {"rrf_k": 9}}})
    assert (alone.status_code, alone.json()["errors"][0]["loc"]) == (422, ["body", "retrieval", "strategy_options"])
    changed = tenant.admin.patch("/v1/knowledge-bases/tuned", json={"retrieval": {"strategy": None}})
    assert (changed.status_code, changed.json()["retrieval"]) == (200, {"strategy": "hybrid", "top_k": 3})
    assert options() == {
        "fusion": "weighted",
        "dense_weight": get_search_defaults(DEFAULT_MODEL).dense_weight,
        "rrf_k": 60,
        "candidate_multiplier": None,
    }


@pytest.mark.parametrize(
    ("retrieval", "loc"),
    [
        ({"strategy": "magic"}, ["strategy"]),
        ({"strategy": "hybrid", "strategy_options": {"dense_weight": 2}}, ["strategy_options", "dense_weight"]),
        ({"strategy": "hybrid", "strategy_options": {"weight": 0.5}}, ["strategy_options", "weight"]),
        ({"strategy": "dense", "strategy_options": {"dense_weight": 0.5}}, ["strategy_options", "dense_weight"]),
        ({"strategy_options": []}, ["strategy_options"]),
        ({"strategy": "hybrid", "strategy_options": {"\0": 1}}, ["strategy_options", "\0"]),
        ({"strategy": "\0"}, ["strategy"]),
    ],
    ids=str,
)
def test_knowledge_base_invalid_options_are_422(tenant: Tenant, retrieval: dict[str, Any], loc: list[str]) -> None:
    for reply in (
        tenant.admin.post("/v1/knowledge-bases", json={"name": "wrong", "retrieval": retrieval}),
        tenant.admin.patch("/v1/knowledge-bases/default", json={"retrieval": retrieval}),
    ):
        assert (reply.status_code, reply.json()["errors"][0]["loc"]) == (422, ["body", "retrieval", *loc])


@pytest.mark.capability("search-timings")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/knowledge-bases/default/search", {"query": "harbor"}),
        ("/v1/search", {"messages": [{"role": "user", "content": "harbor"}]}),
        ("/v1/agent-search", {"messages": [{"role": "user", "content": "harbor"}]}),
        ("/openai/v1/vector_stores/default/search", {"query": "harbor"}),
        ("/dify/retrieval", {"knowledge_id": "default", "query": "harbor"}),
    ],
)
def test_search_returns_timings(tenant: Tenant, path: str, body: dict[str, Any]) -> None:
    tenant.add_text("a harbor")
    reply = tenant.admin.post(path, json=body)
    steps = [step.partition(";dur=") for step in reply.headers["Server-Timing"].split(", ")]
    assert [name for name, _, _ in steps] == ["total", "embed", "retrieve", "read"]
    assert all(float(spent) >= 0 for _, _, spent in steps)


@pytest.mark.capability("search-ties")
def test_search_ties_are_ordered_by_document_and_chunk_index(tenant: Tenant) -> None:
    kb = {"name": "ties", "chunking": {"strategy": "recursive", "max_tokens": 16, "overlap_tokens": 0}}
    tenant.admin.post("/v1/knowledge-bases", json=kb).raise_for_status()
    line = "the lantern burns above the quiet harbor until the morning comes"
    documents = [
        tenant.add_text("\n\n".join([line] * 4), kb="ties", external_id=str(number), user_id="u") for number in range(3)
    ]
    chunks = [(document["id"], index) for document in documents for index in range(document["chunk_count"])]
    assert len(chunks) == 12
    for strategy in ("dense", "lexical", "hybrid"):
        for top_k in (1, 5, 12):
            body = {"query": "lantern", "strategy": strategy, "top_k": top_k, "scope": {"user_id": "u"}}
            results = tenant.admin.post("/v1/knowledge-bases/ties/search", json=body).json()["results"]
            assert len({result["score"] for result in results}) == 1
            assert [(r["document"]["id"], r["chunk_index"]) for r in results] == sorted(chunks)[:top_k]


def test_search_rounded_score_ties_are_ordered_by_document(tenant: Tenant) -> None:
    tenant.admin.post("/v1/knowledge-bases", json={"name": "near"}).raise_for_status()
    for number in range(24):
        tenant.add_text(
            f"the lantern {'burns ' * number}above the harbor {number}", kb="near", external_id=f"near{number}"
        )
    body = {"query": "lantern harbor", "top_k": 24, "strategy_options": {"fusion": "rrf", "rrf_k": 1000}}
    results = tenant.admin.post("/v1/knowledge-bases/near/search", json=body).json()["results"]
    assert len({result["score"] for result in results}) < len(results) == 24
    places = [(-result["score"], result["document"]["id"], result["chunk_index"]) for result in results]
    assert places == sorted(places)
    for top_k in range(1, 24):
        answer = tenant.admin.post("/v1/knowledge-bases/near/search", json={**body, "top_k": top_k}).json()
        assert [result["chunk_id"] for result in answer["results"]] == [one["chunk_id"] for one in results[:top_k]]


def test_search_messages_without_question_have_warning(tenant: Tenant) -> None:
    tenant.add_text("a harbor")
    for messages in ([], [{"role": "agent", "content": "harbor"}], [{"role": "user", "content": " "}]):
        answer = tenant.admin.post("/v1/search", json={"messages": messages}).json()
        assert answer["results"] == []
        assert answer["warnings"] == [
            warning_json("question_missing", "The messages contain no question, so nothing was searched.")
        ]


@pytest.mark.capability("filter-reserved")
def test_search_filters_reserved_names(tenant: Tenant) -> None:
    handbook = tenant.upload(
        HANDBOOK, source_uri="https://example.org/handbook", source_created_at="2024-05-06T00:00:00Z"
    )
    other = tenant.add_text("The cancellation policy of another company.", title="Elsewhere")
    assert (handbook["status"], other["status"]) == ("ready", "ready")

    def found(expression: dict[str, Any]) -> list[dict[str, Any]]:
        return results_of(ask(tenant.admin, query="cancellation policy", filter=expression, top_k=100))

    pages = found({"$page": 3})
    assert pages
    assert {result["page"] for result in pages} == {3}
    assert {result["page"] for result in found({"$page": {"gte": 2, "lt": 4}})} == {2, 3}
    assert set(ids_of(found({"$document_id": handbook["id"]}))) == {handbook["id"]}
    assert set(ids_of(found({"$source_uri": "https://example.org/handbook"}))) == {handbook["id"]}
    assert set(ids_of(found({"$source_created_at": {"lt": "2024-06-01"}}))) == {handbook["id"]}
    assert found({"$source_created_at": {"gt": "2024-06-01"}}) == []
    assert set(ids_of(found({"$title": "Elsewhere"}))) == {other["id"]}

    url = f"/v1/knowledge-bases/default/documents/{handbook['id']}"
    tenant.admin.patch(url, json={"title": "The handbook", "metadata": {"kind": "rules"}}).raise_for_status()
    assert set(ids_of(found({"$title": "The handbook", "kind": "rules"}))) == {handbook["id"]}
    assert {result["page"] for result in found({"$title": "The handbook", "$page": 3})} == {3}
    assert found({"$title": {"not": "The handbook"}, "$document_id": handbook["id"]}) == []


@pytest.mark.capability("search-queries-fused")
def test_search_several_queries_are_fused(corpus: Corpus) -> None:
    answer = ask(corpus.tenant.admin, query="window", queries=["umbrella"], strategy="lexical", top_k=500)
    assert answer["queries"] == ["window", "umbrella"]
    alone = [set(ids_of(corpus.search(query, strategy="lexical", top_k=500))) for query in answer["queries"]]
    assert set(ids_of(results_of(answer))) == alone[0] | alone[1]
    assert len(alone[0] | alone[1]) > max(map(len, alone))
    # Both queries count the same, so that neither's best passage ranks far behind.
    both = ids_of(corpus.search("window", queries=["umbrella"], top_k=10))
    assert all(ids_of(corpus.search(query))[0] in both for query in answer["queries"])


def test_search_several_knowledge_bases_are_merged(tenant: Tenant) -> None:
    tenant.admin.post("/v1/knowledge-bases", json={"name": "boats"}).raise_for_status()
    tenant.admin.post("/v1/knowledge-bases", json={"name": "trains"}).raise_for_status()
    tenant.add_text("A ferry leaves the harbor at nine.", kb="boats")
    tenant.add_text("The night train leaves the station at nine.", kb="trains")

    def names(client: httpx2.Client, **body: Any) -> list[str]:
        reply = client.post("/v1/search", json={"query": "what leaves at nine", "top_k": 10, **body})
        reply.raise_for_status()
        return sorted(result["knowledge_base"] for result in reply.json()["results"])

    assert names(tenant.admin) == ["boats", "trains"]
    assert names(tenant.admin, knowledge_bases=["boats", "default", "boats"]) == ["boats"]
    narrowed = tenant.create_client("reader", knowledge_bases=["trains"])
    assert names(narrowed) == ["trains"]
    refused = narrowed.post("/v1/search", json={"query": "nine", "knowledge_bases": ["trains", "boats"]})
    assert refused.status_code == 404


@pytest.mark.parametrize(
    "query",
    [
        "the of and is",
        "\U0001f600 \U0001f680",
        "???",
        "\u200b",
        "word " * 6000,
        "\U0001f600" * 16000,
        "a" * 30_000,
        "' -- \\",
    ],
    ids=["stop words", "emoji", "signs", "invisible", "6000 words", "16000 emoji", "one long word", "quotes"],
)
def test_search_unusual_queries_are_answered(corpus: Corpus, query: str) -> None:
    tenant = corpus.tenant.create_client("reader")
    for strategy in ("hybrid", "dense"):
        answer = ask(tenant, query=query, strategy=strategy, top_k=3)
        assert len(answer["results"]) == 3
        assert answer["warnings"] == ([QUERY_TRUNCATED.to_json()] if len(query.strip()) > 8000 else [])
    assert isinstance(results_of(ask(tenant, query=query, strategy="lexical")), list)
    snippets = tenant.post("/v1/agent-search", json={"messages": [{"role": "customer", "content": query}]})
    assert snippets.status_code == 200
    assert len(snippets.json()) == 5


@pytest.mark.capability("search-empty")
def test_search_empty_knowledge_base_returns_nothing(tenant: Tenant) -> None:
    assert results_of(ask(tenant.admin, query="anything")) == []
    assert results_of(ask(tenant.admin, messages=[{"role": "agent", "content": "Good morning."}])) == []
    assert tenant.admin.post("/v1/agent-search", json={"messages": []}).json() == []


def test_search_lexical_query_of_signs_returns_nothing(corpus: Corpus) -> None:
    assert corpus.search("… ?! \u2014", strategy="lexical") == []


@pytest.mark.capability("search-deadline")
def test_search_with_tiny_timeout_is_answered_or_503(corpus: Corpus) -> None:
    for seconds in (0.05, 0.001):
        body = {"query": "anchor", "timeout_seconds": seconds}
        reply = corpus.tenant.admin.post("/v1/knowledge-bases/default/search", json=body)
        assert reply.status_code in (200, 503)
        if reply.status_code == 200:
            assert reply.json()["results"]
            assert all(spent >= 0 for spent in reply.json()["timings_ms"].values())


def test_search_replaced_document_is_found_by_new_text_only(tenant: Tenant) -> None:
    key = post_text(tenant, "an old tale of the glacier", external_id="tale")
    settle(tenant)
    assert post_text(tenant, "a new tale of the volcano", external_id="tale") == key
    settle(tenant)
    assert results_of(ask(tenant.admin, query="glacier", strategy="lexical")) == []
    assert ids_of(results_of(ask(tenant.admin, query="volcano", strategy="lexical"))) == [key]
    (only,) = results_of(ask(tenant.admin, query="tale"))
    assert only["text"] == "a new tale of the volcano"
