"""``make bench NAME=routing``: measure routing among 1,000 knowledge bases and a search over all of them.

COPY fills a new database. Each knowledge base has a full set of centroids for routing.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial

import asyncpg
import numpy as np
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from app.bootstrap.tenant_services import TenantServices
from app.ids import generate_id
from app.inference.embedding.model_registry import compute_model_key
from app.retrieval.query_embedding import QueryEmbedder
from app.retrieval.routes import RoutingOptions
from app.retrieval.routing.router import Router
from app.retrieval.search_run import SearchRun
from app.retrieval.types import Query, SearchRequest
from benchmarks.scale_database import ScaleDatabase, ScaleTenant, running_postgres
from harness.embedding_endpoint import DIMENSIONS
from harness.processes import embedding_endpoint, exit_on_sigterm, list_process_tree

KNOWLEDGE_BASES, CENTROIDS = 1000, 16
WARM_UP, ROUTES, SEARCHES = 20, 200, 20
# Keeps the topics as far apart as the topics of real knowledge bases.
NOISE = 0.5


@dataclass(frozen=True, slots=True)
class RoutingCost:
    """Median elapsed time, and mean CPU time of this process and of Postgres, in milliseconds."""

    elapsed_ms: float
    cpu_ms: float
    postgres_cpu_ms: float


class TopicVectors:
    """Generator of random unit vectors: topics, and vectors near a topic."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def generate_near(self, topic: np.ndarray | None, count: int) -> np.ndarray:
        created = self._random.normal(size=(count, DIMENSIONS)) / np.sqrt(DIMENSIONS)
        created = created if topic is None else topic + NOISE * created
        return np.asarray(created / np.linalg.norm(created, axis=1, keepdims=True), np.float32)


async def load_topics(
    database: ScaleDatabase, shelf: ScaleTenant, count: int, directions: TopicVectors
) -> list[np.ndarray]:
    """Create ``count`` knowledge bases in their state after maintenance, and return their topic vectors."""
    embedder = database.resources.embedders.default
    identity = json.dumps({**asdict(embedder.identity), "analyzer": "english-1", "k1": 1.2, "b": 0.75})
    tenant, model = shelf.index.tenant_id, compute_model_key(embedder.identity)
    kbs, indexes = [generate_id() for _ in range(count)], [generate_id() for _ in range(count)]
    topics = [directions.generate_near(None, 1)[0] for _ in range(count)]
    connection = await asyncpg.connect(database.superuser_url)
    await register_vector(connection)
    try:
        await connection.execute(
            "insert into knowledge_base (tenant_id, id, name, chunking, retrieval, routing)"
            " select $1, u.id, 'kb-' || u.n, chunking, retrieval, '{}' from knowledge_base,"
            " unnest($2::uuid[]) with ordinality u(id, n) where tenant_id = $1 and name = 'default'", tenant, kbs,
        )  # fmt: skip
        await connection.execute(
            "insert into search_index (tenant_id, kb_id, id, identity, dim, state)"
            " select $1, u.kb, u.id, $4::text::jsonb, $5, 'live' from unnest($2::uuid[], $3::uuid[]) u(kb, id)",
            tenant, kbs, indexes, identity, DIMENSIONS,
        )  # fmt: skip
        profiles = [(tenant, index, model, 1) for index in indexes]
        await connection.copy_records_to_table(
            "routing_profile", records=profiles, columns=["tenant_id", "index_id", "model", "chunks"]
        )
        for index, topic in zip(indexes, topics, strict=True):
            centroids = enumerate(directions.generate_near(topic, CENTROIDS))
            records = [(tenant, index, number, False, HalfVector(item)) for number, item in centroids]
            await connection.copy_records_to_table("routing_vector", records=records)
        await connection.execute("analyze")
    finally:
        await connection.close()
    return topics


def create_router(database: ScaleDatabase, shelf: ScaleTenant) -> Router:
    retrieval = TenantServices(shelf.principal, database.resources).retrieval
    course = SearchRun.from_timeout(60)
    vectors = QueryEmbedder(retrieval.query_vector_cache, retrieval.quotas, course)
    return Router(
        retrieval.db,
        retrieval.knowledge_bases,
        retrieval.embedders,
        vectors,
        retrieval.profile_cache,
        retrieval.knowledge_base_cache,
        course,
    )


