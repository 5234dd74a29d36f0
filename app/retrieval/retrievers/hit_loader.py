"""Loading of the hits of a ranked list: score threshold, texts, expansion, similarities, ranks and vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from app.retrieval.expansion.auto_merge import auto_merge, drop_contained
from app.retrieval.expansion.expand import drop_overlapping, expand_hits
from app.retrieval.fusion.collapse import collapse_hits
from app.retrieval.fusion.merge_sources import deduplicate_hits
from app.retrieval.hit_order import get_sort_key
from app.retrieval.index_refs import IndexRef
from app.retrieval.repeated_texts import RepeatCheck, count_fresh, put_repeats_last
from app.retrieval.repository import RetrievalRepository
from app.retrieval.retrievers.ranking import RankedKeys, Ranking, split_with_ties
from app.retrieval.retrievers.similarity import fill_missing_similarities
from app.retrieval.search_run import THRESHOLD_NOT_APPLIED, SearchRun
from app.retrieval.types import ChunkKey, Expansion, Hit, RetrieverName
from app.warnings import ServiceWarning, WarningCode

# Number of chunks to load at a time if hits may be merged. Otherwise a long section would be loaded in many small
# steps.
MERGE_BATCH_SIZE = 50
# Number of chunks to load at a time if identical texts become one hit, so that most duplicates are known.
COLLAPSE_BATCH_SIZE = 100
VECTORS_NOT_RETURNED = ServiceWarning(WarningCode.VECTORS_NOT_RETURNED, "The vectors could not be read.")


@dataclass(frozen=True, slots=True)
class HitLoader:
    """Loader of the hits of one search, inside one transaction.

    Attributes:
        repository: Repository of the transaction.
        search_run: Timings and warnings of the search.
        indexes: Knowledge bases by the id of their search index, 16 bytes.
        top_k: Number of hits to load.
        score_thresholds: Minimum similarity of the hits of a search index, by the 16 bytes of its id; an index without
            a limit is left out.
        expansion: Expansion of the hits' texts; None for none.
        return_vectors: Whether hits get their vectors.
        explain: Whether hits get their ranks.
        repeats: Treatment of hits that repeat the conversation; None if they are like other hits.
        collapse: Whether identical texts of one knowledge base become one hit.
    """

    repository: RetrievalRepository
    search_run: SearchRun
    indexes: Mapping[bytes, IndexRef]
    top_k: int
    score_thresholds: Mapping[bytes, float]
    expansion: Expansion | None
    return_vectors: bool
    explain: bool
    repeats: RepeatCheck | None = None
    collapse: bool = False

    async def load_hits(self, ranking: Ranking, *, retriever: RetrieverName = "lexical") -> list[Hit]:
        """Load the best hits. The next hits of the ranking replace deleted, merged and repeating hits.

        Args:
            ranking: Ranked list of the strategy.
            retriever: Retriever whose table supplies the metadata.

        Returns:
            At most ``top_k`` hits, best first, ties by document and chunk index. Hits that repeat the conversation
            come last.
        """
        with self.search_run.time_step("read"):
            remaining = await self._apply_thresholds(ranking)
            merge_share = None if self.expansion is None else self.expansion.merge_share
            # A parent is compared with the conversation, not the chunks that it replaces.
            repeats = self.repeats if merge_share is None else None
            hits, remaining = await self._fill_hits(ranking, [], remaining, retriever=retriever, repeats=repeats)
            if hits and self.expansion is not None and merge_share is not None:
                hits = self._deduplicate(
                    await auto_merge(self.repository, self.expansion, merge_share, hits, top_k=self.top_k)
                )
                hits = hits if self.repeats is None else await self.repeats.mark(hits)
                hits, _ = await self._fill_hits(ranking, hits, remaining, retriever=retriever, repeats=self.repeats)
        return self._with_ranks(ranking, put_repeats_last(self._collapse(hits))[: self.top_k])

    async def _fill_hits(
        self,
        ranking: Ranking,
        hits: list[Hit],
        remaining: RankedKeys,
        *,
        retriever: RetrieverName,
        repeats: RepeatCheck | None,
    ) -> tuple[list[Hit], RankedKeys]:
        """Load hits until there are ``top_k``; return the hits and the ranked keys that were not loaded.

        Hits with identical texts stay in the list, so that sections and parents are compared with all of them.

        Each step loads at least as many as all steps before, so that many repeats or deletions need few statements.
        """
        loaded_count = 0
        while remaining and (missing := self.top_k - count_fresh(self._collapse(hits))) > 0:
            limit = max(missing, loaded_count, self._first_batch_size)
            if self._needs_merging and (hits or loaded_count):
                limit = max(MERGE_BATCH_SIZE, self.top_k, limit)
            best, remaining = split_with_ties(remaining, limit)
            loaded_count += len(best)
            loaded = await self._build_hits(ranking, best, retriever=retriever)
            hits = [*hits, *(loaded if repeats is None else await repeats.mark(loaded))]
            hits.sort(key=get_sort_key)
            hits = self._deduplicate(hits)
            if self._needs_merging:
                hits = drop_overlapping(hits) if self._needs_separate_expansion else drop_contained(hits)
        return hits, remaining

    def _deduplicate(self, hits: list[Hit]) -> list[Hit]:
        """Keep one hit for each text that several knowledge bases contain."""
        return deduplicate_hits(hits) if len(self.indexes) > 1 else hits

    def _collapse(self, hits: list[Hit]) -> list[Hit]:
        """Keep one hit for each text of a knowledge base, if the caller requested it."""
        return collapse_hits(hits) if self.collapse else hits

    @property
    def _first_batch_size(self) -> int:
        """Minimum number of chunks to load at a time. Expanded texts are long, so fewer of them are loaded."""
        if not self.collapse:
            return 0
        return COLLAPSE_BATCH_SIZE if self.expansion is None else MERGE_BATCH_SIZE

    @property
    def _needs_merging(self) -> bool:
        return self.expansion is not None and self.expansion.kind != "window"

    @property
    def _needs_separate_expansion(self) -> bool:
        """Whether each hit is expanded alone. Auto-merging decides over all hits together instead."""
        return self.expansion is not None and self.expansion.merge_share is None

    async def _build_hits(self, ranking: Ranking, best: RankedKeys, *, retriever: RetrieverName) -> Sequence[Hit]:
        keys, similarities = [key for key, _ in best], ranking.results.similarity
        tenants = self._get_tenant_ids(keys)
        await fill_missing_similarities(self.repository, ranking, keys, tenants)
        vector = ranking.vector if any(key not in similarities for key in keys) else None
        rows = await self.repository.load_chunks(keys, tenants=tenants, retriever=retriever, vector=vector)
        hits = [
            Hit(
                key,
                row.chunk,
                row.document,
                self.indexes[key[:16]].name,
                score,
                similarities.get(key, row.cosine),
                scores,
            )
            for (key, score), scores in zip(best, ranking.get_scores(best), strict=True)
            if (row := rows.get(key)) is not None
        ]
        if self.expansion is not None and self._needs_separate_expansion and hits:
            hits = [*await expand_hits(self.repository, self.expansion, hits)]
        return hits

    def _with_ranks(self, ranking: Ranking, hits: list[Hit]) -> list[Hit]:
        """Return the hits with their ranks in the lists of the retrievers, if the caller requested an explanation."""
        if not self.explain:
            return hits
        ranks = ranking.results.collect_ranks()
        return [replace(hit, ranks=ranks.get(hit.key, ())) for hit in hits]

    async def add_vectors(self, hits: list[Hit], *, has_dense: bool = True) -> list[Hit]:
        """Add the stored vectors to the hits, if the caller requested them.

        Args:
            hits: Hits of the search.
            has_dense: Whether the dense retriever answered. If not, the vectors are left out, with a warning.

        Returns:
            The hits, with their vectors if these could be loaded.
        """
        if not self.return_vectors or not hits:
            return hits
        if not has_dense:
            self.search_run.warn(VECTORS_NOT_RETURNED)
            self.search_run.degrade("vectors", "dense")
            return hits
        with self.search_run.time_step("vectors"):
            tenants = [hit.document.tenant_id for hit in hits]
            vectors = await self.repository.load_vectors([hit.key for hit in hits], tenants=tenants)
        return [replace(hit, vector=vectors.get(hit.key)) for hit in hits]

    def _get_tenant_ids(self, keys: Sequence[ChunkKey]) -> list[UUID]:
        return [self.indexes[key[:16]].tenant_id for key in keys]

    async def _apply_thresholds(self, ranking: Ranking) -> RankedKeys:
        thresholds, similarity = self.score_thresholds, ranking.results.similarity
        if not thresholds:
            return ranking.ranked_keys

        def is_near_enough(key: ChunkKey) -> bool:
            # Similarities are rounded as callers see them. A caller may use the similarity of a hit as the threshold,
            # and must then still get that hit.
            limit = thresholds.get(key[:16])
            return limit is None or (key in similarity and round(similarity[key], 6) >= limit)

        # Chunks that already reach the threshold are compared with the other queries when they are loaded.
        others = [key for key, _ in ranking.ranked_keys if not is_near_enough(key)]
        await fill_missing_similarities(self.repository, ranking, others, self._get_tenant_ids(others))
        if any(key not in similarity for key in others):
            self.search_run.warn(THRESHOLD_NOT_APPLIED)
        return [(key, score) for key, score in ranking.ranked_keys if key not in similarity or is_near_enough(key)]
