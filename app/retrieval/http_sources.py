"""The HTTP sources of a search: asked beside the lanes, and one list of what both have found (after KIMAs)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self
from uuid import UUID

from app.errors import Unavailable
from app.http_sources.client import HttpSources
from app.http_sources.types import Asked, Found, SourceUnavailable
from app.ids import derived_id
from app.inference.chat import ChatModel
from app.knowledge_bases.types import KnowledgeBaseView
from app.logging import get_logger
from app.retrieval import shares
from app.retrieval.course import Course, reason_of
from app.retrieval.explanation import ExplainedIndex
from app.retrieval.queries import none_left
from app.retrieval.sources import Source, merge_sources, words_of
from app.retrieval.transformers import Step, find_steps, kept_steps
from app.retrieval.transforming import Conversation, Ground, Rewriting
from app.retrieval.types import FoundChunk, FoundDocument, Hit, Key, Query, SearchRequest, SearchUnavailable, Stamp

logger = get_logger(__name__)

# A sentence finds little in most of them.
DEFAULT_TRANSFORMER = "keywords"
# One search is not to become a hundred of others; those that come first are asked.
MOST_SOURCES, MOST_QUERIES, MOST_RESULTS = 8, 4, 100
Lanes = Callable[[], Awaitable[list[Hit]]]


@dataclass(frozen=True, slots=True)
class Outside:
    """``views`` are the knowledge bases of kind http; ``asked`` is what each was asked for, by its id."""

    sources: HttpSources
    chat: ChatModel | None
    course: Course
    request: SearchRequest
    views: Sequence[KnowledgeBaseView]
    asked: dict[UUID, list[str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        sources: HttpSources,
        chat: ChatModel | None,
        course: Course,
        request: SearchRequest,
        views: Sequence[KnowledgeBaseView],
    ) -> Self:
        """Those of the search, the shared ones of the same names among them.

        With a filter there are none, for nobody knows whether their results would pass. It breaks nothing, so the
        search is whole without them.
        """
        found = [one for view in views for one in (view, view.twin) if one is not None and one.row.source is not None]
        if found and (request.filter or any(one.row.guard for one in found)):
            course.remark(f"{_names(found)} left out: a filter cannot be applied to what an HTTP source finds.")
            found = []
        if len(found) > MOST_SOURCES:
            course.warn(f"{_names(found[MOST_SOURCES:])} left out: a search asks at most {MOST_SOURCES} HTTP sources.")
        return cls(sources, chat, course, request, found[:MOST_SOURCES])

    async def beside(
        self, lanes: Lanes | None, queries: Sequence[Query], *, top_k: int, scale: Callable[[Sequence[Hit]], float]
    ) -> list[Source]:
        """What the lanes find, None where they have nothing to search, and at the same time what the sources do.

        ``scale`` says what the best of the lanes' hits counts beside others. One that cannot answer is a warning, as
        long as another one or the lanes can. Raises InvalidInput where only words could be asked for and there are
        none, SearchUnavailable, and as the lanes.
        """
        if not self.views or not queries:
            hits = await lanes() if lanes else []
            return [Source(scale(hits), hits)]
        if lanes is None and all(query.text is None for query in queries):
            raise none_left()
        asking = asyncio.create_task(self._all(queries, min(top_k, MOST_RESULTS)))
        try:
            hits, failure = await self._local(lanes)
            found = await asking
        finally:
            asking.cancel()  # where the lanes refuse the search; one that is done takes no notice
        outside = [Source(view.scale, one) for view, one in zip(self.views, found, strict=True) if one]
        if failure is not None and not outside:
            raise failure
        if lanes is None and all(one is None for one in found):
            raise SearchUnavailable
        if failure is not None:
            logger.warning("search.lanes_failed", error=failure)
            self.course.warn("The knowledge bases with documents could not be searched.")
        if outside and self.request.score_threshold is not None:
            self.course.warn("score_threshold was not applied where no similarity is known.")
        return [Source(scale(hits), hits), *outside]

    def explained(self) -> list[ExplainedIndex]:
        """What each was asked for."""
        return [
            ExplainedIndex(one.row.name, one.is_shared, None, None, self.asked.get(one.row.id, ()))
            for one in self.views
        ]

    async def _local(self, lanes: Lanes | None) -> tuple[list[Hit], Unavailable | None]:
        try:
            return (await lanes() if lanes else []), None
        except Unavailable as exc:
            return [], exc

    async def _all(self, queries: Sequence[Query], top_k: int) -> list[list[Hit] | None]:
        """What each has found, None where it could not be asked."""
        with self.course.timing("http_sources"):
            return await asyncio.gather(*(self._one(view, queries, top_k) for view in self.views))

    async def _one(self, view: KnowledgeBaseView, queries: Sequence[Query], top_k: int) -> list[Hit] | None:
        words = await self._words(view, queries)
        self.asked[view.row.id] = words
        if not words:
            self.course.warn(f"{_names([view])} left out: an HTTP source is asked for words alone.")
        answers = await asyncio.gather(*(self._ask(view, Asked(text, top_k)) for text in words))
        answered = [one for one in answers if one is not None]
        return _hits(view, answered) if answered else None

    async def _words(self, view: KnowledgeBaseView, queries: Sequence[Query]) -> list[str]:
        """The queries as this source is asked: by its own transformers, where the search names none for all."""
        texts = [Query(query.text) for query in queries if query.text is not None][:MOST_QUERIES]
        # What nobody has asked for needs no excuse; and its time is that of the sources.
        own = view.retrieval.transformers
        course = replace(self.course, timings_ms={})
        course = course if own is not None else replace(course, remarks=[], dropped={})

        async def ground() -> Ground:
            return Ground(view.languages)

        rewriting = Rewriting(self.chat, course, ground, view.retrieval.rewrite_prompt, hurried=True)
        conversation = Conversation(self.request.messages, asks=not self.request.queries)
        made, _ = await rewriting.run(self._steps(view), texts, conversation)
        return [query.text for query in made if query.text][:MOST_QUERIES]

    def _steps(self, view: KnowledgeBaseView) -> list[Step]:
        own = view.retrieval.transformers
        if self.request.transformers is not None:
            return []
        kept = None if own is None else kept_steps(own, self.course)
        return find_steps([DEFAULT_TRANSFORMER], loc=()) if kept is None else kept

    async def _ask(self, view: KnowledgeBaseView, asked: Asked) -> list[Found] | None:
        source, row = view.source, view.row
        assert source is not None  # of kind http
        seconds = self.course.remaining * shares.SOURCES
        try:
            return await self.sources.ask(source, asked, tenant_id=row.tenant_id, kb_id=row.id, seconds=seconds)
        except SourceUnavailable as exc:
            logger.warning("search.http_source_failed", knowledge_base=str(row.id), error=exc)
            self.course.drop("http_source", reason_of(exc))
            self.course.warn(f"{_names([view])} left out. {exc.message}")
            return None


def _hits(view: KnowledgeBaseView, answers: Sequence[Sequence[Found]]) -> list[Hit]:
    """Best first, of equal texts the best: by the scores of the source, where all have one, else by their places."""
    scored = all(one.score is not None for answer in answers for one in answer)
    hits = [
        _hit(view, one, one.score if scored and one.score is not None else 1 - place / len(answer))
        for answer in answers
        for place, one in enumerate(answer)
    ]
    best: dict[str | Key, Hit] = {}
    for hit in merge_sources([Source(1.0, hits)]):
        best.setdefault(words_of(hit) or hit.key, hit)
    return list(best.values())


def _hit(view: KnowledgeBaseView, found: Found, score: float) -> Hit:
    """A document of one chunk; the ids are the same for the same result, so that ties fall alike."""
    key = derived_id(view.row.id, found.url, found.text)
    name = found.url or found.title or view.row.name
    facts = {"$source": name, "$title": found.title, "$source_uri": found.url, "$suspicious": list(found.flags)}
    stamp = Stamp.of(facts)
    chunk = FoundChunk(
        id=key,
        version=0,
        ordinal=0,
        content=found.text,
        start=0,
        end=len(found.text),
        page=None,
        page_end=None,
        slide=None,
        section_titles=[],
        node_path=[],
        media_ordinal=None,
        media_type=None,
        stamp=stamp,
    )
    document = FoundDocument(
        tenant_id=view.row.tenant_id,
        id=key,
        chunk_count=1,
        stamp=stamp,
    )
    return Hit(view.index.id.bytes + key.bytes, chunk, document, view.row.name, score, None, outside=True)


def _names(views: Sequence[KnowledgeBaseView]) -> str:
    names = ", ".join(dict.fromkeys(repr(view.row.name) for view in views))
    return f"{names} was" if len(views) == 1 else f"{names} were"
