"""Which knowledge bases a query goes to, by what they are about (pure)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Self
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.retrieval.routes import RoutingDecision, RoutingReason

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]
# Of a knowledge base, its own search index and the shared one of its name.
PROFILES_PER_KNOWLEDGE_BASE = 2


@dataclass(frozen=True, slots=True)
class Profile:
    """What a search index is compared by; ``model`` made its vectors, texts have the share ``description_weight``."""

    index_id: UUID
    model: UUID
    description_weight: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A knowledge base, with the profiles of its own index and of the shared one of its name.

    ``exempt_reason`` is why it is searched whatever its profiles say.
    """

    kb_id: UUID
    name: str
    weight: float
    profiles: Sequence[Profile]
    exempt_reason: RoutingReason | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """All of a tenant by name, and in columns what their scores are made of, for many searches.

    What is of a profile stands in tables with a row for each of ``PROFILES_PER_KNOWLEDGE_BASE`` and a column for each
    knowledge base, and ``positions`` says where those of a search index are. ``profiles_by_model`` are the profiles of
    each model.
    """

    items: Sequence[Candidate]
    columns: Mapping[UUID, int]
    positions: Mapping[UUID, tuple[int, int]]
    profiles_by_model: Mapping[UUID, Flags]
    description_weights: Numbers
    weights: Numbers
    exempt: Flags
    is_incomplete: bool = False

    @classmethod
    def from_candidates(cls, candidates: Iterable[Candidate], *, is_incomplete: bool = False) -> Self:
        """In the order that decides between equals; ``is_incomplete`` if others with content were not read."""
        items = sorted(candidates, key=attrgetter("name"))
        shape = (PROFILES_PER_KNOWLEDGE_BASE, len(items))
        positions: dict[UUID, tuple[int, int]] = {}
        profiles_by_model: dict[UUID, Flags] = {}
        description_weights = np.zeros(shape)
        for column, candidate in enumerate(items):
            for row, profile in enumerate(candidate.profiles):
                positions[profile.index_id] = row, column
                profiles_by_model.setdefault(profile.model, np.zeros(shape, np.bool_))[row, column] = True
                description_weights[row, column] = profile.description_weight
        return cls(
            items=items,
            columns={candidate.kb_id: column for column, candidate in enumerate(items)},
            positions=positions,
            profiles_by_model=profiles_by_model,
            description_weights=description_weights,
            weights=np.array([candidate.weight for candidate in items]),
            exempt=np.array([candidate.exempt_reason is not None for candidate in items], np.bool_),
            is_incomplete=is_incomplete,
        )

    def build_flags(self, kb_ids: Iterable[UUID]) -> Flags:
        """True for these of them."""
        flags = np.zeros(len(self.items), np.bool_)
        flags[[self.columns[kb_id] for kb_id in kb_ids if kb_id in self.columns]] = True
        return flags

    def create_similarities(self) -> Numbers:
        """How like a query the centroids of each profile are, and its texts: two tables, nan for what is not known."""
        return np.full((2, *self.description_weights.shape), np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class FilteredCandidates:
    """Those of the candidates that one search ``included``, and those of these that are ``competing``: chosen by
    scores.
    """

    candidates: Candidates
    included: Flags
    competing: Flags

    def get_ids(self, chosen: Flags) -> list[UUID]:
        """Of these knowledge bases."""
        return [self.candidates.items[column].kb_id for column in np.flatnonzero(chosen).tolist()]

    def split_by_profile(self, chosen: Flags) -> tuple[list[UUID], list[UUID]]:
        """Return the chosen knowledge bases of which something is known, always searched ones first, and the others."""
        items = self.candidates.items
        ordered = sorted(np.flatnonzero(chosen).tolist(), key=lambda column: items[column].exempt_reason != "always")
        profiled = [items[column].kb_id for column in ordered if items[column].exempt_reason != "no_profile"]
        return profiled, [items[column].kb_id for column in ordered if items[column].exempt_reason == "no_profile"]

    def find_indexes(self, model: UUID) -> list[UUID]:
        """The search indexes to compare with a query of this model."""
        positions = np.argwhere(self.candidates.profiles_by_model[model] & self.competing).tolist()
        return [self.candidates.items[column].profiles[row].index_id for row, column in positions]


def filter_candidates(
    candidates: Candidates, allowed_ids: Collection[UUID] | None, with_user_documents: Collection[UUID]
) -> FilteredCandidates:
    """Return the candidates among ``allowed_ids``.

    Those in ``with_user_documents`` hold documents of the user or the chat of the search, and are always included.
    """
    included = np.ones(len(candidates.items), np.bool_) if allowed_ids is None else candidates.build_flags(allowed_ids)
    return FilteredCandidates(
        candidates, included, included & ~candidates.exempt & ~candidates.build_flags(with_user_documents)
    )


def find_competing_models(filtered: FilteredCandidates, *, top_n: int) -> set[UUID]:
    """The models in which there is something to choose: more knowledge bases than may be chosen."""
    profiles_by_model = filtered.candidates.profiles_by_model
    return {
        model
        for model, model_profiles in profiles_by_model.items()
        if np.count_nonzero(model_profiles.any(axis=0) & filtered.competing) > top_n
    }


def select_top_n(filtered: FilteredCandidates, similarities: Numbers, *, top_n: int) -> Flags:
    """The best ``top_n`` of each model, ties by name, and all that was not compared; ``similarities`` as made above.

    A knowledge base is as good as the better one of its profiles, for both are searched under its name. It was not
    compared where one of them was not, as those of a model that has not answered.
    """
    scores = _compute_scores(filtered.candidates, similarities)
    compared = _find_compared(filtered, scores)
    chosen = filtered.included & ~compared
    for model_profiles in filtered.candidates.profiles_by_model.values():
        columns = np.flatnonzero(compared & model_profiles.any(axis=0))
        best = np.where(model_profiles, scores, -np.inf)[:, columns].max(axis=0)
        chosen[columns[np.argsort(-best, kind="stable")[:top_n]]] = True
    return chosen


def explain_routing(filtered: FilteredCandidates, similarities: Numbers, chosen: Flags) -> list[RoutingDecision]:
    """Every candidate with what became of it: the chosen first, then the best, ties by name."""
    scores = _compute_scores(filtered.candidates, similarities)
    compared = _find_compared(filtered, scores)
    decisions = []
    for column in np.flatnonzero(filtered.included).tolist():
        candidate = filtered.candidates.items[column]
        if not compared[column]:
            reason = candidate.exempt_reason or ("not_compared" if filtered.competing[column] else "own_documents")
            decisions.append(RoutingDecision(candidate.kb_id, candidate.name, True, reason, weight=candidate.weight))
            continue
        is_chosen = bool(chosen[column])
        row = int(np.nanargmax(scores[:, column]))
        score, centroids, texts = (_to_float(table[row, column]) for table in (scores, *similarities))
        reason = "best" if is_chosen else "less_similar"
        decisions.append(
            RoutingDecision(
                candidate.kb_id, candidate.name, is_chosen, reason, score, centroids, texts, candidate.weight
            )
        )
    return sorted(
        decisions,
        key=lambda candidate: (
            not candidate.is_chosen,
            candidate.score is None,
            -(candidate.score or 0.0),
            candidate.name,
        ),
    )


def _compute_scores(candidates: Candidates, similarities: Numbers) -> Numbers:
    """Of each profile: of both, or where only one of them is known of that alone; scaled as ``apply_weight`` does."""
    centroids, texts = similarities
    mixed = (1 - candidates.description_weights) * centroids + candidates.description_weights * texts
    mixed = np.where(np.isnan(texts), centroids, np.where(np.isnan(centroids), texts, mixed))
    scores: Numbers = np.where(mixed >= 0, mixed * candidates.weights, mixed / candidates.weights)
    return scores


def _find_compared(filtered: FilteredCandidates, scores: Numbers) -> Flags:
    """The open ones that have a profile, and a score for each that they have."""
    has_score = ~np.isnan(scores)
    compared = filtered.competing & has_score.any(axis=0)
    for model_profiles in filtered.candidates.profiles_by_model.values():
        compared &= (has_score | ~model_profiles).all(axis=0)
    return compared


def _to_float(number: np.float64) -> float | None:
    return None if np.isnan(number) else float(number)
