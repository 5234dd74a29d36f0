"""``make bench NAME=minilm-precision``: compare CPU, memory and quality of fp32 and int8 in the embedded model.

``CARREL_EVAL_DATA`` names the directory of evaluation sets. Speed is the median of several rounds. Each round measures
both precisions, so that other load of the machine affects both. Memory is measured in a separate process for each.
"""

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

from app.inference.embedding import Vectors
from app.inference.embedding.minilm import MiniLMEmbedder
from app.inference.embedding.minilm_tensors import Precision
from app.inference.embedding.weights import find_weights

PRECISIONS: tuple[Precision, ...] = ("fp32", "int8")
CHUNKS, CHUNK_TOKENS, OTHER_DOCUMENTS, ROUNDS, THREADS = 300, 200, 1000, 3, 2


def load_embedder(precision: Precision) -> MiniLMEmbedder:
    weights = find_weights(None, Path.home() / ".cache")
    return MiniLMEmbedder.load(weights, precision=precision, bulk_threads=THREADS)


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def read_judgements(path: Path) -> dict[str, set[str]]:
    relevant: dict[str, set[str]] = defaultdict(set)
    for line in path.read_text("utf-8").splitlines()[1:]:
        query, document, score = line.split("\t")
        if int(score) > 0:
            relevant[query].add(document)
    return relevant


def build_chunks(documents: Sequence[dict[str, Any]], embedder: MiniLMEmbedder) -> list[str]:
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


async def measure_time(embedder: MiniLMEmbedder, chunks: Sequence[str]) -> tuple[float, float]:
    """Embed the chunks and return the CPU time and the elapsed time, both in milliseconds a chunk."""
    cpu, boundary = time.process_time(), time.perf_counter()
    await embedder.embed_documents(chunks)
    return tuple(1000 * spent / len(chunks) for spent in (time.process_time() - cpu, time.perf_counter() - boundary))  # type: ignore[return-value]


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
    embedder: MiniLMEmbedder,
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


async def measure_memory(precision: Precision) -> None:
    """Print as JSON the memory that loading the model and embedding add to a process with all imports done."""
    before = read_resident_mb()
    embedder = load_embedder(precision)
    await embedder.embed_documents(["one two three four five six seven eight nine ten " * 20] * 8)
    print(json.dumps({name: size - before[name] for name, size in read_resident_mb().items()}))
    await embedder.close()


def measure_memory_in_process(precision: Precision) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.minilm_precision", "--memory", precision]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, cwd=root)
    sizes: dict[str, float] = json.loads(done.stdout)
    return sizes


async def run(data: Path) -> None:
    corpus = read_lines(data / "scifact" / "corpus.jsonl")
    queries = read_lines(data / "scifact" / "queries.jsonl")
    judged = read_judgements(data / "scifact" / "qrels.tsv")
    wanted = set().union(*judged.values())
    subset = [document for document in corpus if document["id"] in wanted]
    subset += [document for document in corpus if document["id"] not in wanted][:OTHER_DOCUMENTS]
    models = {precision: load_embedder(precision) for precision in PRECISIONS}
    chunks = build_chunks(corpus, models["fp32"])
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(ROUNDS):
        for precision, embedder in models.items():
            times[precision].append(await measure_time(embedder, chunks))
    scores, vectors = {}, {}
    for precision, embedder in models.items():
        scores[precision], vectors[precision] = await rank_corpus(embedder, subset, queries, judged)
        await embedder.close()
    print(f"{len(chunks)} chunks of {CHUNK_TOKENS} tokens, {ROUNDS} rounds, {THREADS} threads;", end=" ")
    print(f"nDCG@10 over {len(subset)} documents, {len(queries)} queries\n")
    print(
        "| precision | CPU ms/chunk | elapsed ms/chunk | memory MB (own) | nDCG@10 |\n| --- | --- | --- | --- | --- |"
    )
    for precision in PRECISIONS:
        cpu, boundary = (statistics.median(column) for column in zip(*times[precision], strict=True))
        sizes = measure_memory_in_process(precision)
        mean = statistics.fmean(scores[precision])
        print(f"| {precision} | {cpu:.1f} | {boundary:.1f} | {sizes['rss']:.0f} ({sizes['own']:.0f}) | {mean:.4f} |")
    cosines = (vectors["fp32"] * vectors["int8"]).sum(axis=1)
    differences = np.array(scores["int8"]) - np.array(scores["fp32"])
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    print(f"\ncosine of int8 with fp32: mean {cosines.mean():.4f}, minimum {cosines.min():.4f};", end=" ")
    print(f"nDCG@10 int8 - fp32: {differences.mean():+.4f} (standard error {error:.4f})")


def main(arguments: Sequence[str]) -> int:
    if arguments:
        _, precision = arguments
        asyncio.run(measure_memory("int8" if precision == "int8" else "fp32"))
        return 0
    data = os.environ.get("CARREL_EVAL_DATA")
    if not data:
        sys.stderr.write("Set CARREL_EVAL_DATA to the directory of evaluation sets.\n")
        return 2
    asyncio.run(run(Path(data)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
