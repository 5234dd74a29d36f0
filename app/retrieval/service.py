"""Search: rewrite → route → strategy."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from app.db.models.base import SYSTEM_TENANT
from app.db.session import TenantDatabase
from app.documents.narrowing import within
from app.documents.scopes import SHARED, Scope
from app.filters import compile_filter
from app.inference.chat import ChatModel
from app.inference.embedding.registry import Embedders
from app.inference.rerank import Reranker
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView
from app.quotas.service import QuotaService
from app.retrieval.course import Course
from app.retrieval.finder import LANE_ROWS, Finder
from app.retrieval.queries import KnownVectors, QueryVectors, check_dimensions, usable
from app.retrieval.reranking import ROWS, rerank
from app.retrieval.rewriting import clip, conversation_queries
from app.retrieval.router import Route, Router
from app.retrieval.routing_profiles import KnownProfiles
from app.retrieval.sources import Source, fuse_sources
from app.retrieval.strategies import DEFAULT_STRATEGY, find_strategy, strategy_options
from app.retrieval.strategies.context import SearchContext, Strategy, Target
from app.retrieval.transformers import Step, default_steps, find_steps, kept_steps
from app.retrieval.transforming import Conversation, Rewriting
from app.retrieval.types import (
    Expansion,
    ExplainedIndex,
    Explanation,
    Query,
    SearchRequest,
    SearchResult,
    SearchUnavailable,
)

DEFAULT_TOP_K = 5
# Of the caller's budget: the rest is for the way here and back, and for a machine that is busy.
OWN_SHARE = 0.8
# The least that a search gets, however little its caller gives it.
LEAST_SECONDS = 1.0
# Of all widened texts of an answer together.
MOST_CHARACTERS = 2_000_000
# How documents that belong to a conversation and change with it are known to the lanes.
NOT_DYNAMIC = {"$dynamic": {"exists": False}}


@dataclass(frozen=True, slots=True)
class RetrievalService:
    """Search as one key may."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    embedders: Embedders
    known: KnownVectors
    quotas: QuotaService
    lane_rows: int = LANE_ROWS
    reranker: Reranker | None = None
    rewriter: ChatModel | None = None
    profiles: KnownProfiles = field(default_factory=KnownProfiles)

    async def search(self, request: SearchRequest) -> SearchResult:
        """The best passages for the request.

        Raises KnowledgeBaseNotFound, IndexMismatch (dense search of an index that another model made), InvalidInput,
        EmbeddingUnavailable, TokensSpent, SearchUnavailable. An empty result means that nothing matched.
        """
        course = Course.of(request.timeout_seconds * OWN_SHARE)
        try:
            # The last resort: every step has a limit of its own.
            async with asyncio.timeout(max(request.timeout_seconds, LEAST_SECONDS)):
                with course.timing("total"):
                    return await self._search(request, course)
        except TimeoutError as exc:
            raise SearchUnavailable from exc

    async def _search(self, request: SearchRequest, course: Course) -> SearchResult:
        scopes = await self._visible(request.scope)
        vectors = QueryVectors(self.known, self.quotas, course)
        router = Router(self.db, self.knowledge_bases, self.embedders, vectors, self.profiles, course)
        route = await router.route(request, _queries(request), scopes)
        views = route.views
        strategy, options = _strategy(request, views)
        wished = _wished(request, views, course)
        targets = _targets(views, scopes, request, self.embedders)
        models = [target.embedder for target in targets if target.embedder is not None] or self.embedders.all
        pictures = any(model.pictures is not None for model in models)
        queries = usable(_queries(request), course, dense=strategy.name != "lexical", pictures=pictures)
        steps = self._steps(wished, request)
        rewriting = Rewriting(self.rewriter, course, _languages(targets), _prompt(views), hurried=wished is None)
        conversation = Conversation(request.messages, asks=not request.queries)
        queries, reformulation = await rewriting.run(steps if targets else [], queries, conversation)
        top_k = _top_k(request, views)
        depth = max(top_k, ROWS) if request.rerank and self.reranker is not None else top_k
        finder = Finder(
            db=self.db,
            course=course,
            searched={one.kb.index.id.bytes: one.searched for one in targets},
            top_k=depth,
            score_threshold=request.score_threshold,
            lane_rows=self.lane_rows,
            expansion=_bounded(request.expansion, depth),
            return_vectors=request.return_vectors,
            explain=request.explain,
        )
        context = SearchContext(finder, vectors, course, queries, targets)
        if queries and targets:
            self._check_vectors(strategy, context)
        hits = await strategy.run(context, options) if queries and targets else []
        hits = fuse_sources([Source(finder.scale_of(hits), hits)])  # what is in no lane joins here
        if request.rerank:
            hits = await rerank(self.reranker, course, queries, hits)
        return SearchResult(
            hits=hits[:top_k],
            queries=[query.text for query in queries if query.text is not None],
            strategy=strategy.name,
            warnings=[*course.warnings, *course.remarks],
            timings_ms=course.timings_ms,
            explanation=_explanation(context, options, steps, route) if request.explain else None,
            whole=not course.warnings,
            reformulation=reformulation,
        )

    async def _visible(self, scope: Scope) -> Sequence[UUID]:
        """The keys of the levels that the search sees; a key that is narrowed to a user opens no other's."""
        principal = self.knowledge_bases.principal
        if principal.user_id is not None:
            async with self.db.transaction() as session:
                scope = await within(session, principal, scope)
        return scope.visible()

    def _steps(self, wished: list[Step] | None, request: SearchRequest) -> list[Step]:
        """Those that are wished for, else for a conversation the default one, where there is a model for it."""
        if wished is not None:
            return wished
        return default_steps() if self.rewriter is not None and not request.queries else []

    def _check_vectors(self, strategy: Strategy[Any], context: SearchContext) -> None:
        """Refuse a dense search that no target can answer; say which targets answer by words alone."""
        targets, queries = context.targets, context.queries
        check_dimensions(queries, [target.kb.index.dim for target in targets])
        given = any(query.vector is not None for query in queries)
        if strategy.name == "lexical" or all(query.vector is not None for query in queries):
            return
        misfits = [target.kb for target in targets if target.embedder is None]
        if strategy.name == "simple" and len(misfits) == len(targets) and not given:
            targets[0].kb.require_match(self.embedders.identities)
        for kb in misfits:
            context.course.warn(f"{kb.mismatch(self.embedders.identities)} Its dense lane was left out.")
        if any(query.picture is not None for query in queries):
            blind = [target.kb.row.name for target in targets if target.embedder and target.embedder.pictures is None]
            for name in blind:
                context.course.warn(f"Image queries were left out in {name!r}: its embedding model takes only texts.")


