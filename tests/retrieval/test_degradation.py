"""Degradation of searches during failures: working parts answer inside the time limit, and a failure is never []."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from app.db.session import Database, TenantDatabase
from app.documents.scopes import DocumentScope
from app.filters import CompiledFilter
from app.ids import decode_id, encode_id
from app.lexical.analyzers import get_analyzer
from app.lexical.weights import compute_query_terms, compute_salt
from app.retrieval.index_refs import IndexRef
from app.retrieval.repository import RetrieverQuery
from app.retrieval.retrievers.executor import HybridRetriever
from app.retrieval.retrievers.ranking import ListRanker, RankedKeys, RetrieverResults, merge_by_best_score
from app.retrieval.search_run import RESULTS_MAY_BE_INCOMPLETE, SearchRun
from app.retrieval.types import Hit
from app.warnings import ServiceWarning
from harness.databases import DatabaseFactory
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.fixtures.service_warnings import warning_json
from tests.retrieval.conftest import ask, ids_of, post_text, results_of, settle

BUDGET = 5.0
RECOVERY_SECONDS = 30.0
EMBEDDING_WARNING = warning_json(
    "embedding_unavailable", "The embedding model is not answering: only the lexical retriever was used."
)
NUMBERS = itertools.count()


def fresh() -> str:
    """Return a new question about the lantern, so that its vector is not cached."""
    return f"where is the lantern? {next(NUMBERS)}"


@dataclass(frozen=True)
class DegradableService:
    """A service with three documents, whose embedding endpoint and tables a test can block."""

    service: Service
    embedding: EmbeddingServer
    tenant: Tenant

    def agent_search(self) -> tuple[int, Any, float]:
        """Return status, answer and seconds of an agent search."""
        started = time.monotonic()
        messages = [{"role": "customer", "content": fresh()}]
        reply = self.tenant.admin.post("/v1/agent-search", json={"messages": messages})
        return reply.status_code, reply.json(), time.monotonic() - started

    @contextmanager
    def locked(self, *tables: str) -> Iterator[None]:
        """Lock tables against all other sessions until the block ends."""

        async def lock() -> asyncpg.Connection:
            connection = await asyncpg.connect(self.service.urls.owner)
            await connection.execute("begin")
            await connection.execute(f"lock table {', '.join(tables)} in access exclusive mode")
            return connection

        with asyncio.Runner() as runner:
            connection = runner.run(lock())
            try:
                yield
            finally:
                runner.run(connection.close())


@pytest.fixture(scope="module")
def fragile(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DegradableService]:
    with EmbeddingServer(dimensions=64) as embedding:
        settings = build_settings(
            tmp_path_factory.mktemp("fragile"),
            embedding={
                "CARREL_EMBEDDING_BASE_URL": embedding.base_url,
                "CARREL_EMBEDDING_MODEL": "test-model",
                "CARREL_EMBEDDING_DIMENSIONS": 64,
            },
        )
        with run_service(settings, make_database()) as service:
            tenant = service.create_tenant()
            for text in ("the lantern hangs above the door", "a ferry leaves at nine", "moss grows on the lantern"):
                post_text(tenant, text)
            settle(tenant)
            yield DegradableService(service, embedding, tenant)


@pytest.fixture(autouse=True)
def _healthy(fragile: DegradableService) -> Iterator[None]:
    """Recovery of the service before each test: after a failure it waits between attempts."""
    end = time.monotonic() + RECOVERY_SECONDS
    while ask(fragile.tenant.admin, query=fresh())["warnings"]:
        assert time.monotonic() < end, "it never recovered"
        time.sleep(0.1)
    yield
    fragile.embedding.reset()


@pytest.mark.capability("degraded-model")
@pytest.mark.parametrize("failure", ["disconnect", "garbage", "dimension", "nan", 401, 500])
def test_search_without_model_is_lexical(fragile: DegradableService, failure: Any) -> None:
    fragile.embedding.fail(failure, times=None)
    answer = ask(fragile.tenant.admin, query=fresh())
    assert len(results_of(answer)) == 2
    assert answer["warnings"] == [EMBEDDING_WARNING]
    assert {result["similarity"] for result in results_of(answer)} == {None}
    status, snippets, _ = fragile.agent_search()
    assert (status, len(snippets)) == (200, 2)


def test_search_without_model_does_not_apply_threshold(fragile: DegradableService) -> None:
    fragile.embedding.fail(500, times=None)
    answer = ask(fragile.tenant.admin, query=fresh(), score_threshold=0.99)
    assert len(results_of(answer)) == 2
    assert answer["warnings"] == [
        EMBEDDING_WARNING,
        warning_json("threshold_not_applied", "score_threshold was not applied to results without a known similarity."),
    ]


@pytest.mark.capability("query-cache")
def test_repeated_query_needs_no_model(fragile: DegradableService) -> None:
    question = fresh()
    first = results_of(ask(fragile.tenant.admin, query=question))
    fragile.embedding.fail(500, times=None)
    again = ask(fragile.tenant.admin, query=question)
    assert (results_of(again), again["warnings"]) == (first, [])
    other = fragile.service.create_tenant("one that has not asked it")
    post_text(other, "the lantern hangs above the door")
    assert ask(other.admin, query=question)["warnings"] == [EMBEDDING_WARNING]


def test_repeated_query_uses_cached_vector_and_new_query_words(fragile: DegradableService) -> None:
    question, new = fresh(), "moss"
    fragile.embedding.fail(500, times=None)
    assert results_of(ask(fragile.tenant.admin, query=new))[0]["similarity"] is None
    fragile.embedding.reset()
    known = results_of(ask(fragile.tenant.admin, query=question, strategy="dense"))
    fragile.embedding.fail(500, times=None)
    answer = ask(fragile.tenant.admin, queries=[question, new], strategy="dense")
    assert results_of(answer) == known
    assert answer["warnings"] == [
        warning_json(
            "embedding_unavailable",
            "The embedding model is not answering: only queries with a cached or provided vector were searched.",
        )
    ]
    answer = ask(fragile.tenant.admin, queries=[question, new])
    told = {result["chunk_id"]: result["scores"]["dense"] for result in results_of(answer)}
    assert told == {result["chunk_id"]: result["scores"]["dense"] for result in known}
    assert answer["warnings"] == [
        warning_json(
            "embedding_unavailable",
            "The embedding model is not answering: "
            "only the lexical retriever was used for texts without a cached vector.",
        )
    ]


def test_lexical_search_without_model_does_not_apply_threshold(fragile: DegradableService) -> None:
    fragile.embedding.fail(500, times=None)
    answer = ask(fragile.tenant.admin, query=fresh(), strategy="lexical", score_threshold=0.99)
    assert len(results_of(answer)) == 2
    assert {result["similarity"] for result in results_of(answer)} == {None}
    assert [warning["code"] for warning in answer["warnings"]] == ["embedding_unavailable", "threshold_not_applied"]


def test_search_without_model_ignores_threshold_for_words_with_provided_vector(
    fragile: DegradableService,
) -> None:
    """The similarity of the words is unknown. The vector did not find these hits and does not count for them."""
    fragile.embedding.fail(500, times=None)
    queries = [fresh(), {"vector": [1.0] + [0.0] * 63, "text": "ferry"}]
    answer = ask(fragile.tenant.admin, queries=queries, strategy="lexical", score_threshold=0.99)
    assert [(result["similarity"], "lantern" in result["text"]) for result in results_of(answer)] == [(None, True)] * 2
    assert (
        warning_json("threshold_not_applied", "score_threshold was not applied to results without a known similarity.")
        in answer["warnings"]
    )


def test_search_without_model_does_not_drop_word_hits_by_provided_vector(
    fragile: DegradableService,
) -> None:
    """The vector's retriever finds the hits too, because there are few others.

    The similarity of the words is unknown.
    """
    fragile.embedding.fail(500, times=None)
    queries = [fresh(), {"vector": [1.0] + [0.0] * 63}]
    answer = ask(fragile.tenant.admin, queries=queries, score_threshold=0.99)
    assert [(result["similarity"], "lantern" in result["text"]) for result in results_of(answer)] == [(None, True)] * 2
    assert answer["warnings"] == [
        warning_json(
            "embedding_unavailable",
            "The embedding model is not answering: only the lexical retriever was used for texts.",
        ),
        warning_json("threshold_not_applied", "score_threshold was not applied to results without a known similarity."),
    ]


def test_lexical_search_with_threshold_needs_lexical_retriever(fragile: DegradableService) -> None:
    with fragile.locked("chunk_lexical"):
        body = {"query": fresh(), "strategy": "lexical", "score_threshold": 0.0, "timeout_seconds": 1}
        reply = fragile.tenant.admin.post("/v1/knowledge-bases/default/search", json=body)
    assert (reply.status_code, reply.json()["type"]) == (503, "urn:carrel:problem:search_unavailable")


def test_search_with_locked_dense_table_returns_no_vectors(fragile: DegradableService) -> None:
    with fragile.locked("chunk_embedding"):
        answer = ask(fragile.tenant.admin, query=fresh(), return_vectors=True, explain=True, timeout_seconds=2)
    assert answer["warnings"] == [
        warning_json("retriever_unavailable", "The dense retriever did not answer."),
        warning_json("vectors_not_returned", "The vectors could not be read."),
    ]
    assert all("vector" not in result for result in results_of(answer))
    told = {"knowledge_base": "default", "shared": False, "filter": None, "plan": None, "dense_weight": 0.6}
    (explained,) = answer["explain"]["knowledge_bases"]
    assert {name: value for name, value in explained.items() if name in told} == told


def test_dense_search_without_model_is_503(fragile: DegradableService) -> None:
    fragile.embedding.fail(500, times=None)
    body = {"query": fresh(), "strategy": "dense"}
    reply = fragile.tenant.admin.post("/v1/knowledge-bases/default/search", json=body)
    assert (reply.status_code, reply.json()["type"]) == (503, "urn:carrel:problem:embedding_unavailable")
    assert int(reply.headers["Retry-After"]) > 0
    assert reply.headers["Server-Timing"].startswith("total;dur=")
    assert "embed;dur=" in reply.headers["Server-Timing"]


def test_agent_search_without_retrievers_has_server_timing(fragile: DegradableService) -> None:
    with fragile.locked("chunk_embedding", "chunk_lexical"):
        messages = [{"role": "customer", "content": fresh()}]
        reply = fragile.tenant.admin.post("/v1/agent-search", json={"messages": messages, "timeout_seconds": 2})
    assert reply.status_code == 503
    assert reply.headers["Server-Timing"].startswith("total;dur=")
    assert "degraded;desc=" in reply.headers["Server-Timing"]


def test_dense_search_without_model_uses_provided_vectors(fragile: DegradableService) -> None:
    fragile.embedding.fail(500, times=None)
    vector = {"vector": [1.0] + [0.0] * 63}
    answer = ask(fragile.tenant.admin, queries=[fresh(), vector], strategy="dense")
    alone = ask(fragile.tenant.admin, queries=[vector], strategy="dense")
    assert results_of(answer) == results_of(alone) != []
    assert answer["warnings"] == [
        warning_json(
            "embedding_unavailable",
            "The embedding model is not answering: only queries with a provided vector were searched.",
        )
    ]


def test_search_without_model_and_words_is_503(fragile: DegradableService) -> None:
    fragile.embedding.fail(500, times=None)
    reply = fragile.tenant.admin.post("/v1/knowledge-bases/default/search", json={"query": "\U0001f600 !?"})
    assert (reply.status_code, reply.json()["type"]) == (503, "urn:carrel:problem:search_unavailable")
    messages = [{"role": "customer", "content": "\U0001f600"}]
    assert fragile.tenant.admin.post("/v1/agent-search", json={"messages": messages}).status_code == 503


@pytest.mark.capability("lexical-no-model")
def test_lexical_search_needs_no_model(fragile: DegradableService) -> None:
    fragile.embedding.reset()
    answer = ask(fragile.tenant.admin, query=fresh(), strategy="lexical")
    assert (len(results_of(answer)), answer["warnings"]) == (2, [])
    assert fragile.embedding.request_count == 0


def test_search_does_not_wait_for_slow_model(fragile: DegradableService) -> None:
    fragile.embedding.fail("slow", times=None, seconds=30)
    status, snippets, seconds = fragile.agent_search()
    assert (status, len(snippets)) == (200, 2)
    assert seconds < BUDGET
    answer = ask(fragile.tenant.admin, query=fresh(), timeout_seconds=0.5)
    assert len(results_of(answer)) == 2
    assert answer["warnings"] == [EMBEDDING_WARNING]


@pytest.mark.capability("degraded-lexical")
def test_search_with_locked_lexical_table_is_dense(fragile: DegradableService) -> None:
    with fragile.locked("chunk_lexical"):
        answer = ask(fragile.tenant.admin, query=fresh(), timeout_seconds=2)
        assert (len(results_of(answer)), answer["warnings"]) == (
            3,
            [warning_json("retriever_unavailable", "The lexical retriever did not answer.")],
        )
    assert ask(fragile.tenant.admin, query=fresh())["warnings"] == []


def test_search_with_locked_dense_table_is_lexical(fragile: DegradableService) -> None:
    with fragile.locked("chunk_embedding"):
        answer = ask(fragile.tenant.admin, query=fresh(), timeout_seconds=2)
    assert (len(results_of(answer)), answer["warnings"]) == (
        2,
        [warning_json("retriever_unavailable", "The dense retriever did not answer.")],
    )


@pytest.mark.capability("degraded-none")
def test_search_without_retrievers_is_503(fragile: DegradableService) -> None:
    with fragile.locked("chunk_lexical", "chunk_embedding"):
        reply = fragile.tenant.admin.post(
            "/v1/knowledge-bases/default/search", json={"query": fresh(), "timeout_seconds": 1}
        )
    assert (reply.status_code, reply.json()["type"]) == (503, "urn:carrel:problem:search_unavailable")
    assert int(reply.headers["Retry-After"]) > 0


def test_search_with_slow_model_and_locked_table_ends_in_time(fragile: DegradableService) -> None:
    fragile.embedding.fail("slow", times=None, seconds=30)
    with fragile.locked("chunk_lexical", "chunk_embedding"):
        status, problem, seconds = fragile.agent_search()
    assert (status, problem["type"]) == (503, "urn:carrel:problem:search_unavailable")
    assert seconds < BUDGET


def test_search_with_locked_index_table_ends_in_time(fragile: DegradableService) -> None:
    with fragile.locked("search_index"):
        started = time.monotonic()
        body = {"query": fresh(), "timeout_seconds": 1}
        reply = fragile.tenant.admin.post("/v1/knowledge-bases/default/search", json=body)
    assert (reply.status_code, time.monotonic() - started < BUDGET) == (503, True)
    assert ask(fragile.tenant.admin, query=fresh())["warnings"] == []


@asynccontextmanager
async def open_finder(fragile: DegradableService, top_k: int) -> AsyncIterator[tuple[HybridRetriever, RetrieverQuery]]:
    """Open a retriever on the service's database, with a query of the lexical retriever for the lantern."""
    tenant_id = decode_id("ten", fragile.tenant.id)
    assert tenant_id is not None
    database = Database.connect(fragile.service.urls.app, pool_size=1)
    connection = await asyncpg.connect(fragile.service.urls.owner)
    try:
        sql = "select i.id from search_index i where i.tenant_id = $1 and i.state = 'live'"
        index_id: UUID = await connection.fetchval(sql, tenant_id)
        terms, keys = compute_query_terms(get_analyzer("english").tokenize("lantern"), compute_salt(index_id))
        call = RetrieverQuery(
            tenant_id, index_id, 64, None, terms, keys, DocumentScope().list_visible_keys(), CompiledFilter()
        )
        finder = HybridRetriever(
            db=TenantDatabase(database, tenant_id),
            search_run=SearchRun.from_timeout(BUDGET),
            indexes={index_id.bytes: IndexRef(tenant_id, "default")},
            top_k=top_k,
        )
        yield finder, call
    finally:
        await connection.close()
        await database.close()


