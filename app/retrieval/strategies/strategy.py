"""Interface of strategies: the strategy itself, and the search context with queries, targets and ``find``."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress, count
from typing import Any, Generic, Self, TypeVar
from uuid import UUID

from pydantic import BaseModel

from app.filters import CompiledFilter
from app.inference.embedding import Embedder, EmbeddingIdentity
from app.inference.embedding.search_defaults import SearchDefaults, get_search_defaults
from app.knowledge_bases.types import KnowledgeBaseView
from app.retrieval.index_refs import IndexRef
from app.retrieval.query_embedding import QueryEmbedder, Vector
from app.retrieval.repository import RetrieverQuery
from app.retrieval.retrievers.executor import HybridRetriever
from app.retrieval.retrievers.ranking import (
    ListRanker,
    ModelQueryVectors,
    RankedKeys,
    RankingRefiner,
    RetrieverResults,
)
from app.retrieval.retrievers.terms import NO_TERMS, IndexLanguages, Terms, analyze_queries
from app.retrieval.search_run import SearchRun, gather
from app.retrieval.types import Combination, Hit, NamedTransformer, Query
from app.warnings import ServiceWarning, WarningCode

LEXICAL_ONLY = "only the lexical retriever was used"
TEXT_LEXICAL_ONLY = "only the lexical retriever was used for texts"
PROVIDED_VECTORS_ONLY = "only queries with a provided vector were searched"
UNCACHED_TEXT_LEXICAL_ONLY = "only the lexical retriever was used for texts without a cached vector"
AVAILABLE_VECTORS_ONLY = "only queries with a cached or provided vector were searched"
NO_SIMILARITIES = "similarities are unknown"
NOTHING_SEARCHED = "nothing was searched"
QUERY_TERMS_MISSING = ServiceWarning(
    WarningCode.QUERY_TERMS_MISSING, "The queries have no terms to search: stop words, signs and symbols do not count."
)


@dataclass(frozen=True, slots=True)
class SearchTarget:
    """Knowledge base to search.

    Attributes:
        kb: The knowledge base with its search index.
        embedder: Embedder of its model; None if the model is not configured.
        scopes: Scopes that the caller may read.
        effective_filter: Metadata filter with the enforced metadata.
        filter: Compiled form of ``effective_filter``.
        weight: Factor for the scores of its hits.
        is_user_restricted: Whether the caller's key is restricted to a user.
        score_threshold: Minimum similarity of a hit; None for no limit.
    """

    kb: KnowledgeBaseView
    embedder: Embedder | None
    scopes: Sequence[UUID]
    effective_filter: Mapping[str, Any] | None
    filter: CompiledFilter
    weight: float = 1.0
    is_user_restricted: bool = False
    score_threshold: float | None = None

    @property
    def index_ref(self) -> IndexRef:
        """Reference to the knowledge base for the retrievers."""
        return IndexRef(self.kb.row.tenant_id, self.kb.row.name, self.weight)

    @property
    def is_slow(self) -> bool:
        """Whether the retrievers read many rows that the filter excludes, because the knowledge base is large."""
        return self.kb.index.vector_index == "hnsw" and self.filter.is_selective

    @property
    def model(self) -> EmbeddingIdentity:
        """Identity of the model of its vectors; vectors of two models are not comparable."""
        return (
            self.embedder.identity if self.embedder else EmbeddingIdentity.from_index_identity(self.kb.index.identity)
        )

    @property
    def search_defaults(self) -> SearchDefaults:
        """Defaults of searches for the model of its vectors."""
        return get_search_defaults(self.model.model)

    def select_comparable_vectors(self, vectors: Sequence[Vector | None]) -> list[Vector | None]:
        """Return the vectors that have the dimensions of the index, and None for the others.

        The model of a provided vector is unknown, so only its dimensions are checked.
        """
        return [vector if vector is not None and len(vector) == self.kb.index.dim else None for vector in vectors]


@dataclass(frozen=True, slots=True)
class SearchContext:
    """Context of a running search, as a strategy gets it.

    Attributes:
        retriever: Retriever of the search; ``retriever.top_k`` is the number of hits that the caller wants.
        query_embedder: Embedder of queries, with a cache.
        search_run: Deadline, timings and notices of the search.
        queries: Queries of the search, at least one.
        targets: Knowledge bases to search, at least one.
        combine: How the scores of a chunk for several queries count; None for the default of the strategy.
    """

    retriever: HybridRetriever
    query_embedder: QueryEmbedder
    search_run: SearchRun
    queries: Sequence[Query]
    targets: Sequence[SearchTarget]
    combine: Combination | None = None

    def with_limit(self, limit: int) -> Self:
        """Return a copy that reads more hits, for a strategy that changes their order.

        Args:
            limit: Minimum number of hits that ``find`` returns, if there are as many.
        """
        return replace(self, retriever=self.retriever.with_limit(max(limit, self.retriever.top_k)))

    def with_candidates(self, multiplier: int) -> Self:
        """Return a copy whose retrievers return more rows to ``rank``.

        Args:
            multiplier: Minimum number of rows for each hit that the caller wants.
        """
        return replace(self, retriever=self.retriever.with_candidates(multiplier))

    async def find(
        self,
        rank: Callable[[RetrieverResults], RankedKeys],
        *,
        dense: bool = True,
        lexical: bool = True,
        cosines: bool = True,
        refiner: RankingRefiner | None = None,
    ) -> list[Hit]:
        """Run the retrievers for every query in every target, rank the results, and read the best hits.

        If one retriever fails, the other one answers and the caller gets a warning. Filters, scopes and the score
        threshold of the search apply.

        Args:
            rank: Function that makes one ranked list from the results of the retrievers.
            dense: Whether to use the dense retriever.
            lexical: Whether to use the lexical retriever.
            cosines: Whether ``rank`` needs the cosine of every chunk. If false, chunks that only the lexical
                retriever found may lack a cosine, and ``rank`` must keep their lexical order.
            refiner: Second ranking, which may read more from the database; None for none.

        Returns:
            The best hits, at most ``retriever.top_k``, best first.

        Raises:
            SearchUnavailable: No retriever can answer.
            EmbeddingUnavailable: The embedding model does not answer, and ``lexical`` is false.
        """
        vectors = await self._embed_queries(dense=dense, lexical=lexical)
        terms = iter(await self._analyze_queries() if lexical else ())
        # A hit that only the lexical retriever found is ranked below the hits above it in the lexical list. At most
        # ``top_k`` of them are loaded, so only these need cosines. After ties or deletions, loading computes the rest.
        limits_cosines = (
            not cosines and len(self.queries) * len(self.targets) == 1 and not self.retriever.score_thresholds
        )
        comparisons = self._build_comparisons(vectors) if len(self.queries) > 1 else ()
        build_call = partial(
            self._build_call,
            comparisons=comparisons,
            dense=dense,
            cosines=self.retriever.top_k if limits_cosines else None,
        )
        calls = [
            build_call(target, target_vectors[number], next(terms) if lexical and query.text else NO_TERMS)
            for number, query in enumerate(self.queries)
            for target, target_vectors in zip(self.targets, vectors, strict=True)
        ]
        if not any(call.needs_search for call in calls):
            self._report_unsearchable(dense=dense)
            return []
        is_extra = [query.is_extra for query in self.queries for _ in self.targets]
        spans = self._collect_spans()
        ranker = ListRanker(
            calls=calls,
            query_count=len(self.queries),
            models=self._number_models(),
            rank=rank,
            is_fused=dense and lexical,
            is_scaled=(dense and (lexical or (len(spans) > 1 and None in spans))) or self._sums_queries,
            needs_cosines=dense and lexical and cosines,
            vector=calls[0].vector if limits_cosines else None,
            model_query_vectors=comparisons,
            dense_weights={item.kb.index.id.bytes: item.search_defaults.dense_weight for item in self.targets},
            cosine_spans=spans,
            refiner=refiner,
        )
        return await self.retriever.retrieve(calls, ranker, extra_positions=frozenset(compress(count(), is_extra)))

    @property
    def _sums_queries(self) -> bool:
        """Whether a score depends on the queries that found a chunk, and so on the number of rows that were read."""
        return self.combine == "sum" and len(self.queries) > 1

    def _get_threshold(self, target: SearchTarget) -> float | None:
        return self.retriever.score_thresholds.get(target.kb.index.id.bytes)

    def _number_models(self) -> list[int]:
        """Return the number of each target's embedding model, from 0."""
        models = list(dict.fromkeys(target.model for target in self.targets))
        return [models.index(target.model) for target in self.targets]

    def _collect_spans(self) -> list[float | None]:
        """Return the span of the cosines of each embedding model, in the order of ``_number_models``."""
        return list({target.model: target.search_defaults.cosine_span for target in self.targets}.values())

    def _report_unsearchable(self, *, dense: bool) -> None:
        """Add a notice that the queries have no terms; with ``dense``, raise the error of the embedder instead."""
        if dense:
            # The queries have neither a vector nor a term, so an empty result would prove nothing.
            raise self.query_embedder.build_unsearchable_error(self.queries)
        if self.queries and any(target.kb.languages for target in self.targets):  # no languages: no documents
            self.search_run.add_notice(QUERY_TERMS_MISSING)

    async def _embed_queries(self, *, dense: bool, lexical: bool) -> Sequence[Sequence[Vector | None]]:
        """Return the vectors of the queries for each target. All models are called at the same time, each once.

        Without the dense retriever, vectors are needed only for a score threshold.
        """
        needs_vectors = [dense or self._get_threshold(item) is not None for item in self.targets]
        if not any(needs_vectors):
            return [[None] * len(self.queries)] * len(self.targets)
        embedders = {
            item.embedder.identity: item.embedder
            for item in compress(self.targets, needs_vectors)
            if item.embedder is not None
        }
        provided = [query.vector for query in self.queries]
        # A failure is raised only if nothing else can answer: no other model, and no provided vector.
        required = not lexical and len(embedders) == 1 and all(vector is None for vector in provided)
        with self.search_run.time_step("embed"):
            calls = [
                self.query_embedder.embed(
                    item,
                    self.queries,
                    required=required,
                    **self._build_failure_messages(model, dense=dense, lexical=lexical),
                )
                for model, item in embedders.items()
            ]
            embedded = dict(zip(embedders, await gather(calls), strict=True))
        no_vectors: Sequence[Vector | None] = [None] * len(self.queries)
        return [
            target.select_comparable_vectors(embedded.get(target.model, provided) if is_needed else no_vectors)
            for target, is_needed in zip(self.targets, needs_vectors, strict=True)
        ]

    def _build_comparisons(self, vectors: Sequence[Sequence[Vector | None]]) -> list[ModelQueryVectors]:
        """Return for each model the query vectors that its indexes are compared with.

        A model that did not embed all texts is left out: a cosine with some queries is not the highest of all.
        """
        text_numbers = [number for number, query in enumerate(self.queries) if query.text is not None]
        comparisons: dict[EmbeddingIdentity, ModelQueryVectors] = {}
        for target, target_vectors in zip(self.targets, vectors, strict=True):
            others = comparisons[target.model].indexes if target.model in comparisons else frozenset()
            queries = [number for number, vector in enumerate(target_vectors) if vector is not None]
            provided = [vector for vector in target_vectors if vector is not None]
            if provided and all(target_vectors[number] is not None for number in text_numbers):
                comparisons[target.model] = ModelQueryVectors(others | {target.kb.index.id.bytes}, provided, queries)
        return list(comparisons.values())

    def _build_failure_messages(self, model: EmbeddingIdentity, *, dense: bool, lexical: bool) -> dict[str, str]:
        """Return the warnings for a model that does not answer; if there are several models, they name it."""
        targets = [target for target in self.targets if target.model == model]
        provided = [query.vector for query in self.queries]
        has_vectors = any(
            vector is not None for target in targets for vector in target.select_comparable_vectors(provided)
        )
        fallback = (
            (TEXT_LEXICAL_ONLY if has_vectors else LEXICAL_ONLY)
            if lexical
            else (PROVIDED_VECTORS_ONLY if has_vectors else NOTHING_SEARCHED)
        )
        messages = (
            {
                "fallback_message": fallback,
                "partial_message": UNCACHED_TEXT_LEXICAL_ONLY if lexical else AVAILABLE_VECTORS_ONLY,
            }
            if dense
            else {"fallback_message": NO_SIMILARITIES}
        )
        if len(targets) == len(self.targets):
            return {"unavailable_message": "The embedding model is not answering", **messages}
        names = ", ".join(dict.fromkeys(target.kb.display_name for target in targets))
        messages = {name: f"{what} in {names}" for name, what in messages.items()}
        return {"unavailable_message": f"The embedding model {model.model!r} is not answering", **messages}

    async def _analyze_queries(self) -> list[Terms]:
        """Analyze the queries that have a text, for each target."""
        texts = [query.text for query in self.queries if query.text]
        index_languages = [
            IndexLanguages(target.kb.languages, target.kb.index.id, target.kb.analyzer_version)
            for target in self.targets
        ]
        return await analyze_queries(texts, index_languages, self.search_run)

    def _build_call(
        self,
        target: SearchTarget,
        vector: Vector | None,
        terms: Terms,
        *,
        comparisons: Sequence[ModelQueryVectors],
        dense: bool,
        cosines: int | None,
    ) -> RetrieverQuery:
        row, index = target.kb.row, target.kb.index
        # With several queries, the highest cosine counts. It is known only if all vectors are known.
        other_vectors = next(
            (comparison.vectors for comparison in comparisons if index.id.bytes in comparison.indexes), ()
        )
        applies_threshold = not dense and vector is not None and (len(self.queries) == 1 or bool(other_vectors))
        return RetrieverQuery(
            tenant_id=row.tenant_id,
            index_id=index.id,
            dim=index.dim,
            vector=vector,
            term_ids=terms.ids,
            keys=terms.keys,
            scopes=target.scopes,
            filter=target.filter,
            only_similarity=not dense,
            max_cosines=cosines,
            second_pass_min_similarity=self._get_threshold(target) if applies_threshold else None,
            other_vectors=other_vectors,
            is_slow=dense and vector is not None and bool(terms.ids) and target.is_slow,
            is_user_restricted=target.is_user_restricted,
        )


