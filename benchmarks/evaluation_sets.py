"""Evaluation sets that a benchmark uploads to a running service, searches, and scores question by question."""

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx2
from carrel_client import Client

from app.cli.evaluation import corpus_upload
from app.cli.evaluation.datasets import CorpusLine, EvaluationQuery, read_dataset
from app.cli.evaluation.measures import ScoreByQuery, parse_measure, score_documents, score_excerpts
from app.cli.evaluation.runner import QueryResult
from app.cli.evaluation.span_metrics import CorpusTexts, RetrievedChunk
from harness.processes import wait_until_ingested

FILINGS = "filings-dev"
# Number of passages that the usual measures of a set need.
TOP_K = {"mtrag-un": 100, "chroma-dev": 5, "scifact": 200, FILINGS: 10}
FILINGS_TIMEOUT_SECONDS = 900
UPLOAD_CONCURRENCY, SEARCH_CONCURRENCY = 8, 2
JsonObject = dict[str, Any]

_TAG = re.compile(r"<[^<>]{0,1000}>")
_BLANK = re.compile(r"[\s|*\\]+")


class MeasuredSet(Protocol):
    """Documents, questions and judgements."""

    @property
    def name(self) -> str:
        """Name of the set."""

    @property
    def queries(self) -> Sequence[EvaluationQuery]:
        """Questions of the set."""

    def upload(self, client: httpx2.Client, kb: str, settings: JsonObject) -> dict[str, str]:
        """Create a knowledge base, upload all documents, and wait until they are searchable.

        Args:
            client: Client of the service.
            kb: Name of the new knowledge base.
            settings: Further fields of the knowledge base.

        Returns:
            The id of the document in the set by its id in the service.
        """

    def score(self, measure: str, run: Sequence[JsonObject]) -> ScoreByQuery:
        """Return the score of each question.

        Args:
            measure: Name of the measure with its cutoff, for example recall@10.
            run: Results of ``run_queries``.
        """


@dataclass(frozen=True, slots=True)
class DocumentSet:
    """Set of text documents. Its judgements name documents or excerpts."""

    name: str
    corpus: Sequence[CorpusLine]
    queries: Sequence[EvaluationQuery]

    def upload(self, client: httpx2.Client, kb: str, settings: JsonObject) -> dict[str, str]:
        return upload(client, kb, self.corpus, settings)

    def score(self, measure: str, run: Sequence[JsonObject]) -> ScoreByQuery:
        parsed = parse_measure(measure)
        answers = build_answers(run)
        if not parsed.is_excerpt_measure:
            return score_documents([parsed], self.queries, answers)[parsed.label]
        texts = CorpusTexts({document.id: document.text for document in self.corpus})
        return score_excerpts([parsed], self.queries, answers, texts)[0][parsed.label]


@dataclass(frozen=True, slots=True)
class Probe:
    """Judgement of a question about a filing: a passage of the file must contain all figures."""

    file: str
    figures: Sequence[str]


@dataclass(frozen=True, slots=True)
class FilingsSet:
    """Set of PDF files. A question is answered by a passage of the right file that contains all figures.

    ``recall@K`` is 1 if such a passage is among the first K. ``ndcg@K`` counts only the first such passage.
    """

    folder: Path
    queries: Sequence[EvaluationQuery]
    probes: Mapping[str, Probe]
    name: str = FILINGS

    def upload(self, client: httpx2.Client, kb: str, settings: JsonObject) -> dict[str, str]:
        client.post("/v1/knowledge-bases", json={"name": kb, **settings}).raise_for_status()
        ids = {}
        for path in sorted(self.folder.glob("*.pdf")):
            files = {"file": (path.name, path.read_bytes())}
            reply = client.post(f"/v1/knowledge-bases/{kb}/documents", files=files).raise_for_status()
            ids[reply.json()["id"]] = path.name
        wait_until_ingested(client, kb, timeout_seconds=FILINGS_TIMEOUT_SECONDS)
        return ids

    def score(self, measure: str, run: Sequence[JsonObject]) -> ScoreByQuery:
        parsed = parse_measure(measure)
        scores = {}
        for line in run:
            rank = find_rank(line["results"][: parsed.cutoff], self.probes[line["query"]])
            value = 1.0 if parsed.name == "recall" else 1 / math.log2((rank or 1) + 1)
            scores[line["query"]] = value if rank else 0.0
        return scores


def read_set(data: Path, name: str) -> MeasuredSet:
    """Read an evaluation set.

    Args:
        data: Directory of the evaluation sets.
        name: Name of the set.

    Raises:
        DatasetError: A file is missing or wrong.
    """
    if name == FILINGS:
        return read_filings(data)
    return DocumentSet(name, corpus_upload.read_corpus(data / name / "corpus.jsonl"), read_dataset(data / name).queries)


def read_filings(data: Path) -> FilingsSet:
    """Read the questions about filings."""
    folder = data / FILINGS
    lines = [json.loads(line) for line in (folder / "probes.jsonl").read_text("utf-8").split("\n") if line]
    queries = [EvaluationQuery(line["id"], {"query": line["question"]}, {}, ()) for line in lines]
    return FilingsSet(folder, queries, {line["id"]: Probe(line["file"], line["needs"]) for line in lines})


def upload(client: httpx2.Client, kb: str, corpus: Sequence[CorpusLine], settings: JsonObject) -> dict[str, str]:
    """Upload all documents, wait until they are searchable, and map their Carrel ids to the ids of the set."""
    client.post("/v1/knowledge-bases", json={"name": kb, **settings}).raise_for_status()
    return upload_documents(client, kb, corpus)


def upload_documents(client: httpx2.Client, kb: str, corpus: Sequence[CorpusLine]) -> dict[str, str]:
    """Upload documents to a knowledge base like ``upload``."""
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


def build_answers(run: Sequence[JsonObject]) -> dict[str, QueryResult]:
    """Return the documents and passages of each question in the form that the measures read."""
    return {
        line["query"]: QueryResult(
            documents=tuple(dict.fromkeys(result["document"] for result in line["results"])),
            chunks=tuple(RetrievedChunk(result["document"], result["text"]) for result in line["results"]),
        )
        for line in run
    }


def find_rank(results: Sequence[JsonObject], probe: Probe) -> int | None:
    """Return the rank, from 1, of the first passage that answers a question about a filing, or None."""
    return next(
        (
            rank
            for rank, result in enumerate(results, 1)
            if result["document"] == probe.file and contains_figures(result["text"], probe.figures)
        ),
        None,
    )


def contains_figures(text: str, figures: Sequence[str]) -> bool:
    """Return whether a passage contains all figures. "4,244" is not in "14,244" or "4,244.5".

    Case, white space, tags and the bars of Markdown tables are ignored.
    """
    plain = _BLANK.sub(" ", _TAG.sub(" ", unicodedata.normalize("NFKC", text)).casefold())
    return all(re.search(rf"(?<![\d,.]){re.escape(figure)}(?![,.]?\d)", plain) for figure in figures)
