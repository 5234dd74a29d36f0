"""Which knowledge bases a query goes to, by what they are about (pure)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Self
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.retrieval.routes import Reason, RoutedKnowledgeBase

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]
# Of a knowledge base, its own search index and the shared one of its name.
PROFILES = 2


@dataclass(frozen=True, slots=True)
class Profile:
    """What a search index is compared by; ``model`` made its vectors, and texts have the share ``weight``."""

    index_id: UUID
    model: UUID
    weight: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A knowledge base, with the profiles of its own index and of the shared one of its name.

    ``free`` is why it is searched whatever its profiles say.
    """

    kb_id: UUID
    name: str
    scale: float
    profiles: Sequence[Profile]
    free: Reason | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """All of a tenant by name, and in columns what their scores are made of, for many searches.

    What is of a profile stands in tables with a row for each of ``PROFILES`` and a column for each knowledge base, and
    ``places`` says where those of a search index are. ``made_by`` are the profiles of each model.
    """

    each: Sequence[Candidate]
    columns: Mapping[UUID, int]
    places: Mapping[UUID, tuple[int, int]]
    made_by: Mapping[UUID, Flags]
    weights: Numbers
    scales: Numbers
    free: Flags
    incomplete: bool = False

    @classmethod
    def of(cls, candidates: Iterable[Candidate], *, incomplete: bool = False) -> Self:
        """In the order that decides between equals; ``incomplete`` if others with content were not read."""
        each = sorted(candidates, key=attrgetter("name"))
        shape = (PROFILES, len(each))
        places: dict[UUID, tuple[int, int]] = {}
        made_by: dict[UUID, Flags] = {}
        weights = np.zeros(shape)
        for column, one in enumerate(each):
            for row, profile in enumerate(one.profiles):
                places[profile.index_id] = row, column
                made_by.setdefault(profile.model, np.zeros(shape, np.bool_))[row, column] = True
                weights[row, column] = profile.weight
        return cls(
            each=each,
            columns={one.kb_id: column for column, one in enumerate(each)},
            places=places,
            made_by=made_by,
            weights=weights,
            scales=np.array([one.scale for one in each]),
            free=np.array([one.free is not None for one in each], np.bool_),
            incomplete=incomplete,
        )

    def flags(self, kb_ids: Iterable[UUID]) -> Flags:
        """True for these of them."""
        flags = np.zeros(len(self.each), np.bool_)
        flags[[self.columns[kb_id] for kb_id in kb_ids if kb_id in self.columns]] = True
        return flags

    def nothing_alike(self) -> Numbers:
        """How like a query the centroids of each profile are, and its texts: two tables, nan for what is not known."""
        return np.full((2, *self.weights.shape), np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class Narrowed:
    """Those of the candidates that one search ``reads``, and those of these that are ``open``: chosen by scores."""

    candidates: Candidates
    reads: Flags
    open: Flags

    def ids(self, chosen: Flags) -> list[UUID]:
        """Of these knowledge bases."""
        return [self.candidates.each[column].kb_id for column in np.flatnonzero(chosen).tolist()]

    def split(self, chosen: Flags) -> tuple[list[UUID], list[UUID]]:
        """Return the chosen knowledge bases of which something is known, always searched ones first, and the others."""
        each = self.candidates.each
        sure = sorted(np.flatnonzero(chosen).tolist(), key=lambda column: each[column].free != "always")
        known = [each[column].kb_id for column in sure if each[column].free != "nothing_known"]
        return known, [each[column].kb_id for column in sure if each[column].free == "nothing_known"]

    def indexes(self, model: UUID) -> list[UUID]:
        """The search indexes to compare with a query of this model."""
        places = np.argwhere(self.candidates.made_by[model] & self.open).tolist()
        return [self.candidates.each[column].profiles[row].index_id for row, column in places]


def narrowed(candidates: Candidates, only: Collection[UUID] | None, holding: Collection[UUID]) -> Narrowed:
    """Those of ``only``; what is ``holding`` documents of the user or the chat that is searched for is free."""
    reads = np.ones(len(candidates.each), np.bool_) if only is None else candidates.flags(only)
    return Narrowed(candidates, reads, reads & ~candidates.free & ~candidates.flags(holding))


def models_to_ask(narrowed: Narrowed, *, top_n: int) -> set[UUID]:
    """The models in which there is something to choose: more knowledge bases than may be chosen."""
    made_by = narrowed.candidates.made_by
    return {model for model, made in made_by.items() if np.count_nonzero(made.any(axis=0) & narrowed.open) > top_n}


def choose(narrowed: Narrowed, alike: Numbers, *, top_n: int) -> Flags:
    """The best ``top_n`` of each model, ties by name, and all that was not compared; ``alike`` as made above.

    A knowledge base is as good as the better one of its profiles, for both are searched under its name. It was not
    compared where one of them was not, as those of a model that has not answered.
    """
    scores = _scores(narrowed.candidates, alike)
    compared = _compared(narrowed, scores)
    chosen = narrowed.reads & ~compared
    for made in narrowed.candidates.made_by.values():
        columns = np.flatnonzero(compared & made.any(axis=0))
        best = np.where(made, scores, -np.inf)[:, columns].max(axis=0)
        chosen[columns[np.argsort(-best, kind="stable")[:top_n]]] = True
    return chosen


def explain(narrowed: Narrowed, alike: Numbers, chosen: Flags) -> list[RoutedKnowledgeBase]:
    """Every candidate with what became of it: the chosen first, then the best, ties by name."""
    scores = _scores(narrowed.candidates, alike)
    compared = _compared(narrowed, scores)
    told = []
    for column in np.flatnonzero(narrowed.reads).tolist():
        one = narrowed.candidates.each[column]
        if not compared[column]:
            reason = one.free or ("not_compared" if narrowed.open[column] else "own_documents")
            told.append(RoutedKnowledgeBase(one.kb_id, one.name, True, reason, scale=one.scale))
            continue
        is_chosen = bool(chosen[column])
        row = int(np.nanargmax(scores[:, column]))
        score, centroids, texts = (_known(table[row, column]) for table in (scores, *alike))
        reason = "best" if is_chosen else "less_alike"
        told.append(RoutedKnowledgeBase(one.kb_id, one.name, is_chosen, reason, score, centroids, texts, one.scale))
    return sorted(told, key=lambda one: (not one.chosen, one.score is None, -(one.score or 0.0), one.name))


def _scores(candidates: Candidates, alike: Numbers) -> Numbers:
    """Of each profile: of both, or where only one of them is known of that alone; scaled as `sources.counted` does."""
    centroids, texts = alike
    mixed = (1 - candidates.weights) * centroids + candidates.weights * texts
    mixed = np.where(np.isnan(texts), centroids, np.where(np.isnan(centroids), texts, mixed))
    scores: Numbers = np.where(mixed >= 0, mixed * candidates.scales, mixed / candidates.scales)
    return scores


def _compared(narrowed: Narrowed, scores: Numbers) -> Flags:
    """The open ones that have a profile, and a score for each that they have."""
    known = ~np.isnan(scores)
    compared = narrowed.open & known.any(axis=0)
    for made in narrowed.candidates.made_by.values():
        compared &= (known | ~made).all(axis=0)
    return compared


def _known(number: np.float64) -> float | None:
    return None if np.isnan(number) else float(number)
