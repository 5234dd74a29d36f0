"""Search: plan → rewrite, beside it route → strategy, beside it HTTP sources → rerank."""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID

from app.db.driver import Outdated
from app.db.session import DatabaseRefused, DatabaseUnavailable, TenantDatabase
from app.documents.narrowing import within
from app.documents.scopes import Scope
from app.errors import AppError
from app.http_sources.client import HttpSources
from app.inference.chat import ChatModel
from app.inference.embedding.registry import Embedders
from app.inference.rerank import Reranker
from app.knowledge_bases.known import KnownKnowledgeBases
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView
from app.logging import get_logger
from app.quotas.service import QuotaService
from app.retrieval import shares
from app.retrieval.costs import SearchCosts
from app.retrieval.course import Course
from app.retrieval.finder import LANE_ROWS, Finder
from app.retrieval.glancing import Glance
from app.retrieval.http_sources import Outside
from app.retrieval.planning import Plan, asked_queries
from app.retrieval.queries import KnownVectors, QueryVectors, check_dimensions, tell_dimensions, usable
from app.retrieval.reranking import ROWS, rerank
from app.retrieval.router import Routed, Router
from app.retrieval.routing_profiles import KnownProfiles
from app.retrieval.sources import fuse_sources
from app.retrieval.strategies.context import SearchContext, Strategy, Target, searched_in
from app.retrieval.transforming import Conversation, Ground
from app.retrieval.types import SearchRequest, SearchResult, SearchUnavailable

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RetrievalService:
    """Search as one key may."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    embedders: Embedders
    known: KnownVectors
    quotas: QuotaService
    http_sources: HttpSources
    lane_rows: int = LANE_ROWS
    reranker: Reranker | None = None
    rewriter: ChatModel | None = None
    profiles: KnownProfiles = field(default_factory=KnownProfiles)
    kept: KnownKnowledgeBases = field(default_factory=KnownKnowledgeBases)
    costs: SearchCosts = field(default_factory=SearchCosts)

    async def search(self, request: SearchRequest) -> SearchResult:
        """The best passages for the request.

        Raises KnowledgeBaseNotFound, IndexMismatch (dense search of an index that another model made), InvalidInput,
        EmbeddingUnavailable, TokensSpent, SearchUnavailable, RateLimited. An empty result means that nothing matched.
        """
        with self.quotas.searching():
            return await self._search_in_time(request)

    async def _search_in_time(self, request: SearchRequest) -> SearchResult:
        course = Course.of(request.timeout_seconds * shares.OWN)
        last = max(request.timeout_seconds * shares.LAST, shares.LEAST_BUDGET_SECONDS)
        try:
            # The last resort: every step has a limit of its own.
            async with asyncio.timeout(last):
                with course.timing("total"):
                    return await self._search(request, course)
        except TimeoutError as exc:
            raise SearchUnavailable(**course.told) from exc
        except AppError as exc:
            exc.fields |= course.told
            raise
        finally:
            course.end()
            if course.dropped:
                told = [f"{step}:{reason}" for step, reason in course.dropped.items()]
                spent, budget = course.timings_ms.get("total"), request.timeout_seconds
                logger.warning("search.dropped", dropped=told, spent_ms=spent, budget_seconds=budget)

    async def _search(self, request: SearchRequest, course: Course) -> SearchResult:
        """With the knowledge bases as they were last read, where they still are so; else with what they are now."""
        views = self._last_read(request)
        if views is None:
            return await self._run(request, course, self.db)
        db = replace(self.db, unchanged={view.row.id: view.state_of_both for view in views})
        try:
            return await self._sure(self._run(request, course, db, views), db, course)
        except Outdated:
            self.kept.forget(self.db.tenant_id, request.knowledge_bases or ())
            course.begin_again()
            return await self._run(request, course, self.db)

    async def _sure(self, search: Awaitable[SearchResult], db: TenantDatabase, course: Course) -> SearchResult:
        """What is refused, fails, or finds nothing may not have come to a transaction. Raises Outdated."""
        try:
            result = await search
        except DatabaseUnavailable:
            raise
        except AppError:
            with suppress(DatabaseUnavailable, DatabaseRefused, TimeoutError):
                async with asyncio.timeout(max(course.remaining, shares.DATABASE_LEAST_SECONDS)):
                    await _look(db)
            raise
        if not result.hits:
            await _look(db)
        return result

    def _last_read(self, request: SearchRequest) -> Sequence[KnowledgeBaseView] | None:
        """The named knowledge bases, where all of them are kept; None also where some are to be chosen."""
        if not request.knowledge_bases or request.routing is not None:
            return None
        views = [self.kept.get(self.db.tenant_id, reference) for reference in request.knowledge_bases]
        found = {view.row.id: view for view in views if view and self.knowledge_bases.principal.may_see(view.row.id)}
        return list(found.values()) if all(view and view.row.id in found for view in views) else None

    async def _run(
        self,
        request: SearchRequest,
        course: Course,
        db: TenantDatabase,
        views: Sequence[KnowledgeBaseView] | None = None,
    ) -> SearchResult:
        scopes, asked = await self._visible(request.scope), asked_queries(request, course)
        vectors = QueryVectors(self.known, self.quotas, course)
        router = Router(db, self.knowledge_bases, self.embedders, vectors, self.profiles, self.kept, course, views)
        routed = await router.begin(request, asked, scopes)
        plan = Plan.of(request, await routed.alone(), course, rewrites=self.rewriter is not None)
        rewriting = plan.rewriting(self.rewriter, course, partial(self._ground, db, routed, vectors))
        analysed = request.analysed or request.explain
        conversation = Conversation(request.messages, asks=not request.queries, analysed=analysed)
        steps = [] if routed.leads_nowhere else plan.steps
        if views is not None and (steps or any(query.picture is not None for query in asked)):
            await _look(db)  # before models are asked
        queries, rewritten = await rewriting.run(steps, asked, conversation)
        route = await routed.route()
        targets, strategy = route.targets, plan.strategy
        queries = usable(queries, course, dense=strategy.name != "lexical", pictures=self._takes_pictures(targets))
        outside = Outside.of(self.http_sources, self.rewriter, course, request, route.views)
        depth = max(plan.top_k, ROWS) if request.rerank and self.reranker is not None else plan.top_k
        finder = self._finder(db, request, course, targets, depth, wanted=plan.top_k)
        context = SearchContext(finder, vectors, course, queries, targets)
        if queries and targets:
            self._check_targets(strategy, context)
        lanes = partial(strategy.run, context, plan.options) if queries and targets else None
        hits = fuse_sources(await outside.beside(lanes, queries, top_k=depth, scale=finder.scale_of))
        if request.rerank:
            hits = await rerank(self.reranker, course, queries, hits)
        reformulation = await rewritten.understood()
        explanation = plan.explained(route, course.plans, outside.explained()) if request.explain else None
        return SearchResult(
            hits=hits[: plan.top_k],
            queries=[query.text for query in queries if query.text is not None],
            strategy=strategy.name,
            warnings=[*course.warnings, *course.remarks],
            timings_ms=course.timings_ms,
            explanation=explanation,
            whole=not course.warnings,
            reformulation=reformulation,
            languages=route.languages,
            answer_prompt=plan.prompts.get("answer"),
            dropped=course.dropped,
        )

    def _finder(
        self,
        db: TenantDatabase,
        request: SearchRequest,
        course: Course,
        targets: Sequence[Target],
        top_k: int,
        *,
        wanted: int,
    ) -> Finder:
        return Finder(
            db=db,
            course=course,
            searched=searched_in(targets),
            top_k=top_k,
            wanted=wanted,
            score_threshold=request.score_threshold,
            lane_rows=self.lane_rows,
            expansion=request.expansion and request.expansion.bounded(top_k),
            return_vectors=request.return_vectors,
            explain=request.explain,
            costs=self.costs,
        )

    async def _ground(self, db: TenantDatabase, routed: Routed, vectors: QueryVectors) -> Ground:
        route = await routed.route()
        return Ground(route.languages, Glance(db, vectors, route.targets, self.costs))

    async def _visible(self, scope: Scope) -> Sequence[UUID]:
        """The keys of the levels that the search sees; a key that is narrowed to a user opens no other's."""
        principal = self.knowledge_bases.principal
        if principal.user_id is not None:
            async with self.db.transaction() as session:
                scope = await within(session, principal, scope)
        return scope.visible()

    def _takes_pictures(self, targets: Sequence[Target]) -> bool:
        models = [target.embedder for target in targets if target.embedder is not None] or self.embedders.all
        return any(model.pictures is not None for model in models)

    def _check_targets(self, strategy: Strategy[Any], context: SearchContext) -> None:
        """Refuse a dense search that no target can answer; tell which answer by words alone, or by other words."""
        targets, queries = context.targets, context.queries
        check_dimensions(queries, [target.kb.index.dim for target in targets])
        if strategy.name != "simple":
            for reason in filter(None, [target.kb.other_words for target in targets]):
                context.course.remark(f"{reason} Until then it is not found by words that these make differently.")
        if strategy.name == "lexical":
            return
        for target in targets:
            tell_dimensions(queries, context.course, name=target.kb.called, size=target.kb.index.dim)
        given = [query for query in queries if query.vector is not None]
        if len(given) == len(queries):
            return
        misfits = [target.kb for target in targets if target.embedder is None]
        if strategy.name == "simple" and len(misfits) == len(targets) and not given:
            targets[0].kb.require_match(self.embedders.identities)
        for kb in misfits:
            context.course.warn(f"{kb.mismatch(self.embedders.identities)} Its dense lane was left out.")
        if any(query.picture is not None for query in queries):
            blind = [target.kb.called for target in targets if target.embedder and target.embedder.pictures is None]
            for name in blind:
                context.course.warn(f"Image queries were left out in {name}: its embedding model takes only texts.")


async def _look(db: TenantDatabase) -> None:
    """Make sure of what is to be unchanged. Raises Outdated, DatabaseUnavailable."""
    async with db.reading():
        pass
