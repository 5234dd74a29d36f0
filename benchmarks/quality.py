"""``make bench NAME=quality``: measure retrieval quality over the HTTP API, with the embedded model.

``CARREL_EVAL_DATA`` names the directory of evaluation sets. The ``evaluate.py`` in it computes the figures. The
arguments select sets: ``python -m benchmarks.quality mtrag-un chroma-dev --strategy-options '{"dense_weight": 0.5}'``.
``--search '{"combine": "best"}'`` compares other fields of searches.
``--table`` prints the rows of docs/adr/0008-retrieval-defaults.md at the end. ``--models`` compares the local models on
these sets and filings-dev, with paired 95 % intervals against the first model. With ``--scores FILE`` an interrupted
comparison continues. ``--chunk-sizes 170,250,400`` compares sizes of a chunk at equal returned text. The exit code is 1
if a setting misses a target, and 2 if a set is missing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.cli.evaluation import corpus_upload
from app.cli.evaluation.datasets import CorpusLine, EvaluationQuery, read_dataset
from app.cli.evaluation.measures import parse_measure, score_documents, score_excerpts
from app.cli.evaluation.span_metrics import CorpusTexts
from app.evaluations.bootstrap_ci import Bootstrap
from app.inference.embedding.local_models import DEFAULT_MODEL
from benchmarks.evaluation_sets import TOP_K, JsonObject, build_answers, run_queries, upload
from benchmarks.local_model_runs import parse_names
from benchmarks.model_quality import CHUNK_SIZE_SETS, MODEL_MEASURES, compare_chunk_sizes, compare_models
from harness.processes import RunningService, exit_on_sigterm, running_service

SETS = ("mtrag-un", "chroma-dev", "scifact")
TARGETS = {
    "mtrag-un": {"ndcg@10": 0.86},
    "chroma-dev": {"excerpt_recall@5": 0.92, "excerpt_precision@5": 0.065},
    "scifact": {"ndcg@10": 0.73, "recall@100": 0.945},
}
TABLE_HEAD = (
    "| set | chunking | search | passages | figures, with half their 95 % interval |",
    "| --- | --- | --- | --- | --- |",
)


@dataclass(frozen=True, slots=True)
class MeasuredSetting:
    """Table row of one setting, and the targets that it misses."""

    row: str
    missed_targets: Sequence[str]


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
    answers = build_answers(run)
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
    searched = json.dumps(options) if options else "defaults"
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
    parser.add_argument("--search", action="append", default=[], metavar="JSON", help="fields of searches; repeatable")
    parser.add_argument("--chunking", action="append", default=[], metavar="JSON", help="may be repeated")
    parser.add_argument("--table", action="store_true", help="end with a table of all settings")
    parser.add_argument("--models", nargs="?", const="all", metavar="NAMES", help="compare local models: names, or all")
    parser.add_argument("--scores", type=Path, metavar="FILE", help="scores of --models to continue with, as JSON")
    parser.add_argument("--chunk-sizes", metavar="SIZES", help="compare sizes at equal returned text: 170,250,400")
    provided = parser.parse_args(arguments)
    compares = provided.models is not None or provided.chunk_sizes is not None
    sets = provided.sets or list_default_sets(provided)
    data = os.environ.get("CARREL_EVAL_DATA")
    allowed = MODEL_MEASURES if compares else SETS
    missing = [name for name in sets if name not in allowed or not data or not (Path(data) / name).is_dir()]
    if not data or missing:
        sys.stderr.write(f"CARREL_EVAL_DATA does not name a directory with {', '.join(missing)}\n")
        return 2
    if compares:
        return print_comparison(Path(data), sets, provided)
    variants = [{"strategy_options": json.loads(options)} for options in provided.strategy_options]
    variants = [*variants, *map(json.loads, provided.search)] or [{}]
    chunkings = [{"chunking": json.loads(chunking)} for chunking in provided.chunking] or [{}]
    with running_service(None) as service:
        result = [item for name in sets for item in measure(service, Path(data), name, chunkings, variants)]
    if provided.table:
        print("\n".join(["", *TABLE_HEAD, *(item.row for item in result)]))
    return compute_exit_code(result)


def list_default_sets(provided: argparse.Namespace) -> Sequence[str]:
    """Return the sets that are measured if the command names none."""
    if provided.chunk_sizes is not None:
        return CHUNK_SIZE_SETS
    return SETS if provided.models is None else tuple(MODEL_MEASURES)


def print_comparison(data: Path, sets: Sequence[str], provided: argparse.Namespace) -> int:
    """Compare models, or chunk sizes, and print the table. Return 2 if a model or size cannot be measured, else 0."""
    try:
        models = parse_names(DEFAULT_MODEL if provided.models is None else provided.models)
        sizes = [int(size) for size in (provided.chunk_sizes or "").split(",") if size]
    except ValueError as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    if sizes:
        compared = compare_chunk_sizes(data, sets, models, sizes)
    else:
        compared = compare_models(data, sets, models, provided.scores)
    print(f"\n{compared}")
    return 0


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
