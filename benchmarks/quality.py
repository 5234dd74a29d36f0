"""``make bench NAME=quality``: measure retrieval quality over the HTTP API, with the embedded model.

``CARREL_EVAL_DATA`` names the directory of evaluation sets. The ``evaluate.py`` in it computes the figures. The
arguments select sets: ``python -m benchmarks.quality mtrag-un chroma-dev --strategy-options '{"dense_weight": 0.5}'``.
``--table`` prints the rows of docs/adr/0008-retrieval-defaults.md at the end. The exit code is 1 if a setting misses a
target, and 2 if a set is missing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from carrel_client import Client

from app.cli.evaluation import corpus_upload
from app.cli.evaluation.bootstrap_ci import Bootstrap
from app.cli.evaluation.datasets import CorpusLine, EvaluationQuery, read_dataset
from app.cli.evaluation.measures import parse_measure, score_documents, score_excerpts
from app.cli.evaluation.runner import QueryResult
from app.cli.evaluation.span_metrics import CorpusTexts, RetrievedChunk
from harness.processes import RunningService, exit_on_sigterm, running_service, wait_until_ingested

SETS = ("mtrag-un", "chroma-dev", "scifact")
TARGETS = {
    "mtrag-un": {"ndcg@10": 0.86},
    "chroma-dev": {"excerpt_recall@5": 0.92, "excerpt_precision@5": 0.065},
    "scifact": {"ndcg@10": 0.73, "recall@100": 0.945},
}
TOP_K = {"mtrag-un": 100, "chroma-dev": 5, "scifact": 200}
TABLE_HEAD = (
    "| set | chunking | search | passages | figures, with half their 95 % interval |",
    "| --- | --- | --- | --- | --- |",
)
UPLOAD_CONCURRENCY, SEARCH_CONCURRENCY = 8, 2
JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MeasuredSetting:
    """Table row of one setting, and the targets that it misses."""

    row: str
    missed_targets: Sequence[str]


def upload(client: httpx2.Client, kb: str, corpus: Sequence[CorpusLine], chunking: JsonObject) -> dict[str, str]:
    """Upload all documents, wait until they are searchable, and map their Carrel ids to the ids of the set."""
    client.post("/v1/knowledge-bases", json={"name": kb, **chunking}).raise_for_status()
    with Client(str(client.base_url), client.headers["Authorization"].removeprefix("Bearer ")) as carrel:
        stored = corpus_upload.upload_corpus(carrel, kb, corpus, concurrency=UPLOAD_CONCURRENCY)
        ids = {ours: document.id for ours, document in zip(stored, corpus, strict=True)}
    wait_until_ingested(client, kb)
    return ids


def run_queries(
    client: httpx2.Client, kb: str, queries: Sequence[EvaluationQuery], ids: dict[str, str], body: JsonObject
) -> Iterator[JsonObject]:
    """Yield the results of each query in the format that evaluate.py reads."""

    def search(query: EvaluationQuery) -> JsonObject:
        requested = {**query.search_body, "timeout_seconds": 60, **body}
        reply = client.post(f"/v1/knowledge-bases/{kb}/search", json=requested)
        reply.raise_for_status()
        matches = [
            {"document": ids[result["document"]["id"]], "text": result["text"], "score": result["score"]}
            for result in reply.json()["results"]
        ]
        return {"query": query.id, "results": matches}

    with ThreadPoolExecutor(SEARCH_CONCURRENCY) as pool:
        yield from pool.map(search, queries)


def compute_figures(data: Path, name: str, run: Sequence[JsonObject]) -> dict[str, float]:
    """Run evaluate.py of the evaluation sets and return its figures."""
    with tempfile.TemporaryDirectory(prefix="carrel-quality-") as folder:
        lines, figures = Path(folder) / "run.jsonl", Path(folder) / "figures.json"
        lines.write_text("".join(json.dumps(line) + "\n" for line in run), "utf-8")
        command = [sys.executable, str(data / "evaluate.py"), str(data / name), str(lines), "--json", str(figures)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=600)
        result: dict[str, float] = json.loads(figures.read_text())
        return result


def compute_half_intervals(
    name: str, run: Sequence[JsonObject], queries: Sequence[EvaluationQuery], corpus: Sequence[CorpusLine]
) -> dict[str, float]:
    """Return half the width of the bootstrap 95 % interval of each measure that has a target."""
    answers = {
        line["query"]: QueryResult(
            documents=tuple(dict.fromkeys(result["document"] for result in line["results"])),
            chunks=tuple(RetrievedChunk(result["document"], result["text"]) for result in line["results"]),
        )
        for line in run
    }
    measures = {aim: parse_measure(aim) for aim in TARGETS[name]}
    texts = CorpusTexts({document.id: document.text for document in corpus})
    values = score_documents(list(measures.values()), queries, answers)
    values |= score_excerpts(list(measures.values()), queries, answers, texts)[0]
    intervals = {aim: Bootstrap().compute_interval(list(values[item.label].values())) for aim, item in measures.items()}
    return {aim: (item.high - item.low) / 2 for aim, item in intervals.items()}


def measure(
    service: RunningService, data: Path, name: str, chunkings: Sequence[JsonObject], variants: Sequence[JsonObject]
) -> Iterator[MeasuredSetting]:
    """Upload one set with each chunking, search with each variant, and print and yield the figures."""
    corpus, queries = corpus_upload.read_corpus(data / name / "corpus.jsonl"), read_dataset(data / name).queries
    for number, chunking in enumerate(chunkings):
        with service.create_client() as client:
            started, kb = time.monotonic(), f"{name}-{number}"
            ids = upload(client, kb, corpus, chunking)
            loaded, created = time.monotonic() - started, client.get(f"/v1/knowledge-bases/{kb}").json()
            print(
                f"\n{name} {json.dumps(created['chunking'])}: {len(corpus)} documents, {created['chunk_count']} "
                f"chunks in "
                f"{loaded:.0f} s",
                flush=True,
            )
            for options in variants:
                run = list(run_queries(client, kb, queries, ids, {"top_k": TOP_K[name], **options}))
                figures = compute_figures(data, name, run)
                print(f"{json.dumps(options)}: {format_figures(name, figures)}", flush=True)
                row = format_table_row(
                    name, created, options, figures, compute_half_intervals(name, run, queries, corpus)
                )
                yield MeasuredSetting(row, list_missed_targets(name, figures))


def list_missed_targets(name: str, figures: dict[str, float]) -> list[str]:
    """Return the measures of a set that are below their targets."""
    return [item for item, aim in TARGETS[name].items() if not figures[item] >= aim]


def format_table_row(
    name: str, kb: JsonObject, options: JsonObject, figures: dict[str, float], spread: dict[str, float]
) -> str:
    """Format one setting as a row of a Markdown table."""
    chunking = "{strategy} {max_tokens}/{overlap_tokens}".format(**kb["chunking"])
    searched = json.dumps(options["strategy_options"]) if options else "defaults"
    shown = [
        f"{item} {figures[item]:.3f} ± "
        f"{spread[item]:.3f}{' (missed)' if item in list_missed_targets(name, figures) else ''}"
        for item in TARGETS[name]
    ]
    return f"| {name} | {chunking} | {searched} | {kb['chunk_count']} | {', '.join(shown)} |"


def format_figures(name: str, figures: dict[str, float]) -> str:
    """Format the figures: first those with a target and whether they reach it, then the others."""
    aims = TARGETS[name]
    aimed = [
        f"{item} {figures[item]:.4f} ({'MISSED' if item in list_missed_targets(name, figures) else 'reached'}: {aim})"
        for item, aim in aims.items()
    ]
    kinds = "excerpt" if name == "chroma-dev" else ("ndcg", "recall")
    others = [item for item in figures if item not in aims and item.startswith(kinds)]
    return ", ".join([*aimed, *(f"{item} {figures[item]:.4f}" for item in others)])


def compute_exit_code(result: Sequence[MeasuredSetting]) -> int:
    """Return 1 if a setting misses a target, else 0."""
    return int(any(item.missed_targets for item in result))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Retrieval quality on the evaluation sets")
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"one of {', '.join(SETS)} (default: all)")
    parser.add_argument("--strategy-options", action="append", default=[], metavar="JSON", help="may be repeated")
    parser.add_argument("--chunking", action="append", default=[], metavar="JSON", help="may be repeated")
    parser.add_argument("--table", action="store_true", help="end with a table of all settings")
    provided = parser.parse_args(arguments)
    sets = provided.sets or SETS
    data = os.environ.get("CARREL_EVAL_DATA")
    missing = [name for name in sets if name not in SETS or not data or not (Path(data) / name).is_dir()]
    if not data or missing:
        sys.stderr.write(f"CARREL_EVAL_DATA does not name a directory with {', '.join(missing)}\n")
        return 2
    variants = [{"strategy_options": json.loads(options)} for options in provided.strategy_options] or [{}]
    chunkings = [{"chunking": json.loads(chunking)} for chunking in provided.chunking] or [{}]
    with running_service(None) as service:
        result = [item for name in sets for item in measure(service, Path(data), name, chunkings, variants)]
    if provided.table:
        print("\n".join(["", *TABLE_HEAD, *(item.row for item in result)]))
    return compute_exit_code(result)


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
