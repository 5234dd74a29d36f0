"""Selection of knowledge bases for a query, by the similarity of their profiles (pure)."""

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
# A knowledge base can have two profiles: its own profile, and the profile of the shared knowledge base with the same
# name.
PROFILES_PER_KNOWLEDGE_BASE = 2


@dataclass(frozen=True, slots=True)
class Profile:
    """Routing profile of a search index.

    Attributes:
        index_id: Id of the search index.
        model: Key of the embedding model of its vectors.
        description_weight: Weight of the description texts in the score, from 0 to 1. The centroids of the chunks have
            the remaining weight.
    """

    index_id: UUID
    model: UUID
    description_weight: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """Knowledge base that routing can choose.

    Attributes:
        kb_id: Id of the knowledge base.
        name: Name of the knowledge base.
        weight: Routing weight, a factor on the score.
        profiles: Profiles of its search index and of the shared knowledge base of the same name.
        exempt_reason: Reason to search it in any case; None if its score decides.
    """

    kb_id: UUID
    name: str
    weight: float
    profiles: Sequence[Profile]
    exempt_reason: RoutingReason | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """All candidates of a tenant, with columns of numbers for the scores of many searches.

    A profile table has ``PROFILES_PER_KNOWLEDGE_BASE`` rows, and a column for each candidate.

    Attributes:
        items: Candidates by name.
        columns: Column of each knowledge base.
        positions: Row and column of each search index in a profile table.
        profiles_by_model: Profile table for each embedding model: true where a profile has the model.
        description_weights: Profile table of description weights.
        weights: Routing weight of each candidate.
        exempt: True for each candidate that is searched in any case.
        is_incomplete: Whether further knowledge bases with documents were not read.
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
        """Build the columns from candidates.

        Args:
            candidates: Candidates in any order. They are sorted by name, which decides between equal scores.
            is_incomplete: Whether further knowledge bases with documents were not read.

        Returns:
            The candidates with their columns.
        """
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
        """Build an array that is true for the given knowledge bases; unknown ids are ignored."""
        flags = np.zeros(len(self.items), np.bool_)
        flags[[self.columns[kb_id] for kb_id in kb_ids if kb_id in self.columns]] = True
        return flags

    def create_similarities(self) -> Numbers:
        """Create two profile tables of nan for the similarities: one for centroids, and one for description texts."""
        return np.full((2, *self.description_weights.shape), np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class FilteredCandidates:
    """Candidates for the routing of one search: knowledge bases that the search may use.

    Attributes:
        candidates: All candidates of the tenant.
        included: True for each candidate that the search may use.
        competing: True for each included candidate whose score decides whether it is chosen.
    """

    candidates: Candidates
    included: Flags
    competing: Flags

    def get_ids(self, chosen: Flags) -> list[UUID]:
        """Return the ids of the chosen knowledge bases."""
        return [self.candidates.items[column].kb_id for column in np.flatnonzero(chosen).tolist()]

    def split_by_profile(self, chosen: Flags) -> tuple[list[UUID], list[UUID]]:
        """Split the chosen knowledge bases by whether they have a profile.

        Args:
            chosen: True for each chosen candidate.

        Returns:
            The ids of knowledge bases with a profile, and the ids of knowledge bases without a profile. Knowledge bases
            that are always searched come first.
        """
        items = self.candidates.items
        ordered = sorted(np.flatnonzero(chosen).tolist(), key=lambda column: items[column].exempt_reason != "always")
        profiled = [items[column].kb_id for column in ordered if items[column].exempt_reason != "no_profile"]
        return profiled, [items[column].kb_id for column in ordered if items[column].exempt_reason == "no_profile"]

    def find_indexes(self, model: UUID) -> list[UUID]:
        """Find the search indexes of competing candidates whose profile has this embedding model."""
        positions = np.argwhere(self.candidates.profiles_by_model[model] & self.competing).tolist()
        return [self.candidates.items[column].profiles[row].index_id for row, column in positions]


def filter_candidates(
    candidates: Candidates, allowed_ids: Collection[UUID] | None, with_user_documents: Collection[UUID]
) -> FilteredCandidates:
    """Filter the candidates of a tenant for one search.

    Args:
        candidates: All candidates of the tenant.
        allowed_ids: Knowledge bases that the search may use; None for all.
        with_user_documents: Knowledge bases with documents of the search's user or chat. They are always searched,
            because profiles do not cover such documents.

    Returns:
        The filtered candidates.
    """
    included = np.ones(len(candidates.items), np.bool_) if allowed_ids is None else candidates.build_flags(allowed_ids)
    return FilteredCandidates(
        candidates, included, included & ~candidates.exempt & ~candidates.build_flags(with_user_documents)
    )


def find_competing_models(filtered: FilteredCandidates, *, top_n: int) -> set[UUID]:
    """Find the embedding models that have more competing knowledge bases than ``top_n``."""
    profiles_by_model = filtered.candidates.profiles_by_model
    return {
        model
        for model, model_profiles in profiles_by_model.items()
        if np.count_nonzero(model_profiles.any(axis=0) & filtered.competing) > top_n
    }


def select_top_n(filtered: FilteredCandidates, similarities: Numbers, *, top_n: int) -> Flags:
    """Select the best ``top_n`` knowledge bases of each embedding model, and all knowledge bases without a comparison.

    The better profile of a knowledge base counts, because a search reads the search indexes of both profiles. A
    knowledge base counts as compared only if each of its profiles has a score. A profile has no score if its embedding
    model did not answer.

    Args:
        filtered: Candidates of the search.
        similarities: Profile tables from ``create_similarities``, filled with cosines.
        top_n: Number of knowledge bases for each embedding model.

    Returns:
        True for each chosen candidate. Ties are resolved by name.
    """
    scores = _compute_scores(filtered.candidates, similarities)
    compared = _find_compared(filtered, scores)
    chosen = filtered.included & ~compared
    for model_profiles in filtered.candidates.profiles_by_model.values():
        columns = np.flatnonzero(compared & model_profiles.any(axis=0))
        best = np.where(model_profiles, scores, -np.inf)[:, columns].max(axis=0)
        chosen[columns[np.argsort(-best, kind="stable")[:top_n]]] = True
    return chosen


def explain_routing(
    filtered: FilteredCandidates, similarities: Numbers, chosen: Flags, *, has_rejected: bool = True
) -> list[RoutingDecision]:
    """Build the decisions for the candidates of a search.

    Args:
        filtered: Candidates of the search.
        similarities: Profile tables with cosines.
        chosen: True for each chosen candidate.
        has_rejected: Whether candidates that were not chosen have a decision too.

    Returns:
        The decisions, with chosen knowledge bases first, then by score, ties by name.
    """
    scores = _compute_scores(filtered.candidates, similarities)
    compared = _find_compared(filtered, scores)
    decisions = []
    for column in np.flatnonzero(filtered.included if has_rejected else chosen).tolist():
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
    """Compute the score of each profile.

    The score is the weighted mean of both similarities, or the only known one. ``apply_weight`` applies the routing
    weight to the score.
    """
    centroids, texts = similarities
    mixed = (1 - candidates.description_weights) * centroids + candidates.description_weights * texts
    mixed = np.where(np.isnan(texts), centroids, np.where(np.isnan(centroids), texts, mixed))
    scores: Numbers = np.where(mixed >= 0, mixed * candidates.weights, mixed / candidates.weights)
    return scores


def _find_compared(filtered: FilteredCandidates, scores: Numbers) -> Flags:
    """Find the competing candidates whose profiles all have a score."""
    has_score = ~np.isnan(scores)
    compared = filtered.competing & has_score.any(axis=0)
    for model_profiles in filtered.candidates.profiles_by_model.values():
        compared &= (has_score | ~model_profiles).all(axis=0)
    return compared


def _to_float(number: np.float64) -> float | None:
    return None if np.isnan(number) else float(number)
