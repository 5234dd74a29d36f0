"""The measures by name, and what they give for each query: of documents by ir-measures, of excerpts by our own."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from app.cli.evaluation import excerpts
from app.cli.evaluation.asking import Answer
from app.cli.evaluation.excerpts import Texts
from app.cli.evaluation.sets import Query
from app.errors import InvalidInput, Unavailable

# As they are shown, and as ir-measures calls them.
OF_DOCUMENTS = {"nDCG": "nDCG", "recall": "R", "MRR": "RR", "precision": "P", "MAP": "AP", "success": "Success"}
NEED_CUTOFF = ("recall", "precision", "success", "excerpt_recall", "excerpt_precision", "excerpt_IoU")
OF_EXCERPTS = ("excerpt_recall", "excerpt_precision", "excerpt_IoU")
DEFAULT_OF_DOCUMENTS = ("nDCG@10", "recall@5", "recall@10", "recall@100", "MRR@10")
DEFAULT_OF_EXCERPTS = ("excerpt_recall@5", "excerpt_precision@5", "excerpt_IoU@5")

ByQuery = dict[str, float]


class UnknownMeasure(InvalidInput):
    """There is no such measure."""

    code = "unknown_measure"


class MeasuresMissing(Unavailable):
    """Measures of documents need ir-measures: pip install 'carrel[evaluate]'."""

    code = "measures_missing"


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure, over as many documents or passages as the cutoff says."""

    name: str
    cutoff: int | None

    @property
    def label(self) -> str:
        """As it is written: ``nDCG@10``."""
        return self.name if self.cutoff is None else f"{self.name}@{self.cutoff}"

    @property
    def is_of_excerpts(self) -> bool:
        """Whether it looks at passages, not at documents."""
        return self.name in OF_EXCERPTS


def parse_measure(text: str) -> Measure:
    """Names may be written in any case, and as ir-measures has them. Raises UnknownMeasure."""
    known = {name.lower(): name for name in (*OF_DOCUMENTS, *OF_EXCERPTS)}
    known |= {theirs.lower(): ours for ours, theirs in OF_DOCUMENTS.items()}
    found = re.fullmatch(r"([A-Za-z_]+)(?:@([1-9]\d{0,3}))?", text.strip())
    name = known.get(found[1].lower()) if found else None
    if found is None or name is None or (found[2] is None and name in NEED_CUTOFF):
        names = ", ".join(f"{name}@K" for name in (*OF_DOCUMENTS, *OF_EXCERPTS))
        raise UnknownMeasure(f"there is no measure {text!r}; there are: {names}")
    return Measure(name, int(found[2]) if found[2] else None)


def default_measures(queries: Sequence[Query]) -> list[Measure]:
    """Those of documents where documents are judged, those of excerpts where there are some."""
    names: list[str] = []
    if any(query.is_judged for query in queries):
        names += DEFAULT_OF_DOCUMENTS
    if any(query.references for query in queries):
        names += DEFAULT_OF_EXCERPTS
    return [parse_measure(name) for name in names]


def passages_needed(measures: Sequence[Measure]) -> int:
    """How many passages a query the measures of excerpts look at."""
    return max((measure.cutoff or 0 for measure in measures if measure.is_of_excerpts), default=0)


def score_documents(
    measures: Sequence[Measure], queries: Sequence[Query], answers: Mapping[str, Answer]
) -> dict[str, ByQuery]:
    """By measure and query; a query that was not answered gets 0. Raises MeasuresMissing."""
    wanted = {_theirs(measure): measure.label for measure in measures if not measure.is_of_excerpts}
    if not wanted:
        return {}
    library = load_library()
    # trec_eval knows no grades below 0: they are as irrelevant as 0.
    judged = {
        query.id: {document: max(grade, 0) for document, grade in query.grades.items()}
        for query in queries
        if query.is_judged
    }
    # It sorts by score, and ties by id: ranks make scores without ties.
    run = {
        query: {document: -float(rank) for rank, document in enumerate(answers[query].documents)} for query in judged
    }
    scores: dict[str, ByQuery] = {label: dict.fromkeys(judged, 0.0) for label in wanted.values()}
    for metric in library.iter_calc([library.parse_measure(name) for name in wanted], judged, run):
        scores[wanted[str(metric.measure)]][metric.query_id] = float(metric.value)
    return scores


def score_excerpts(
    measures: Sequence[Measure], queries: Sequence[Query], answers: Mapping[str, Answer], texts: Texts
) -> tuple[dict[str, ByQuery], int]:
    """The same for excerpts, and how many passages of the first were not found in their document. Raises SetError."""
    scores: dict[str, ByQuery] = {measure.label: {} for measure in measures if measure.is_of_excerpts}
    deepest = passages_needed(measures)
    unlocated = 0
    for query in (query for query in queries if query.references and scores):
        wanted = texts.wanted(query.references)
        passages = answers[query.id].passages
        by_cutoff = {
            cutoff: excerpts.score(passages[:cutoff], wanted, texts)
            for cutoff in {measure.cutoff for measure in measures if measure.is_of_excerpts}
        }
        unlocated += by_cutoff[deepest].unlocated
        for measure in measures:
            if measure.is_of_excerpts:
                scores[measure.label][query.id] = by_cutoff[measure.cutoff].named()[measure.name]
    return scores, unlocated


def load_library() -> ModuleType:
    """Imported when it is needed: the service does without. Raises MeasuresMissing."""
    try:
        import ir_measures
    except ImportError as exc:
        raise MeasuresMissing from exc
    module: ModuleType = ir_measures
    return module


def _theirs(measure: Measure) -> str:
    name = OF_DOCUMENTS[measure.name]
    return name if measure.cutoff is None else f"{name}@{measure.cutoff}"
