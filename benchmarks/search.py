"""Measurement of search: server CPU and time, compared with bare SQL of the retrievers and an empty endpoint."""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg
import httpx2
import numpy as np
import uvloop
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from app.db.driver import build_begin_sql
from app.db.session import SERVER_SETTINGS
from app.documents.scopes import DocumentScope
from app.ids import decode_id
from app.lexical.analyzers import get_analyzer
from app.lexical.weights import compute_query_terms, compute_salt
from benchmarks.metered_embedder import Meter
from harness.embedding_endpoint import DIMENSIONS, compute_direction
from harness.processes import RunningService, listening_process, wait_until_ingested

CHUNKS, DOCUMENTS, WORDS, WARM_UP, QUERIES, ROUNDS = 1000, 100, 80, 60, 400, 3
# An empty request is shorter than a tick of the CPU clock (10 ms), so the benchmark sends five for each query.
EMPTY_REPETITIONS = 5
SET_TENANT_SQL = "select set_config('app.tenant_id', $1, true)"
HYBRID_SEARCH_SQL = "select * from hybrid_search($1, $2, $3, $4, $5, $6, $7, null, null, 100, 100)"
# The same statement with the cosines of five lexical rows, as a search by reciprocal ranks for five results needs it.
HYBRID_SEARCH_FIVE_SQL = HYBRID_SEARCH_SQL.replace("100)", "100, null, 5)")


@dataclass(frozen=True, slots=True)
class SearchFigures:
    """CPU milliseconds a search, and medians of elapsed milliseconds (``p50``).

    ``embedder_cpu`` is the part of the server CPU in the embedder. The ``cached`` fields measure the same queries
    again, when their vectors are cached. ``cached_inside`` is the time that the service reports, without HTTP. The
    ``sql`` fields measure bare SQL. The ``empty`` fields measure a request to uvicorn alone.
    """

    server_cpu: float
    embedder_cpu: float
    postgres_cpu: float
    search_p50: float
    cached_cpu: float
    cached_p50: float
    cached_inside: float
    sql_p50: float
    sql_for_five_p50: float
    empty_cpu: float
    empty_p50: float

    @property
    def cpu_without_model(self) -> float:
        """Server CPU without the embedder, in milliseconds."""
        return self.server_cpu - self.embedder_cpu


