"""What a strategy is, and what it is given: the queries, the places to look, and one call that finds."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel

from app.inference.embedding import EmbeddingIdentity
from app.knowledge_bases.types import KnowledgeBaseView
from app.lexical.analyser import analyser_for
from app.lexical.weights import query_terms, salt
from app.retrieval.course import Course
from app.retrieval.finder import Finder
from app.retrieval.lanes import LaneResults, Ranked, Ranking, collect
from app.retrieval.queries import QueryVectors, Vector
from app.retrieval.repository import LaneCall, LaneList
from app.retrieval.types import Hit, Query, SearchUnavailable

WORDS_ALONE = "only the lexical lane was searched."
NO_COSINES = "similarities are not known."


@dataclass(frozen=True, slots=True)
class Target:
    """A knowledge base to search, with the filter for it: as understood, and compiled."""

    kb: KnowledgeBaseView
    filter: Mapping[str, Any] | None
    contains: dict[str, Any] | None
    path: str | None

    def fits(self, query: Query, identity: EmbeddingIdentity) -> bool:
        """Whether its vectors can be compared with the query's: a given one is only known by its dimensions."""
        if query.vector is not None:
            return len(query.vector) == self.kb.index.dim
        return self.kb.mismatch(identity) is None


@dataclass(frozen=True, slots=True)
class SearchContext:
    """One search on its way: at least one query and one target."""

    finder: Finder
    vectors: QueryVectors
    course: Course
    queries: Sequence[Query]
    targets: Sequence[Target]
    scopes: Sequence[UUID]

    async def find(
        self, rank: Callable[[LaneResults], Ranked], *, dense: bool = True, lexical: bool = True
    ) -> list[Hit]:
        """Ask both lanes for every query in every target, let ``rank`` make one list of it, and read the best.

        Where one lane cannot answer, the other does and a warning says so. Raises SearchUnavailable when none can,
        EmbeddingUnavailable when only the dense lane was asked for.
        """
        vectors = await self._vectors(dense=dense, lexical=lexical)
        calls = [
            self._call(target, query, vector, dense=dense, lexical=lexical)
            for query, vector in zip(self.queries, vectors, strict=True)
            for target in self.targets
        ]
        if not any(call.asks_something for call in calls):
            if dense:
                raise SearchUnavailable  # no vector, and no word to look for: that nothing was found says nothing
            return []

        def ranking(lists: Sequence[LaneList]) -> Ranking:
            found = collect(calls, lists, queries=len(self.queries))
            return Ranking(found, rank(found), fused=dense and lexical)

        return await self.finder.find(calls, ranking)

    async def _vectors(self, *, dense: bool, lexical: bool) -> Sequence[Vector | None]:
        """The queries' vectors; without the dense lane a threshold still wants its cosines."""
        identity = self.vectors.embedder.identity
        wanted = dense or self.finder.score_threshold is not None
        if not wanted or not any(target.fits(query, identity) for target in self.targets for query in self.queries):
            return [None] * len(self.queries)
        without = WORDS_ALONE if dense else NO_COSINES
        return await self.vectors.of(self.queries, required=not lexical, without=without)

    def _call(self, target: Target, query: Query, vector: Vector | None, *, dense: bool, lexical: bool) -> LaneCall:
        row, index = target.kb.row, target.kb.index
        tokens = analyser_for(row.language).tokens(query.text) if lexical and query.text else []
        term_ids, keys = query_terms(tokens, salt(index.id))
        return LaneCall(
            tenant_id=row.tenant_id,
            index_id=index.id,
            dim=index.dim,
            vector=vector if target.fits(query, self.vectors.embedder.identity) else None,
            term_ids=term_ids,
            keys=keys,
            scopes=self.scopes,
            contains=target.contains,
            path=target.path,
            only_similarity=not dense,
        )


OptionsT = TypeVar("OptionsT", bound=BaseModel)


class NoOptions(BaseModel, extra="forbid"):
    """A strategy without options."""


@dataclass(frozen=True, slots=True)
class Strategy(Generic[OptionsT]):
    """A way to search, by name; ``run`` returns hits best first, ties by document and chunk_index."""

    name: str
    description: str
    options: type[OptionsT]
    run: Callable[[SearchContext, OptionsT], Awaitable[list[Hit]]]