def create_ranker(call: RetrieverQuery, rank: Callable[[RetrieverResults], RankedKeys]) -> ListRanker:
    return ListRanker(calls=[call], query_count=1, models=[0], rank=rank, is_fused=False)


def test_document_deleted_during_search_is_returned_as_found(fragile: DegradableService) -> None:
    victim = post_text(fragile.tenant, "lantern lantern lantern")
    settle(fragile.tenant)

    async def find() -> list[Hit]:
        async with open_finder(fragile, top_k=1) as (finder, call):

            def rank(found: RetrieverResults) -> RankedKeys:
                url = f"/v1/knowledge-bases/default/documents/{victim}"
                assert fragile.tenant.admin.delete(url).status_code == 204
                return merge_by_best_score(found.lexical)

            return await finder.retrieve([call], create_ranker(call, rank))

    (hit,) = asyncio.run(find())
    assert (encode_id("doc", hit.document.id), hit.chunk.content) == (victim, "lantern lantern lantern")
    assert victim not in ids_of(results_of(ask(fragile.tenant.admin, query=fresh(), strategy="lexical")))


@pytest.mark.parametrize(("top_k", "lane_rows", "rows"), [(1, 1, 1), (1, 2, 2), (2, 1, 2), (1, 100, 2)])
def test_retriever_reads_configured_candidates_or_top_k(
    fragile: DegradableService, top_k: int, lane_rows: int, rows: int
) -> None:
    brought: list[int] = []

    async def find() -> list[Hit]:
        async with open_finder(fragile, top_k=top_k) as (finder, call):

            def rank(found: RetrieverResults) -> RankedKeys:
                brought.append(len(found.lexical[0]))
                return merge_by_best_score(found.lexical)

            return await replace(finder, retriever_candidates=lane_rows).retrieve([call], create_ranker(call, rank))

    assert len(asyncio.run(find())) == top_k
    assert brought == [rows]