async def measure_cost(postgres_pid: int, times: int, do: Callable[[int], Awaitable[None]]) -> RoutingCost:
    for number in range(min(times, WARM_UP)):
        await do(number)
    boundaries = []
    cpu, server = time.process_time(), _measure_cpu(postgres_pid)
    for number in range(times):
        started = time.perf_counter()
        await do(number)
        boundaries.append(time.perf_counter() - started)
    own, servers = time.process_time() - cpu, _measure_cpu(postgres_pid) - server
    return RoutingCost(statistics.median(boundaries) * 1000, own / times * 1000, servers / times * 1000)


def _measure_cpu(pid: int) -> float:
    return sum(process.cpu_seconds for process in list_process_tree(pid))


@dataclass
class RoutingTenant:
    """Tenant with many knowledge bases, and one query near the topic of each."""

    shelf: ScaleTenant
    router: Router
    queries: Sequence[Query]
    right_count: int = 0
    route_ms: list[float] = field(default_factory=list)

    async def route_query(self, number: int) -> None:
        place = number % len(self.queries)
        self.router.search_run.timings_ms.clear()
        routed = await self.router.resolve_route(SearchRequest(routing=RoutingOptions(3)), [self.queries[place]], [])
        result = await routed.wait_for_route()
        self.route_ms.append(self.router.search_run.timings_ms["route"])
        self.right_count += f"kb-{place + 1}" in [view.row.name for view in result.views]

    async def search(self, number: int, routing: RoutingOptions) -> None:
        requested = SearchRequest([self.queries[number % len(self.queries)]], routing=routing, timeout_seconds=60)
        await self.shelf.retrieval.search(requested)


async def run(database: ScaleDatabase, postgres_pid: int, counts: Sequence[int]) -> None:
    print("| knowledge bases | operation | median, ms | CPU, ms | Postgres CPU, ms |\n| --- | --- | --- | --- | --- |")
    for count in counts:
        shelf, directions = await database.create_tenant(f"{count} knowledge bases"), TopicVectors(count)
        topics = await load_topics(database, shelf, count, directions)
        queries = [Query("a question", directions.generate_near(topic, 1)[0]) for topic in topics]
        tried = RoutingTenant(shelf, create_router(database, shelf), queries)
        steps: dict[str, tuple[int, Callable[[int], Awaitable[None]]]] = {
            "routing": (ROUTES, tried.route_query),
            "a search, routed": (ROUTES, partial(tried.search, routing=RoutingOptions(3))),
            "a search in all": (SEARCHES, partial(tried.search, routing=RoutingOptions(None))),
        }
        for name, (times, do) in steps.items():
            cost = await measure_cost(postgres_pid, times, do)
            total = cost.cpu_ms + cost.postgres_cpu_ms
            print(
                f"| {count} | {name} | {cost.elapsed_ms:.1f} | {total:.1f} | {cost.postgres_cpu_ms:.1f} |", flush=True
            )
        # The step `route` excludes the transactions in which every search reads its knowledge bases.
        print(f"| {count} | its step `route` | {statistics.median(tried.route_ms):.1f} | | |", flush=True)
        if tried.right_count < ROUTES:
            raise RuntimeError("routing did not choose the knowledge base whose topic is nearest to the query")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make bench NAME=routing", description=__doc__)
    parser.add_argument("counts", type=int, nargs="*", default=[10, 100, KNOWLEDGE_BASES], metavar="N")
    provided = parser.parse_args(arguments)

    async def run_benchmark() -> None:
        async with ScaleDatabase.open(postgres, "routing", settings) as database:
            pid: int = await database.owner.fetchval("select pg_backend_pid()")
            parent = next(item.parent_pid for item in list_process_tree(pid) if item.pid == pid)
            await run(database, parent, provided.counts)

    with embedding_endpoint() as endpoint, running_postgres(endpoint) as (postgres, settings):
        asyncio.run(run_benchmark())
    return 0


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
