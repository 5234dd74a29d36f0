"""``make bench NAME=threshold``: calibrate the score threshold and the dense weight of the local embedding models.

``CARREL_EVAL_DATA`` names the directory of evaluation sets. The program embeds passages and questions of four sets,
and ``off_topic_turns.txt``: greetings, thanks, and questions about other subjects. No service runs: the rankings come
from cosines, BM25 and the fusion of the service. ``--model NAME`` limits the run to some models, and ``--max-tokens``
sets the size of the chunks.

For each candidate threshold it prints the share of off-topic turns without a result and the loss of recall at 5. A
threshold fits if at least 90 % of the off-topic turns have no result and the mean loss is at most one point. The
program chooses the lowest threshold that fits. If none fits, it chooses the highest one that costs at most one point.
"""

import argparse
import asyncio
import math
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from app.inference.embedding import Embedder, Vectors
from app.inference.embedding.local_loader import get_identity, load_local_embedder
from app.inference.embedding.local_models import LOCAL_MODELS
from app.inference.embedding.search_defaults import get_search_defaults
from app.inference.embedding.weights import require_weights
from app.lexical.analyzer import STOP_WORD_MARK
from app.lexical.analyzers import get_analyzer
from app.lexical.languages import tokenize_query
from app.lexical.weights import K1, B
from app.retrieval.fusion.rank_fusion import sort_best_first
from app.retrieval.fusion.score_fusion import scale_cosines, scale_range
from app.settings import get_user_cache_dir
from benchmarks.threshold_sets import SETS, PassageSet, load_set

THREADS, CANDIDATES, TOP_K = 2, 100, 5
WEIGHTS = (0.3, 0.4, 0.45, 0.5, 0.6, 0.7)
THRESHOLDS = [round(0.01 * step, 2) for step in range(100)]
MIN_EMPTY_SHARE, MAX_LOSS = 0.9, 0.01
MIN_SHOWN_EMPTY_SHARE, MAX_SHOWN_LOSS = 0.5, 0.05
OFF_TOPIC_FILE = Path(__file__).with_name("off_topic_turns.txt")
Floats = npt.NDArray[np.float64]


class LexicalIndex:
    """BM25 over passages, as the service computes it."""

    def __init__(self, texts: Sequence[str]) -> None:
        documents = [get_analyzer().tokenize_document(text) for text in texts]
        lengths = np.array([sum(not term.startswith(STOP_WORD_MARK) for term in terms) for terms in documents], float)
        self._size = len(documents)
        self._norms = K1 * (1 - B + B * lengths / lengths.mean())
        self._postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for index, terms in enumerate(documents):
            for term, frequency in Counter(terms).items():
                self._postings[term].append((index, frequency))

    def search(self, query: str) -> list[tuple[int, float]]:
        """Return the best passages of a query with their scores."""
        scores = np.zeros(self._size)
        for term in tokenize_query(["english"], query):
            if entries := self._postings.get(term):
                indexes, frequencies = np.array(entries).T
                idf = math.log(1 + (self._size - len(entries) + 0.5) / (len(entries) + 0.5))
                scores[indexes] += idf * frequencies / (frequencies + self._norms[indexes])
        return [(int(index), float(scores[index])) for index in select_best(scores) if scores[index] > 0]


@dataclass(frozen=True, slots=True)
class CalibratedSet:
    """Cosines and ranked lists of one set with one model.

    Attributes:
        questions: The set.
        cosines: For each question, the cosine of every passage with the nearest of its queries.
        ranked_lists: For each question, the dense and the lexical list of each of its queries.
        off_topic: For each off-topic turn, its highest cosine with any passage.
        cosine_span: Difference of cosines that counts fully in the fusion.
    """

    questions: PassageSet
    cosines: dict[str, Floats]
    ranked_lists: dict[str, list[tuple[list[tuple[int, float]], list[tuple[int, float]]]]]
    off_topic: Floats
    cosine_span: float | None

    def rank(self, question: str, dense_weight: float) -> list[int]:
        """Return the fused ranking of a question, as the strategy ``hybrid`` ranks.

        A passage that only the lexical list of a query has counts with its cosine to the nearest query.
        """
        lists, cosines, span = self.ranked_lists[question], self.cosines[question], self.cosine_span
        fused: dict[int, float] = defaultdict(float)
        for dense, lexical in lists:
            own_cosines = {index: float(cosines[index]) for index, _ in lexical} | dict(dense)
            for index, score in scale_cosines(own_cosines, span).items():
                fused[index] += dense_weight * score / len(lists)
            for index, score in scale_range(dict(lexical)).items():
                fused[index] += (1 - dense_weight) * score / len(lists)
        return [index for index, _ in sort_best_first(fused.items())]

    def compute_recall(self, dense_weight: float, threshold: float = -1.0) -> float:
        """Return the mean recall of the first passages that reach a threshold."""
        values = []
        for question, cosines in self.cosines.items():
            ranking = [index for index in self.rank(question, dense_weight) if cosines[index] >= threshold]
            values.append(self.questions.compute_recall(ranking[:TOP_K], question))
        return float(np.mean(values))

    def compute_empty_share(self, threshold: float) -> float:
        """Return the share of off-topic turns without a passage that reaches a threshold."""
        return float((self.off_topic < threshold).mean())


def select_best(scores: Floats) -> npt.NDArray[np.intp]:
    """Return the positions of the best scores, best first."""
    return np.argsort(-scores, kind="stable")[:CANDIDATES]


