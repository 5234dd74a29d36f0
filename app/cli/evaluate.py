"""``carrel evaluate``: quality of searches of a running service, and comparison of search settings."""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from carrel_client import CarrelError, Client

from app.cli.client.options import Key, Url
from app.cli.endpoint import connect
from app.cli.evaluation import corpus_upload
from app.cli.evaluation.datasets import DatasetError, EvaluationDataset, read_dataset
from app.cli.evaluation.evaluation import Evaluation
from app.cli.evaluation.measures import Measure, parse_measure, select_default_measures
from app.cli.evaluation.report import ConfigResult, Report
from app.cli.evaluation.runner import EXTERNAL_ID, InvalidSearchConfig, SearchConfig, check_naming, parse_config
from app.cli.evaluation.stored_set import read_stored_results, run_stored_evaluation
from app.errors import AppError, InvalidInputError
from app.evaluations.bootstrap_ci import Bootstrap
from app.evaluations.ranking_measures import DEFAULT_MEASURES

ItemT = TypeVar("ItemT")

Queries = Annotated[
    Path | None, typer.Argument(exists=True, help="Queries: a directory in the layout of BEIR, or a JSON Lines file.")
]
GoldenSet = Annotated[
    str | None, typer.Option("--set", help="ID of a golden set that the service stores, in place of QUERIES.")
]
KnowledgeBase = Annotated[
    str | None, typer.Option(help="Knowledge base to search. Needed for QUERIES; with --set, the default is all.")
]
Judgements = Annotated[
    Path | None, typer.Option(exists=True, help="File of judgements: query, document and grade on each line.")
]
Split = Annotated[
    str | None,
    typer.Option(
        help="Use the judgements in qrels/SPLIT.tsv of the directory. Default: qrels.tsv, else qrels/test.tsv."
    ),
]
References = Annotated[Path | None, typer.Option(exists=True, help="JSON Lines file of excerpts that answer queries.")]
Corpus = Annotated[Path | None, typer.Option(exists=True, help="JSON Lines file of the documents' texts.")]
Load = Annotated[bool, typer.Option("--load", help="Upload the corpus first. Stored documents are not uploaded again.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=JSON", help="Name and body of a search; may be repeated. The first one is the baseline."
    ),
]
Measures = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME@K",
        help="nDCG, recall, MRR, precision, MAP, success, excerpt_recall, excerpt_precision or excerpt_IoU.",
    ),
]
Documents = Annotated[
    str, typer.Option(help="Field that names a document in the judgements: external_id, source, title or metadata.KEY.")
]
FailUnder = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME@K=X", help="Minimum of a measure: the status is 1 if a setting is below it."),
]


class InvalidFloor(InvalidInputError):
    """--fail-under takes a measure and a number, such as nDCG@10=0.7."""

    code = "invalid_floor"


