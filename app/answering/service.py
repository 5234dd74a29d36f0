"""Answer a question: search → select sources → stream the text of the chat model → find citations."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from app.answering.citations import CitedSourceNumbers, find_model_citations, find_overlap_citations
from app.answering.compression import compress_sources
from app.answering.context_window import compute_default_top_k, number_sources, select_within_budget
from app.answering.factory import AnswerModels
from app.answering.prompt_messages import build_answer_messages, build_citation_messages
from app.answering.reasoning_filter import strip_reasoning
from app.answering.types import (
    AnswerEvent,
    AnswerFinished,
    AnswerRequest,
    AnswerSource,
    Citation,
    CitationsFound,
    QueryResolved,
    SourcesFound,
    TextDelta,
)
from app.errors import InvalidInputError
from app.inference.chat import ChatNotConfigured, ChatTokens, ChatUnavailable
from app.inference.embedding.token_estimate import estimate_tokens
from app.logging import get_logger
from app.retrieval.conversation import ASKING_ROLES
from app.retrieval.quota import require_complete
from app.retrieval.search_run import SearchRun
from app.retrieval.service import RetrievalService
from app.retrieval.types import SearchRequest, SearchResult
from app.settings import AnswerSettings
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)

CITATIONS_BY_OVERLAP = ServiceWarning(
    WarningCode.CITATIONS_BY_OVERLAP,
    "The chat model did not name its sources, so the citations are the sources with the words of the answer.",
)

MAX_CITATION_TOKENS = 300
MAX_CONNECTIONS_SHARE = 4
"""A text about names that the sources share fills at most one part in four of the context."""


@dataclass(frozen=True, slots=True)
class AnsweringService:
    """Service that answers questions with the search of one caller.

    Attributes:
        retrieval: Search of the caller.
        models: Chat models; None if none is configured.
        settings: Settings of answers.
        timeout_seconds: Time for the calls of the chat model for one answer.
    """

    retrieval: RetrievalService
    models: AnswerModels | None
    settings: AnswerSettings
    timeout_seconds: float

    async def answer(self, request: AnswerRequest) -> AsyncGenerator[AnswerEvent]:
        """Yield QueryResolved, SourcesFound, TextDelta events, CitationsFound and AnswerFinished.

        The model is not called if the search finds no source. The text is then the configured abstention.

        Args:
            request: The question.

        Raises:
            ChatNotConfigured: No chat model is configured. Raised before the first event.
            InvalidInputError: The question has no words, or no source fits. Raised before the first event, or after it
                if no compressed source fits.
            ChatUnavailable: The chat model fails. Raised after the first event.
            AppError: The search fails, like ``RetrievalService.search``. Raised before the first event.
        """
        if self.models is None:
            raise ChatNotConfigured(retry_after=60.0)
        started = time.perf_counter()
        question = extract_question(request.search)
        top_k = request.search.top_k or compute_default_top_k(request.max_context_tokens)
        search_result = require_complete(
            await self.retrieval.search(replace(request.search, top_k=top_k, needs_analysis=True))
        )
        if search_result.reformulation is not None:
            question = search_result.reformulation.query
        answer_run = AnswerRun(
            self.models, self.settings, request, question, search_result, SearchRun.from_timeout(self.timeout_seconds)
        )
        answer_run.warn_omitted_connections()
        sources = None if request.compress_sources else answer_run.select_sources(number_sources(search_result.hits))
        yield QueryResolved(question, search_result)
        if sources is None:
            sources = answer_run.select_sources(await answer_run.compress_sources(number_sources(search_result.hits)))
        yield SourcesFound(sources)
        citations: Sequence[Citation] = []
        if sources:
            pieces: list[str] = []
            async with aclosing(answer_run.stream_text(sources)) as texts:
                async for text in texts:
                    pieces.append(text)
                    yield TextDelta(text)
            citations = await answer_run.find_citations("".join(pieces), sources)
        else:
            yield TextDelta(self.settings.abstention)
        yield CitationsFound(citations)
        yield answer_run.build_finished_event(started, abstained=not sources)


@dataclass(frozen=True, slots=True)
class AnswerRun:
    """State of one answer while it is generated.

    Attributes:
        models: Chat models.
        settings: Settings of answers.
        request: The request.
        question: Standalone question.
        search_result: Result of the search.
        run: Deadline, timings and warnings.
        used_tokens: Tokens of each call of a chat model so far.
    """

    models: AnswerModels
    settings: AnswerSettings
    request: AnswerRequest
    question: str
    search_result: SearchResult
    run: SearchRun
    used_tokens: list[ChatTokens] = field(default_factory=list)

    def select_sources(self, sources: Sequence[AnswerSource]) -> list[AnswerSource]:
        """Select the sources that fit the context, or raise InvalidInputError if none fits."""
        connections_tokens = 0 if self.connections is None else estimate_tokens(self.connections)
        return select_within_budget(sources, max_tokens=self.request.max_context_tokens - connections_tokens)

    @property
    def connections(self) -> str | None:
        """Text about the names that the sources share; None if there is none, or if it fills much of the context."""
        text = self.search_result.graph_text
        if text is None or estimate_tokens(text) * MAX_CONNECTIONS_SHARE > self.request.max_context_tokens:
            return None
        return text

    def warn_omitted_connections(self) -> None:
        """Add a notice if the context has no room for the text about the names that the sources share."""
        if self.connections is None and self.search_result.graph_text is not None:
            message = "The text about the names that the sources share was left out, because it is too long."
            self.run.add_notice(ServiceWarning(WarningCode.GRAPH_TEXT_OMITTED, message))

    async def compress_sources(self, sources: Sequence[AnswerSource]) -> Sequence[AnswerSource]:
        """Compress sources with the chat model, and add a warning if some of them stay uncompressed.

        Args:
            sources: Sources, the best first.
        """
        timeout_seconds = min(self.settings.compression_timeout_seconds, self.run.remaining_seconds)
        with self.run.time_step("compress"):
            result = await compress_sources(
                self.models.analysis_model,
                self.question,
                sources,
                max_source_tokens=self.request.max_context_tokens,
                timeout_seconds=timeout_seconds,
            )
        self.used_tokens.extend(result.tokens)
        if result.failed_count:
            message = f"{result.failed_count} of the sources could not be compressed, and were used unchanged."
            self.run.add_notice(ServiceWarning(WarningCode.SOURCES_NOT_COMPRESSED, message))
        return result.sources

    async def stream_text(self, sources: Sequence[AnswerSource]) -> AsyncGenerator[str]:
        """Stream the text of the chat model, which is never empty.

        Args:
            sources: Sources of the answer.

        Raises:
            ChatUnavailable: The model fails, or its answer is empty.
        """
        messages = build_answer_messages(
            self.question,
            sources,
            self.request.search.messages,
            self.search_result.reformulation,
            connections=self.connections,
            custom_prompt=self.search_result.answer_prompt.text if self.search_result.answer_prompt else None,
        )
        first_token_timeout_seconds = self.settings.first_token_timeout_seconds
        max_tokens, timeout_seconds = self.settings.max_tokens, self.run.remaining_seconds
        started, has_text = time.perf_counter(), False
        with self.run.time_step("answer"):
            stream_context = self.models.answer_model.stream(
                messages,
                max_tokens=max_tokens,
                timeout_seconds=timeout_seconds,
                first_piece_timeout_seconds=first_token_timeout_seconds,
            )
            async with stream_context as stream, aclosing(strip_reasoning(stream.pieces)) as texts:
                async for text in texts:
                    if not has_text:
                        has_text = True
                        self.run.timings_ms["first_token"] = _compute_elapsed_ms(started)
                    yield text
            self.used_tokens.append(stream.tokens)
            if not has_text:
                raise ChatUnavailable(
                    "The chat model's answer is empty.", reason="invalid_response", tokens=stream.tokens
                )
            if stream.is_truncated:
                message = f"The answer was cut off after {max_tokens} tokens."
                self.run.add_notice(ServiceWarning(WarningCode.ANSWER_TRUNCATED, message))

    async def find_citations(self, answer: str, sources: Sequence[AnswerSource]) -> Sequence[Citation]:
        """Find the citations of an answer: the sources that the model names, otherwise those with common words.

        Args:
            answer: Text of the answer.
            sources: Sources of the answer.
        """
        citations: list[Citation] | None = None
        with self.run.time_step("citations"):
            try:
                response = await self.models.analysis_model.complete_structured(
                    build_citation_messages(self.question, answer, sources),
                    CitedSourceNumbers,
                    max_tokens=MAX_CITATION_TOKENS,
                    timeout_seconds=self.settings.citation_timeout_seconds,
                )
                self.used_tokens.append(response.tokens)
                citations = find_model_citations(response.value.numbers, sources)
            except ChatUnavailable as exc:
                logger.warning("answer.citations_failed", reason=exc.reason)
                self.used_tokens.append(exc.tokens)
            if citations is None:
                self.run.add_notice(CITATIONS_BY_OVERLAP)
                citations = find_overlap_citations(answer, sources, languages=self.search_result.languages)
        return citations

    def build_finished_event(self, started: float, *, abstained: bool) -> AnswerFinished:
        """Build the last event with warnings, tokens and timings.

        Args:
            started: Start of the answer, by ``time.perf_counter``.
            abstained: Whether the search found no source.
        """
        search_timings = {
            ("search" if step == "total" else step): milliseconds
            for step, milliseconds in self.search_result.timings_ms.items()
        }
        tokens = ChatTokens(
            sum(call_tokens.prompt for call_tokens in self.used_tokens),
            sum(call_tokens.completion for call_tokens in self.used_tokens),
        )
        timings = {"total": _compute_elapsed_ms(started), **search_timings, **self.run.timings_ms}
        return AnswerFinished(abstained, [*self.search_result.warnings, *self.run.notices], tokens, timings)


def extract_question(search: SearchRequest) -> str:
    """Extract the text of the question: the queries of a search, or the last question of its conversation.

    Args:
        search: The search.

    Raises:
        InvalidInputError: The search has no text, for example only vectors or images.
    """
    queries = [query if isinstance(query, str) else query.text for query in search.queries]
    words = [query for query in queries if query is not None]
    if not search.queries:
        turns = (message.content.strip() for message in search.messages if message.role in ASKING_ROLES)
        words = [turn for turn in turns if turn][-1:]
    if not words:
        raise InvalidInputError("An answer needs a question as text. Add a query or a message.", loc=("body",))
    return "\n".join(words)


def _compute_elapsed_ms(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 2)
