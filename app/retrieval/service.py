"""Search service: plan, routing with query rewriting, strategy with HTTP sources, and reranking."""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID

from app.db.driver import StaleCacheError
from app.db.session import DatabaseRefused, DatabaseUnavailable, TenantDatabase
from app.documents.access import restrict_scope
from app.documents.scopes import DocumentScope
from app.errors import AppError
from app.http_sources.client import HttpSourceClient
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
from app.retrieval.federation import FederatedSearch
from app.retrieval.fusion.merge_sources import fuse_sources
from app.retrieval.language_check import warn_unread_languages
from app.retrieval.plan import SearchPlan, resolve_queries
from app.retrieval.preview_search import HybridPreviewSearch
from app.retrieval.query_embedding import (
    QueryEmbedder,
    QueryVectorCache,
    check_dimensions,
    drop_unusable_queries,
    warn_dimensions,
)
from app.retrieval.query_transformation import Conversation, CorpusContext
from app.retrieval.repeated_texts import RepeatCheck, put_repeats_last
from app.retrieval.reranking import MIN_CANDIDATES, rerank
from app.retrieval.retrievers.executor import RETRIEVER_CANDIDATES, HybridRetriever
from app.retrieval.routing.profile_cache import ProfileCache
from app.retrieval.routing.router import PendingRoute, Route, Router
from app.retrieval.score_thresholds import resolve_auto_thresholds
from app.retrieval.search_run import SearchRun
from app.retrieval.strategies.strategy import (
    SearchContext,
    SearchTarget,
    Strategy,
    collect_index_refs,
    collect_score_thresholds,
)
from app.retrieval.types import Hit, Query, SearchRequest, SearchResult, SearchUnavailable
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RetrievalService:
    """Search service of one caller.

    Attributes:
        db: Database in the tenant's scope.
        knowledge_bases: Knowledge base service of the caller.
        embedders: Configured embedding models.
        query_vector_cache: Cache of query vectors of the process.
        quotas: Quotas of the caller.
        http_sources: Client for HTTP sources.
        retriever_candidates: Minimum number of rows that each retriever returns.
        reranker: Reranker; None if none is configured.
        rewrite_model: Chat model of transformers; None if none is configured.
        profile_cache: Cache of routing profiles of the process.
        knowledge_base_cache: Cache of knowledge bases of the process.
        costs: Slots for expensive searches of the process.
    """

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    embedders: Embedders
    query_vector_cache: QueryVectorCache
    quotas: QuotaService
    http_sources: HttpSourceClient
    retriever_candidates: int = RETRIEVER_CANDIDATES
    reranker: Reranker | None = None
    rewrite_model: ChatModel | None = None
    profile_cache: ProfileCache = field(default_factory=ProfileCache)
    knowledge_base_cache: KnowledgeBaseCache = field(default_factory=KnowledgeBaseCache)
    costs: SearchCosts = field(default_factory=SearchCosts)

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
        conversation = Conversation(
            request.messages,
            is_query_source=not request.queries,
            needs_analysis=request.needs_analysis or request.explain,
        )
        steps = [] if pending_route.is_empty else plan.transformer_steps
        if views is not None and (steps or any(query.image is not None for query in requested_queries)):
            await _revalidate(db)  # before a model is called
        queries, rewritten = await query_transformer.run(steps, requested_queries, conversation)
        route = await pending_route.wait_for_route()
        queries = drop_unusable_queries(
            queries,
            search_run,
            uses_dense=plan.strategy.name != "lexical",
            accepts_images=self._accepts_images(route.targets),
        )
        federated_search = FederatedSearch.from_views(
            self.http_sources, self.rewrite_model, search_run, request, route.views
        )
        auto_thresholds = resolve_auto_thresholds(request, route.targets, search_run)
        hits = await self._find_hits(request, db, search_run, plan, queries, route, query_embedder, federated_search)
        reformulation = await rewritten.await_reformulation()
        explanation = (
            plan.explain(route, search_run.plans, federated_search.explain_sources()) if request.explain else None
        )
        return SearchResult(
            hits=hits[: plan.top_k],
            queries=[query.text for query in queries if query.text is not None],
            strategy=plan.strategy.name,
            warnings=[*search_run.warnings, *search_run.notices],
            timings_ms=search_run.timings_ms,
            explanation=explanation,
            is_complete=not search_run.warnings,
            reformulation=reformulation,
            languages=route.languages,
            answer_prompt=plan.prompts.get("answer"),
            degraded_steps=search_run.degraded_steps,
            auto_thresholds=auto_thresholds,
        )

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

    async def _find_hits(
        self,
        request: SearchRequest,
        db: TenantDatabase,
        search_run: SearchRun,
        plan: SearchPlan,
        queries: Sequence[Query],
        route: Route,
        query_embedder: QueryEmbedder,
        federated_search: FederatedSearch,
    ) -> list[Hit]:
        """Return the hits of the strategy and of HTTP sources, fused and reranked; may be more than ``top_k``."""
        repeats = await RepeatCheck.from_request(request)
        is_reranked = request.rerank and self.reranker is not None
        candidate_count = max(plan.top_k, MIN_CANDIDATES) if is_reranked else plan.top_k
        retriever = self._create_retriever(
            db, request, search_run, route.targets, candidate_count, requested_top_k=plan.top_k, repeats=repeats
        )
        context = SearchContext(retriever, query_embedder, search_run, queries, route.targets)
        local_search = None
        if queries and route.targets:
            self._check_targets(plan.strategy, context)
            local_search = partial(plan.strategy.run, context, plan.options)
        results = await federated_search.run_with(
            local_search, queries, top_k=candidate_count, get_weight=retriever.get_top_weight
        )
        hits = fuse_sources(results)
        ranked = await rerank(self.reranker, search_run, queries, hits) if request.rerank else hits
        # Once more: a reranker or a plugin changes the order, and HTTP sources add hits.
        return ranked if repeats is None else put_repeats_last(await repeats.mark(ranked))

    def _create_retriever(
        self,
        db: TenantDatabase,
        request: SearchRequest,
        search_run: SearchRun,
        targets: Sequence[SearchTarget],
        top_k: int,
        *,
        requested_top_k: int,
        repeats: RepeatCheck | None,
    ) -> HybridRetriever:
        return HybridRetriever(
            db=db,
            search_run=search_run,
            indexes=collect_index_refs(targets),
            top_k=top_k,
            requested_top_k=requested_top_k,
            score_thresholds=collect_score_thresholds(targets),
            retriever_candidates=self.retriever_candidates,
            expansion=request.expansion and request.expansion.limit_characters(top_k),
            return_vectors=request.return_vectors,
            explain=request.explain,
            repeats=repeats,
            costs=self.costs,
        )

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

    def _accepts_images(self, targets: Sequence[SearchTarget]) -> bool:
        models = [target.embedder for target in targets if target.embedder is not None] or self.embedders.all
        return any(model.image_embedder is not None for model in models)

    def _check_targets(self, strategy: Strategy[Any], context: SearchContext) -> None:
        """Refuse a dense search that no target can answer. Warn of targets that only one retriever can search."""
        targets, queries = context.targets, context.queries
        check_dimensions(queries, [target.kb.index.dim for target in targets])
        if strategy.name != "dense":
            for reason in filter(None, [target.kb.analyzer_mismatch for target in targets]):
                message = f"{reason} Until then, some words do not match."
                context.search_run.add_notice(ServiceWarning(WarningCode.ANALYZER_MISMATCH, message))
        if strategy.name == "lexical":
            return
        warn_unread_languages(queries, targets, self.embedders, context.search_run)
        for target in targets:
            warn_dimensions(queries, context.search_run, name=target.kb.display_name, size=target.kb.index.dim)
        vector_queries = [query for query in queries if query.vector is not None]
        if len(vector_queries) == len(queries):
            return
        mismatched = [target.kb for target in targets if target.embedder is None]
        if strategy.name == "dense" and len(mismatched) == len(targets) and not vector_queries:
            targets[0].kb.require_match(self.embedders.identities)
        for kb in mismatched:
            message = f"{kb.find_mismatch(self.embedders.identities)} Its dense retriever was skipped."
            context.search_run.warn(ServiceWarning(WarningCode.EMBEDDING_MODEL_MISMATCH, message))
        if any(query.image is not None for query in queries):
            text_only = [
                target.kb.display_name
                for target in targets
                if target.embedder and target.embedder.image_embedder is None
            ]
            for name in text_only:
                message = f"Image queries were skipped in {name}: its embedding model accepts text only."
                context.search_run.warn(ServiceWarning(WarningCode.IMAGE_QUERIES_SKIPPED, message))


async def _revalidate(db: TenantDatabase) -> None:
    """Check that the cached knowledge bases of ``db`` are current. Raises StaleCacheError, DatabaseUnavailable."""
    async with db.read_transaction():
        pass