def load_embedder(name: str) -> Embedder:
    """Load a local model in its default precision. The weights must be on the machine."""
    model = LOCAL_MODELS[name]
    directory = require_weights(model, None, get_user_cache_dir())
    return load_local_embedder(directory, get_identity(model), bulk_threads=THREADS)


async def measure(questions: PassageSet, embedder: Embedder, off_topic: Vectors) -> CalibratedSet:
    """Embed a set and rank its passages for every question.

    Args:
        questions: The set.
        embedder: The model.
        off_topic: Vectors of the off-topic turns.
    """
    passages = (await embedder.embed_documents([passage.indexed_text for passage in questions.passages])).vectors
    index = LexicalIndex([passage.indexed_text for passage in questions.passages])
    span = get_search_defaults(embedder.identity.model).cosine_span
    measured = CalibratedSet(questions, {}, {}, np.max(off_topic @ passages.T, axis=1).astype(np.float64), span)
    for question, queries in questions.questions.items():
        cosines = ((await embedder.embed_queries(queries)) @ passages.T).astype(np.float64)
        measured.cosines[question] = cosines.max(axis=0)
        dense = [[(int(at), float(row[at])) for at in select_best(row)] for row in cosines]
        measured.ranked_lists[question] = list(zip(dense, map(index.search, queries), strict=True))
    return measured


def print_weights(measured: Sequence[CalibratedSet], default: float) -> None:
    """Print the recall of each set by dense weight."""
    print("\nrecall@5 by dense weight" + "".join(f"{weight:8}" for weight in WEIGHTS))
    rows = [[item.compute_recall(weight) for weight in WEIGHTS] for item in measured]
    for name, row in zip([item.questions.name for item in measured] + ["mean"], [*rows, np.mean(rows, 0)], strict=True):
        print(f"{name:24}" + "".join(f"{value:8.3f}" for value in row))
    print(f"The default dense weight is {default}.")


def print_cosines(item: CalibratedSet) -> None:
    """Print the distribution of the best cosine of questions and of off-topic turns."""
    best = np.array([cosines.max() for cosines in item.cosines.values()])
    low, median, high = np.percentile(best, [1, 50, 99])
    off_median, off_p90, off_max = np.percentile(item.off_topic, [50, 90, 100])
    print(
        f"{item.questions.name:12} {len(item.questions.passages):5} passages, {len(best):3} questions: best cosine "
        f"p1 {low:.3f}, median {median:.3f}, p99 {high:.3f}; off-topic turns: median {off_median:.3f}, "
        f"p90 {off_p90:.3f}, max {off_max:.3f}"
    )


def choose_threshold(measured: Sequence[CalibratedSet], dense_weight: float) -> float:
    """Print the candidate thresholds and return the chosen one.

    Args:
        measured: All sets with one model.
        dense_weight: Weight of the dense retriever.
    """
    recalls = np.array([item.compute_recall(dense_weight) for item in measured])
    print("\nthreshold  " + "".join(f"{item.questions.name:>22}" for item in measured) + "   mean: empty   loss")
    chosen, is_sufficient = 0.0, False
    for threshold in THRESHOLDS:
        empty = np.array([item.compute_empty_share(threshold) for item in measured])
        if empty.mean() < MIN_SHOWN_EMPTY_SHARE:
            continue
        losses = recalls - [item.compute_recall(dense_weight, threshold) for item in measured]
        cells = "".join(f"{share:13.0%} {loss * 100:+8.1f}" for share, loss in zip(empty, losses, strict=True))
        print(f"{threshold:9.2f}  {cells}   {empty.mean():11.0%} {losses.mean() * 100:+6.1f}")
        if losses.mean() <= MAX_LOSS and not is_sufficient:
            chosen, is_sufficient = threshold, bool(empty.mean() >= MIN_EMPTY_SHARE)
        if losses.mean() > MAX_SHOWN_LOSS:
            break
    reached = "both limits are kept" if is_sufficient else "no threshold keeps both limits"
    print(f"Chosen threshold: {chosen} ({reached}).")
    return chosen


async def calibrate(name: str, data: Path, max_tokens: int | None) -> None:
    """Measure all sets with one model and print the tables."""
    embedder, defaults = load_embedder(name), get_search_defaults(name)
    turns = [line for line in OFF_TOPIC_FILE.read_text("utf-8").splitlines() if line]
    off_topic = await embedder.embed_queries(turns)
    measured = []
    print(f"\n{embedder.identity}", flush=True)
    for set_name in SETS:
        questions = load_set(set_name, data, embedder, max_tokens or defaults.max_tokens)
        measured.append(await measure(questions, embedder, off_topic))
        print_cosines(measured[-1])
    print_weights(measured, defaults.dense_weight)
    choose_threshold(measured, defaults.dense_weight)
    await embedder.close()


def main() -> int:
    """Measure the selected models. The exit code is 2 if the evaluation sets are missing."""
    parser = argparse.ArgumentParser(prog="make bench NAME=threshold", description=__doc__)
    parser.add_argument("--model", action="append", choices=list(LOCAL_MODELS), help="model to measure; default: all")
    parser.add_argument("--max-tokens", type=int, help="maximum size of a chunk; default: that of the model")
    arguments = parser.parse_args()
    data = os.environ.get("CARREL_EVAL_DATA")
    if not data:
        print("Set CARREL_EVAL_DATA to the directory of evaluation sets.")
        return 2
    for name in arguments.model or LOCAL_MODELS:
        asyncio.run(calibrate(name, Path(data), arguments.max_tokens))
    return 0


if __name__ == "__main__":
    sys.exit(main())
