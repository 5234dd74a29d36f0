"""``make quality``: retrieval quality of the service with the embedded model, over its HTTP API.

``CARREL_EVAL_DATA`` names the directory of evaluation sets; each is judged by the ``evaluate.py`` in it. Sets may be
named: ``python -m benchmarks.quality mtrag-un chroma-dev --strategy-options '{"dense_weight": 0.5}'``.
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
from pathlib import Path
from typing import Any

import httpx

from app.cli.connection import Connection
from app.cli.evaluation import loading
from app.cli.evaluation.sets import CorpusLine, Query, read_set
from benchmarks.processes import RunningService, end_as_usual, running_service, wait_until_ingested

SETS = ("mtrag-un", "chroma-dev", "scifact")
MEASURES = {
    "mtrag-un": {"ndcg@10": 0.86},
    "chroma-dev": {"excerpt_recall@5": 0.92, "excerpt_precision@5": 0.065},
    "scifact": {"ndcg@10": 0.73, "recall@100": 0.945},
}
TOP_K = {"mtrag-un": 100, "chroma-dev": 5, "scifact": 200}
UPLOADS_AT_ONCE, SEARCHES_AT_ONCE = 8, 2
Line = dict[str, Any]


def upload(client: httpx.Client, kb: str, corpus: Sequence[CorpusLine], chunking: Line) -> dict[str, str]:
    """Store every document as a text and wait until all are searchable; our ids to those of the set."""
    client.post("/v1/knowledge-bases", json={"name": kb, **chunking}).raise_for_status()
    stored = loading.upload(Connection(client), kb, corpus, at_once=UPLOADS_AT_ONCE)
    ids = {ours: document.id for ours, document in zip(stored, corpus, strict=True)}
    wait_until_ingested(client, kb)
    return ids


def run_queries(
    client: httpx.Client, kb: str, queries: Sequence[Query], ids: dict[str, str], body: Line
) -> Iterator[Line]:
    """What was found for each query, in the form that evaluate.py reads."""

    def ask(query: Query) -> Line:
        asked = {**query.question, "timeout_seconds": 60, **body}
        reply = client.post(f"/v1/knowledge-bases/{kb}/search", json=asked)
        reply.raise_for_status()
        found = [
            {"document": ids[result["document"]["id"]], "text": result["text"], "score": result["score"]}
            for result in reply.json()["results"]
        ]
        return {"query": query.id, "results": found}

    with ThreadPoolExecutor(SEARCHES_AT_ONCE) as pool:
        yield from pool.map(ask, queries)


def judge(data: Path, name: str, run: Sequence[Line]) -> dict[str, float]:
    """The figures of the data's own program."""
    with tempfile.TemporaryDirectory(prefix="carrel-quality-") as folder:
        lines, figures = Path(folder) / "run.jsonl", Path(folder) / "figures.json"
        lines.write_text("".join(json.dumps(line) + "\n" for line in run), "utf-8")
        command = [sys.executable, str(data / "evaluate.py"), str(data / name), str(lines), "--json", str(figures)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=600)
        found: dict[str, float] = json.loads(figures.read_text())
        return found


def measure(
    service: RunningService, data: Path, name: str, chunkings: Sequence[Line], variants: Sequence[Line]
) -> None:
    """Load one set with each way to chunk, and print its figures, one line for each variant of the search."""
    corpus, queries = loading.read_corpus(data / name / "corpus.jsonl"), read_set(data / name).queries
    for number, chunking in enumerate(chunkings):
        with service.client() as client:
            started, kb = time.monotonic(), f"{name}-{number}"
            ids = upload(client, kb, corpus, chunking)
            loaded, chunks = time.monotonic() - started, client.get(f"/v1/knowledge-bases/{kb}").json()["chunk_count"]
            print(
                f"\n{name} {json.dumps(chunking)}: {len(corpus)} documents, {chunks} chunks in {loaded:.0f} s",
                flush=True,
            )
            for options in variants:
                run = list(run_queries(client, kb, queries, ids, {"top_k": TOP_K[name], **options}))
                print(f"{json.dumps(options)}: {figures_line(name, judge(data, name, run))}", flush=True)


def figures_line(name: str, figures: dict[str, float]) -> str:
    reach = MEASURES[name]
    shown = [one for one in figures if one in reach or one.startswith("excerpt")]
    shown += [
        one for one in figures if name != "chroma-dev" and one not in reach and one.startswith(("ndcg", "recall"))
    ]
    return ", ".join(f"{one} {figures[one]:.4f}" + (f" (reach {reach[one]})" if one in reach else "") for one in shown)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Retrieval quality on the evaluation sets")
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}; all without")
    parser.add_argument("--strategy-options", action="append", default=[], metavar="JSON", help="may be repeated")
    parser.add_argument("--chunking", action="append", default=[], metavar="JSON", help="may be repeated")
    given = parser.parse_args(arguments)
    sets = given.sets or SETS
    data = os.environ.get("CARREL_EVAL_DATA")
    missing = [name for name in sets if name not in SETS or not data or not (Path(data) / name).is_dir()]
    if not data or missing:
        sys.stderr.write(f"CARREL_EVAL_DATA does not name a directory with {', '.join(missing)}\n")
        return 2
    variants = [{"strategy_options": json.loads(options)} for options in given.strategy_options] or [{}]
    chunkings = [{"chunking": json.loads(chunking)} for chunking in given.chunking] or [{}]
    with running_service(None) as service:
        for name in sets:
            measure(service, Path(data), name, chunkings, variants)
    return 0


if __name__ == "__main__":
    end_as_usual()
    sys.exit(main(sys.argv[1:]))
