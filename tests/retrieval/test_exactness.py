"""Exactness of both retrievers through the whole service: dense like numpy, BM25 like bm25s, for any
filter and scope.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
import numpy as np
import pytest
from pgvector.asyncpg import register_vector

from app.documents.scopes import DocumentScope
from app.ids import decode_id, encode_id
from app.inference.embedding.local_models import DEFAULT_MODEL
from app.inference.embedding.search_defaults import get_search_defaults
from app.lexical.analyzers import get_analyzer
from app.retrieval.fusion.rank_fusion import RankedList, fuse_rrf
from tests.lexical.reference import bm25s_scorer
from tests.retrieval.conftest import Corpus, SentDocument, ask, ids_of

AVGDL = 100.0
DENSE_WEIGHT = get_search_defaults(DEFAULT_MODEL).dense_weight
QUERIES = ["anchor", "candle dagger", "forest goblet harbor", "anchor anchor umbrella", "the umbrella of unknownword"]
EVERYTHING: dict[str, str] = {"user_id": "u1", "chat_id": "c1", "agent_id": "a1"}
FILTERS: list[tuple[dict[str, Any] | None, Callable[[dict[str, Any]], bool]]] = [
    (None, lambda metadata: True),
    ({"odd": True}, lambda metadata: metadata["odd"]),
    ({"year": {"gte": 2015}}, lambda metadata: metadata["year"] >= 2015),
    ({"tags": {"contains": "x"}}, lambda metadata: "x" in metadata["tags"]),
    ({"rare": "yes"}, lambda metadata: metadata.get("rare") == "yes"),
    ({"not": {"odd": True}}, lambda metadata: not metadata["odd"]),
    ({"missing": {"exists": True}}, lambda metadata: False),
]
SCOPES: list[dict[str, str]] = [
    {},
    {"user_id": "u1"},
    {"chat_id": "c1"},
    {"user_id": "u1", "chat_id": "c1"},
    EVERYTHING,
]


def stored_vectors(corpus: Corpus) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Return the stored vectors by document id."""

    async def read() -> list[asyncpg.Record]:
        connection = await asyncpg.connect(corpus.tenant.service.urls.app)
        try:
            await register_vector(connection)
            async with connection.transaction():
                tenant = decode_id("ten", corpus.tenant.id)
                await connection.execute("select set_config('app.tenant_id', $1, true)", str(tenant))
                rows: list[asyncpg.Record] = await connection.fetch(
                    "select c.document_id, e.embedding from chunk c join chunk_embedding e"
                    " on (e.tenant_id, e.index_id, e.chunk_id) = (c.tenant_id, c.index_id, c.id)"
                    " where c.tenant_id = $1",  # the system tenant's rows are visible too
                    tenant,
                )
                return rows
        finally:
            await connection.close()

    rows = asyncio.run(read())
    return {encode_id("doc", row[0]): row[1].to_numpy().astype(np.float64) for row in rows}


def cosines(corpus: Corpus, query: str, expected: dict[str, SentDocument]) -> dict[str, float]:
    (asked,) = asyncio.run(corpus.tenant.service.resources.embedders.default.embed_queries([query]))
    vector = asked.astype(np.float16).astype(np.float64)
    stored = stored_vectors(corpus)
    assert stored.keys() == corpus.passages.keys()
    return {key: float(stored[key] @ vector / np.linalg.norm(stored[key]) / np.linalg.norm(vector)) for key in expected}


def bm25_scores(corpus: Corpus, query: str, expected: dict[str, SentDocument]) -> dict[str, float]:
    """Return the BM25 scores of the documents with at least one term of the query."""
    analyzer = get_analyzer("english")
    tokens = [analyzer.tokenize(passage.text) for passage in corpus.passages.values()]
    scores = bm25s_scorer(tokens, avgdl=AVGDL)(analyzer.tokenize(query))
    by_id = dict(zip(corpus.passages, scores, strict=True))
    return {key: score for key, score in by_id.items() if key in expected and score > 0}


