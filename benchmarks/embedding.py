"""``make bench NAME=embedding``: compare speed, memory and quality of the local embedding models.

``CARREL_EVAL_DATA`` names the directory of evaluation sets. Speed is the median of several rounds. Each round measures
all models, so that other load of the machine affects all. Memory and the time to load are measured in a separate
process for each. ``--model NAME`` limits the run to some models; ``--speed`` leaves out the quality.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from app.inference.embedding import EmbeddingIdentity, Vectors
from app.inference.embedding.local_embedder import LocalEmbedder
from app.inference.embedding.local_loader import get_identity, load_local_embedder
from app.inference.embedding.local_models import DEFAULT_MODEL, LOCAL_MODELS
from app.inference.embedding.weights import require_weights
from app.settings import get_user_cache_dir

CHUNKS, CHUNK_TOKENS, OTHER_DOCUMENTS, ROUNDS, THREADS, QUERIES = 200, 200, 1000, 3, 2, 100


def list_identities(names: Sequence[str]) -> list[EmbeddingIdentity]:
    """Return the identities of models in all their precisions; without names, of all models."""
    return [
        get_identity(model, precision=precision)
        for model in LOCAL_MODELS.values()
        if not names or model.name in names
        for precision in model.precisions
    ]


def load_embedder(identity: EmbeddingIdentity) -> LocalEmbedder:
    directory = require_weights(LOCAL_MODELS[identity.model], None, get_user_cache_dir())
    return load_local_embedder(directory, identity, bulk_threads=THREADS)


def format_name(identity: EmbeddingIdentity) -> str:
    return f"{identity.model} ({identity.precision})"


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def read_judgements(path: Path) -> dict[str, set[str]]:
    relevant: dict[str, set[str]] = defaultdict(set)
    for line in path.read_text("utf-8").splitlines()[1:]:
        query, document, score = line.split("\t")
        if int(score) > 0:
            relevant[query].add(document)
    return relevant


def build_chunks(documents: Sequence[dict[str, Any]], embedder: LocalEmbedder) -> list[str]:
    """Cut the first 200 tokens of each of the first 300 abstracts that are long enough."""
    chunks = []
    for document in documents:
        (tokens,) = embedder.count_tokens([document["text"]])
        if tokens >= CHUNK_TOKENS:
            words = document["text"].split()
            chunks.append(" ".join(words[: len(words) * CHUNK_TOKENS // tokens]))
        if len(chunks) == CHUNKS:
            break
    return chunks


def compute_ndcg(ranking: Sequence[str], relevant: set[str]) -> float:
    """Compute the nDCG at 10 of a ranking with gains of 0 and 1."""
    gained = sum(1 / np.log2(rank + 2) for rank, document in enumerate(ranking[:10]) if document in relevant)
    ideal = sum(1 / np.log2(rank + 2) for rank in range(min(10, len(relevant))))
    return float(gained / ideal)


def compute_scores(
    documents: Vectors, ids: Sequence[str], queries: Vectors, relevant: Sequence[set[str]]
) -> list[float]:
    order = np.argsort(-(queries @ documents.T), axis=1, kind="stable")[:, :10]
    return [compute_ndcg([ids[i] for i in row], wanted) for row, wanted in zip(order, relevant, strict=True)]


async def rank_corpus(
    embedder: LocalEmbedder,
    corpus: Sequence[dict[str, Any]],
    queries: Sequence[dict[str, Any]],
    judged: dict[str, set[str]],
) -> tuple[list[float], Vectors]:
    vectors = (
        await embedder.embed_documents([f"{document['title']} {document['text']}" for document in corpus])
    ).vectors
    requested = await embedder.embed_queries([query["text"] for query in queries])
    ids = [str(document["id"]) for document in corpus]
    return compute_scores(vectors, ids, requested, [judged[query["id"]] for query in queries]), vectors


def read_resident_mb() -> dict[str, float]:
    """Return the resident megabytes of this process: ``rss`` is all memory, ``own`` is anonymous memory.

    The difference is mapped files, which processes share and the kernel can release.
    """
    status = Path("/proc/self/status").read_text().splitlines()
    sizes = {
        line.split(":")[0]: int(line.split()[1]) / 1024 for line in status if line.startswith(("VmRSS", "RssAnon"))
    }
    return {"rss": sizes["VmRSS"], "own": sizes["RssAnon"]}


async def measure_memory(identity: EmbeddingIdentity) -> None:
    """Print as JSON the seconds to load the model, and the memory that a process with all imports then uses."""
    before = read_resident_mb()
    begun = time.perf_counter()
    embedder = load_embedder(identity)
    seconds = time.perf_counter() - begun
    await embedder.embed_documents(["one two three four five six seven eight nine ten " * 20] * 8)
    print(json.dumps({"load": seconds} | {name: size - before[name] for name, size in read_resident_mb().items()}))
    await embedder.close()


def measure_memory_in_process(identity: EmbeddingIdentity) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.embedding", "--memory", identity.model, identity.precision]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, cwd=root)
    sizes: dict[str, float] = json.loads(done.stdout)
    return sizes


async def measure_speed(embedder: LocalEmbedder, chunks: Sequence[str], queries: Sequence[str]) -> dict[str, float]:
    """Return tokens per CPU second, elapsed milliseconds of a chunk, and CPU and elapsed milliseconds of a query."""
    cpu, begun = time.process_time(), time.perf_counter()
    embedded = await embedder.embed_documents(chunks)
    speed = {
        "rate": embedded.tokens / (time.process_time() - cpu),
        "chunk": 1000 * (time.perf_counter() - begun) / len(chunks),
    }
    cpu, begun = time.process_time(), time.perf_counter()
    for query in queries:
        await embedder.embed_queries([query])
    speed["query_cpu"] = 1000 * (time.process_time() - cpu) / len(queries)
    speed["query"] = 1000 * (time.perf_counter() - begun) / len(queries)
    return speed


async def run(data: Path, names: Sequence[str], *, with_quality: bool) -> None:
    corpus = read_lines(data / "scifact" / "corpus.jsonl")
    queries = read_lines(data / "scifact" / "queries.jsonl")
    models = {identity: load_embedder(identity) for identity in list_identities(names)}
    chunks = build_chunks(corpus, next(iter(models.values())))
    texts = [query["text"] for query in queries[:QUERIES]]
    rounds: dict[EmbeddingIdentity, list[dict[str, float]]] = defaultdict(list)
    for _ in range(ROUNDS):
        for identity, embedder in models.items():
            rounds[identity].append(await measure_speed(embedder, chunks, texts))
    scores: dict[EmbeddingIdentity, list[float]] = {}
    if with_quality:
        judged = read_judgements(data / "scifact" / "qrels.tsv")
        wanted = set().union(*judged.values())
        subset = [document for document in corpus if document["id"] in wanted]
        subset += [document for document in corpus if document["id"] not in wanted][:OTHER_DOCUMENTS]
        for identity, embedder in models.items():
            scores[identity], _ = await rank_corpus(embedder, subset, queries, judged)
        print(f"nDCG@10 of dense retrieval alone over {len(subset)} documents, {len(queries)} queries")
    for embedder in models.values():
        await embedder.close()
    print(f"{len(chunks)} chunks of {CHUNK_TOKENS} tokens, {ROUNDS} rounds, {THREADS} threads\n")
    columns = "tokens per CPU second | elapsed ms/chunk | query ms, CPU | elapsed | load s | memory MB | own | nDCG@10"
    print(f"| model | {columns} |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for identity, measured in rounds.items():
        median = {name: statistics.median(each[name] for each in measured) for name in measured[0]}
        sizes = measure_memory_in_process(identity)
        quality = f"{statistics.fmean(scores[identity]):.4f}" if identity in scores else "not measured"
        print(
            f"| {format_name(identity)} | {median['rate']:,.0f} | {median['chunk']:.1f} | {median['query_cpu']:.1f} "
            f"| {median['query']:.1f} | {sizes['load']:.2f} | {sizes['rss']:.0f} | {sizes['own']:.0f} | {quality} |"
        )
    _print_differences(scores)


def _print_differences(scores: dict[EmbeddingIdentity, list[float]]) -> None:
    """Print the paired differences of nDCG@10 to the default model."""
    baseline = next((identity for identity in scores if identity.model == DEFAULT_MODEL), None)
    if baseline is None:
        return
    for identity, values in scores.items():
        if identity != baseline:
            differences = np.array(values) - np.array(scores[baseline])
            error = differences.std(ddof=1) / np.sqrt(len(differences))
            print(
                f"{format_name(identity)} - {format_name(baseline)}: {differences.mean():+.4f} (standard error "
                f"{error:.4f})"
            )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make bench NAME=embedding", description="Compare local embedding models.")
    parser.add_argument("--model", action="append", default=[], choices=list(LOCAL_MODELS), help="only this model")
    parser.add_argument("--speed", action="store_true", help="leave out the quality")
    parser.add_argument("--memory", nargs=2, metavar=("MODEL", "PRECISION"), help="print the memory of one model")
    options = parser.parse_args(arguments)
    if options.memory:
        name, precision = options.memory
        asyncio.run(measure_memory(get_identity(LOCAL_MODELS[name], precision=precision)))
        return 0
    data = os.environ.get("CARREL_EVAL_DATA")
    if not data:
        sys.stderr.write("Set CARREL_EVAL_DATA to the directory of evaluation sets.\n")
        return 2
    asyncio.run(run(Path(data), options.model, with_quality=not options.speed))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
