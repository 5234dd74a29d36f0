"""Search: rewrite → route → strategy."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.session import TenantDatabase
from app.errors import InvalidInput
from app.filters import compile_filter
from app.inference.embedding import Embedder
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView
from app.retrieval.course import Course
from app.retrieval.finder import Finder
from app.retrieval.rewriting import clip, conversation_queries
from app.retrieval.strategies import STRATEGIES
from app.retrieval.strategies.context import SearchContext, Strategy, Target
from app.retrieval.types import Hit, SearchRequest, SearchResult, SearchUnavailable

DEFAULT_STRATEGY = "hybrid"
DEFAULT_TOP_K = 5
# Of the caller's budget: the rest is for the way here and back, and for a machine that is busy.
OWN_SHARE = 0.8
# The least that a search gets, however little its caller gives it.
LEAST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RetrievalService:
    """Search as one key may."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    embedder: Embedder

    async def search(self, request: SearchRequest) -> SearchResult:
        """The best passages for the request.

        Raises KnowledgeBaseNotFound, IndexMismatch (dense search of an index that another model made), InvalidInput,
        EmbeddingUnavailable, SearchUnavailable. An empty result means that nothing matched.
        """
        course = Course.of(request.timeout_seconds * OWN_SHARE)
        try:
            # The last resort: every step has a limit of its own.
            async with asyncio.timeout(max(request.timeout_seconds, LEAST_SECONDS)):
                with course.timing("total"):
                    hits, queries, strategy = await self._search(request, course)
        except TimeoutError as exc:
            raise SearchUnavailable from exc
        return SearchResult(hits, queries, strategy, course.warnings, course.timings_ms)

    async def _search(self, request: SearchRequest, course: Course) -> tuple[list[Hit], list[str], str]:
        queries = [clip(query) for query in request.queries] or conversation_queries(request.messages)
        views = await self._route(request.knowledge_bases)
        strategy = _strategy(request, views)
        options = _options(strategy, request)
        targets = [_target(view, request) for view in views]
        if not queries or not targets:
            return [], queries, strategy.name
        self._check_models(strategy, targets, course)
        finder = Finder(
            db=self.db,
            course=course,
            names={view.index.id: view.row.name for view in views},
            top_k=_top_k(request, views),
            score_threshold=request.score_threshold,
        )
        context = SearchContext(finder, self.embedder, course, queries, targets, request.scope.visible())
        return await strategy.run(context, options), queries, strategy.name

    async def _route(self, references: Sequence[str] | None) -> Sequence[KnowledgeBaseView]:
        """The named knowledge bases, or all that the key may read."""
        async with self.db.transaction() as session:
            if references is None:
                return await self.knowledge_bases.readable(session)
            return await self._named(session, references)

    async def _named(self, session: AsyncSession, references: Sequence[str]) -> Sequence[KnowledgeBaseView]:
        views = {}
        for reference in references:
            view = await self.knowledge_bases.find_in(session, reference)
            views[view.row.id] = view
        return list(views.values())

    def _check_models(self, strategy: Strategy[Any], targets: Sequence[Target], course: Course) -> None:
        """Refuse a dense search that no target can answer; say which targets answer by words alone."""
        if strategy.name == "lexical":
            return
        reasons = [target.kb.mismatch(self.embedder.identity) for target in targets]
        if strategy.name == "simple" and all(reasons):
            targets[0].kb.require_match(self.embedder.identity)
        for reason in filter(None, reasons):
            course.warn(f"{reason} Its dense lane was left out.")


def _strategy(request: SearchRequest, views: Sequence[KnowledgeBaseView]) -> Strategy[Any]:
    """The named one, else the knowledge base's where there is only one."""
    name = request.strategy or (views[0].retrieval.strategy if len(views) == 1 else DEFAULT_STRATEGY)
    strategy = STRATEGIES.get(name)
    if strategy is None:
        known = ", ".join(STRATEGIES)
        raise InvalidInput(f"No strategy is named {name!r}; there are: {known}.", loc=("body", "strategy"))
    return strategy


def _options(strategy: Strategy[Any], request: SearchRequest) -> BaseModel:
    try:
        options: BaseModel = strategy.options.model_validate(dict(request.strategy_options))
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        raise InvalidInput(f"{first['msg']}.", loc=("body", "strategy_options", *first["loc"])) from exc
    return options


def _top_k(request: SearchRequest, views: Sequence[KnowledgeBaseView]) -> int:
    if request.top_k is not None:
        return request.top_k
    return views[0].retrieval.top_k if len(views) == 1 else DEFAULT_TOP_K


def _target(view: KnowledgeBaseView, request: SearchRequest) -> Target:
    """The caller's filter and the knowledge base's own, both."""
    own = view.row.metadata_filter
    both: dict[str, Any] | None = dict(request.filter) if request.filter else None
    if own:
        both = {"and": [both, own]} if both else own
    compiled = compile_filter(both)
    return Target(view, compiled.contains, compiled.path)
