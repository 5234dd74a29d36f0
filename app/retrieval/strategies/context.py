"""What a strategy is, and what it is given: the queries, the places to look, and one call that finds."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel

from app.inference.embedding import Embedder, EmbeddingMismatch, EmbeddingRejected, EmbeddingUnavailable, Vectors
from app.knowledge_bases.types import KnowledgeBaseView
from app.lexical.analyser import analyser_for
from app.lexical.weights import query_terms, salt
from app.logging import get_logger
from app.retrieval.course import Course
from app.retrieval.finder import Finder
from app.retrieval.lanes import LaneResults, Ranked, collect
from app.retrieval.repository import LaneCall
from app.retrieval.types import Hit, SearchUnavailable

logger = get_logger(__name__)

# Of the time left, what the embedding model may take: the lanes need theirs, and perhaps a second try.
EMBED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Target:
    """A knowledge base to search, with the filter compiled for it."""

    kb: KnowledgeBaseView
    contains: dict[str, Any] | None
    path: str | None


@dataclass(frozen=True, slots=True)
class SearchContext:
    """One search on its way: at least one query and one target."""

    finder: Finder
    embedder: Embedder
    course: Course
    queries: Sequence[str]
    targets: Sequence[Target]
    scopes: Sequence[UUID]

    async def find(
        self, rank: Callable[[LaneResults], Ranked], *, dense: bool = True, lexical: bool = True
    ) -> list[Hit]:
        """Ask both lanes for every query in every target, let ``rank`` make one list of it, and read the best.

        Where one lane cannot answer, the other does and a warning says so. Raises SearchUnavailable when none can,
        EmbeddingUnavailable when only the dense lane was asked for.
        """
        vectors = await self._embed(required=not lexical) if dense and any(map(self._fits, self.targets)) else None
        calls = [
            self._call(target, number, vectors, lexical=lexical)
            for number in range(len(self.queries))
            for target in self.targets
        ]
        if not any(call.asks_something for call in calls):
            if dense:
                raise SearchUnavailable  # no vector, and no word to look for: that nothing was found says nothing
            return []
        return await self.finder.find(
            calls,
            lambda rows: (found := collect(calls, rows, queries=len(self.queries))).candidates(rank(found)),
        )

    def _fits(self, target: Target) -> bool:
        return target.kb.mismatch(self.embedder.identity) is None

    async def _embed(self, *, required: bool) -> Vectors | None:
        """The queries' vectors; None, with a warning, where the model cannot answer in its share of the time left."""
        with self.course.timing("embed"):
            try:
                async with asyncio.timeout(self.course.remaining * EMBED_SHARE):
                    return await self.embedder.embed_queries(self.queries)
            except (EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected, TimeoutError) as exc:
                if required:
                    raise EmbeddingUnavailable from exc
                logger.warning("search.embedding_failed", error=exc)
                self.course.warn("The embedding model is not answering: only the lexical lane was searched.")
                return None

    def _call(self, target: Target, number: int, vectors: Vectors | None, *, lexical: bool) -> LaneCall:
        row, index = target.kb.row, target.kb.index
        tokens = analyser_for(row.language).tokens(self.queries[number]) if lexical else []
        term_ids, keys = query_terms(tokens, salt(index.id))
        return LaneCall(
            tenant_id=row.tenant_id,
            index_id=index.id,
            dim=index.dim,
            vector=vectors[number] if vectors is not None and self._fits(target) else None,
            term_ids=term_ids,
            keys=keys,
            scopes=self.scopes,
            contains=target.contains,
            path=target.path,
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
