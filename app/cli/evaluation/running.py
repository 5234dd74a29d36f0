"""One evaluation: look the judged documents up, ask every query under every setting, and measure the answers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from carrel_client import Client

from app.cli.evaluation.asking import EXTERNAL_ID, Answer, Naming, Setting, ask_all, find_documents
from app.cli.evaluation.excerpts import Texts
from app.cli.evaluation.measures import Measure, passages_needed, score_documents, score_excerpts
from app.cli.evaluation.report import Outcome
from app.cli.evaluation.sets import CorpusLine, EvaluationSet, SetError, read_lines
from app.errors import AppError

ItemT = TypeVar("ItemT")


class Progress(Protocol):
    """Shows how far a long loop is: passes its items on."""

    def __call__(self, items: Iterable[ItemT], length: int, label: str, /) -> Iterator[ItemT]: ...


class NothingAnswered(AppError):
    """No query was answered."""

    code = "nothing_answered"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A set, the service it is put to, and what is measured."""

    client: Client
    chosen: EvaluationSet
    measures: Sequence[Measure]
    settings: Sequence[Setting]
    documents: str
    at_once: int
    progress: Progress

    def outcomes(self) -> tuple[list[Outcome], int | None]:
        """One a setting, and how many judged documents are not there, where that is known. Raises NothingAnswered."""
        texts = self._texts()
        naming, missing = self._naming()
        return [self._outcome(setting, naming, texts) for setting in self.settings], missing

    def _naming(self) -> tuple[Naming, int | None]:
        """Judged documents are looked up by external id: a search does not tell it, and the others do not matter."""
        if self.documents != EXTERNAL_ID:
            return Naming(self.documents, {}), None
        names = sorted(set().union(*(query.documents for query in self.chosen.queries)))
        kbs = sorted({kb for setting in self.settings for kb in setting.knowledge_bases})
        found = find_documents(self.client, kbs, names, at_once=self.at_once)
        by_id: dict[str, str] = {}
        missing = 0
        for name, ids in self.progress(found, len(names), "judged documents"):
            by_id |= dict.fromkeys(ids, name)
            missing += not ids
        return Naming(EXTERNAL_ID, by_id), missing

    def _texts(self) -> Texts:
        """The texts that excerpts are in. Raises SetError where they are needed and an excerpt is not there."""
        wanted = {reference.document for query in self.chosen.queries for reference in query.references}
        if not wanted or not passages_needed(self.measures):
            return Texts({})
        if self.chosen.corpus is None:
            raise SetError("measures of excerpts need the documents' texts; give --corpus")
        corpus = read_lines(self.chosen.corpus, CorpusLine)
        texts = Texts({line.id: line.text for line in corpus if line.id in wanted})
        for query in self.chosen.queries:
            texts.wanted(query.references)  # before an hour of searches, not behind it
        return texts

    def _outcome(self, setting: Setting, naming: Naming, texts: Texts) -> Outcome:
        queries = self.chosen.queries
        depth = passages_needed(self.measures)
        asked = ask_all(self.client, queries, setting, naming, texts=texts, passages=depth, at_once=self.at_once)
        answers = dict(self.progress(asked, len(queries), setting.name))
        problems = Counter(answer.problem for answer in answers.values() if answer.problem is not None)
        if problems.total() == len(queries):
            raise NothingAnswered(f"setting {setting.name}: no query was answered: {problems.most_common(1)[0][0]}")
        scores = score_documents(self.measures, queries, answers)
        of_excerpts, unlocated = score_excerpts(self.measures, queries, answers, texts)
        warnings = Counter(warning for answer in answers.values() for warning in answer.warnings)
        by_label = {**scores, **of_excerpts}
        ordered = {measure.label: by_label[measure.label] for measure in self.measures}
        return Outcome(setting, ordered, problems, warnings, unlocated, tuple(self._remarks(setting, answers)))

    def _remarks(self, setting: Setting, answers: Mapping[str, Answer]) -> Iterator[str]:
        """Why figures may not be what they are called."""
        top_k = setting.body["top_k"]
        deeper = [one.label for one in self.measures if isinstance(top_k, int) and (one.cutoff or 0) > top_k]
        if deeper:
            yield f"{', '.join(deeper)}: no more than {top_k} passages were asked for (top_k)"
        judged = set().union(*(query.documents for query in self.chosen.queries))
        if not any(judged.intersection(answer.documents) for answer in answers.values()):
            yield f"no query found a judged document: by {self.documents} they may be called otherwise, or not be there"