def ranked(scores: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def assert_same(results: list[dict[str, Any]], wanted: dict[str, float], *, precision: float) -> None:
    """Check documents and scores; the order may differ only among nearly equal scores."""
    assert sorted(ids_of(results)) == sorted(wanted)
    for result, (_, score) in zip(results, ranked(wanted), strict=True):
        assert result["score"] == pytest.approx(wanted[result["document"]["id"]], abs=precision)
        assert result["score"] == pytest.approx(score, abs=precision)


@pytest.mark.capability("dense")
@pytest.mark.parametrize("query", QUERIES)
def test_dense_retriever_equals_brute_force(corpus: Corpus, query: str) -> None:
    wanted = cosines(corpus, query, corpus.expected({}, lambda metadata: True))
    results = corpus.search(query, strategy="dense", top_k=500)
    assert_same(results, wanted, precision=2e-5)
    assert all(result["similarity"] == result["score"] for result in results)


@pytest.mark.capability("lexical")
@pytest.mark.parametrize("query", QUERIES)
def test_lexical_retriever_equals_bm25s(corpus: Corpus, query: str) -> None:
    wanted = bm25_scores(corpus, query, corpus.expected({}, lambda metadata: True))
    results = corpus.search(query, strategy="lexical", top_k=500)
    assert wanted
    assert_same(results, wanted, precision=2e-5)
    assert all(result["similarity"] is None for result in results)


@pytest.mark.capability("filter-exact")
@pytest.mark.parametrize("number", range(len(FILTERS)))
@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_retrievers_are_exact_with_filter_and_scope(corpus: Corpus, number: int, scope: dict[str, str]) -> None:
    expression, keep = FILTERS[number]
    query = QUERIES[number % len(QUERIES)]
    expected = corpus.expected(scope, keep)
    body = {"filter": expression, "scope": scope, "top_k": 500}
    assert_same(corpus.search(query, strategy="dense", **body), cosines(corpus, query, expected), precision=2e-5)
    # Document frequencies count the whole index, whatever filter and scope.
    assert_same(corpus.search(query, strategy="lexical", **body), bm25_scores(corpus, query, expected), precision=2e-5)


@pytest.mark.capability("hybrid")
@pytest.mark.parametrize("options", [{}, {"dense_weight": 0.8}, {"fusion": "rrf"}, {"fusion": "rrf", "rrf_k": 5}])
def test_hybrid_search_equals_fusion_of_retrievers(corpus: Corpus, options: dict[str, Any]) -> None:
    query = "candle dagger"
    lanes = [corpus.search(query, strategy=strategy, top_k=500) for strategy in ("dense", "lexical")]
    for lane in lanes:  # RRF counts ranks, and one retriever orders equal scores by chunk
        lane.sort(key=lambda result: (-result["score"], result["chunk_id"]))
    defaults = get_search_defaults(DEFAULT_MODEL)
    weight, span = options.get("dense_weight", defaults.dense_weight), defaults.cosine_span
    scores = [{result["document"]["id"]: result["score"] for result in lane} for lane in lanes]
    if options.get("fusion") == "rrf":
        fused = [RankedList(share, [*lane.items()]) for share, lane in zip((weight, 1 - weight), scores, strict=True)]
        wanted = dict(fuse_rrf(fused, k=options.get("rrf_k", 60)))
    else:
        cosine, bm25 = scores
        best, low, high = max(cosine.values()), min(bm25.values()), max(bm25.values())
        assert span is not None
        wanted = {
            key: weight * max(0.0, 1 - (best - cosine[key]) / span)
            + (1 - weight) * ((bm25[key] - low) / (high - low) if key in bm25 else 0.0)
            for key in cosine
        }
    results = corpus.search(query, strategy="hybrid", strategy_options=options, top_k=500)
    assert_same(results, wanted, precision=5e-5)
    similarity = {result["document"]["id"]: result["similarity"] for result in lanes[0]}
    assert all(r["similarity"] == pytest.approx(similarity[r["document"]["id"]], abs=2e-6) for r in results)


@pytest.mark.capability("search-top-k")
@pytest.mark.parametrize("number", range(len(FILTERS)))
@pytest.mark.parametrize("strategy", ["hybrid", "dense"])
def test_search_returns_top_k_results_if_they_exist(corpus: Corpus, number: int, strategy: str) -> None:
    expression, keep = FILTERS[number]
    expected = corpus.expected({}, keep)
    for top_k in (1, 3, 20, 500):
        results = corpus.search("anchor eagle", strategy=strategy, filter=expression, top_k=top_k)
        assert len(results) == min(top_k, len(expected))
        assert set(ids_of(results)) <= expected.keys()


@pytest.mark.capability("scope-exact")
def test_search_sees_exactly_its_scope(corpus: Corpus) -> None:
    choices: list[dict[str, str]] = [
        {name: value for name, value in (("user_id", user), ("chat_id", chat), ("agent_id", agent)) if value}
        for user in ("", "u1", "u2", "u9")
        for chat in ("", "c1", "c2")
        for agent in ("", "a1", "a2")
        if chat or not agent
    ]
    for scope in choices:
        expected = corpus.expected(scope, lambda metadata: True)
        assert sorted(ids_of(corpus.search("anchor", scope=scope, top_k=500))) == sorted(expected), scope
    assert len({len(corpus.expected(scope, lambda metadata: True)) for scope in choices}) > 3


@pytest.mark.capability("scope-other")
def test_search_agent_without_chat_is_422(corpus: Corpus) -> None:
    body = {"query": "anchor", "scope": {"agent_id": "a1"}}
    assert corpus.tenant.admin.post("/v1/knowledge-bases/default/search", json=body).status_code == 422


def test_scope_keys_of_similar_ids_differ() -> None:
    scopes = [
        DocumentScope("a", None),
        DocumentScope(None, "a"),
        DocumentScope(None, "a", "b"),
        DocumentScope(None, "a|1:b"),
        DocumentScope(None, "ab", ""),
    ]
    assert len({scope.to_key() for scope in scopes}) == len(scopes)


def test_threshold_compares_with_similarity(corpus: Corpus) -> None:
    everything = corpus.search("garden hammer", top_k=500)
    middle = sorted(result["similarity"] for result in everything)[len(everything) // 2]
    kept = corpus.search("garden hammer", top_k=500, score_threshold=middle)
    assert ids_of(kept) == [r["document"]["id"] for r in everything if r["similarity"] >= middle]
    assert corpus.search("garden hammer", top_k=500, score_threshold=1) == []


@pytest.mark.capability("search-threshold-lexical")
def test_threshold_of_lexical_search_compares_with_similarity(corpus: Corpus) -> None:
    dense = {r["chunk_id"]: r["similarity"] for r in corpus.search("garden", strategy="dense", top_k=500)}
    everything = corpus.search("garden", strategy="lexical", top_k=500, score_threshold=-1)
    assert {r["chunk_id"]: r["similarity"] for r in everything} == {
        r["chunk_id"]: dense[r["chunk_id"]] for r in everything
    }
    middle = sorted(dense[result["chunk_id"]] for result in everything)[len(everything) // 2]
    kept = corpus.search("garden", strategy="lexical", top_k=500, score_threshold=middle)
    assert ids_of(kept) == [r["document"]["id"] for r in everything if r["similarity"] >= middle]
    assert 0 < len(kept) < len(everything)
    unasked = corpus.search("garden", strategy="lexical", top_k=500)
    assert ids_of(unasked) == ids_of(everything)
    assert {result["similarity"] for result in unasked} == {None}


@pytest.mark.capability("search-scores")
def test_scores_contain_value_of_each_retriever(corpus: Corpus) -> None:
    query = "garden hammer"
    dense = {r["chunk_id"]: r["score"] for r in corpus.search(query, strategy="dense", top_k=500)}
    lexical = {r["chunk_id"]: r["score"] for r in corpus.search(query, strategy="lexical", top_k=500)}
    results = corpus.search(query, top_k=500)
    assert any(result["scores"]["lexical"] is None for result in results)
    for result in results:
        key = result["chunk_id"]
        wanted = {"dense": dense.get(key), "lexical": lexical.get(key), "fused": result["score"]}
        assert result["scores"] == wanted
    (best,) = corpus.search(query, strategy="dense", top_k=1)
    assert best["scores"] == {"dense": best["score"], "lexical": None, "fused": None}


@pytest.mark.capability("search-explain")
def test_explain_shows_ranks_of_retrievers(corpus: Corpus) -> None:
    queries = ["garden hammer", "anchor"]
    answer = ask(corpus.tenant.admin, queries=queries, explain=True, top_k=500, filter={"odd": True})
    assert answer["explain"] == {
        "strategy_options": {
            "fusion": "weighted",
            "dense_weight": DENSE_WEIGHT,
            "rrf_k": 60,
            "candidate_multiplier": None,
        },
        "transformers": [],
        "prompts": {},
        "routing": [
            {
                "knowledge_base": "default",
                "chosen": True,
                "reason": "named",
                "score": None,
                "centroids": None,
                "texts": None,
                "scale": 1.0,
            }
        ],
        "knowledge_bases": [
            {
                "knowledge_base": "default",
                "shared": False,
                "filter": {"odd": True},
                "plan": {
                    "chunks": len(corpus.passages),
                    "share": answer["explain"]["knowledge_bases"][0]["plan"]["share"],
                    "dense": "exact",
                    "lexical": "all",
                },
                "dense_weight": DENSE_WEIGHT,
                "strategy": "hybrid",
                "strategy_options": {
                    "fusion": "weighted",
                    "dense_weight": DENSE_WEIGHT,
                    "rrf_k": 60,
                    "candidate_multiplier": None,
                },
                "queries": queries,
                "transformers": [],
                "conversation": True,
                "prompts": {},
            }
        ],
    }
    passing = len(corpus.expected({}, lambda metadata: metadata["odd"]))
    assert answer["explain"]["knowledge_bases"][0]["plan"]["share"] == pytest.approx(passing / len(corpus.passages))
    told = {
        (r["chunk_id"], p["query"], p["retriever"]): (p["rank"], p["score"])
        for r in answer["results"]
        for p in r["ranks"]
    }
    for number, query in enumerate(queries):
        for lane, strategy in (("dense", "dense"), ("lexical", "lexical")):
            alone = corpus.search(query, strategy=strategy, top_k=500, filter={"odd": True})
            mine = {key[0]: place for key, place in told.items() if key[1:] == (number, lane)}
            assert set(mine) == {result["chunk_id"] for result in alone}
            for result in alone:
                assert mine[result["chunk_id"]][1] == pytest.approx(result["score"], abs=1e-5)
            assert sorted(rank for rank, _ in mine.values()) == list(range(1, len(alone) + 1))