OptionsT = TypeVar("OptionsT", bound=BaseModel)


class NoStrategyOptions(BaseModel, extra="forbid"):
    """Options of a strategy without options."""


def _select_no_transformers(_options: BaseModel) -> Sequence[NamedTransformer]:
    return ()


def collect_score_thresholds(targets: Sequence[SearchTarget]) -> dict[bytes, float]:
    """Return the score thresholds by the id of the search index; a target without a limit is left out."""
    return {item.kb.index.id.bytes: item.score_threshold for item in targets if item.score_threshold is not None}


def collect_index_refs(targets: Sequence[SearchTarget]) -> dict[bytes, IndexRef]:
    """Return the knowledge bases by the id of their search index."""
    return {target.kb.index.id.bytes: target.index_ref for target in targets}


@dataclass(frozen=True, slots=True)
class Strategy(Generic[OptionsT]):
    """Search strategy.

    Attributes:
        name: Name of the strategy in requests and stored settings: small letters, digits, ``_`` and ``-``.
        description: One sentence for ``GET /v1/capabilities``.
        options: Pydantic model of the options, with ``extra="forbid"`` and a default for each field.
        run: Coroutine function that searches and returns the hits, best first, ties by document and chunk index.
        transformers: Function of the options that returns transformers to run before the search, after the transformers
            that the search names.
    """

    name: str
    description: str
    options: type[OptionsT]
    run: Callable[[SearchContext, OptionsT], Awaitable[list[Hit]]]
    transformers: Callable[[OptionsT], Sequence[NamedTransformer]] = _select_no_transformers
