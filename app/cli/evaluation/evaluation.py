"""One evaluation: find the judged documents, run every query with every setting, and compute the measures."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from carrel_client import Client

from app.cli.evaluation.datasets import CorpusLine, DatasetError, EvaluationDataset, read_lines
from app.cli.evaluation.measures import Measure, count_needed_chunks, score_documents, score_excerpts
from app.cli.evaluation.report import ConfigResult
from app.cli.evaluation.runner import (
    EXTERNAL_ID,
    DocumentNaming,
    QueryResult,
    SearchConfig,
    find_documents,
    run_queries,
)
from app.cli.evaluation.span_metrics import CorpusTexts
from app.errors import AppError

ItemT = TypeVar("ItemT")


class ProgressReporter(Protocol):
    """Function that yields the items of a loop and shows the progress."""

    def __call__(self, items: Iterable[ItemT], length: int, label: str, /) -> Iterator[ItemT]: ...


class NoQueryAnswered(AppError):
    """The service answered no query."""

    code = "no_query_answered"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Evaluation of a service: client, evaluation set, measures and search settings."""

    client: Client
    dataset: EvaluationDataset
    measures: Sequence[Measure]
    configs: Sequence[SearchConfig]
    naming_kind: str
    concurrency: int
    progress: ProgressReporter

    def run(self) -> tuple[list[ConfigResult], int | None]:
        """Run each configuration. Return the results, and the number of judged documents that are not stored (None if
        unknown).

        Raises NoQueryAnswered.
        """
        texts = self._load_texts()
        naming, missing = self._load_naming()
        return [self._run_config(config, naming, texts) for config in self.configs], missing

    def _load_naming(self) -> tuple[DocumentNaming, int | None]:
        """Find the document IDs of the judged external IDs, because search results contain no external IDs."""
        if self.naming_kind != EXTERNAL_ID:
            return DocumentNaming(self.naming_kind, {}), None
        names = sorted(set().union(*(query.documents for query in self.dataset.queries)))
        kbs = sorted({kb for config in self.configs for kb in config.knowledge_bases})
        matches = find_documents(self.client, kbs, names, concurrency=self.concurrency)
        by_id: dict[str, str] = {}
        missing = 0
        for name, ids in self.progress(matches, len(names), "judged documents"):
            by_id |= dict.fromkeys(ids, name)
            missing += not ids
        return DocumentNaming(EXTERNAL_ID, by_id), missing

    def _load_texts(self) -> CorpusTexts:
        """Return the texts of the documents that have judged excerpts.

        Raises DatasetError if a measure needs the texts, and the corpus or an excerpt is missing.
        """
        document_ids = {reference.document for query in self.dataset.queries for reference in query.references}
        if not document_ids or not count_needed_chunks(self.measures):
            return CorpusTexts({})
        if self.dataset.corpus is None:
            raise DatasetError("measures of excerpts need the texts of the documents; give --corpus")
        corpus = read_lines(self.dataset.corpus, CorpusLine)
        texts = CorpusTexts({line.id: line.text for line in corpus if line.id in document_ids})
        for query in self.dataset.queries:
            texts.locate_references(query.references)  # a wrong excerpt fails before an hour of searches, not after it
        return texts

    def _run_config(self, config: SearchConfig, naming: DocumentNaming, texts: CorpusTexts) -> ConfigResult:
        queries = self.dataset.queries
        depth = count_needed_chunks(self.measures)
        pending = run_queries(
            self.client, queries, config, naming, texts=texts, max_chunks=depth, concurrency=self.concurrency
        )
        results = dict(self.progress(pending, len(queries), config.name))
        problems = Counter(result.problem for result in results.values() if result.problem is not None)
        if problems.total() == len(queries):
            raise NoQueryAnswered(f"setting {config.name}: no query was answered: {problems.most_common(1)[0][0]}")
        scores = score_documents(self.measures, queries, results)
        excerpt_scores, unlocated = score_excerpts(self.measures, queries, results, texts)
        warnings = Counter(code for result in results.values() for code in result.warning_codes)
        by_label = {**scores, **excerpt_scores}
        ordered = {measure.label: by_label[measure.label] for measure in self.measures}
        return ConfigResult(config, ordered, problems, warnings, unlocated, tuple(self._list_remarks(config, results)))

    def _list_remarks(self, config: SearchConfig, results: Mapping[str, QueryResult]) -> Iterator[str]:
        """Yield remarks on figures that may be inaccurate."""
        top_k = config.body["top_k"]
        deeper = [
            measure.label for measure in self.measures if isinstance(top_k, int) and (measure.cutoff or 0) > top_k
        ]
        if deeper:
            yield f"{', '.join(deeper)}: only {top_k} passages were requested (top_k)"
        judged = set().union(*(query.documents for query in self.dataset.queries))
        if not any(judged.intersection(result.documents) for result in results.values()):
            yield f"no query found a judged document: by {self.naming_kind} they may have other names or be missing"
