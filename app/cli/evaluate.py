"""``carrel evaluate``: how well a running service finds what it should, and whether another setting does better."""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from carrel_client import CarrelError, Client

from app.cli.connection import connect
from app.cli.evaluation import loading
from app.cli.evaluation.asking import EXTERNAL_ID, BadSetting, Setting, check_naming, parse_setting
from app.cli.evaluation.intervals import Bootstrap
from app.cli.evaluation.measures import Measure, default_measures, load_library, parse_measure
from app.cli.evaluation.report import Report
from app.cli.evaluation.running import Evaluation
from app.cli.evaluation.sets import EvaluationSet, SetError, read_set
from app.errors import AppError, InvalidInput

ItemT = TypeVar("ItemT")

Queries = Annotated[Path, typer.Argument(exists=True, help="A directory in BEIR's layout, or a JSON Lines file.")]
Judgements = Annotated[Path | None, typer.Option(exists=True, help="Query, document and grade a line.")]
Split = Annotated[
    str | None,
    typer.Option(help="Judge by the directory's qrels/SPLIT.tsv. Without it: by qrels.tsv, else by qrels/test.tsv."),
]
References = Annotated[Path | None, typer.Option(exists=True, help="Excerpts that answer queries, as JSON Lines.")]
Corpus = Annotated[Path | None, typer.Option(exists=True, help="The documents' texts, as JSON Lines.")]
Load = Annotated[bool, typer.Option("--load", help="Upload the corpus first; what is there already stays.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=JSON", help="A search body by name; the first is the baseline. May be repeated."),
]
Measures = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME@K", help="nDCG, recall, MRR, precision, MAP, success; excerpt_recall, _precision, _IoU."
    ),
]
Documents = Annotated[
    str, typer.Option(help="What judgements call a document by: external_id, source, title, metadata.KEY.")
]
FailUnder = Annotated[
    list[str] | None, typer.Option(metavar="NAME@K=X", help="Status 1 where a setting does not reach it.")
]


class BadFloor(InvalidInput):
    """--fail-under takes a measure and a number, such as nDCG@10=0.7."""

    code = "bad_floor"


def evaluate(
    queries: Queries,
    kb: Annotated[str, typer.Option(help="The knowledge base to search.")],
    judgements: Judgements = None,
    split: Split = None,
    references: References = None,
    corpus: Corpus = None,
    load: Load = False,
    setting: Settings = None,
    top_k: Annotated[int, typer.Option(min=1, max=500, help="Passages a query.")] = 100,
    measure: Measures = None,
    documents: Documents = EXTERNAL_ID,
    fail_under: FailUnder = None,
    resamples: Annotated[int, typer.Option(min=100, max=100_000, help="Draws for the intervals.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 1,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Requests at a time.")] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the value of every query.")] = False,
    url: Annotated[str | None, typer.Option(help="The service; else CARREL_URL, else what serve left.")] = None,
    key: Annotated[str | None, typer.Option(help="Its key; else CARREL_API_KEY, else what serve left.")] = None,
) -> None:
    """Measure what search finds on queries whose answers are known, over the HTTP API of a running service.

    Status 1: below --fail-under. Status 2: something is wrong with the options, the files or the connection.

    Example: carrel evaluate scifact --kb scifact --load --fail-under nDCG@10=0.7

    Example: carrel evaluate fiqa --kb fiqa --split dev

    Example: carrel evaluate queries.jsonl --kb handbook --setting 'now={}' --setting 'words={"strategy": "lexical"}'
    """
    try:
        chosen = read_set(queries, judgements=judgements, references=references, corpus=corpus, split=split)
        floors = _floors(fail_under or [])
        measures = _measures(measure or [], floors, chosen)
        settings = _settings(setting or [f"{kb}={{}}"], kb=kb, top_k=top_k)
        with connect(url, key) as client:
            if load:
                _load(client, kb, chosen.corpus, at_once=concurrency)
            run = Evaluation(client, chosen, measures, settings, check_naming(documents), concurrency, _progress)
            outcomes, missing = run.outcomes()
    except (AppError, CarrelError) as exc:
        typer.echo(f"carrel: {exc.message if isinstance(exc, AppError) else exc}", err=True)
        raise typer.Exit(2) from exc
    facts = {"queries": len(chosen.queries), "without_judgements": chosen.left_out, "judged_documents_missing": missing}
    report = Report(outcomes, Bootstrap(resamples, seed), facts)
    typer.echo(json.dumps(report.as_json(), ensure_ascii=False) if as_json else "\n".join(report.lines()))
    missed = report.below(floors)
    for line in missed:
        typer.echo(f"carrel: {line}", err=True)
    raise typer.Exit(1 if missed else 0)


def _floors(given: Sequence[str]) -> dict[str, float]:
    """The least value by measure. Raises BadFloor, UnknownMeasure."""
    floors: dict[str, float] = {}
    for text in given:
        name, _, least = text.partition("=")
        try:
            value = float(least)
        except ValueError as exc:
            raise BadFloor from exc
        if not math.isfinite(value):
            raise BadFloor
        floors[parse_measure(name).label] = value
    return floors


def _measures(given: Sequence[str], floors: Mapping[str, float], chosen: EvaluationSet) -> list[Measure]:
    """Those that were asked for, or the usual ones, and those with a floor. Raises what is wrong with them."""
    usual = default_measures(chosen.queries)
    wanted = [*([parse_measure(name) for name in given] or usual), *(parse_measure(label) for label in floors)]
    for kind, reason in ((True, "no query has excerpts"), (False, "no document is judged")):
        if all(one.is_of_excerpts != kind for one in usual) and any(one.is_of_excerpts == kind for one in wanted):
            raise SetError(f"{next(one.label for one in wanted if one.is_of_excerpts == kind)}: {reason}")
    if any(not one.is_of_excerpts for one in wanted):
        load_library()  # before an hour of searches, not behind it
    return list(dict.fromkeys(wanted))


def _settings(given: Sequence[str], *, kb: str, top_k: int) -> list[Setting]:
    settings = [parse_setting(text, kb=kb, top_k=top_k) for text in given]
    if len({one.name for one in settings}) < len(settings):
        raise BadSetting("two settings have the same name")
    return settings


def _load(client: Client, kb: str, corpus: Path | None, *, at_once: int) -> None:
    if corpus is None:
        raise SetError("there is nothing to load; give --corpus")
    documents = loading.read_corpus(corpus)
    loading.make_knowledge_base(client, kb)
    for _ in _progress(loading.upload(client, kb, documents, at_once=at_once), len(documents), "uploading"):
        pass
    loading.wait_until_searchable(client, kb, _tell)
    _tell("")


def _progress(items: Iterable[ItemT], length: int, label: str) -> Iterator[ItemT]:
    with typer.progressbar(items, length=length, label=label, file=sys.stderr) as bar:
        yield from bar


def _tell(text: str) -> None:
    """One line of a terminal, written over by the next."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
