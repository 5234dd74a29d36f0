"""``make bench NAME=multilingual``: ask English documents in five languages, with each local model.

``CARREL_EVAL_DATA`` names the directory of evaluation sets. The questions are those of data/multilingual. The documents
are the judged abstracts of scifact with 1,500 other abstracts, and the files of filings-dev. ``--models NAME,NAME``
selects models. The exit code is 1 if a multilingual model misses the target in a language, and 2 if data is missing.
"""

import argparse
import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

from app.cli.evaluation import corpus_upload
from app.cli.evaluation.datasets import CorpusLine, EvaluationQuery, read_dataset
from app.inference.embedding.local_models import LOCAL_MODELS
from benchmarks.evaluation_sets import (
    FILINGS,
    TOP_K,
    DocumentSet,
    FilingsSet,
    JsonObject,
    read_filings,
    run_queries,
)
from benchmarks.local_model_runs import format_head, join_row, parse_names, service_with_model
from benchmarks.multilingual_questions import LANGUAGES, read_questions
from harness.processes import RunningService, exit_on_sigterm

SCIFACT = "scifact"
OTHER_ABSTRACTS, SEED = 1500, 28
RECALL, NDCG = "recall@10", "ndcg@10"
SEARCHES: Mapping[str, JsonObject] = {"dense": {"strategy": "dense"}, "default": {}}
# Share of the English recall that a multilingual model must reach in every language, with the default search.
TARGET_SHARE = 0.85
TABLE_HEAD = ("model", "search", "questions", *LANGUAGES)
MultilingualSet = DocumentSet | FilingsSet


@dataclass(frozen=True, slots=True)
class LanguageScores:
    """Scores of the questions of one set in one language."""

    set_name: str
    search: str
    language: str
    recall: Sequence[float]
    ndcg: Sequence[float]


def read_multilingual_sets(data: Path) -> list[MultilingualSet]:
    """Return both sets with the chosen questions in English."""
    corpus = corpus_upload.read_corpus(data / SCIFACT / "corpus.jsonl")
    queries = translate(read_dataset(data / SCIFACT).queries, SCIFACT, "english")
    filings = read_filings(data)
    return [
        DocumentSet(SCIFACT, sample_corpus(corpus, queries, OTHER_ABSTRACTS), queries),
        replace(filings, queries=translate(filings.queries, FILINGS, "english")),
    ]


def sample_corpus(corpus: Sequence[CorpusLine], queries: Sequence[EvaluationQuery], others: int) -> list[CorpusLine]:
    """Return the judged documents of queries, and a number of other documents, which is always the same choice."""
    judged = {document for query in queries for document in query.documents}
    unjudged = [document.id for document in corpus if document.id not in judged]
    chosen = judged | set(random.Random(SEED).sample(unjudged, min(others, len(unjudged))))
    return [document for document in corpus if document.id in chosen]


def translate(queries: Sequence[EvaluationQuery], set_name: str, language: str) -> list[EvaluationQuery]:
    """Return the translated questions of a set with the judgements of their originals."""
    originals = {query.id: query for query in queries}
    return [
        replace(originals[question.source_id], search_body={"query": question.texts[language]})
        for question in read_questions(set_name)
    ]


def measure(service: RunningService, evaluation_set: MultilingualSet) -> Iterator[LanguageScores]:
    """Upload a set, ask its questions in every language with every search, and yield the scores."""
    name = evaluation_set.name
    with service.create_client() as client:
        ids = evaluation_set.upload(client, name, {})
        for search, body in SEARCHES.items():
            for language in LANGUAGES:
                queries = translate(evaluation_set.queries, name, language)
                run = list(run_queries(client, name, queries, ids, {"top_k": TOP_K[name], **body}))
                recall, ndcg = (list(evaluation_set.score(item, run).values()) for item in (RECALL, NDCG))
                yield LanguageScores(name, search, language, recall, ndcg)


def merge_sets(scores: Sequence[LanguageScores]) -> list[LanguageScores]:
    """Return the scores of all questions of a search and language, over both sets."""
    merged: dict[tuple[str, str], LanguageScores] = {}
    for item in scores:
        before = merged.get((item.search, item.language), LanguageScores("both", item.search, item.language, [], []))
        merged[item.search, item.language] = replace(
            before, recall=[*before.recall, *item.recall], ndcg=[*before.ndcg, *item.ndcg]
        )
    return list(merged.values())


def compute_shares(scores: Sequence[LanguageScores]) -> dict[str, float]:
    """Return the recall of each language as a share of the English recall."""
    recall = {item.language: mean(item.recall) for item in scores}
    return {language: value / recall["english"] if recall["english"] else 0.0 for language, value in recall.items()}


def format_rows(model: str, scores: Sequence[LanguageScores]) -> Iterator[str]:
    """Yield a row of the table for each search and set. A cell has recall, nDCG and the share of the English recall."""
    every = [*scores, *merge_sets(scores)]
    for search, set_name in dict.fromkeys((item.search, item.set_name) for item in every):
        group = [item for item in every if (item.search, item.set_name) == (search, set_name)]
        shares = compute_shares(group)
        cells = [
            f"{mean(item.recall):.3f} / {mean(item.ndcg):.3f}"
            + ("" if item.language == "english" else f" ({shares[item.language]:.0%})")
            for item in group
        ]
        yield join_row([model, search, f"{set_name}, {len(group[0].recall)}", *cells])


def list_missed_targets(scores: Sequence[LanguageScores]) -> list[str]:
    """Return the languages in which the default search misses the target of multilingual models."""
    shares = compute_shares([item for item in merge_sets(scores) if item.search == "default"])
    return [language for language, share in shares.items() if share < TARGET_SHARE]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Questions in five languages about English documents")
    parser.add_argument("--models", default="all", metavar="NAMES", help="names with commas (default: all)")
    provided = parser.parse_args(arguments)
    data = Path(os.environ.get("CARREL_EVAL_DATA", ""))
    if not all((data / name).is_dir() for name in (SCIFACT, FILINGS)):
        sys.stderr.write(f"CARREL_EVAL_DATA does not name a directory with {SCIFACT} and {FILINGS}\n")
        return 2
    try:
        models = parse_names(provided.models)
    except ValueError as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    sets = read_multilingual_sets(data)
    missed: list[str] = []
    print(f"{RECALL} / {NDCG} (share of the English recall); target of multilingual models: {TARGET_SHARE:.0%}\n")
    print(format_head(TABLE_HEAD), flush=True)
    for model in models:
        with service_with_model(model) as service:
            scores = [item for each in sets for item in measure(service, each)]
        print("\n".join(format_rows(model, scores)), flush=True)
        if LOCAL_MODELS[model].language == "multilingual":
            missed += [f"{model} misses the target in {language}" for language in list_missed_targets(scores)]
    print(*missed, sep="\n")
    return int(bool(missed))


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