def _queries(request: SearchRequest) -> list[Query]:
    """As given, else what the conversation asks; over-long ones clipped."""
    given = [Query(query) if isinstance(query, str) else query for query in request.queries]
    clipped = [query if query.text is None else replace(query, text=clip(query.text)) for query in given]
    return clipped or [Query(text) for text in conversation_queries(request.messages)]


def _strategy(request: SearchRequest, views: Sequence[KnowledgeBaseView]) -> tuple[Strategy[Any], BaseModel]:
    """The named one, else the knowledge base's where there is only one; so its options, the caller's above them."""
    own = views[0].retrieval if len(views) == 1 else None
    name = request.strategy or (own.strategy if own else DEFAULT_STRATEGY)
    strategy = find_strategy(name, loc=("body", "strategy"))
    kept = own.strategy_options if own and own.strategy == name else {}
    options = strategy_options(strategy, {**kept, **request.strategy_options}, loc=("body", "strategy_options"))
    return strategy, options


def _wished(request: SearchRequest, views: Sequence[KnowledgeBaseView], course: Course) -> list[Step] | None:
    """The transformers that are named, else the knowledge base's where there is only one; None where nobody says."""
    if request.transformers is not None:
        return find_steps(request.transformers, loc=("body", "transformers"))
    own = views[0].retrieval.transformers if len(views) == 1 else None
    return None if own is None else kept_steps(own, course)


def _languages(targets: Sequence[Target]) -> list[str]:
    return list(dict.fromkeys(language for target in targets for language in target.kb.languages))


def _prompt(views: Sequence[KnowledgeBaseView]) -> str | None:
    return views[0].retrieval.rewrite_prompt if len(views) == 1 else None


def _explanation(context: SearchContext, options: BaseModel, steps: Sequence[Step], route: Route) -> Explanation:
    plans = context.course.plans
    indexes = [
        ExplainedIndex(
            knowledge_base=target.kb.row.name,
            shared=target.kb.row.tenant_id == SYSTEM_TENANT,
            filter=target.filter,
            plan=plans.get(target.kb.index.id.bytes),
        )
        for target in context.targets
    ]
    return Explanation(options.model_dump(), indexes, [step.transformer.name for step in steps], route.routed)


def _bounded(expansion: Expansion | None, top_k: int) -> Expansion | None:
    if expansion is None:
        return None
    return replace(expansion, max_characters=min(expansion.max_characters, MOST_CHARACTERS // top_k))


def _top_k(request: SearchRequest, views: Sequence[KnowledgeBaseView]) -> int:
    if request.top_k is not None:
        return request.top_k
    return views[0].retrieval.top_k if len(views) == 1 else DEFAULT_TOP_K


def _targets(
    views: Sequence[KnowledgeBaseView], scopes: Sequence[UUID], request: SearchRequest, embedders: Embedders
) -> list[Target]:
    """The knowledge bases, and the shared one of each one's name; nothing but what is shared is seen there."""
    own = [_target(view, scopes, request, embedders) for view in views]
    twins = [
        replace(_target(view.twin, SHARED.visible(), request, embedders), scale=view.scale)
        for view in views
        if view.twin is not None
    ]
    return own + twins


def _target(view: KnowledgeBaseView, scopes: Sequence[UUID], request: SearchRequest, embedders: Embedders) -> Target:
    """The caller's filter and the knowledge base's own, both."""
    own = [one for one in (view.row.guard, NOT_DYNAMIC if request.exclude_dynamic else None) if one]
    guard = {"and": own} if own else None
    compiled = compile_filter(request.filter, guard=guard)
    parts = [*([request.filter] if request.filter else []), *own]
    understood = {"and": parts} if len(parts) > 1 else next(iter(parts), None)
    embedder = embedders.of(view.index.identity)
    return Target(view, embedder, scopes, understood, compiled.contains, compiled.path, view.scale)
