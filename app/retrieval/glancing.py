"""A quick first search, for a transformer that wants to see how the documents speak of something."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from app.db.session import TenantDatabase
from app.errors import AppError
from app.retrieval.costs import SearchCosts
from app.retrieval.course import Course
from app.retrieval.finder import Finder
from app.retrieval.queries import QueryVectors
from app.retrieval.strategies import hybrid
from app.retrieval.strategies.context import SearchContext, Target, searched_in
from app.retrieval.types import Query


@dataclass(frozen=True, slots=True)
class Glance:
    """A look at what a search is about to ask, with nothing but its targets: as the caller may see them."""

    db: TenantDatabase
    vectors: QueryVectors
    targets: Sequence[Target]
    costs: SearchCosts = field(default_factory=SearchCosts)

    async def __call__(self, queries: Sequence[str], course: Course, *, most: int) -> list[str] | None:
        """The best passages by both lanes; None where they cannot be had in the course's time."""
        # Its own warnings and times: the search that follows says what it leaves out itself.
        own = Course(course.deadline, database=course.database)
        finder = Finder(self.db, own, searched_in(self.targets), top_k=most, score_threshold=None, costs=self.costs)
        vectors = replace(self.vectors, course=own)
        context = SearchContext(finder, vectors, own, [*map(Query, queries)], self.targets)
        try:
            async with asyncio.timeout(own.remaining):
                hits = await hybrid.run(context, hybrid.HybridOptions.model_validate({}))
        except (AppError, TimeoutError):
            return None
        return [hit.chunk.content for hit in hits]
