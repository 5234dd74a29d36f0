"""Search: server CPU a request, and its time beside that of the bare SQL of its lanes and of an empty endpoint."""

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import asyncpg
import httpx
import numpy as np
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from app.db.session import SERVER_SETTINGS
from app.documents.scopes import Scope
from app.ids import decode_id
from app.inference.embedding.openai import OpenAIEmbedder
from app.lexical.analyser import analyser_for
from app.lexical.weights import query_terms, salt
from benchmarks.embedding_endpoint import DIMENSIONS, direction
from benchmarks.processes import EmptyEndpoint, RunningService, empty_endpoint, wait_until_ingested

CHUNKS, DOCUMENTS, WORDS, WARM_UP, QUERIES, ROUNDS = 1000, 100, 80, 60, 400, 3
SCOPED = "select set_config('app.tenant_id', $1, true)"
LANES = "select * from hybrid_search($1, $2, $3, $4, $5, $6, $7, null, null, 100, 100)"


@dataclass(frozen=True, slots=True)
class SearchFigures:
    """Milliseconds: CPU a search, and medians of elapsed time.

    ``known`` is the same search again, when the vector of its query is known and no model is asked; ``empty`` a request
    to the framework alone.
    """

    server_cpu: float
    postgres_cpu: float
    embedder_cpu: float
    embedder_p50: float
    search_p50: float
    sql_p50: float
    empty_cpu: float
    empty_p50: float
    known_cpu: float
    known_p50: float

    @property
    def in_empties(self) -> float:
        """Server CPU without a model, in requests to the framework alone."""
        return self.known_cpu / self.empty_cpu

    @property
    def over_sql(self) -> float:
        """Elapsed time without a model, over that of the bare SQL."""
        return self.known_p50 / self.sql_p50


class Vocabulary:
    """Made-up text whose words are as uneven as real ones (Zipf)."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self.words = ["".join(self._random.choices(letters, k=self._random.randint(4, 9))) for _ in range(8000)]
        self.weights = [1 / rank for rank in range(1, len(self.words) + 1)]

    def text(self, words: int) -> str:
        return " ".join(self._random.choices(self.words, self.weights, k=words))

    def query(self) -> str:
        """Six words, evenly drawn from the commoner ones."""
        return " ".join(self._random.choices(self.words[20:3000], k=6))


def fill(service: RunningService, vocabulary: Vocabulary) -> int:
    """Documents of ten paragraphs, each about as long as a chunk; returns how many chunks came of them."""
    with service.client() as client:
        kb = {"name": "bench", "chunking": {"strategy": "recursive", "max_tokens": 200, "overlap_tokens": 0}}
        client.post("/v1/knowledge-bases", json=kb).raise_for_status()
        url = "/v1/knowledge-bases/bench/documents"
        for number in range(DOCUMENTS):
            paragraphs = [vocabulary.text(WORDS) for _ in range(CHUNKS // DOCUMENTS)]
            body = {"text": "\n\n".join(paragraphs), "title": f"Document {number}"}
            client.post(url, json=body).raise_for_status()
        wait_until_ingested(client, "bench")
        return int(client.get("/v1/knowledge-bases/bench").json()["chunk_count"])


def timed(ask: Callable[[str], object], queries: Sequence[str]) -> list[float]:
    """Milliseconds of each call."""
    times = []
    for query in queries:
        started = time.perf_counter()
        ask(query)
        times.append((time.perf_counter() - started) * 1000)
    return times


def measure_search(service: RunningService, vocabulary: Vocabulary, *, queries: int = QUERIES) -> SearchFigures:
    """Rounds in which search, bare SQL and the empty endpoint take turns; medians of the rounds."""
    with service.client() as client, empty_endpoint() as endpoint, httpx.Client(base_url=endpoint.address) as other:

        def search(query: str) -> None:
            client.post("/v1/knowledge-bases/bench/search", json={"query": query}).raise_for_status()

        def empty(_query: str) -> None:
            other.get("/empty").raise_for_status()

        timed(search, [vocabulary.query() for _ in range(WARM_UP)])
        timed(empty, ["warm"] * WARM_UP)
        rounds = [_round(service, client, search, (endpoint, empty), vocabulary, queries) for _ in range(ROUNDS)]
    return SearchFigures(*(statistics.median(column) for column in zip(*rounds, strict=True)))


def _round(
    service: RunningService,
    client: httpx.Client,
    search: Callable[[str], object],
    empty: tuple[EmptyEndpoint, Callable[[str], object]],
    vocabulary: Vocabulary,
    count: int,
) -> tuple[float, ...]:
    asked = [vocabulary.query() for _ in range(count)]
    before = service.cpu()
    search_times = timed(search, asked)
    spent = service.cpu() - before
    before = service.cpu()
    known_times = timed(search, asked)
    known = service.cpu() - before
    framework, nothing = empty
    begun = framework.cpu()
    empty_times = timed(nothing, asked)
    least = framework.cpu() - begun
    embedder_cpu, embedder_times = asyncio.run(_embedder_times(str(service.embedding_url), asked[: count // 2]))
    bare_times = asyncio.run(sql_times(service, client, asked[: count // 2]))
    return (
        spent.carrel * 1000 / count,
        spent.postgres * 1000 / count,
        embedder_cpu,
        statistics.median(embedder_times),
        statistics.median(search_times),
        statistics.median(bare_times),
        least * 1000 / count,
        statistics.median(empty_times),
        known.carrel * 1000 / count,
        statistics.median(known_times),
    )


async def _embedder_times(base_url: str, queries: Sequence[str]) -> tuple[float, list[float]]:
    """What the service's own client of the endpoint costs in this process: CPU a query, and elapsed times (ms)."""
    embedder = OpenAIEmbedder(
        base_url,
        None,
        "directions",
        DIMENSIONS,
        send_dimensions=False,
        max_tokens=8191,
        query_prefix="",
        document_prefix="",
        timeout_seconds=30,
    )
    await embedder.embed_queries(["warm"])
    cpu, times = time.process_time(), []
    for query in queries:
        started = time.perf_counter()
        await embedder.embed_queries([query])
        times.append((time.perf_counter() - started) * 1000)
    spent = time.process_time() - cpu
    await embedder.close()
    return spent * 1000 / len(queries), times


async def sql_times(service: RunningService, client: httpx.Client, queries: Sequence[str]) -> list[float]:
    """The statement of both lanes in a transaction of its tenant, prepared once, as the plain role; milliseconds."""
    me, kb = client.get("/v1/me").json(), client.get("/v1/knowledge-bases/bench").json()
    tenant, base = decode_id("ten", me["tenant"]["id"]), decode_id("kb", kb["id"])
    connection = await asyncpg.connect(service.database_url, server_settings=SERVER_SETTINGS)
    try:
        await register_vector(connection)
        async with connection.transaction():
            await connection.execute(SCOPED, str(tenant))
            index = await connection.fetchval("select id from search_index where kb_id = $1", base)
        scoped, lanes = await connection.prepare(SCOPED), await connection.prepare(LANES)
        scopes, analyser = list(Scope().visible()), analyser_for("english")
        times = []
        for query in queries:
            terms, keys = query_terms(analyser.tokens(query), salt(index))
            vector = HalfVector(np.frombuffer(direction(query), "<f4"))
            started = time.perf_counter()
            async with connection.transaction():
                await scoped.fetch(str(tenant))
                await lanes.fetch(tenant, index, vector, DIMENSIONS, terms, keys, scopes)
            times.append((time.perf_counter() - started) * 1000)
        return times
    finally:
        await connection.close()
