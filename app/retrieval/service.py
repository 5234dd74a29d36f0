"""Search service: plan, routing with query rewriting, strategy with HTTP sources, and reranking."""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple
from uuid import UUID

from app.db.driver import StaleCacheError
from app.db.session import DatabaseRefused, DatabaseUnavailable, TenantDatabase
from app.documents.access import restrict_scope
from app.documents.scopes import DocumentScope
from app.errors import AppError
from app.graph.subgraph import Subgraph, merge_subgraphs
from app.ids import encode_id
from app.inference.chat import ChatModel
from app.inference.embedding.model_registry import Embedders
from app.inference.rerank import Reranker
from app.knowledge_bases.cache import KnowledgeBaseCache
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView
from app.logging import get_logger
from app.quotas.service import QuotaService
from app.retrieval import time_budget
from app.retrieval.costs import SearchCosts
from app.retrieval.explanation_builder import build_explanation
from app.retrieval.federation import FederatedSearch, embed_for_source
from app.retrieval.fusion.collapse import collapse_hits
from app.retrieval.fusion.merge_sources import fuse_sources
from app.retrieval.graph_walk.graph_text import add_graph_text
from app.retrieval.hit_includes import add_includes
from app.retrieval.part_search import (
    PartSearcher,
    SearchPart,
    accepts_images,
    build_parts,
    drop_unusable_parts,
    get_top_weight,
)
from app.retrieval.plan import SearchPlan, resolve_queries
from app.retrieval.preview_search import HybridPreviewSearch
from app.retrieval.query_embedding import QueryEmbedder, QueryVectorCache, drop_unusable_queries
from app.retrieval.query_transformation import Conversation, CorpusContext
from app.retrieval.repeated_texts import RepeatCheck, put_repeats_last
from app.retrieval.reranking import MIN_CANDIDATES, rerank
from app.retrieval.retrievers.executor import RETRIEVER_CANDIDATES
from app.retrieval.routing.profile_cache import ProfileCache
from app.retrieval.routing.router import PendingRoute, Router
from app.retrieval.score_thresholds import resolve_auto_thresholds
from app.retrieval.search_run import SearchRun
from app.retrieval.source_plan import SourcePlan, create_source_plans, warn_unused_answer_prompts
from app.retrieval.source_rewriting import DEFAULT_MAX_REWRITTEN_SOURCES, PlannedQueries, SourceRewriter
from app.retrieval.types import Hit, Query, SearchRequest, SearchResult, SearchUnavailable
from app.source_kinds.clients import SourceClients

logger = get_logger(__name__)

MIXED_STRATEGIES = "mixed"
"""Name that a result shows if its knowledge bases were searched with several strategies."""


class _SearchScene(NamedTuple):
    """Request of one search, with the parts that all of its steps share."""

    request: SearchRequest
    db: TenantDatabase
    search_run: SearchRun
    query_embedder: QueryEmbedder


