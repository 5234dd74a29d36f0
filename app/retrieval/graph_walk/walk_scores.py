"""Scores of chunks after a walk, and the paths of the walk. All functions are pure."""

import math
from collections.abc import Collection, Mapping, Sequence

from app.graph.extraction.query import query_names, select_query_names
from app.retrieval.fusion.rank_fusion import sort_best_first
from app.retrieval.fusion.score_fusion import place_below, scale_cosines
from app.retrieval.graph_walk.types import (
    Aliases,
    EntityCount,
    IndexState,
    QueryEntity,
    WalkPath,
    WalkRow,
    WalkSettings,
)
from app.retrieval.retrievers.ranking import RankedKeys, RetrieverResults
from app.retrieval.types import ChunkKey

MIN_HUB_CHUNKS = 20
"""Number of chunks up to which no entity is a hub, however small the search index is."""

COSINE_FLOOR = 0.2
"""Share of its mass that the chunk with the lowest cosine has."""


def list_question_names(questions: Sequence[str]) -> list[str]:
    """Return all normalized names that the questions may contain. Long questions take some time."""
    return list(dict.fromkeys(name for question in questions for name in query_names(question)))


def select_query_entities(
    questions: Sequence[str], candidates: Mapping[str, int], state: IndexState, max_share: float
) -> list[QueryEntity]:
    """Select the entities that the questions name. Longer names win over names inside them, and hubs do not count.

    Args:
        questions: Texts of the queries.
        candidates: Key of each name that the questions may contain.
        state: State of the search index, with the numbers of chunks of the candidates.
        max_share: Maximum share of the chunks that may name an entity.

    Returns:
        The entities with their weights, which are not scaled yet.
    """
    total, aliases = state.chunk_count, state.aliases
    max_chunks = max(MIN_HUB_CHUNKS, max_share * total)
    resolved: dict[str, tuple[int, int]] = {}
    for name, candidate in candidates.items():
        key = aliases.resolve(candidate)
        chunks, titles = _count_group(key, state.counts, aliases)
        if 0 < chunks <= max_chunks and (chunks > 1 or titles > 0):
            resolved[name] = (key, chunks)
    entities: dict[int, QueryEntity] = {}
    for question in questions:
        for name in select_query_names(question, resolved):
            key, chunks = resolved[name]
            entities.setdefault(key, QueryEntity(key, name, chunks, math.log(1 + max(total, chunks) / chunks)))
    return list(entities.values())


def build_paths(rows: Sequence[WalkRow], seeds: Collection[ChunkKey]) -> dict[ChunkKey, WalkPath]:
    """Return the way to each chunk of the last step. A start that got the most from itself has none.

    Args:
        rows: Rows of a walk.
        seeds: Keys of the hits from which the walk started.
    """
    if not rows:
        return {}
    last_step = max(row.step for row in rows)
    earlier = {row.chunk: row for row in rows if row.step < last_step}
    paths: dict[ChunkKey, WalkPath] = {}
    for row in rows:
        if row.step < last_step or row.entity is None or row.mass <= 0 or row.source == row.chunk:
            continue
        entities, source = [row.entity], row.source
        while source is not None and source not in seeds and source in earlier:
            former = earlier[source]
            if former.entity is None:
                break
            entities.insert(0, former.entity)
            source = former.source
        paths[row.chunk] = WalkPath(source, entities)
    return paths


def rank_walk(
    hybrid: RankedKeys, masses: Mapping[ChunkKey, float], results: RetrieverResults, settings: WalkSettings
) -> RankedKeys:
    """Combine the scores of the hybrid search and of the walk.

    The mass of a chunk counts more if the chunk is similar to the query. The first hits of the hybrid search stay
    first.

    Args:
        hybrid: Ranked list of the hybrid search, with scores from 0 to 1.
        masses: Mass of each chunk that the walk reached.
        results: Results of the retrievers, with the cosines of those chunks.
        settings: Settings of the walk.

    Returns:
        All chunks, or those of the walk alone without ``fuse_with_vectors``; best first.
    """
    scaled = _scale_similarities(results)
    graph = {key: mass * (COSINE_FLOOR + scaled.get(key, 0.0)) for key, mass in masses.items()}
    best = max(graph.values(), default=0.0)
    graph = {key: score / best for key, score in graph.items()} if best > 0 else graph
    hybrid_scores = dict(hybrid)
    keys = (
        [*hybrid_scores, *(key for key in graph if key not in hybrid_scores)]
        if settings.fuse_with_vectors
        else [*graph]
    )
    weight = settings.graph_weight if settings.fuse_with_vectors else 1.0
    mixed = {key: weight * graph.get(key, 0.0) + (1 - weight) * hybrid_scores.get(key, 0.0) for key in keys}
    first = [key for key, _ in hybrid[: settings.keep_first] if key in mixed]
    first_keys = set(first)
    ranked = sort_best_first((key, score) for key, score in mixed.items() if key not in first_keys)
    if not first:
        return ranked
    top = max(mixed.values())
    head = [(first[0], top), *place_below([(key, -float(rank)) for rank, key in enumerate(first[1:])], top)]
    floor = head[-1][1]
    above = [item for item in ranked if round(item[1], 6) >= round(floor, 6)]
    below = ranked[len(above) :]
    lowered = place_below(above, floor)
    if lowered and below and round(lowered[-1][1], 6) <= round(below[0][1], 6):
        return [*head, *place_below(ranked, floor)]
    return [*head, *lowered, *below]


def _scale_similarities(results: RetrieverResults) -> dict[ChunkKey, float]:
    """Scale the highest cosine of each chunk, for each embedding model."""
    by_model: dict[int, dict[ChunkKey, float]] = {}
    for key, cosine in results.similarity.items():
        by_model.setdefault(results.model_numbers.get(key[:16], 0), {})[key] = cosine
    return {
        key: score
        for model, cosines in by_model.items()
        for key, score in scale_cosines(cosines, results.get_span(model)).items()
    }


def _count_group(key: int, counts: Mapping[int, EntityCount], aliases: Aliases) -> EntityCount:
    """Return the numbers of chunks of an entity with those of the keys that count as it."""
    chunks, titles = counts.get(key, EntityCount(0, 0))
    for source, is_split in aliases.list_sources(key):
        other = EntityCount(1, 0) if is_split else counts.get(source, EntityCount(0, 0))
        chunks, titles = chunks + other.chunks, titles + other.titles
    return EntityCount(chunks, titles)
