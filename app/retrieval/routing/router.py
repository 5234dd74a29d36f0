"""Selection of the knowledge bases of a search, in parallel with the steps that do not depend on it."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.session import Session, TenantDatabase
from app.documents.scopes import DocumentScope
from app.inference.embedding import Embedder, EmbeddingUnavailable
from app.inference.embedding.model_registry import Embedders
from app.knowledge_bases.cache import KnowledgeBaseCache
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView
from app.quotas.types import DailyTokenLimitReached
from app.retrieval import time_budget
from app.retrieval.query_embedding import QueryEmbedder, Vector
from app.retrieval.routes import RoutingDecision, RoutingOptions, RoutingReason
from app.retrieval.routing.candidates import (
    FilteredCandidates,
    Flags,
    Numbers,
    explain_routing,
    filter_candidates,
    find_competing_models,
    select_top_n,
)
from app.retrieval.routing.profile_cache import ProfileCache, TenantProfiles
from app.retrieval.routing.repository import MAX_CONSIDERED, RoutingRepository
from app.retrieval.search_run import SearchRun
from app.retrieval.strategies.strategy import SearchTarget
from app.retrieval.targets import build_targets
from app.retrieval.types import Query, SearchRequest
from app.warnings import ServiceWarning, WarningCode

# Maximum number of knowledge bases of a search that does not name them. If there are more than
# MAX_EMPTY_KNOWLEDGE_BASES, empty ones are left out.
MAX_KNOWLEDGE_BASES, MAX_EMPTY_KNOWLEDGE_BASES = 200, 20
KNOWLEDGE_BASE_LIMIT_REACHED = ServiceWarning(
    WarningCode.KNOWLEDGE_BASE_LIMIT_REACHED,
    f"Only {MAX_KNOWLEDGE_BASES} knowledge bases were searched, and there are more. "
    "Name the ones to search, or use routing.",
)
ROUTING_LIMIT_REACHED = ServiceWarning(
    WarningCode.ROUTING_LIMIT_REACHED,
    f"Only {MAX_CONSIDERED} knowledge bases were considered, and there are more. Name the ones to search.",
)


@dataclass(frozen=True, slots=True)
class Route:
    """Knowledge bases of a search.

    Attributes:
        views: Knowledge bases to search, of all kinds.
        targets: Knowledge bases with stored documents, for the retrievers.
        decisions: Why each knowledge base is searched, best first; with ``explain`` also why others are not.
    """

    views: Sequence[KnowledgeBaseView]
    targets: Sequence[SearchTarget]
    decisions: Sequence[RoutingDecision] = ()

    @property
    def languages(self) -> list[str]:
        """Distinct languages of the targets."""
        return list(dict.fromkeys(language for target in self.targets for language in target.kb.languages))


@dataclass(frozen=True, slots=True)
class PendingRoute:
    """Route that is known, or that is still being chosen while the search continues.

    Attributes:
        resolved_route: The known route; None while it is being chosen.
        chosen_route: Awaitable of the chosen route; None if the route is known.
        top_n: Number of knowledge bases to choose for each embedding model; None if the route is known.
    """

    resolved_route: Route | None
    chosen_route: Awaitable[Route] | None = None
    top_n: int | None = None

    async def wait_for_route(self) -> Route:
        """Return the route, and wait for it if it is still being chosen.

        Raises:
            DatabaseUnavailable: The chosen knowledge bases could not be loaded.
        """
        if self.resolved_route is not None:
            return self.resolved_route
        assert self.chosen_route is not None
        return await self.chosen_route

    async def find_single_knowledge_base(self) -> KnowledgeBaseView | None:
        """Return the knowledge base of a search that uses exactly one; otherwise None.

        The method does not wait for a route to several knowledge bases.
        """
        if self.resolved_route is None and self.top_n != 1:
            return None
        views = (await self.wait_for_route()).views
        return views[0] if len(views) == 1 else None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to search. A route that is still being chosen is never empty."""
        return self.resolved_route is not None and not self.resolved_route.views


@dataclass(frozen=True, slots=True)
class _RoutingChoice:
    """Candidates of a search, and the embedding models that have more than ``top_n`` candidates."""

    profiles: TenantProfiles
    candidates: FilteredCandidates
    models: set[UUID]
    top_n: int


