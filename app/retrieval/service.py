"""Search: rewrite → route → strategy."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from app.db.models.base import SYSTEM_TENANT
from app.db.session import Session, TenantDatabase
from app.documents.narrowing import within
from app.documents.scopes import SHARED, Scope
from app.filters import compile_filter
from app.http_sources.client import HttpSources
from app.inference.chat import ChatModel
from app.inference.embedding.registry import Embedders
from app.inference.rerank import Reranker
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView, Retrieval
from app.logging import get_logger
from app.prompts.types import PromptInUse, PromptName
from app.quotas.service import QuotaService
from app.retrieval import shares
from app.retrieval.course import Course
from app.retrieval.finder import LANE_ROWS, Finder
from app.retrieval.glancing import Glance
from app.retrieval.http_sources import Outside
from app.retrieval.queries import KnownVectors, QueryVectors, check_dimensions, usable
from app.retrieval.reranking import ROWS, rerank
from app.retrieval.rewriting import clip, conversation_queries
from app.retrieval.strategies import find_strategy, kept_options, kept_strategy, strategy_options
from app.retrieval.strategies.context import SearchContext, Strategy, Target, searched_in
from app.retrieval.transformers import Step, default_steps, find_steps, joined, kept_steps, strategy_steps
from app.retrieval.transforming import Conversation, Rewriting
from app.retrieval.types import (
    ExplainedIndex,
    Explanation,
    Query,
    SearchRequest,
    SearchResult,
    SearchUnavailable,
)

logger = get_logger(__name__)

DEFAULT_TOP_K = 5
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
    http_sources: HttpSources
    lane_rows: int = LANE_ROWS
    reranker: Reranker | None = None
    rewriter: ChatModel | None = None

    async def search(self, request: SearchRequest) -> SearchResult:
        """The best passages for the request.

        Raises KnowledgeBaseNotFound, IndexMismatch (dense search of an index that another model made), InvalidInput,
        EmbeddingUnavailable, TokensSpent, SearchUnavailable. An empty result means that nothing matched.
        """
        course = Course.of(request.timeout_seconds * shares.OWN)
        last = max(request.timeout_seconds * shares.LAST, shares.LEAST_BUDGET_SECONDS)
        try:
            # The last resort: every step has a limit of its own.
            async with asyncio.timeout(last):
                with course.timing("total"):
                    return await self._search(request, course)
        except TimeoutError as exc:
            raise SearchUnavailable from exc
        finally:
            if course.dropped:
                told = [f"{step}:{reason}" for step, reason in course.dropped.items()]
                spent, budget = course.timings_ms.get("total"), request.timeout_seconds
                logger.warning("search.dropped", dropped=told, spent_ms=spent, budget_seconds=budget)

    async def _search(self, request: SearchRequest, course: Course) -> SearchResult:
        views = await self._route(request.knowledge_bases)
        strategy, options = _strategy(request, views, course)
        wished = _wished(request, views, course)
        targets = _targets(views, await self._visible(request.scope), request, self.embedders)
        models = [target.embedder for target in targets if target.embedder is not None] or self.embedders.all
        pictures = any(model.pictures is not None for model in models)
        queries = usable(_queries(request), course, dense=strategy.name != "lexical", pictures=pictures)
        own = strategy_steps(strategy.name, strategy.transformers(options), course)
        steps = joined(self._steps(wished, request), own)
        vectors = QueryVectors(self.known, self.quotas, course)
        look, hurried = Glance(self.db, vectors, targets), wished is None and not own
        prompt = _prompt("rewrite", request, views)
        rewriting = Rewriting(
            self.rewriter, course, _languages(targets), prompt.text if prompt else None, hurried=hurried, look=look
        )
        conversation = Conversation(request.messages, asks=not request.queries)
        outside = Outside.of(self.http_sources, self.rewriter, course, request, views)
        searched = bool(targets or outside.views)
        queries, reformulation = await rewriting.run(steps if searched else [], queries, conversation)
        top_k = _top_k(request, views)
        depth = max(top_k, ROWS) if request.rerank and self.reranker is not None else top_k
        finder = Finder(
            db=self.db,
            course=course,
            searched=searched_in(targets),
            top_k=depth,
            score_threshold=request.score_threshold,
            lane_rows=self.lane_rows,
            expansion=request.expansion and request.expansion.bounded(depth),
            return_vectors=request.return_vectors,
            explain=request.explain,
        )
        context = SearchContext(finder, vectors, course, queries, targets)
        if queries and targets:
            self._check_vectors(strategy, context)
        lanes = partial(strategy.run, context, options) if queries and targets else None
        hits = await outside.beside(lanes, queries, top_k=depth)
        if request.rerank:
            hits = await rerank(self.reranker, course, queries, hits)
        return SearchResult(
            hits=hits[:top_k],
            queries=[query.text for query in queries if query.text is not None],
            strategy=strategy.name,
            warnings=[*course.warnings, *course.remarks],
            timings_ms=course.timings_ms,
            explanation=_explanation(context, options, steps, prompt, outside) if request.explain else None,
            whole=not course.warnings,
            reformulation=reformulation,
            languages=_languages(targets),
            answer_prompt=_prompt("answer", request, views),
            dropped=course.dropped,
        )

    async def _route(self, references: Sequence[str] | None) -> Sequence[KnowledgeBaseView]:
        """The named knowledge bases, or all that the key may read."""
        async with self.db.transaction(kept_plans=True) as session:
            if references is None:
                return await self.knowledge_bases.readable(session)
            return await self._named(session, references)

    async def _named(self, session: Session, references: Sequence[str]) -> Sequence[KnowledgeBaseView]:
        views = {}
        for reference in references:
            view = await self.knowledge_bases.find_in(session, reference)
            views[view.row.id] = view
        return list(views.values())

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


def _strategy(
    request: SearchRequest, views: Sequence[KnowledgeBaseView], course: Course
) -> tuple[Strategy[Any], BaseModel]:
    """The named one, else the knowledge base's where there is only one; so its options, the caller's above them."""
    own, given = views[0].retrieval if len(views) == 1 else Retrieval(), request.strategy_options
    if request.strategy is not None:
        strategy = find_strategy(request.strategy, loc=("body", "strategy"))
    else:
        strategy = kept_strategy(own.strategy, course)
        given = given if strategy.name == own.strategy else {}  # they are for the one that is gone
    kept = kept_options(strategy, own.strategy_options, course) if strategy.name == own.strategy else {}
    return strategy, strategy_options(strategy, {**kept, **given}, loc=("body", "strategy_options"))


def _wished(request: SearchRequest, views: Sequence[KnowledgeBaseView], course: Course) -> list[Step] | None:
    """The transformers that are named, else the agent's, else the knowledge base's where there is only one.

    None where nobody says.
    """
    if request.transformers is not None:
        return find_steps(request.transformers, loc=("body", "transformers"))
    if request.kept_transformers is not None:
        return kept_steps(request.kept_transformers, course, owner="agent")
    alone = len(views) == 1 and views[0].row.source is None  # an HTTP source's are its own affair
    own = views[0].retrieval.transformers if alone else None
    return None if own is None else kept_steps(own, course)


def _languages(targets: Sequence[Target]) -> list[str]:
    return list(dict.fromkeys(language for target in targets for language in target.kb.languages))


def _prompt(name: PromptName, request: SearchRequest, views: Sequence[KnowledgeBaseView]) -> PromptInUse | None:
    """The agent's, else the knowledge base's where there is only one."""
    own = views[0].retrieval.prompt(name, owner=views[0].row.name) if len(views) == 1 else None
    return request.prompts.get(name, own)


def _explanation(
    context: SearchContext, options: BaseModel, steps: Sequence[Step], prompt: PromptInUse | None, outside: Outside
) -> Explanation:
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
    names = [step.transformer.name for step in steps]
    told = any(step.transformer.takes_prompt for step in steps)
    prompts: dict[PromptName, PromptInUse] = {"rewrite": prompt} if prompt is not None and told else {}
    return Explanation(options.model_dump(), [*indexes, *outside.explained()], names, prompts)


def _top_k(request: SearchRequest, views: Sequence[KnowledgeBaseView]) -> int:
    if request.top_k is not None:
        return request.top_k
    return views[0].retrieval.top_k if len(views) == 1 else DEFAULT_TOP_K


def _targets(
    views: Sequence[KnowledgeBaseView], scopes: Sequence[UUID], request: SearchRequest, embedders: Embedders
) -> list[Target]:
    """The knowledge bases, and the shared one of each one's name; nothing but what is shared is seen there."""
    twins = [view.twin for view in views if view.twin is not None]
    own = [_target(view, scopes, request, embedders) for view in views if view.row.source is None]
    shared = [_target(twin, SHARED.visible(), request, embedders) for twin in twins if twin.row.source is None]
    return own + shared


def _target(view: KnowledgeBaseView, scopes: Sequence[UUID], request: SearchRequest, embedders: Embedders) -> Target:
    """The caller's filter and the knowledge base's own, both."""
    own = [one for one in (view.row.guard, NOT_DYNAMIC if request.exclude_dynamic else None) if one]
    guard = {"and": own} if own else None
    compiled = compile_filter(request.filter, guard=guard)
    parts = [*([request.filter] if request.filter else []), *own]
    understood = {"and": parts} if len(parts) > 1 else next(iter(parts), None)
    embedder = embedders.of(view.index.identity)
    return Target(view, embedder, scopes, understood, compiled.contains, compiled.path)