@pytest.mark.parametrize("reached", [True, False])
def test_threshold_without_hits_is_answer_only_if_all_was_searched(fragile: DegradableService, reached: bool) -> None:
    """If a second query of the retrievers fails, better hits may exist, and an agent gets an error."""
    asked: list[int] = []

    async def find() -> tuple[list[Hit], SearchRun]:
        async with open_finder(fragile, top_k=2) as (finder, call):

            def rank(found: RetrieverResults) -> RankedKeys:
                asked.append(len(found.lexical[0]))
                if len(asked) > 1 and not reached:
                    raise TimeoutError
                return []

            deep = replace(finder, retriever_candidates=2, score_thresholds=dict.fromkeys(finder.indexes, 0.5))
            return await deep.retrieve([call], create_ranker(call, rank)), finder.search_run

    hits, course = asyncio.run(find())
    assert (hits, asked) == ([], [2, 2])
    assert course.warnings == ([] if reached else [RESULTS_MAY_BE_INCOMPLETE])


@pytest.mark.parametrize(("wanted", "times"), [(2, 2), (1, 1)])
def test_failed_second_query_returns_first_results(fragile: DegradableService, wanted: int, times: int) -> None:
    """Too few of the first rows become hits, and the second query fails.

    A search with enough hits sends no second query.
    """
    asked: list[int] = []

    async def find() -> tuple[list[Hit], SearchRun]:
        async with open_finder(fragile, top_k=wanted) as (finder, call):

            def rank(found: RetrieverResults) -> RankedKeys:
                asked.append(len(found.lexical[0]))
                if len(asked) > 1:
                    raise TimeoutError
                return merge_by_best_score(found.lexical)[:1]

            return await replace(finder, retriever_candidates=2).with_limit(2).retrieve(
                [call], create_ranker(call, rank)
            ), finder.search_run

    hits, course = asyncio.run(find())
    assert (len(hits), asked) == (1, [2] * times)
    more = ServiceWarning("results_may_be_incomplete", "Results may be incomplete: the candidate limit was reached.")
    assert (course.notices, course.warnings, course.degraded_steps) == ([more] * (times - 1), [], {})


def test_deleted_hits_are_replaced_by_next_ones(fragile: DegradableService) -> None:
    async def find() -> list[Hit]:
        async with open_finder(fragile, top_k=2) as (finder, call):

            def rank(found: RetrieverResults) -> RankedKeys:
                gone = [(call.index_id.bytes + uuid4().bytes, 9.0 - number) for number in range(3)]
                return [*gone, *merge_by_best_score(found.lexical)]

            return await finder.retrieve([call], create_ranker(call, rank))

    wanted = ids_of(results_of(ask(fragile.tenant.admin, query=fresh(), strategy="lexical")))
    assert [encode_id("doc", hit.document.id) for hit in asyncio.run(find())] == wanted
    assert len(wanted) == 2


def test_stopped_endpoint_is_a_warning(fragile: DegradableService) -> None:
    fragile.embedding.fail("disconnect", times=None)  # the open connections
    with fragile.embedding.stopped():
        status, snippets, seconds = fragile.agent_search()
        assert (status, len(snippets)) == (200, 2)
        assert seconds < BUDGET
        assert ask(fragile.tenant.admin, query=fresh())["warnings"] == [EMBEDDING_WARNING]
