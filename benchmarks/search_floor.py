"""``make bench NAME=search-floor``: measure the fastest possible search over HTTP and the bare SQL of its retrievers.

The minimal server has FastAPI, one connection, the statement of both retrievers, the fusion, the statement that reads
the best five texts, and JSON. It uses one transaction and does not wait for its commit. It checks no API key and no
limit, and writes no log. The benchmark compares it with the service, whose query vectors are cached. The HTTP client
of the standard library calls both servers. The benchmark calls the service a second time with httpx2, the client of
``make bench``, to measure the cost of that client. With arguments, the module is the minimal server: it prints its
port and serves until its standard input ends.
"""

import asyncio
import http.client
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
import httpx2
import numpy as np
import uvloop
from fastapi import FastAPI, Request
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from app.db.session import SERVER_SETTINGS
from app.documents.scopes import DocumentScope
from app.lexical.analyzers import get_analyzer
from app.lexical.weights import compute_query_terms, compute_salt
from app.retrieval.fusion.rank_fusion import sort_best_first
from app.retrieval.fusion.score_fusion import scale_range
from benchmarks.empty_endpoint import serve
from benchmarks.search import (
    HYBRID_SEARCH_FIVE_SQL,
    Vocabulary,
    fill_knowledge_base,
    find_index,
    measure_sql_times,
    measure_times,
)
from harness.embedding_endpoint import DIMENSIONS, compute_direction
from harness.processes import RunningService, embedding_endpoint, exit_on_sigterm, listening_process, running_service

ROUNDS, QUERIES, TOP_K = 5, 200, 5
PATH = "/v1/knowledge-bases/bench/search"
BEGIN_SQL = """
begin isolation level repeatable read;
select set_config('app.tenant_id', '{}', true), set_config('plan_cache_mode', 'auto', true)"""
# The statement of the service. Its form forces look-ups by key, independent of the table statistics.
TEXTS_SQL = """
select c.id, c.content, d.source from unnest($3::uuid[]) k(id)
 cross join lateral (select c.id, c.content, c.document_id from chunk c
                      where c.tenant_id = $1 and c.index_id = $2 and c.id = k.id offset 0) c
 cross join lateral (select d.source from document d where d.tenant_id = $1 and d.id = c.document_id offset 0) d"""


def create_floor_app(url: str, tenant: UUID, index: UUID) -> FastAPI:
    """Create the minimal application: one route that searches one search index."""
    locked: dict[str, Any] = {}

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        locked["connection"] = connection = await asyncpg.connect(url, server_settings=SERVER_SETTINGS)
        await register_vector(connection)
        locked["ending"] = asyncio.create_task(asyncio.sleep(0))
        yield
        await connection.close()

    app, analyzer, scopes = (
        FastAPI(lifespan=lifespan),
        get_analyzer("english"),
        list(DocumentScope().list_visible_keys()),
    )

    @app.post("/search")
    async def search(request: Request) -> dict[str, Any]:
        query, connection = json.loads(await request.body())["query"], locked["connection"]
        terms, keys = compute_query_terms(analyzer.tokenize(query), compute_salt(index))
        vector = HalfVector(np.frombuffer(compute_direction(query), "<f4"))
        await locked["ending"]
        await connection.execute(BEGIN_SQL.format(tenant))
        rows = await connection.fetch(HYBRID_SEARCH_FIVE_SQL, tenant, index, vector, DIMENSIONS, terms, keys, scopes)
        fused: dict[bytes, float] = defaultdict(float)
        for name in ("dense", "lexical"):
            for key, score in scale_range({row[1]: row[2] for row in rows if row[0] == name}).items():
                fused[key] += score / 2
        best = sort_best_first(fused.items())[:TOP_K]
        texts = {row[0]: row for row in await connection.fetch(TEXTS_SQL, tenant, index, [item for item, _ in best])}
        locked["ending"] = asyncio.create_task(connection.execute("commit"))
        return {"results": [{"text": texts[item][1], "source": texts[item][2], "score": score} for item, score in best]}

    return app


def measure_connection(address: str, path: str, key: str, requested: Sequence[str]) -> list[float]:
    """Send the queries over one keep-alive connection and return the milliseconds of each."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with closing(http.client.HTTPConnection(urlsplit(address).netloc)) as connection:

        def send_query(query: str) -> None:
            connection.request("POST", path, json.dumps({"query": query}), headers)
            reply = connection.getresponse()
            content = reply.read()
            if reply.status != HTTPStatus.OK:
                raise RuntimeError(content[:500])

        return measure_times(send_query, requested)


def measure(service: RunningService, client: httpx2.Client, address: str, vocabulary: Vocabulary) -> dict[str, float]:
    """Measure all servers and clients in alternation and return the median milliseconds. Round one is a warm-up."""
    rounds: list[dict[str, float]] = []

    def send_to_service(query: str) -> None:
        client.post(PATH, json={"query": query}).raise_for_status()

    for _ in range(ROUNDS + 1):
        requested = [vocabulary.generate_query() for _ in range(QUERIES)]
        measure_times(send_to_service, requested)  # from here on, the vectors of the queries are cached
        times = {
            "bare": uvloop.run(measure_sql_times(service, client, requested)),
            "least": measure_connection(address, "/search", service.key, requested),
            "service": measure_connection(service.url, PATH, service.key, requested),
            "httpx2": measure_times(send_to_service, requested),
        }
        rounds.append({name: statistics.median(item) for name, item in times.items()})
    return {name: statistics.median(item[name] for item in rounds[1:]) for name in rounds[0]}


def main() -> int:
    """Run the benchmark and print the medians."""
    vocabulary = Vocabulary(seed=1)
    with (
        embedding_endpoint() as embedding_url,
        running_service(embedding_url) as service,
        service.create_client() as client,
    ):
        chunks = fill_knowledge_base(service, vocabulary)
        tenant, index = asyncio.run(find_index(service, client))
        with listening_process("benchmarks.search_floor", service.database_url, str(tenant), str(index)) as minimum:
            p50 = measure(service, client, minimum.address, vocabulary)
    print(f"\nhybrid search, {chunks} chunks, p50, vectors cached: bare SQL of the retrievers {p50['bare']:.2f} ms;")
    print(f"the minimal server over HTTP {p50['least']:.2f} ms, {p50['least'] / p50['bare']:.2f}x the bare SQL;")
    print(f"the service {p50['service']:.2f} ms, {p50['service'] / p50['bare']:.2f}x the bare SQL", end=", ")
    print(f"{p50['service'] / p50['least']:.2f}x the minimal server;")
    print(f"the service, called with httpx2, {p50['httpx2']:.2f} ms, {p50['httpx2'] / p50['bare']:.2f}x the bare SQL")
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        uvloop.run(serve(create_floor_app(sys.argv[1], UUID(sys.argv[2]), UUID(sys.argv[3])), lifespan=True))
    else:
        exit_on_sigterm()
        sys.exit(main())
