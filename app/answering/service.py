"""Answers: search → sources → the model's text as it comes → the look back for citations."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from app.answering.citations import UsedSources, named_by_model, named_by_words
from app.answering.context import fitting, numbered, passages_to_fetch
from app.answering.digesting import digested
from app.answering.opening import AnswerModels
from app.answering.prompt import to_answer, to_cite
from app.answering.thoughts import without_thoughts
from app.answering.types import (
    AnswerEvent,
    AnswerRequest,
    Asked,
    ChatNotConfigured,
    Citation,
    Cited,
    Finished,
    Source,
    SourcesFound,
    TextDelta,
)
from app.errors import InvalidInput
from app.inference.chat import ChatTokens, ChatUnavailable
from app.logging import get_logger
from app.retrieval.admission import certain
from app.retrieval.course import Course
from app.retrieval.rewriting import ASKING
from app.retrieval.service import RetrievalService
from app.retrieval.types import SearchRequest, SearchResult
from app.settings import AnswerSettings

logger = get_logger(__name__)

CITATION_TOKENS = 300


@dataclass(frozen=True, slots=True)
class AnsweringService:
    """Answers as one key may search; ``seconds`` is how long the model may take for one."""

    retrieval: RetrievalService
    models: AnswerModels | None
    settings: AnswerSettings
    seconds: float

    async def answer(self, request: AnswerRequest) -> AsyncGenerator[AnswerEvent]:
        """Asked, SourcesFound, the TextDeltas, Cited, Finished. No model is asked where nothing relevant was found.

        Before the first event it raises ChatNotConfigured, InvalidInput, and as ``RetrievalService.search``; after it
        ChatUnavailable, and InvalidInput where no digest has room.
        """
        if self.models is None:
            raise ChatNotConfigured(retry_after=60.0)
        begun = time.perf_counter()
        question = asked_in(request.search)
        top_k = request.search.top_k or passages_to_fetch(request.max_context_tokens)
        found = certain(await self.retrieval.search(replace(request.search, top_k=top_k, analysed=True)))
        if found.reformulation is not None:
            question = found.reformulation.query
        turn = Turn(self.models, self.settings, request, question, found, Course.of(self.seconds))
        sources = None if request.digest else turn.fitting(numbered(found.hits))
        yield Asked(question, found)
        if sources is None:
            sources = turn.fitting(await turn.digested(numbered(found.hits)))
        yield SourcesFound(sources)
        citations: Sequence[Citation] = []
        if sources:
            pieces: list[str] = []
            async with aclosing(turn.written(sources)) as texts:
                async for text in texts:
                    pieces.append(text)
                    yield TextDelta(text)
            citations = await turn.cited("".join(pieces), sources)
        else:
            yield TextDelta(self.settings.abstention)
        yield Cited(citations)
        yield turn.finished(begun, abstained=not sources)


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer on its way; ``spent`` are the tokens of the calls so far."""

    models: AnswerModels
    settings: AnswerSettings
    request: AnswerRequest
    question: str
    found: SearchResult
    course: Course
    spent: list[ChatTokens] = field(default_factory=list)

    def fitting(self, sources: Sequence[Source]) -> list[Source]:
        """Those that the context has room for. Raises InvalidInput."""
        return fitting(sources, most_tokens=self.request.max_context_tokens)

    async def digested(self, sources: Sequence[Source]) -> Sequence[Source]:
        """The sources, shortened by the model."""
        seconds = min(self.settings.digest_seconds, self.course.remaining)
        with self.course.timing("digest"):
            made = await digested(
                self.models.reader,
                self.question,
                sources,
                most_tokens=self.request.max_context_tokens,
                seconds=seconds,
            )
        self.spent.extend(made.tokens)
        if made.failed:
            self.course.remark(f"{made.failed} of the sources could not be digested: they are as they were.")
        return made.sources

    async def written(self, sources: Sequence[Source]) -> AsyncGenerator[str]:
        """The model's text as it comes, never an empty one. Raises ChatUnavailable."""
        messages = to_answer(
            self.question,
            sources,
            self.request.search.messages,
            self.found.reformulation,
            own=self.found.answer_prompt.text if self.found.answer_prompt else None,
        )
        first = self.settings.first_token_seconds
        most, seconds = self.settings.max_tokens, self.course.remaining
        begun, has_begun = time.perf_counter(), False
        with self.course.timing("answer"):
            writing = self.models.writer.stream(messages, max_tokens=most, seconds=seconds, first_seconds=first)
            async with writing as stream, aclosing(without_thoughts(stream.pieces)) as texts:
                async for text in texts:
                    if not has_begun:
                        has_begun = True
                        self.course.timings_ms["first_token"] = _since(begun)
                    yield text
            self.spent.append(stream.tokens)
            if not has_begun:
                raise ChatUnavailable("The chat model's answer is empty.", reason="garbage", tokens=stream.tokens)
            if stream.cut_off:
                self.course.remark(f"The answer was cut off after {most} tokens.")

    async def cited(self, answer: str, sources: Sequence[Source]) -> Sequence[Citation]:
        """What it rests on: as the model says, looking back, else by the words that they have in common."""
        citations: list[Citation] | None = None
        with self.course.timing("citations"):
            try:
                named = await self.models.reader.structured(
                    to_cite(self.question, answer, sources),
                    UsedSources,
                    max_tokens=CITATION_TOKENS,
                    seconds=self.settings.citation_seconds,
                )
                self.spent.append(named.tokens)
                citations = named_by_model(named.value.numbers, sources)
            except ChatUnavailable as exc:
                logger.warning("answer.citations_failed", reason=exc.reason)
                self.spent.append(exc.tokens)
            if citations is None:
                self.course.remark("The chat model did not say which sources it used: the citations are by words.")
                citations = named_by_words(answer, sources, languages=self.found.languages)
        return citations

    def finished(self, begun: float, *, abstained: bool) -> Finished:
        """The end, and what it took."""
        searched = {("search" if step == "total" else step): spent for step, spent in self.found.timings_ms.items()}
        tokens = ChatTokens(sum(one.prompt for one in self.spent), sum(one.completion for one in self.spent))
        timings = {"total": _since(begun), **searched, **self.course.timings_ms}
        return Finished(abstained, [*self.found.warnings, *self.course.remarks], tokens, timings)


def asked_in(search: SearchRequest) -> str:
    """The question in words: what is searched for, else the conversation's last. Raises InvalidInput."""
    queries = [query if isinstance(query, str) else query.text for query in search.queries]
    words = [query for query in queries if query is not None]
    if not search.queries:
        turns = (message.content.strip() for message in search.messages if message.role in ASKING)
        words = [turn for turn in turns if turn][-1:]
    if not words:
        raise InvalidInput("An answer needs a question in words.", loc=("body",))
    return "\n".join(words)


def _since(begun: float) -> float:
    return round((time.perf_counter() - begun) * 1000, 2)