@dataclass(frozen=True, slots=True)
class RetrievalService:
    """Search service of one caller.

    Attributes:
        db: Database in the tenant's scope.
        knowledge_bases: Knowledge base service of the caller.
        embedders: Configured embedding models.
        query_vector_cache: Cache of query vectors of the process.
        quotas: Quotas of the caller.
        sources: Clients for the sources of knowledge bases without documents.
        retriever_candidates: Minimum number of rows that each retriever returns.
        reranker: Reranker; None if none is configured.
        rewrite_model: Chat model of transformers; None if none is configured.
        profile_cache: Cache of routing profiles of the process.
        knowledge_base_cache: Cache of knowledge bases of the process.
        costs: Slots for expensive searches of the process.
        max_rewritten_sources: Maximum number of knowledge bases of a search with separate queries.
    """

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    embedders: Embedders
    query_vector_cache: QueryVectorCache
    quotas: QuotaService
    sources: SourceClients
    retriever_candidates: int = RETRIEVER_CANDIDATES
    reranker: Reranker | None = None
    rewrite_model: ChatModel | None = None
    profile_cache: ProfileCache = field(default_factory=ProfileCache)
    knowledge_base_cache: KnowledgeBaseCache = field(default_factory=KnowledgeBaseCache)
    costs: SearchCosts = field(default_factory=SearchCosts)
    max_rewritten_sources: int = DEFAULT_MAX_REWRITTEN_SOURCES

    async def search(self, request: SearchRequest) -> SearchResult:
        """Search for the best hits. An empty and complete result means that nothing matches.

        Raises:
            KnowledgeBaseNotFound: A named knowledge base does not exist, or the API key may not read it.
            IndexMismatch: The strategy is dense, and no configured model fits the search index.
            InvalidInputError: A part of the request is invalid.
            EmbeddingUnavailable: The embedding model does not answer, and the strategy needs it.
            DailyTokenLimitReached: The daily embedding tokens are used up, and the strategy needs them.
            SearchUnavailable: No retriever answered in time.
            RateLimitExceeded: The caller has too many searches at the same time, or too many expensive ones.
        """
        with self.quotas.track_search():
            return await self._search_in_time(request)

    async def _search_in_time(self, request: SearchRequest) -> SearchResult:
        search_run = SearchRun.from_timeout(request.timeout_seconds * time_budget.SEARCH)
        hard_limit_seconds = max(request.timeout_seconds * time_budget.HARD_LIMIT, time_budget.MIN_BUDGET_SECONDS)
        try:
            # This limit is the last resort: each step has a separate limit.
            async with asyncio.timeout(hard_limit_seconds):
                with search_run.time_step("total"):
                    return await self._search(request, search_run)
        except TimeoutError as exc:
            raise SearchUnavailable(**search_run.diagnostics) from exc
        except AppError as exc:
            exc.fields |= search_run.diagnostics
            raise
        finally:
            search_run.cancel_background()
            if search_run.degraded_steps:
                degraded = [f"{step}:{reason}" for step, reason in search_run.degraded_steps.items()]
                spent_ms, budget_seconds = search_run.timings_ms.get("total"), request.timeout_seconds
                logger.warning("search.degraded", degraded=degraded, spent_ms=spent_ms, budget_seconds=budget_seconds)

    async def _search(self, request: SearchRequest, search_run: SearchRun) -> SearchResult:
        """Search with cached knowledge bases. If these are outdated, load them and search again."""
        views = self._get_cached_views(request)
        if views is None:
            return await self._run(request, search_run, self.db)
        db = replace(self.db, expected_states={view.row.id: view.cache_token for view in views})
        try:
            return await self._validate_cache(self._run(request, search_run, db, views), db, search_run)
        except StaleCacheError:
            self.knowledge_base_cache.invalidate(self.db.tenant_id, request.knowledge_bases or ())
            search_run.reset()
            return await self._run(request, search_run, self.db)

    async def _validate_cache(
        self, search: Awaitable[SearchResult], db: TenantDatabase, search_run: SearchRun
    ) -> SearchResult:
        """Await a search with cached knowledge bases, and raise StaleCacheError if they are outdated.

        Every transaction checks the cache. A search that is refused, fails or finds nothing may have opened no
        transaction, so the cache is checked here.
        """
        try:
            result = await search
        except DatabaseUnavailable:
            raise
        except AppError:
            with suppress(DatabaseUnavailable, DatabaseRefused, TimeoutError):
                async with asyncio.timeout(max(search_run.remaining_seconds, time_budget.MIN_DATABASE_SECONDS)):
                    await _revalidate(db)
            raise
        if not result.hits:
            await _revalidate(db)
        return result

    def _get_cached_views(self, request: SearchRequest) -> Sequence[KnowledgeBaseView] | None:
        """Return the named knowledge bases if all are cached and readable; None otherwise, or if routing chooses."""
        if not request.knowledge_bases or request.routing is not None:
            return None
        views = [self.knowledge_base_cache.get(self.db.tenant_id, reference) for reference in request.knowledge_bases]
        visible = {
            view.row.id: view for view in views if view and self.knowledge_bases.principal.can_access(view.row.id)
        }
        return list(visible.values()) if all(view and view.row.id in visible for view in views) else None

    async def _run(
        self,
        request: SearchRequest,
        search_run: SearchRun,
        db: TenantDatabase,
        views: Sequence[KnowledgeBaseView] | None = None,
    ) -> SearchResult:
        scopes, requested_queries = await self._resolve_scope_keys(request.scope), resolve_queries(request, search_run)
        search_run.notices.extend(request.notices)
        query_embedder = QueryEmbedder(self.query_vector_cache, self.quotas, search_run)
        router = self._create_router(db, query_embedder, search_run, views)
        pending_route = await router.resolve_route(request, requested_queries, scopes)
        plan = SearchPlan.from_request(
            request,
            await pending_route.find_single_knowledge_base(),
            search_run,
            can_rewrite=self.rewrite_model is not None,
        )
        query_transformer = plan.create_query_transformer(
            self.rewrite_model, search_run, partial(self._get_corpus_context, db, pending_route, query_embedder)
        )
        requested_queries = plan.select_queries(request, requested_queries)
        conversation = Conversation.from_request(request, requested_queries)
        steps = [] if pending_route.is_empty else plan.transformer_steps
        if views is not None and (steps or any(query.image is not None for query in requested_queries)):
            await _revalidate(db)  # before a model is called
        source_plans = self._plan_sources_early(pending_route, plan, request, search_run)
        queries, rewritten = await query_transformer.run(steps, requested_queries, conversation)
        route = await pending_route.wait_for_route()
        if source_plans is None:
            source_plans = create_source_plans(route, plan, request, search_run)
        rewriter = self._create_source_rewriter(db, search_run, query_embedder, is_cached=views is not None)
        planned = await rewriter.rewrite(source_plans, queries, conversation)
        warn_unused_answer_prompts(request, route, plan, search_run)
        federated_search = self._create_federated_search(request, search_run, route.views, query_embedder)
        auto_thresholds = resolve_auto_thresholds(request, route.targets, search_run)
        parts = self._build_parts(plan, planned, queries, search_run)
        scene = _SearchScene(request, db, search_run, query_embedder)
        hits = await self._find_hits(scene, plan, queries, parts, federated_search)
        shown_hits, graph_text = await add_graph_text(request, search_run, hits[: plan.top_k], top_k=plan.top_k)
        included = await add_includes(db, search_run, request.include, shown_hits)
        reformulation = await rewritten.await_reformulation()
        sources = federated_search.explain_sources() if request.explain else []
        explain = partial(build_explanation, request, plan, planned, route, search_run.plans, sources)
        return SearchResult(
            hits=included,
            queries=_collect_texts(queries, parts),
            strategy=_get_strategy_name(plan, parts),
            warnings=[*search_run.warnings, *search_run.notices],
            timings_ms=search_run.timings_ms,
            explanation=explain() if request.explain else None,
            is_complete=not search_run.warnings,
            reformulation=reformulation,
            languages=route.languages,
            answer_prompt=plan.prompts.get("answer"),
            degraded_steps=search_run.degraded_steps,
            auto_thresholds=auto_thresholds,
            subgraph=_merge_subgraphs(search_run, included),
            graph_text=graph_text,
        )

    def _plan_sources_early(
        self, pending_route: PendingRoute, plan: SearchPlan, request: SearchRequest, search_run: SearchRun
    ) -> list[SourcePlan] | None:
        """Plan the knowledge bases before a model is called, if they are known; else return None."""
        route = pending_route.resolved_route
        return None if route is None else create_source_plans(route, plan, request, search_run)

    def _create_source_rewriter(
        self, db: TenantDatabase, search_run: SearchRun, query_embedder: QueryEmbedder, *, is_cached: bool
    ) -> SourceRewriter:
        async def revalidate() -> None:
            if is_cached:
                await _revalidate(db)

        return SourceRewriter(
            self.rewrite_model,
            search_run,
            self.max_rewritten_sources,
            lambda targets: HybridPreviewSearch(db, query_embedder, targets, self.costs),
            revalidate,
        )

    def _create_federated_search(
        self,
        request: SearchRequest,
        search_run: SearchRun,
        views: Sequence[KnowledgeBaseView],
        query_embedder: QueryEmbedder,
    ) -> FederatedSearch:
        embed = partial(embed_for_source, query_embedder, self.embedders)
        return FederatedSearch.from_views(self.sources, self.rewrite_model, search_run, request, views, embed=embed)

    def _create_router(
        self,
        db: TenantDatabase,
        query_embedder: QueryEmbedder,
        search_run: SearchRun,
        views: Sequence[KnowledgeBaseView] | None,
    ) -> Router:
        return Router(
            db,
            self.knowledge_bases,
            self.embedders,
            query_embedder,
            self.profile_cache,
            self.knowledge_base_cache,
            search_run,
            views,
        )

    def _build_parts(
        self, plan: SearchPlan, planned: Sequence[PlannedQueries], queries: Sequence[Query], search_run: SearchRun
    ) -> list[SearchPart]:
        """Build the parts of the search without queries that they cannot search, which the caller is warned of."""
        if not planned:  # HTTP sources may search the queries
            uses_dense = plan.strategy.name != "lexical"
            drop_unusable_queries(
                queries, search_run, uses_dense=uses_dense, accepts_images=accepts_images([], self.embedders)
            )
        return drop_unusable_parts(build_parts(planned), search_run, self.embedders) if queries else []

    async def _find_hits(
        self,
        scene: _SearchScene,
        plan: SearchPlan,
        queries: Sequence[Query],
        parts: Sequence[SearchPart],
        federated_search: FederatedSearch,
    ) -> list[Hit]:
        """Return the hits of the strategies and of HTTP sources, fused and reranked; may be more than ``top_k``."""
        request, search_run = scene.request, scene.search_run
        repeats = await RepeatCheck.from_request(request)
        is_reranked = request.rerank and self.reranker is not None
        candidate_count = max(plan.top_k, MIN_CANDIDATES) if is_reranked else plan.top_k
        searcher = PartSearcher(
            scene.db,
            self.embedders,
            scene.query_embedder,
            search_run,
            request,
            top_k=candidate_count,
            requested_top_k=plan.top_k,
            costs=self.costs,
            retriever_candidates=self.retriever_candidates,
            repeats=repeats,
        )
        if parts:
            searcher.check_parts(parts)
        results = await federated_search.run_with(
            partial(searcher.run, parts) if parts else None,
            queries,
            top_k=candidate_count,
            get_weight=partial(get_top_weight, parts),
        )
        fused = fuse_sources(results)
        hits = collapse_hits(fused) if request.collapse else fused  # again: a plugin may have merged several lists
        ranked = await rerank(self.reranker, search_run, queries, hits) if request.rerank else hits
        # Once more: a reranker or a plugin changes the order, and HTTP sources add hits.
        return ranked if repeats is None else put_repeats_last(await repeats.mark(ranked))

    async def _get_corpus_context(
        self, db: TenantDatabase, pending_route: PendingRoute, query_embedder: QueryEmbedder
    ) -> CorpusContext:
        route = await pending_route.wait_for_route()
        return CorpusContext(route.languages, HybridPreviewSearch(db, query_embedder, route.targets, self.costs))

    async def _resolve_scope_keys(self, scope: DocumentScope) -> Sequence[UUID]:
        """Return the keys of the scopes that the search may read. A restricted key never reads other users' scopes."""
        principal = self.knowledge_bases.principal
        if principal.user_id is not None:
            async with self.db.transaction() as session:
                scope = await restrict_scope(session, principal, scope)
        return scope.list_visible_keys()


def _merge_subgraphs(search_run: SearchRun, hits: Sequence[Hit]) -> Subgraph | None:
    """Return the part of the entity graph that connects the hits; None if no walk has recorded one."""
    if not search_run.subgraphs:
        return None
    return merge_subgraphs(search_run.subgraphs, {encode_id("chk", hit.chunk.id) for hit in hits})


def _collect_texts(queries: Sequence[Query], parts: Sequence[SearchPart]) -> list[str]:
    """Return the texts that were searched: distinct texts of several parts, or the common ones without a part."""
    if len(parts) > 1:
        return list(dict.fromkeys(query.text for part in parts for query in part.queries if query.text is not None))
    searched = parts[0].queries if parts else queries
    return [query.text for query in searched if query.text is not None]


def _get_strategy_name(plan: SearchPlan, parts: Sequence[SearchPart]) -> str:
    names = {part.strategy.name for part in parts} or {plan.strategy.name}
    return names.pop() if len(names) == 1 else MIXED_STRATEGIES


async def _revalidate(db: TenantDatabase) -> None:
    """Check that the cached knowledge bases of ``db`` are current. Raises StaleCacheError, DatabaseUnavailable."""
    async with db.read_transaction():
        pass
