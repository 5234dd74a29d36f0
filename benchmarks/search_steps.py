"""``make bench NAME=search-steps``: measure the steps of a search in the service and the bare SQL of its retrievers.

Searches run one after the other in this process, on the event loop of the service. Every query has its vector, so that
no search calls a model. The times of retrieval and of reading are the timings that the service reports.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np
import uvloop

from app.bootstrap import Resources
from app.bootstrap.tenant_services import TenantServices
from app.db.session import TenantDatabase
from app.principal import Principal, Role
from app.retrieval.service import RetrievalService
from app.retrieval.types import Query, SearchRequest
from app.settings import load_settings
from benchmarks.scale_corpus import Question
from benchmarks.scale_database import BareSql
from benchmarks.search import Vocabulary, fill_knowledge_base, find_index
from harness.embedding_endpoint import DIMENSIONS, compute_direction
from harness.loader import IndexReference
from harness.processes import RunningService, embedding_endpoint, exit_on_sigterm, running_service

WARM_UP, QUERIES, KB = 200, 1000, "bench"


async def measure_begin(db: TenantDatabase) -> float:
    """Return the milliseconds until the transaction of a search has begun and checked its knowledge base."""
    started = time.perf_counter()
    async with db.read_transaction(snapshot=True, statement_timeout_seconds=5.0):
        return (time.perf_counter() - started) * 1000


async def measure_steps(
    retrieval: RetrievalService, bare: BareSql, place: IndexReference, requested: Sequence[str]
) -> dict[str, float]:
    """Return the median milliseconds of each step and of bare SQL.

    Service and bare SQL alternate as the first for a query, because the second finds the rows in the cache.
    """
    took: dict[str, list[float]] = {name: [] for name in ("total", "begin", "retrieve", "read", "bare")}
    for number, query in enumerate(requested):
        question = Question(query, np.frombuffer(compute_direction(query), "<f4"))
        request = SearchRequest(queries=[Query(query, question.vector)], knowledge_bases=[KB])
        if number % 2:
            took["bare"].append(await bare.run(place, question))
        reported = (await retrieval.search(request)).timings_ms
        if not number % 2:
            took["bare"].append(await bare.run(place, question))
        view = retrieval.knowledge_base_cache.get(place.tenant_id, KB)
        assert view is not None
        took["begin"].append(
            await measure_begin(replace(retrieval.db, expected_states={view.row.id: view.cache_token}))
        )
        for name in ("total", "retrieve", "read"):
            took[name].append(reported[name])
    return {name: statistics.median(times[WARM_UP:]) for name, times in took.items()}


async def measure(service: RunningService, place: IndexReference, vocabulary: Vocabulary) -> dict[str, float]:
    """Open the resources of the service in this process, on the database of the running service, and measure."""
    settings = load_settings(
        server={"CARREL_DATA_DIR": service.data_dir},
        embedding={
            "CARREL_EMBEDDING_BASE_URL": service.embedding_url,
            "CARREL_EMBEDDING_MODEL": "directions",
            "CARREL_EMBEDDING_DIMENSIONS": DIMENSIONS,
        },
    )
    requested = [vocabulary.generate_query() for _ in range(WARM_UP + QUERIES)]
    url = service.database_url
    async with (
        Resources.open(settings, database_url=url, operator_key="k" * 40, bulk_threads=1) as resources,
        BareSql.open(url) as bare,
    ):
        retrieval = TenantServices(Principal(place.tenant_id, KB, Role.ADMIN), resources).retrieval
        return await measure_steps(retrieval, bare, place, requested)


def main() -> int:
    """Run the benchmark and print the steps."""
    vocabulary = Vocabulary(seed=1)
    with embedding_endpoint() as url, running_service(url) as service, service.create_client() as client:
        chunks = fill_knowledge_base(service, vocabulary)
        tenant, index = asyncio.run(find_index(service, client))
        p50 = uvloop.run(measure(service, IndexReference(tenant, UUID(int=0), index), vocabulary))
    remainder = p50["total"] - p50["begin"] - p50["retrieve"] - p50["read"]
    print(f"\nhybrid search inside the service, {chunks} chunks, p50 {p50['total']:.2f} ms, of which")
    print(f"begin of the transaction {p50['begin']:.2f}, retrievers {p50['retrieve']:.2f}, reading {p50['read']:.2f},")
    print(f"the rest {remainder:.2f}: planning, analysis of the query, fusion;")
    print(f"bare SQL of the retrievers {p50['bare']:.2f} ms: {p50['total'] / p50['bare']:.2f}x (target: 1.5x)")
    return 0


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main())
