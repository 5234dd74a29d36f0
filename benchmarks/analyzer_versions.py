"""``make bench NAME=analyzer-versions``: compare BM25 of all versions of the analyzer on the same chunks.

``CARREL_EVAL_DATA`` names the directory of evaluation sets. The program needs no database and no model. It prints a
table with the paired 95 % interval of each difference, the terms of a chunk and the time of the analysis.
"""

import json
import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.lexical.analyzer import STOP_WORD_MARK
from app.lexical.analyzers import get_analyzer
from app.lexical.languages import tokenize_query
from app.lexical.weights import K1, B

VERSIONS = (1, 2)
CHUNK_CHARACTERS = 800
ROUNDS = 2000
TOP = 100
Score = Callable[[Sequence[int], str], float]


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """Chunks and queries of a set, with the measures of a ranking of the chunks for a query's id."""

    name: str
    chunks: Sequence[str]
    queries: dict[str, str]
    measures: dict[str, Score]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def load_documents(folder: Path) -> EvaluationSet:
    """Return a set whose relevant documents are named. A document is one chunk with its title."""
    corpus = read_lines(folder / "corpus.jsonl")
    rows = [line.split("\t") for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:] if line]
    relevant: dict[str, set[str]] = defaultdict(set)
    for query, document, score in rows:
        if float(score) > 0:
            relevant[query].add(document)
    ids = [document["id"] for document in corpus]

    def compute_ndcg(ranking: Sequence[int], query: str) -> float:
        gains = [1 / math.log2(at + 2) for at, index in enumerate(ranking[:10]) if ids[index] in relevant[query]]
        return sum(gains) / sum(1 / math.log2(at + 2) for at in range(min(10, len(relevant[query]))))

    def compute_recall(ranking: Sequence[int], query: str) -> float:
        return sum(ids[index] in relevant[query] for index in ranking) / len(relevant[query])

    queries = {query["id"]: query["text"] for query in read_lines(folder / "queries.jsonl") if relevant[query["id"]]}
    texts = [f"{document.get('title') or ''}\n\n{document['text']}" for document in corpus]
    return EvaluationSet(folder.name, texts, queries, {"ndcg@10": compute_ndcg, "recall@100": compute_recall})


def load_excerpts(folder: Path) -> EvaluationSet:
    """Return a set whose relevant excerpts are named. Its long documents are cut into chunks at spaces."""
    spans: list[tuple[str, int, int]] = []
    chunks: list[str] = []
    for document in read_lines(folder / "corpus.jsonl"):
        text, start = document["text"], 0
        while start < len(text):
            end = min(len(text), start + CHUNK_CHARACTERS)
            end = end if end == len(text) else text.rfind(" ", start, end) + 1 or end
            spans.append((document["id"], start, end))
            chunks.append(text[start:end])
            start = end
    references: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for reference in read_lines(folder / "references.jsonl"):
        references[reference["query"]].append(reference)

    def compute_recall(ranking: Sequence[int], query: str) -> float:
        places = [spans[index] for index in ranking[:5]]
        wanted = sum(int(reference["end"]) - int(reference["start"]) for reference in references[query])
        overlaps = [
            max(0, min(reference["end"], end) - max(reference["start"], start))
            for reference in references[query]
            for document, start, end in places
            if document == reference["document"]
        ]
        return float(sum(overlaps)) / wanted

    queries = {query["id"]: query["text"] for query in read_lines(folder / "queries.jsonl") if references[query["id"]]}
    return EvaluationSet(folder.name, chunks, queries, {"excerpt_recall@5": compute_recall})


def rank_chunks(evaluation: EvaluationSet, version: int) -> dict[str, list[int]]:
    """Return the best chunks of each query by BM25, and print the cost of the analysis."""
    started = time.process_time()
    documents = [get_analyzer(version=version).tokenize_document(text) for text in evaluation.chunks]
    seconds = time.process_time() - started
    lengths = np.array([sum(not term.startswith(STOP_WORD_MARK) for term in terms) for terms in documents], float)
    postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for index, terms in enumerate(documents):
        for term, frequency in Counter(terms).items():
            postings[term].append((index, frequency))
    count = sum(map(len, postings.values())) / len(documents)
    pace = seconds / sum(map(len, evaluation.chunks)) * 1e6
    print(f"{evaluation.name}, version {version}: {count:.1f} terms a chunk, {lengths.mean():.1f} mean length, "
          f"{pace:.2f} µs a character")  # fmt: skip
    norms = K1 * (1 - B + B * lengths / lengths.mean())
    rankings = {}
    for query, text in evaluation.queries.items():
        scores = np.zeros(len(documents))
        for term in tokenize_query(["english"], text, version):
            if entries := postings.get(term):
                indexes, frequencies = np.array(entries).T
                idf = math.log(1 + (len(documents) - len(entries) + 0.5) / (len(entries) + 0.5))
                scores[indexes] += idf * frequencies / (frequencies + norms[indexes])
        rankings[query] = np.argsort(-scores, kind="stable")[:TOP].tolist()
    return rankings


def format_row(name: str, values: Sequence[npt.NDArray[np.float64]]) -> str:
    """Return the table row of a measure, for the values of the queries in both versions."""
    first, second = values
    differences, generator = second - first, np.random.default_rng(1)
    means = [generator.choice(differences, len(differences)).mean() for _ in range(ROUNDS)]
    low, high = np.percentile(means, [2.5, 97.5])
    changed = int((differences != 0).sum())
    return (
        f"| {name} | {first.mean():.4f} | {second.mean():.4f} | {differences.mean():+.4f} [{low:+.4f}, {high:+.4f}] "
        f"| {changed} of {len(differences)} |"
    )


def main() -> None:
    """Measure all sets and print the table."""
    data = Path(os.environ["CARREL_EVAL_DATA"])
    sets = [load_documents(data / name) for name in ("scifact", "mtrag-un")] + [load_excerpts(data / "chroma-dev")]
    rows = []
    for evaluation in sets:
        rankings = [rank_chunks(evaluation, version) for version in VERSIONS]
        for measure, score in evaluation.measures.items():
            values = [np.array([score(ranking[query], query) for query in evaluation.queries]) for ranking in rankings]
            rows.append(format_row(f"{evaluation.name}, {measure}", values))
    print("\n".join(rows))


if __name__ == "__main__":
    main()
