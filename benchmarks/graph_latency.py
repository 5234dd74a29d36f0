"""``make bench NAME=graph-latency``: measure what the walk of graph_rag adds to a hybrid search.

COPY fills a knowledge base with generated passages. Each passage names entities, whose frequencies are
Zipf-distributed, so that some are hubs and most are rare. Both strategies search in turns, with the vector of the
query, so no search calls a model. The exit code is 1 if the walk adds more than the target.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence

import asyncpg
import numpy as np
import uvloop

from app.graph.keys import compute_entity_key
from app.retrieval.types import SearchResult
from benchmarks.scale_corpus import MEAN_WORDS, Question, SyntheticCorpus, build_share_metadata
from benchmarks.scale_database import ScaleDatabase, ScaleTenant, running_postgres
from harness.loader import IndexReference, Loader
from harness.processes import embedding_endpoint, exit_on_sigterm

MAX_P50_MS, MAX_P95_MS = 10.0, 25.0
WARM_UP, INDEX_THRESHOLD = 20, 20_000
ENTITIES_OF_CHUNK = 8
STRATEGIES = ("hybrid", "graph_rag")
COLUMNS = ["tenant_id", "index_id", "chunk_id", "scope_key", "keys", "counts", "names", "kinds"]


async def fill_graph(owner: asyncpg.Connection, place: IndexReference, *, seed: int) -> int:
    """Fill the graph of a loaded knowledge base, and return the number of entities.

    Args:
        owner: Connection of a superuser.
        place: The knowledge base.
        seed: Seed of the random entities.
    """
    scope = (place.tenant_id, place.index_id)
    chunks = await owner.fetch(
        "select chunk_id, scope_key from chunk_lexical where tenant_id = $1 and index_id = $2", *scope
    )
    rng = np.random.default_rng(seed)
    names = [f"name {number}" for number in range(len(chunks))]
    keys = [compute_entity_key(place.kb_id, name) for name in names]
    shares = 1 / (np.arange(len(names)) + 10.0)
    drawn = rng.choice(len(names), (len(chunks), ENTITIES_OF_CHUNK), p=shares / shares.sum())
    frequencies = np.zeros(len(names), np.int64)
    rows = []
    for chunk, numbers in zip(chunks, drawn, strict=True):
        distinct = np.unique(numbers).tolist()
        frequencies[distinct] += 1
        counts = rng.integers(1, 4, len(distinct)).tolist()
        own_names = [names[number] for number in distinct]
        own_keys = [keys[number] for number in distinct]
        rows.append((*scope, chunk["chunk_id"], chunk["scope_key"], own_keys, counts, own_names, "n" * len(distinct)))
    await owner.copy_records_to_table("chunk_entity", records=rows, columns=COLUMNS)
    used = np.flatnonzero(frequencies).tolist()
    entities = [(*scope, keys[number], int(frequencies[number]), 0, names[number]) for number in used]
    columns = ["tenant_id", "index_id", "key", "chunks", "titles", "name"]
    await owner.copy_records_to_table("entity", records=entities, columns=columns)
    await owner.execute("vacuum (analyze) chunk_entity, entity")
    return len(used)


async def measure_search(shelf: ScaleTenant, question: Question, strategy: str) -> tuple[float, SearchResult]:
    """Return the milliseconds of a search, and its result."""
    started = time.perf_counter()
    result = await shelf.search(question, strategy=strategy)
    return (time.perf_counter() - started) * 1000, result


async def measure_in_turns(shelf: ScaleTenant, questions: Sequence[Question]) -> tuple[dict[str, list[float]], int]:
    """Return the milliseconds of each search by strategy, and the number of searches that walked.

    The strategies alternate as the first for a question, because the second finds the rows in the cache.
    """
    times: dict[str, list[float]] = {strategy: [] for strategy in STRATEGIES}
    walked = 0
    for number, question in enumerate(questions):
        for strategy in sorted(STRATEGIES, reverse=number % 2 == 0):
            took, result = await measure_search(shelf, question, strategy)
            if number >= WARM_UP:
                times[strategy].append(took)
                walked += strategy == "graph_rag" and not result.warnings
    return times, walked


def show(times: dict[str, list[float]], walked: int) -> int:
    """Print the figures, and return the exit code."""
    print("| strategy | p50 ms | p95 ms |\n| --- | --- | --- |")
    p50 = {strategy: statistics.median(took) for strategy, took in times.items()}
    p95 = {strategy: statistics.quantiles(took, n=20)[-1] for strategy, took in times.items()}
    for strategy in STRATEGIES:
        print(f"| {strategy} | {p50[strategy]:.1f} | {p95[strategy]:.1f} |")
    added = p50["graph_rag"] - p50["hybrid"], p95["graph_rag"] - p95["hybrid"]
    print(
        f"\nthe walk adds {added[0]:+.1f} ms to p50 (target +{MAX_P50_MS:.0f}) and {added[1]:+.1f} ms to p95", end=" "
    )
    print(f"(target +{MAX_P95_MS:.0f}); {walked} of {len(times['hybrid'])} searches walked without a warning")
    return int(added[0] > MAX_P50_MS or added[1] > MAX_P95_MS or walked == 0)


async def measure(chunks: int, question_count: int, seed: int) -> int:
    """Load the chunks, measure both strategies, and return the exit code."""
    corpus = SyntheticCorpus(seed)
    with embedding_endpoint() as url, running_postgres(url) as (postgres, settings):
        async with ScaleDatabase.open(postgres, "graph", settings) as database:
            shelf = await database.create_tenant("graph")
            async with Loader.open(database.superuser_url) as loader, loader.without_secondary_indexes():
                batches = corpus.generate_batches(chunks, seed=seed)
                await loader.fill_index(shelf.index, batches, corpus.terms, build_share_metadata, avgdl=MEAN_WORDS)
            entities = await fill_graph(database.owner, shelf.index, seed=seed)
            state = await database.maintain(shelf.index, threshold=INDEX_THRESHOLD)
            print(f"{chunks} chunks, {entities} entities, vectors: {state}\n", flush=True)
            questions = corpus.generate_questions(WARM_UP + question_count)
            named = [
                Question(f"{question.text} name {number * 97 % chunks}", question.vector)
                for number, question in enumerate(questions)
            ]
            return show(*await measure_in_turns(shelf, named))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Latency of the walk in the entity graph")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    provided = parser.parse_args(arguments)
    return uvloop.run(measure(provided.chunks, provided.questions, provided.seed))


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
