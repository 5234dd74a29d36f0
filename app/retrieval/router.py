"""Choose the knowledge bases of a search before anything of them is read, beside what does not depend on them."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.session import Session, TenantDatabase
from app.documents.scopes import Scope
from app.inference.embedding import Embedder, EmbeddingUnavailable
from app.inference.embedding.registry import Embedders
from app.knowledge_bases.known import KnownKnowledgeBases
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView
from app.quotas.types import TokensSpent
from app.retrieval import shares
from app.retrieval.course import Course
from app.retrieval.queries import QueryVectors, Vector
from app.retrieval.routes import RoutedKnowledgeBase, Routing
from app.retrieval.routing import Flags, Narrowed, Numbers, choose, explain, models_to_ask, narrowed
from app.retrieval.routing_profiles import KnownProfiles, Profiles
from app.retrieval.routing_repository import MAX_CONSIDERED, RoutingRepository
from app.retrieval.strategies.context import Target
from app.retrieval.targets import targets_of
from app.retrieval.types import Query, SearchRequest

# Knowledge bases that one search reads and searches at most, if it does not name them; of more than MAX_EMPTY the empty
# ones are left out.
MAX_SEARCHED, MAX_EMPTY = 200, 20
TOO_MANY = (
    f"Only {MAX_SEARCHED} knowledge bases were searched, and there are more: name those to search, or use routing."
)
NOT_CONSIDERED = f"Only {MAX_CONSIDERED} knowledge bases were considered, and there are more: name those to search."


@dataclass(frozen=True, slots=True)
class Route:
    """The knowledge bases to search, the lanes' part of them as ``targets``.

    ``routed`` is every one that they were chosen from, none where all are searched.
    """

    views: Sequence[KnowledgeBaseView]
    targets: Sequence[Target]
    routed: Sequence[RoutedKnowledgeBase] = ()

    @property
    def languages(self) -> list[str]:
        """Those of what the lanes search, each once."""
        return list(dict.fromkeys(language for target in self.targets for language in target.kb.languages))


@dataclass(frozen=True, slots=True)
class Routed:
    """A route that is known, or one of ``top_n`` knowledge bases that is ``chosen`` beside the search so far."""

    known: Route | None
    chosen: Awaitable[Route] | None = None
    top_n: int | None = None

    async def route(self) -> Route:
        """Waited for where it is not known yet. Raises DatabaseUnavailable."""
        if self.known is not None:
            return self.known
        assert self.chosen is not None
        return await self.chosen

    async def alone(self) -> KnowledgeBaseView | None:
        """The only knowledge base that is searched; not waited for where several are chosen."""
        if self.known is None and self.top_n != 1:
            return None
        views = (await self.route()).views
        return views[0] if len(views) == 1 else None

    @property
    def leads_nowhere(self) -> bool:
        """There is nothing to search; where there is something to choose, there is."""
        return self.known is not None and not self.known.views


@dataclass(frozen=True, slots=True)
class _Choice:
    """What there is to choose from, and the models in which there is more than ``top_n``."""

    profiles: Profiles
    candidates: Narrowed
    models: set[UUID]
    top_n: int


@dataclass(frozen=True, slots=True)
class Router:
    """Routes one search, inside what the key may read.

    ``views`` are the named knowledge bases where they need not be read, as every transaction of ``db`` makes sure.
    """

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    embedders: Embedders
    vectors: QueryVectors
    known: KnownProfiles
    kept: KnownKnowledgeBases
    course: Course
    views: Sequence[KnowledgeBaseView] | None = None

    async def begin(self, request: SearchRequest, queries: Sequence[Query], scopes: Sequence[UUID]) -> Routed:
        """The named knowledge bases, or all that the key may read; of many those that are most like the queries.

        To choose takes the queries' vectors, and need not be waited for to make better queries of them.
        Raises KnowledgeBaseNotFound, InvalidInput.
        """
        if self.views is not None:
            return Routed(self._route(self.views, request, scopes))
        top_n = self._top_n(request, queries)
        async with self.db.transaction(kept_plans=True) as session:
            views = await self._without_routing(session, request.knowledge_bases, top_n)
            if views is not None:
                return Routed(self._route(views, request, scopes))
            assert top_n is not None
            only = self.knowledge_bases.only()
            if request.knowledge_bases is not None:
                only = [view.row.id for view in await self._named(session, request.knowledge_bases)]
            levels = [key for key in scopes if key not in Scope().visible()]
            with self.course.timing("route"):
                repository = RoutingRepository(session, self.db.tenant_id)
                profiles = await repository.profiles(self.known)
                holding = await repository.holding(levels) if levels else set()
            candidates = narrowed(profiles.candidates, only, holding)
            models = models_to_ask(candidates, top_n=top_n)
            if not models:
                views = await self._bounded(session, candidates.reads, candidates)
                return Routed(self._route(views, request, scopes))
        choice = _Choice(profiles, candidates, models, top_n)
        return Routed(None, self.course.beside(self._choose(choice, request, queries, scopes)), top_n)

    async def _choose(
        self, choice: _Choice, request: SearchRequest, queries: Sequence[Query], scopes: Sequence[UUID]
    ) -> Route:
        candidates, top_n = choice.candidates, choice.top_n
        asked = await self._embed(choice.models, queries)
        with self.course.timing("route"):
            alike = await self._alike(choice.profiles, candidates, asked)
            chosen = choose(candidates, alike, top_n=top_n)
            routed = explain(candidates, alike, chosen) if request.explain else []
        async with self.db.transaction(kept_plans=True) as session:
            views = await self._bounded(session, chosen, candidates)
        return self._route(views, request, scopes, routed)

    async def _bounded(self, session: Session, chosen: Flags, candidates: Narrowed) -> Sequence[KnowledgeBaseView]:
        """Read the chosen knowledge bases; of very many those of which something is known, then those with content."""
        if candidates.candidates.incomplete:
            self.course.warn(NOT_CONSIDERED)
        ids = candidates.ids(chosen)
        if len(ids) <= MAX_EMPTY:
            views, _ = await self.knowledge_bases.first_readable(session, ids, most=MAX_EMPTY)
            return views
        known, unknown = candidates.split(chosen)
        views, more = await self.knowledge_bases.first_readable(session, known[:MAX_SEARCHED], most=MAX_SEARCHED)
        more = more or len(known) > MAX_SEARCHED
        if unknown and len(views) < MAX_SEARCHED:
            others, left_out = await self.knowledge_bases.first_readable(
                session, unknown, most=MAX_SEARCHED - len(views), most_empty=MAX_EMPTY
            )
            views, more = sorted([*views, *others], key=lambda view: view.row.name), more or left_out
        if more:
            self.course.warn(TOO_MANY)
        return views

    def _route(
        self,
        views: Sequence[KnowledgeBaseView],
        request: SearchRequest,
        scopes: Sequence[UUID],
        routed: Sequence[RoutedKnowledgeBase] = (),
    ) -> Route:
        narrowed = self.knowledge_bases.principal.user_id is not None
        return Route(views, targets_of(views, scopes, request, self.embedders, narrowed=narrowed), routed)

    def _top_n(self, request: SearchRequest, queries: Sequence[Query]) -> int | None:
        """None where nothing is routed; a caller who has asked for it is told why."""
        wished = request.routing or Routing(None if request.knowledge_bases is not None else Routing().top_n)
        if wished.top_n is None:
            return None
        reason = None
        if request.strategy == "lexical":
            reason = "the strategy looks for words, and embeds nothing"
        elif not any(query.text is not None or query.vector is not None for query in queries):
            reason = "there is no text to compare"
        elif self.course.remaining < shares.ROUTE_LEAST_SECONDS:
            reason = "there was no time for it"
        if reason is None:
            return wished.top_n
        if request.routing is not None:
            self.course.remark(f"Not routed: {reason}; all knowledge bases were searched.")
        return None

    async def _without_routing(
        self, session: Session, references: Sequence[str] | None, top_n: int | None
    ) -> Sequence[KnowledgeBaseView] | None:
        """What is searched where there is nothing to choose; else None."""
        if references is not None:
            return await self._named(session, references) if top_n is None or len(references) <= top_n else None
        if top_n is None:
            views, more = await self.knowledge_bases.first_readable(session, most=MAX_SEARCHED, most_empty=MAX_EMPTY)
            if more:
                self.course.warn(TOO_MANY)
            return views
        known = self.known.get(self.db.tenant_id)
        if known is not None and len(known.candidates.each) > top_n:
            return None  # there were too many, and whether there still are is asked in any case
        # In the usual case of few this is the one statement that there always was.
        return await self.knowledge_bases.few_readable(session, most=top_n) or None

    async def _named(self, session: Session, references: Sequence[str]) -> Sequence[KnowledgeBaseView]:
        views = {}
        for reference in references:
            view = await self.knowledge_bases.find_in(session, reference)
            self.kept.keep(self.db.tenant_id, reference, view)
            views[view.row.id] = view
        return list(views.values())

    async def _embed(self, models: set[UUID], queries: Sequence[Query]) -> dict[UUID, list[Vector]]:
        """The queries' vectors by model; without those that are not configured or do not answer."""
        embedders = {model: found for model in models if (found := self.embedders.by_key(model)) is not None}
        made = await asyncio.gather(*(self._vectors(one, queries) for one in embedders.values()))
        return {model: vectors for model, vectors in zip(embedders, made, strict=True) if vectors}

    async def _vectors(self, embedder: Embedder, queries: Sequence[Query]) -> list[Vector]:
        words = [query for query in queries if query.picture is None]
        try:
            with self.course.timing("embed"):
                found = await self.vectors.of(embedder, words, required=True)
        except (EmbeddingUnavailable, TokensSpent):
            name = embedder.identity.model
            self.course.remark(
                f"Not routed: the embedding model {name!r} is not answering; all of its knowledge bases were searched."
            )
            return []
        size = embedder.identity.dimensions
        return [one for one in found if one is not None and len(one) == size]

    async def _alike(self, profiles: Profiles, candidates: Narrowed, asked: Mapping[UUID, Sequence[Vector]]) -> Numbers:
        """How like the queries the candidates' profiles are, of the models that have answered."""
        alike = profiles.candidates.nothing_alike()
        for model, vectors in asked.items():
            if profiles.matrices is None:
                async with self.db.transaction(kept_plans=True) as session:
                    repository = RoutingRepository(session, self.db.tenant_id)
                    await repository.compare(profiles.candidates, candidates.indexes(model), vectors, alike)
            elif (matrix := profiles.matrices.get(model)) is not None:
                await matrix.compare(vectors, alike)
        return alike