@dataclass(frozen=True, slots=True)
class Router:
    """Router of one search, within the knowledge bases that the API key may read.

    Attributes:
        db: Database in the tenant's scope.
        knowledge_bases: Knowledge base service of the caller.
        embedders: Configured embedding models.
        query_embedder: Embedder of queries, with a cache.
        profile_cache: Cache of routing profiles.
        knowledge_base_cache: Cache of knowledge bases by name.
        search_run: Deadline, timings and warnings of the search.
        views: Cached knowledge bases of the request; None to load them. Each transaction of ``db`` checks that they are
            current.
    """

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    embedders: Embedders
    query_embedder: QueryEmbedder
    profile_cache: ProfileCache
    knowledge_base_cache: KnowledgeBaseCache
    search_run: SearchRun
    views: Sequence[KnowledgeBaseView] | None = None

    async def resolve_route(
        self, request: SearchRequest, queries: Sequence[Query], scopes: Sequence[UUID]
    ) -> PendingRoute:
        """Resolve the knowledge bases of a search.

        Named knowledge bases, or all that the API key may read, are searched. If there are too many, routing chooses
        the most similar ones in the background. It needs the vectors of the queries, so the search continues with query
        rewriting.

        Args:
            request: The search request.
            queries: Queries of the request.
            scopes: Scopes that the caller may read.

        Returns:
            The known route, or the route that is being chosen.

        Raises:
            KnowledgeBaseNotFound: A named knowledge base does not exist, or the API key may not read it.
            InvalidInputError: The filter of the request is invalid.
        """
        if self.views is not None:
            return PendingRoute(self._build_unrouted(self.views, request, scopes))
        top_n = self._resolve_top_n(request, queries)
        async with self.db.transaction(allow_generic_plans=True) as session:
            views = await self._load_unrouted(session, request.knowledge_bases, top_n)
            if views is not None:
                return PendingRoute(self._build_unrouted(views, request, scopes))
            assert top_n is not None
            allowed_ids = self.knowledge_bases.get_allowed_ids()
            if request.knowledge_bases is not None:
                allowed_ids = [view.row.id for view in await self._load_named(session, request.knowledge_bases)]
            levels = [key for key in scopes if key not in DocumentScope().list_visible_keys()]
            with self.search_run.time_step("route"):
                repository = RoutingRepository(session, self.db.tenant_id)
                profiles = await repository.load_profiles(self.profile_cache)
                with_user_documents = await repository.find_with_user_documents(levels) if levels else set()
            candidates = filter_candidates(profiles.candidates, allowed_ids, with_user_documents)
            models = find_competing_models(candidates, top_n=top_n)
            if not models:
                views = await self._load_views(session, candidates.included, candidates)
                similarities = profiles.candidates.create_similarities()
                decisions = explain_routing(candidates, similarities, candidates.included) if request.explain else []
                return PendingRoute(self._build_route(views, request, scopes, decisions))
        choice = _RoutingChoice(profiles, candidates, models, top_n)
        return PendingRoute(
            None, self.search_run.start_background(self._choose_route(choice, request, queries, scopes)), top_n
        )

    async def _choose_route(
        self, choice: _RoutingChoice, request: SearchRequest, queries: Sequence[Query], scopes: Sequence[UUID]
    ) -> Route:
        candidates, top_n = choice.candidates, choice.top_n
        query_vectors = await self._embed_queries(choice.models, queries)
        with self.search_run.time_step("route"):
            similarities = await self._compute_similarities(choice.profiles, candidates, query_vectors)
            chosen = select_top_n(candidates, similarities, top_n=top_n)
            decisions = explain_routing(candidates, similarities, chosen, has_rejected=request.explain)
        async with self.db.transaction(allow_generic_plans=True) as session:
            views = await self._load_views(session, chosen, candidates)
        return self._build_route(views, request, scopes, decisions)

    async def _load_views(
        self, session: Session, chosen: Flags, candidates: FilteredCandidates
    ) -> Sequence[KnowledgeBaseView]:
        """Load the chosen knowledge bases. If there are too many, prefer those with a profile or documents."""
        if candidates.candidates.is_incomplete:
            self.search_run.warn(ROUTING_LIMIT_REACHED)
        ids = candidates.get_ids(chosen)
        if len(ids) <= MAX_EMPTY_KNOWLEDGE_BASES:
            views, _ = await self.knowledge_bases.list_first_accessible(
                session, ids, max_count=MAX_EMPTY_KNOWLEDGE_BASES
            )
            return views
        profiled, unprofiled = candidates.split_by_profile(chosen)
        views, has_more = await self.knowledge_bases.list_first_accessible(
            session, profiled[:MAX_KNOWLEDGE_BASES], max_count=MAX_KNOWLEDGE_BASES
        )
        has_more = has_more or len(profiled) > MAX_KNOWLEDGE_BASES
        if unprofiled and len(views) < MAX_KNOWLEDGE_BASES:
            others, left_out = await self.knowledge_bases.list_first_accessible(
                session,
                unprofiled,
                max_count=MAX_KNOWLEDGE_BASES - len(views),
                max_with_empty=MAX_EMPTY_KNOWLEDGE_BASES,
            )
            views, has_more = sorted([*views, *others], key=lambda view: view.row.name), has_more or left_out
        if has_more:
            self.search_run.warn(KNOWLEDGE_BASE_LIMIT_REACHED)
        return views

    def _build_unrouted(
        self, views: Sequence[KnowledgeBaseView], request: SearchRequest, scopes: Sequence[UUID]
    ) -> Route:
        """Build the route of a search in which there is nothing to choose."""
        reason: RoutingReason = "all_searched" if request.knowledge_bases is None else "named"
        decisions = [
            RoutingDecision(view.row.id, view.row.name, True, reason, weight=view.row.routing.get("scale", 1.0))
            for view in views
        ]
        return self._build_route(views, request, scopes, decisions if request.explain else [])

    def _build_route(
        self,
        views: Sequence[KnowledgeBaseView],
        request: SearchRequest,
        scopes: Sequence[UUID],
        decisions: Sequence[RoutingDecision] = (),
    ) -> Route:
        is_user_restricted = self.knowledge_bases.principal.user_id is not None
        return Route(
            views,
            build_targets(views, scopes, request, self.embedders, is_user_restricted=is_user_restricted),
            decisions,
        )

    def _resolve_top_n(self, request: SearchRequest, queries: Sequence[Query]) -> int | None:
        """Return the number of knowledge bases to choose; None if all are searched.

        If the caller requested routing and routing is not possible, a notice gives the reason.
        """
        requested = request.routing or RoutingOptions(
            None if request.knowledge_bases is not None else RoutingOptions().top_n
        )
        if requested.top_n is None:
            return None
        reason = None
        if request.strategy == "lexical":
            reason = "the strategy lexical embeds no queries"
        elif not any(query.text is not None or query.vector is not None for query in queries):
            reason = "no query has a text or a vector"
        elif self.search_run.remaining_seconds < time_budget.MIN_ROUTE_SECONDS:
            reason = "the remaining time is too short"
        if reason is None:
            return requested.top_n
        if request.routing is not None:
            message = f"All knowledge bases were searched without routing, because {reason}."
            self.search_run.add_notice(ServiceWarning(WarningCode.ROUTING_SKIPPED, message))
        return None

    async def _load_unrouted(
        self, session: Session, references: Sequence[str] | None, top_n: int | None
    ) -> Sequence[KnowledgeBaseView] | None:
        """Load the knowledge bases if there is nothing to choose; else return None."""
        if references is not None:
            return await self._load_named(session, references) if top_n is None or len(references) <= top_n else None
        if top_n is None:
            views, has_more = await self.knowledge_bases.list_first_accessible(
                session, max_count=MAX_KNOWLEDGE_BASES, max_with_empty=MAX_EMPTY_KNOWLEDGE_BASES
            )
            if has_more:
                self.search_run.warn(KNOWLEDGE_BASE_LIMIT_REACHED)
            return views
        cached = self.profile_cache.get(self.db.tenant_id)
        if cached is not None and len(cached.candidates.items) > top_n:
            return None  # probably still too many; the profiles are checked in any case
        # In the usual case of few knowledge bases, this is the only statement.
        return await self.knowledge_bases.list_accessible(session, max_count=top_n) or None

    async def _load_named(self, session: Session, references: Sequence[str]) -> Sequence[KnowledgeBaseView]:
        views = {}
        for reference in references:
            view = await self.knowledge_bases.find_in_session(session, reference)
            self.knowledge_base_cache.put(self.db.tenant_id, reference, view)
            views[view.row.id] = view
        return list(views.values())

    async def _embed_queries(self, models: set[UUID], queries: Sequence[Query]) -> dict[UUID, list[Vector]]:
        """Embed the queries with each model. Models that are not configured or do not answer are left out."""
        embedders = {model: match for model in models if (match := self.embedders.find_by_key(model)) is not None}
        results = await asyncio.gather(*(self._embed_texts(embedder, queries) for embedder in embedders.values()))
        return {model: vectors for model, vectors in zip(embedders, results, strict=True) if vectors}

    async def _embed_texts(self, embedder: Embedder, queries: Sequence[Query]) -> list[Vector]:
        text_queries = [query for query in queries if query.image is None]
        try:
            with self.search_run.time_step("embed"):
                vectors = await self.query_embedder.embed(embedder, text_queries, required=True)
        except (EmbeddingUnavailable, DailyTokenLimitReached):
            name = embedder.identity.model
            message = f"The embedding model {name!r} did not answer, so all of its knowledge bases were searched."
            self.search_run.add_notice(ServiceWarning(WarningCode.ROUTING_SKIPPED, message))
            return []
        size = embedder.identity.dimensions
        return [vector for vector in vectors if vector is not None and len(vector) == size]

    async def _compute_similarities(
        self, profiles: TenantProfiles, candidates: FilteredCandidates, query_vectors: Mapping[UUID, Sequence[Vector]]
    ) -> Numbers:
        """Compute the similarity of the queries with the profiles of each model that answered."""
        similarities = profiles.candidates.create_similarities()
        for model, vectors in query_vectors.items():
            if profiles.matrices is None:
                async with self.db.transaction(allow_generic_plans=True) as session:
                    repository = RoutingRepository(session, self.db.tenant_id)
                    await repository.fill_similarities(
                        profiles.candidates, candidates.find_indexes(model), vectors, similarities
                    )
            elif (matrix := profiles.matrices.get(model)) is not None:
                await matrix.fill_similarities(vectors, similarities)
        return similarities