class Vocabulary:
    """Generator of texts from random words, whose frequencies follow Zipf's law."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self.words = ["".join(self._random.choices(letters, k=self._random.randint(4, 9))) for _ in range(8000)]
        self.weights = [1 / rank for rank in range(1, len(self.words) + 1)]

    def generate_text(self, words: int) -> str:
        return " ".join(self._random.choices(self.words, self.weights, k=words))

    def generate_query(self) -> str:
        """Return six words, drawn uniformly from the ranks 20 to 3,000."""
        return " ".join(self._random.choices(self.words[20:3000], k=6))


def fill_knowledge_base(service: RunningService, vocabulary: Vocabulary) -> int:
    """Fill the knowledge base ``bench`` and return its number of chunks.

    A document has ten paragraphs, and a paragraph is about as long as a chunk.
    """
    with service.create_client() as client:
        kb = {"name": "bench", "chunking": {"strategy": "recursive", "max_tokens": 200, "overlap_tokens": 0}}
        client.post("/v1/knowledge-bases", json=kb).raise_for_status()
        url = "/v1/knowledge-bases/bench/documents"
        for number in range(DOCUMENTS):
            paragraphs = [vocabulary.generate_text(WORDS) for _ in range(CHUNKS // DOCUMENTS)]
            body = {"text": "\n\n".join(paragraphs), "title": f"Document {number}"}
            client.post(url, json=body).raise_for_status()
        wait_until_ingested(client, "bench")
        return int(client.get("/v1/knowledge-bases/bench").json()["chunk_count"])


def measure_times(ask: Callable[[str], object], queries: Sequence[str]) -> list[float]:
    """Return the milliseconds of each call."""
    times = []
    for query in queries:
        started = time.perf_counter()
        ask(query)
        times.append((time.perf_counter() - started) * 1000)
    return times


@dataclass(frozen=True, slots=True)
class MeteredSearches:
    """Client of a service whose embedder is metered."""

    service: RunningService
    client: httpx2.Client
    meter: Meter

    def measure_times(self, queries: Sequence[str]) -> tuple[list[float], list[float]]:
        """Return the milliseconds of each search: as the client measures them, and as the service reports them."""
        inside: list[float] = []

        def search(query: str) -> None:
            reply = self.client.post("/v1/knowledge-bases/bench/search", json={"query": query}).raise_for_status()
            inside.append(reply.json()["timings_ms"]["total"])

        return measure_times(search, queries), inside


def measure_search(
    service: RunningService, meter: Meter, vocabulary: Vocabulary, *, queries: int = QUERIES
) -> SearchFigures:
    """Measure search, bare SQL and the empty endpoint in every round, and return the medians of the rounds."""
    with (
        service.create_client() as client,
        listening_process("benchmarks.empty_endpoint") as server,
        httpx2.Client(base_url=server.address) as other,
    ):

        def request_empty(_query: str) -> None:
            other.get("/").raise_for_status()

        searching = MeteredSearches(service, client, meter)
        searching.measure_times([vocabulary.generate_query() for _ in range(WARM_UP)])
        measure_times(request_empty, ["warm"] * WARM_UP)
        rounds = []
        for _ in range(ROUNDS):
            requested = [vocabulary.generate_query() for _ in range(queries)]
            result = _measure_round(searching, requested)
            bare = [
                statistics.median(
                    uvloop.run(measure_sql_times(service, client, requested[: queries // 2], statement=statement))
                )
                for statement in (HYBRID_SEARCH_SQL, HYBRID_SEARCH_FIVE_SQL)
            ]
            begun = server.measure_cpu_seconds()
            idle = measure_times(request_empty, list(requested) * EMPTY_REPETITIONS)
            spent = (server.measure_cpu_seconds() - begun) * 1000 / len(idle)
            rounds.append((*result, *bare, spent, statistics.median(idle)))
    return SearchFigures(*(statistics.median(column) for column in zip(*rounds, strict=True)))


def _measure_round(searching: MeteredSearches, requested: Sequence[str]) -> tuple[float, ...]:
    """Return the figures of one round, from ``server_cpu`` to ``cached_inside``."""
    service, each = searching.service, 1000 / len(requested)
    before, begun = service.measure_cpu(), searching.meter.seconds
    times, _ = searching.measure_times(requested)
    spent, embedder = service.measure_cpu() - before, searching.meter.seconds - begun
    before = service.measure_cpu()
    existing_times, inside = searching.measure_times(requested)
    existing = service.measure_cpu() - before
    return (
        spent.carrel * each,
        embedder * each,
        spent.postgres * each,
        statistics.median(times),
        existing.carrel * each,
        statistics.median(existing_times),
        statistics.median(inside),
    )


async def find_index(service: RunningService, client: httpx2.Client) -> tuple[UUID, UUID]:
    """Return the ids of the tenant and of the live search index of knowledge base ``bench``."""
    me, kb = client.get("/v1/me").json(), client.get("/v1/knowledge-bases/bench").json()
    tenant, base = decode_id("ten", me["tenant"]["id"]), decode_id("kb", kb["id"])
    assert tenant is not None
    connection = await asyncpg.connect(service.database_url)
    try:
        async with connection.transaction():
            await connection.execute(SET_TENANT_SQL, str(tenant))
            live = "select id from search_index where kb_id = $1 and state = 'live'"
            return tenant, await connection.fetchval(live, base)
    finally:
        await connection.close()


async def measure_sql_times(
    service: RunningService, client: httpx2.Client, queries: Sequence[str], *, statement: str = HYBRID_SEARCH_SQL
) -> list[float]:
    """Run the hybrid statement for each query in a transaction like the service's; return the milliseconds."""
    tenant, index = await find_index(service, client)
    connection = await asyncpg.connect(service.database_url, server_settings=SERVER_SETTINGS)
    try:
        await register_vector(connection)
        begin = build_begin_sql(tenant, snapshot=True, allow_generic_plans=True, read_only=True)
        scopes, analyzer = list(DocumentScope().list_visible_keys()), get_analyzer("english")
        times = []
        for query in queries:
            terms, keys = compute_query_terms(analyzer.tokenize(query), compute_salt(index))
            vector = HalfVector(np.frombuffer(compute_direction(query), "<f4"))
            started = time.perf_counter()
            await connection.execute(begin)
            await connection.fetch(statement, tenant, index, vector, DIMENSIONS, terms, keys, scopes)
            await connection.execute("commit")
            times.append((time.perf_counter() - started) * 1000)
        return times
    finally:
        await connection.close()
