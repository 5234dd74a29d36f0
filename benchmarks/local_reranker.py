"""``make bench NAME=local-reranker``: measure the cost of a local reranker, and compare separate runs with batches.

The model has the shape of MiniLM (6 layers, 384 dimensions) and random weights, in fp32 and quantized to int8. Each
figure is the least of several rounds, which take turns. CPU time is that of the whole process.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from app.inference.onnx_directory import open_model_directory
from app.inference.rerank.cross_encoder import CrossEncoder
from app.inference.rerank.local_reranker import LocalReranker
from benchmarks.random_cross_encoder import write_cross_encoder

FILES = {"fp32": "model.onnx", "int8": "model_int8.onnx"}
QUERY_TOKENS, PAIR_TOKENS, SPECIAL_TOKENS = 10, 220, 3
PAIR_COUNTS = (20, 50)
THREADS = (1, 2)
BATCH_SIZE, ROUNDS = 10, 5
TIMEOUT_SECONDS = 120.0


def build_texts(words: Sequence[str], count: int, *, same_length: bool = True) -> list[str]:
    """Return texts that are as long as the pair allows, or of all lengths down to a quarter of it."""
    chooser = random.Random(0)
    longest = PAIR_TOKENS - SPECIAL_TOKENS - QUERY_TOKENS
    lengths = [longest if same_length else chooser.randint(longest // 4, longest) for _ in range(count)]
    return [" ".join(chooser.choices(words, k=length)) for length in lengths]


def measure(function: Callable[[], object]) -> tuple[float, float]:
    """Return the elapsed and the CPU seconds of a call."""
    elapsed, cpu = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - elapsed, time.process_time() - cpu


async def measure_rerank(
    location: Path, query: str, words: Sequence[str]
) -> dict[tuple[int, int], tuple[float, float]]:
    """Return the least elapsed and CPU seconds of ``rerank`` by number of threads and of pairs."""
    figures: dict[tuple[int, int], tuple[float, float]] = {}
    for threads in THREADS:
        reranker = LocalReranker.load(location, max_tokens=None, max_characters=100_000, threads=threads)
        for count in PAIR_COUNTS:
            texts = build_texts(words, count)
            rounds = []
            for _ in range(ROUNDS):
                elapsed, cpu = time.perf_counter(), time.process_time()
                await reranker.rerank(query, texts, top_n=count, timeout_seconds=TIMEOUT_SECONDS)
                rounds.append((time.perf_counter() - elapsed, time.process_time() - cpu))
            figures[threads, count] = (min(each for each, _ in rounds), min(each for _, each in rounds))
        await reranker.close()
    return figures


def run_batches(encoder: CrossEncoder, query: str, texts: Sequence[str]) -> list[float]:
    """Score texts in padded batches, sorted by length, and return the logits in the order of the texts."""
    encodings = {place: encoder._tokenizer.encode(query, text) for place, text in enumerate(texts)}
    order = sorted(encodings, key=lambda place: len(encodings[place].ids))
    logits: dict[int, float] = {}
    for start in range(0, len(order), BATCH_SIZE):
        places = order[start : start + BATCH_SIZE]
        longest = max(len(encodings[place].ids) for place in places)
        rows = {
            "input_ids": [encodings[place].ids for place in places],
            "attention_mask": [encodings[place].attention_mask for place in places],
            "token_type_ids": [encodings[place].type_ids for place in places],
        }
        feeds = {
            name: np.array([[*row, *[0] * (longest - len(row))] for row in values], np.int64)
            for name, values in rows.items()
        }
        logits |= dict(zip(places, encoder._session.run(None, feeds)[0][:, 0].tolist(), strict=True))
    return [logits[place] for place in range(len(texts))]


def compare_batches(location: Path, query: str, texts: Sequence[str]) -> tuple[float, float, float, float]:
    """Return the CPU seconds of separate runs and of batches, and the greatest and the whole spread of the logits."""
    encoder = CrossEncoder.load(open_model_directory(location), None)
    encoded = encoder.encode_query(query)
    single: list[float] = []
    batched: list[float] = []

    def run_single() -> None:
        single[:] = [encoder.compute_logit(encoded, text) for text in texts]

    def run_batched() -> None:
        batched[:] = run_batches(encoder, query, texts)

    rounds = [(measure(run_single)[1], measure(run_batched)[1]) for _ in range(ROUNDS)]
    difference = max(abs(before - after) for before, after in zip(single, batched, strict=True))
    return min(each for each, _ in rounds), min(each for _, each in rounds), difference, max(single) - min(single)


def main() -> int:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "random-minilm"
        words = write_cross_encoder(directory)
        query = " ".join(words[:QUERY_TOKENS])
        print(f"pairs of {PAIR_TOKENS} tokens, least of {ROUNDS} rounds, seconds:\n")
        print("| model | pairs | 1 thread, elapsed | CPU | 2 threads, elapsed | CPU |")
        print("| --- | --- | --- | --- | --- | --- |")
        for name, file in FILES.items():
            figures = asyncio.run(measure_rerank(directory / file, query, words))
            for count in PAIR_COUNTS:
                columns = " | ".join(f"{value:.2f}" for threads in THREADS for value in figures[threads, count])
                print(f"| {name} | {count} | {columns} |")
        print(f"\n50 pairs, separate runs and batches of {BATCH_SIZE} on one thread:\n")
        print("| model | lengths | separate, CPU s | batches, CPU s | greatest change of a logit | spread of logits |")
        print("| --- | --- | --- | --- | --- | --- |")
        for name, file in FILES.items():
            for label, same_length in (("all 220", True), ("65 to 220", False)):
                texts = build_texts(words, 50, same_length=same_length)
                single, batched, difference, spread = compare_batches(directory / file, query, texts)
                print(f"| {name} | {label} | {single:.2f} | {batched:.2f} | {difference:.2g} | {spread:.2g} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