def evaluate(
    queries: Queries = None,
    kb: KnowledgeBase = None,
    golden_set: GoldenSet = None,
    judgements: Judgements = None,
    split: Split = None,
    references: References = None,
    corpus: Corpus = None,
    load: Load = False,
    setting: Settings = None,
    top_k: Annotated[int, typer.Option(min=1, max=500, help="Number of passages of each query.")] = 100,
    measure: Measures = None,
    documents: Documents = EXTERNAL_ID,
    fail_under: FailUnder = None,
    resamples: Annotated[
        int, typer.Option(min=100, max=100_000, help="Number of bootstrap samples for the confidence intervals.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the bootstrap samples.")] = 1,
    concurrency: Annotated[
        int, typer.Option(min=1, max=64, help="Number of requests at the same time. Not used with --set.")
    ] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with the values of every query.")] = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Measure the quality of searches of a running service with queries whose answers are known.

    The report shows each measure with its 95 % confidence interval, and the difference of each setting to the first
    one. Status 1: a measure is below --fail-under. Status 2: an option, a file or the connection is wrong.

    Example: carrel evaluate scifact --kb scifact --load --fail-under nDCG@10=0.7

    Example: carrel evaluate fiqa --kb fiqa --split dev

    Example: carrel evaluate queries.jsonl --kb handbook --setting 'now={}' --setting 'words={"strategy": "lexical"}'

    Example: carrel evaluate --set gold_… --setting 'now={}' --setting 'words={"strategy": "lexical"}'
    """
    files = EvaluationFiles(queries, judgements, references, corpus, split, load=load)
    try:
        floors = _parse_floors(fail_under or [])
        configs = _parse_configs(setting or [f"{kb or 'default'}={{}}"], kb=kb, top_k=top_k)
        with connect(url, key) as client:
            if golden_set is not None:
                files.check_empty(documents)
                labels = _list_labels(measure or [], floors)
                results, counts = _evaluate_stored(client, golden_set, configs, labels)
            else:
                dataset = files.read(kb)
                measures = _select_measures(measure or [], floors, dataset)
                if load:
                    _upload_corpus(client, str(kb), dataset.corpus, concurrency=concurrency)
                evaluation = Evaluation(
                    client, dataset, measures, configs, check_naming(documents), concurrency, _show_progress
                )
                results, counts = _evaluate_dataset(evaluation)
    except (AppError, CarrelError) as exc:
        typer.echo(f"carrel: {exc.message if isinstance(exc, AppError) else exc}", err=True)
        raise typer.Exit(2) from exc
    report = Report(results, Bootstrap(resamples, seed), counts)
    typer.echo(json.dumps(report.to_json(), ensure_ascii=False) if as_json else "\n".join(report.format_lines()))
    failures = report.list_failures(floors)
    for line in failures:
        typer.echo(f"carrel: {line}", err=True)
    raise typer.Exit(1 if failures else 0)


@dataclass(frozen=True, slots=True)
class EvaluationFiles:
    """Files of an evaluation, as the options name them."""

    queries: Path | None
    judgements: Path | None
    references: Path | None
    corpus: Path | None
    split: str | None
    load: bool

    def check_empty(self, documents: str) -> None:
        """Refuse files together with a golden set. Raises DatasetError."""
        if any((self.queries, self.judgements, self.references, self.corpus, self.split, self.load)):
            raise DatasetError("--set has its own queries and judgements; leave out QUERIES and the options of files")
        if documents != EXTERNAL_ID:
            raise DatasetError("--set identifies documents by their ids; leave out --documents")

    def read(self, kb: str | None) -> EvaluationDataset:
        """Read the files. Raises DatasetError."""
        if self.queries is None:
            raise DatasetError("give QUERIES with --kb, or a golden set with --set")
        if kb is None:
            raise DatasetError("give the knowledge base with --kb")
        return read_dataset(
            self.queries,
            judgements=self.judgements,
            references=self.references,
            corpus=self.corpus,
            split=self.split,
        )


Results = tuple[list[ConfigResult], dict[str, int | None]]


def _evaluate_dataset(evaluation: Evaluation) -> Results:
    results, missing = evaluation.run()
    counts = {
        "queries": len(evaluation.dataset.queries),
        "without_judgements": evaluation.dataset.skipped_count,
        "judged_documents_missing": missing,
    }
    return results, counts


def _evaluate_stored(
    client: Client, golden_set: str, configs: Sequence[SearchConfig], labels: Sequence[str]
) -> Results:
    """Evaluate a golden set in the service. Raises AppError, CarrelError."""
    with typer.progressbar(length=1, label="evaluating", file=sys.stderr) as bar:

        def show_progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        evaluation = run_stored_evaluation(client, golden_set, configs, show_progress)
    typer.echo(f"evaluation {evaluation['id']}", err=True)
    return read_stored_results(client, evaluation, configs, labels)


def _list_labels(requested: Sequence[str], floors: Mapping[str, float]) -> list[str]:
    """Return the labels of requested measures and of minimums; empty without any. Raises UnknownMeasure."""
    labels = [parse_measure(name).label for name in requested]
    return list(dict.fromkeys([*(labels or (DEFAULT_MEASURES if floors else ())), *floors]))


def _parse_floors(texts: Sequence[str]) -> dict[str, float]:
    """Return the minimum value of each measure. Raises InvalidFloor, UnknownMeasure."""
    floors: dict[str, float] = {}
    for text in texts:
        name, _, minimum = text.partition("=")
        try:
            value = float(minimum)
        except ValueError as exc:
            raise InvalidFloor from exc
        if not math.isfinite(value):
            raise InvalidFloor
        floors[parse_measure(name).label] = value
    return floors


def _select_measures(
    requested: Sequence[str], floors: Mapping[str, float], dataset: EvaluationDataset
) -> list[Measure]:
    """Return the requested measures, or the default measures, and the measures with a minimum.

    Raises UnknownMeasure, DatasetError.
    """
    defaults = select_default_measures(dataset.queries)
    selected = [*([parse_measure(name) for name in requested] or defaults), *(parse_measure(label) for label in floors)]
    for uses_excerpts, reason in (
        (True, "no query has excerpts; give --references or another measure"),
        (False, "no document is judged; give --judgements or another measure"),
    ):
        if all(candidate.is_excerpt_measure != uses_excerpts for candidate in defaults) and any(
            candidate.is_excerpt_measure == uses_excerpts for candidate in selected
        ):
            label = next(candidate.label for candidate in selected if candidate.is_excerpt_measure == uses_excerpts)
            raise DatasetError(f"{label}: {reason}")
    return list(dict.fromkeys(selected))


def _parse_configs(texts: Sequence[str], *, kb: str | None, top_k: int) -> list[SearchConfig]:
    configs = [parse_config(text, kb=kb, top_k=top_k) for text in texts]
    if len({config.name for config in configs}) < len(configs):
        raise InvalidSearchConfig("two settings have the same name; give each --setting another name")
    return configs


def _upload_corpus(client: Client, kb: str, corpus: Path | None, *, concurrency: int) -> None:
    if corpus is None:
        raise DatasetError("there is nothing to load; give the documents with --corpus")
    documents = corpus_upload.read_corpus(corpus)
    corpus_upload.ensure_knowledge_base(client, kb)
    for _ in _show_progress(
        corpus_upload.upload_corpus(client, kb, documents, concurrency=concurrency), len(documents), "uploading"
    ):
        pass
    corpus_upload.wait_until_searchable(client, kb, _write_status)
    _write_status("")


def _show_progress(items: Iterable[ItemT], length: int, label: str) -> Iterator[ItemT]:
    with typer.progressbar(items, length=length, label=label, file=sys.stderr) as bar:
        yield from bar


def _write_status(text: str) -> None:
    """Write a status line that the next status line overwrites."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
