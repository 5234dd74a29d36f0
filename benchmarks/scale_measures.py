"""Measurements of the scale benchmark. Service, bare SQL and baselines alternate, so that load affects all."""

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import bm25s
import httpx2
import numpy as np
import numpy.typing as npt
from bm25s.tokenization import Tokenized

from app.lexical.analyzers import get_analyzer
from app.retrieval.types import SearchResult
from benchmarks.scale_corpus import Floats, Question
from benchmarks.scale_database import RETRIEVER_CANDIDATES, BareSql, Filter, ScaleTenant
from harness.loader import CHUNKS_PER_DOCUMENT, LoadBatch, TermTable
from harness.processes import list_process_tree

ROUNDS = 4
TOP_K_VALUES = (5, 100, 500)
Flags = npt.NDArray[np.bool_]
QuestionFunction = Callable[[Question], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class FilterCase:
    """Filter over the metadata of ``build_share_metadata``, and the same condition on document numbers."""

    name: str
    filter: Filter
    select_documents: Callable[[npt.NDArray[np.int64]], Flags]

    def select_rows(self, count: int) -> Flags:
        """Return for each of ``count`` passages whether it passes the filter."""
        return self.select_documents(np.arange(count) // CHUNKS_PER_DOCUMENT)


FILTER_CASES = (
    FilterCase("none", None, lambda n: n >= 0),
    FilterCase("100 %, containment", {"all": True}, lambda n: n >= 0),
    FilterCase("33 %, containment", {"third": 0}, lambda n: n % 3 == 0),
    FilterCase("10 %, containment", {"tenth": 1}, lambda n: n % 10 == 1),
    FilterCase("10 %, range", {"number": {"lt": 1000}}, lambda n: n * 7919 % 10_000 < 1000),
    FilterCase("5 %, range", {"number": {"lt": 500}}, lambda n: n * 7919 % 10_000 < 500),
    FilterCase("1 %, range", {"number": {"lt": 100}}, lambda n: n * 7919 % 10_000 < 100),
    FilterCase("1 %, containment", {"hundredth": 2}, lambda n: n % 100 == 2),
    FilterCase("0.1 %, containment", {"thousandth": 3}, lambda n: n % 1000 == 3),
    FilterCase("0.01 %, containment", {"number": 0}, lambda n: n * 7919 % 10_000 == 0),
)


@dataclass(frozen=True, slots=True)
class FilterFigures:
    """Figures of one filter in milliseconds: p50 and p95 of searches, Postgres CPU a search, p50 of bare SQL."""

    case: FilterCase
    p50: float
    p95: float
    postgres_cpu_ms: float
    bare_p50: float
    plan: str


async def measure_times(ask: QuestionFunction, questions: Sequence[Question]) -> list[float]:
    """Return the milliseconds of each question."""
    return [await _measure_time(ask, question) for question in questions]


async def _measure_time(ask: QuestionFunction, question: Question) -> float:
    started = time.perf_counter()
    await ask(question)
    return (time.perf_counter() - started) * 1000


def measure_postgres_cpu(pid: int) -> float:
    """Return the CPU milliseconds of the Postgres server and all its processes since their start."""
    return 1000 * sum(process.cpu_seconds for process in list_process_tree(pid))


async def measure_by_filter(
    shelf: ScaleTenant,
    bare: BareSql,
    questions: Sequence[Question],
    *,
    postgres: int,
    cases: Sequence[FilterCase] = FILTER_CASES,
) -> list[FilterFigures]:
    """Measure every filter in every round. Service and bare SQL alternate as the first of a round."""
    result: dict[str, list[tuple[list[float], list[float], float]]] = {case.name: [] for case in cases}
    parts = [questions[number :: ROUNDS + 1] for number in range(ROUNDS + 1)]  # the first part is a warm-up
    for number, part in enumerate(parts):
        for case in cases:

            async def search(question: Question, case: FilterCase = case) -> None:
                await shelf.search(question, filter=case.filter)

            async def run_statement(question: Question, case: FilterCase = case) -> None:
                await bare.run(shelf.index, question, filter=case.filter)

            before = await measure_times(run_statement, part) if number % 2 else []
            spent = measure_postgres_cpu(postgres)
            times = await measure_times(search, part)
            spent = measure_postgres_cpu(postgres) - spent
            if number:
                result[case.name].append((times, before or await measure_times(run_statement, part), spent / len(part)))
    return [await _compute_figures(shelf, questions[0], case, result[case.name]) for case in cases]


async def _compute_figures(
    shelf: ScaleTenant, question: Question, case: FilterCase, rounds: Sequence[tuple[list[float], list[float], float]]
) -> FilterFigures:
    times, bare = [each for item in rounds for each in item[0]], [each for item in rounds for each in item[1]]
    cpu = statistics.median(item[2] for item in rounds)
    return FilterFigures(
        case,
        statistics.median(times),
        _compute_p95(times),
        cpu,
        statistics.median(bare),
        await explain_plan(shelf, question, case.filter),
    )


def _compute_p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20, method="inclusive")[-1]


async def explain_plan(shelf: ScaleTenant, question: Question, filter: Filter) -> str:
    """Return the plans of the dense and the lexical retriever from the explanation of a search."""
    result = await shelf.search(question, filter=filter, explain=True)
    assert result.explanation is not None
    used = result.explanation.indexes[0].plan
    return "?" if used is None else f"{used.dense}, {used.lexical}"


async def count_complete(shelf: ScaleTenant, questions: Sequence[Question], chunks: int) -> tuple[int, int]:
    """Count the searches that return ``top_k`` results or all matching chunks; return that and the total."""
    right = requested = 0
    for case in FILTER_CASES:
        there = int(case.select_rows(chunks).sum())
        for top_k in TOP_K_VALUES:
            for strategy in ("dense", "hybrid"):
                for question in questions:
                    result = await shelf.search(question, filter=case.filter, top_k=top_k, strategy=strategy)
                    places = {(hit.document.id, hit.chunk.ordinal) for hit in result.hits}
                    right += len(result.hits) == len(places) == min(top_k, there)
                    requested += 1
    return right, requested


async def measure_recall(
    shelf: ScaleTenant, matrix: Floats, questions: Sequence[Question], filter: Filter, passing: Flags
) -> float:
    """Return the recall@10 of dense searches with a filter against brute force over the passing rows.

    A hit with the same cosine as the tenth nearest row counts as correct.
    """
    rows = np.flatnonzero(passing)
    own, shares = matrix[rows], []
    for question in questions:
        requested = question.vector.astype(np.float16).astype(np.float32)
        cosines = np.full(len(matrix), -2, np.float32)
        cosines[rows] = own @ (requested / np.linalg.norm(requested))
        wanted = min(10, len(rows))
        minimum = np.partition(cosines, -wanted)[-wanted] - 1e-6
        result = await shelf.search(question, filter=filter, top_k=10, strategy="dense")
        matches = [cosines[place] for place in _find_rows(result)]
        shares.append(sum(cosine >= minimum for cosine in matches) / wanted)
    return float(np.mean(shares))


def to_unit_vectors(vectors: npt.NDArray[Any]) -> Floats:
    """Round vectors to the half precision of the database and normalize them to unit length."""
    stored = vectors.astype(np.float16).astype(np.float32)
    created: Floats = stored / np.linalg.norm(stored, axis=1, keepdims=True)
    return created


def _find_rows(result: SearchResult) -> list[int]:
    """Return the row numbers of the hits."""
    return [
        int(hit.document.source.removeprefix("document-").removesuffix(".txt")) * CHUNKS_PER_DOCUMENT
        + hit.chunk.ordinal
        for hit in result.hits
    ]


@dataclass(frozen=True, slots=True)
class RetrieverFigures:
    """Median elapsed time and mean CPU time in milliseconds: bare SQL of a retriever, and an in-memory baseline."""

    name: str
    sql: float
    sql_cpu: float
    baseline: float
    baseline_cpu: float


async def measure_retrievers(
    shelf: ScaleTenant,
    bare: BareSql,
    questions: Sequence[Question],
    batches: Sequence[LoadBatch],
    table: TermTable,
    *,
    postgres: int,
    alone: QuestionFunction,
) -> list[RetrieverFigures]:
    """Measure the retrievers of a knowledge base without a vector index, and their baselines, question by question.

    ``alone`` reads the nearest vectors from a table with only vectors. The CPU time of SQL includes all Postgres
    processes, because a scan can use parallel workers. The CPU time of a baseline is that of this process.
    """
    matrix = np.concatenate([batch.vectors for batch in batches]).astype(np.float32)
    model = build_bm25s_index(batches, table)
    analyzer = get_analyzer("english")

    async def search_brute_force(question: Question) -> None:
        scores = matrix @ question.vector
        best = np.argpartition(scores, -RETRIEVER_CANDIDATES)[-RETRIEVER_CANDIDATES:]
        best[np.argsort(-scores[best])]

    async def search_bm25s(question: Question) -> None:
        tokens = list(dict.fromkeys(analyzer.tokenize(question.text)))
        model.retrieve([tokens], k=RETRIEVER_CANDIDATES, show_progress=False)

    def measure_own_cpu() -> float:
        return time.process_time() * 1000

    there = partial(measure_postgres_cpu, postgres)
    ways: Sequence[tuple[Callable[[Question], Awaitable[float]], Callable[[], float]]] = (
        (partial(bare.run, shelf.index, retriever="dense"), there),
        (partial(_measure_time, search_brute_force), measure_own_cpu),
        (partial(bare.run, shelf.index, retriever="lexical"), there),
        (partial(_measure_time, search_bm25s), measure_own_cpu),
        (partial(_measure_time, alone), there),
    )
    result = [(list[float](), list[float]()) for _ in ways]
    for number, question in enumerate(questions):
        for (way, cpu), (times, spent) in zip(ways, result, strict=True):
            before = cpu()
            took = await way(question)
            if number >= len(questions) // 5:  # the first fifth is a warm-up
                times.append(took)
                spent.append(cpu() - before)
    figures = [(statistics.median(times), statistics.mean(spent)) for times, spent in result]
    return [
        RetrieverFigures("exact, numpy", *figures[0], *figures[1]),
        RetrieverFigures("BM25, bm25s", *figures[2], *figures[3]),
        RetrieverFigures("vectors alone, numpy", *figures[4], *figures[1]),
    ]


def build_bm25s_index(batches: Sequence[LoadBatch], table: TermTable) -> bm25s.BM25:
    """Build an index of the passages with the library bm25s."""
    ids = []
    for batch in batches:
        ends = np.cumsum(batch.lengths)
        ids += [part.tolist() for part in np.split(batch.terms, ends[:-1])]
    model = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    model.index(Tokenized(ids, dict(table.numbers)), show_progress=False)
    return model


async def compare_in_turns(
    first: ScaleTenant, second: ScaleTenant, questions: Sequence[Question]
) -> tuple[float, float]:
    """Return the median milliseconds of two tenants for the same questions, in alternating order."""
    times: tuple[list[float], list[float]] = ([], [])
    for number, question in enumerate(questions):
        order = ((first, times[0]), (second, times[1]))
        for shelf, own in order if number % 2 else reversed(order):
            own += await measure_times(shelf.search, [question])
    cold = len(questions) // 5
    return statistics.median(times[0][cold:]), statistics.median(times[1][cold:])


def measure_over_http(client: httpx2.Client, questions: Sequence[Question], filter: Filter) -> float:
    """Return the median milliseconds of searches through a running API."""
    times = []
    for question in questions:
        query = {"text": question.text, "vector": question.vector.tolist()}
        body: dict[str, Any] = {"queries": [query]} | ({} if filter is None else {"filter": filter})
        started = time.perf_counter()
        client.post("/v1/knowledge-bases/default/search", json=body).raise_for_status()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times[len(times) // 5 :])
