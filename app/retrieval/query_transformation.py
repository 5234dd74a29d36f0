"""Execution of a search's transformers, one after the other, within the time share of the chat model."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from app.inference.chat import ChatModel
from app.retrieval import time_budget
from app.retrieval.explain import DegradableStep
from app.retrieval.search_run import EXTRA_QUERIES_SKIPPED, SearchRun
from app.retrieval.transformers import TransformerStep
from app.retrieval.transformers.transformer import PreviewSearcher, TransformContext, TransformResult
from app.retrieval.types import Message, Query, SearchRequest

MAX_QUERIES = 16


@dataclass(frozen=True, slots=True)
class Conversation:
    """Conversation of a search.

    Attributes:
        messages: Messages, oldest first.
        is_query_source: Whether the queries were built from the messages; false if the request has queries.
        needs_analysis: Whether the caller requests an analysis of the conversation as well.
        last_question: Query of the last message alone; empty if the request has queries.
    """

    messages: Sequence[Message]
    is_query_source: bool
    needs_analysis: bool = False
    last_question: Sequence[Query] = ()

    @classmethod
    def from_request(cls, request: SearchRequest, queries: Sequence[Query] = ()) -> Self:
        """Return the conversation of a search request, whose queries begin with the last question."""
        needs_analysis = request.needs_analysis or request.explain
        last_question = [] if request.queries else queries[:1]
        return cls(request.messages, not request.queries, needs_analysis, last_question)


class CorpusContext(NamedTuple):
    """Information about the searched knowledge bases, for transformers.

    Attributes:
        languages: Languages of the knowledge bases.
        preview_search: Quick first search; None if there is none.
    """

    languages: Sequence[str] = ()
    preview_search: PreviewSearcher | None = None


@dataclass(frozen=True, slots=True)
class StepCache:
    """Results of transformers that several knowledge bases of one search share."""

    _tasks: dict[Hashable, asyncio.Task[TransformResult]] = field(default_factory=dict)

    async def run_step(self, step: TransformerStep, context: TransformContext) -> TransformResult:
        """Run a transformer, or return the result of the same transformer for the same queries.

        A transformer that reads chunks of a knowledge base always runs.

        Args:
            step: Transformer with its options.
            context: Context of the transformer.

        Returns:
            The result of the transformer.
        """
        transformer = step.transformer
        if transformer.needs_preview:
            return await transformer.run(context, step.options)
        key = (
            transformer.name,
            step.options.model_dump_json(),
            tuple(context.queries),
            context.prompt if transformer.takes_prompt else None,
            tuple(context.languages) if transformer.needs_corpus else (),
        )
        if key not in self._tasks:
            self._tasks[key] = context.search_run.start_background(_run_transformer(step, context))
        return await self._tasks[key]


async def _run_transformer(step: TransformerStep, context: TransformContext) -> TransformResult:
    return await step.transformer.run(context, step.options)


@dataclass(frozen=True, slots=True)
class QueryTransformer:
    """Runner of the transformers of one search.

    Attributes:
        chat: Chat model; None if none is configured.
        search_run: Deadline, timings and notices of the search.
        get_corpus_context: Function that returns the context of the searched knowledge bases.
        prompt: Prompt for rewriting, of the agent or the knowledge base; None if there is none.
        uses_default_transformers: Whether the caller did not choose the transformers.
        time_share: Share of the remaining time for all transformers together.
        step_cache: Results that the knowledge bases of the search share; None to run every transformer.
    """

    chat: ChatModel | None
    search_run: SearchRun
    get_corpus_context: Callable[[], Awaitable[CorpusContext]]
    prompt: str | None
    uses_default_transformers: bool
    time_share: float = time_budget.REWRITE
    step_cache: StepCache | None = None

    async def run(
        self, steps: Sequence[TransformerStep], queries: Sequence[Query], conversation: Conversation
    ) -> tuple[list[Query], TransformResult]:
        """Run the transformers on the queries that have a text but no vector.

        The context of the searched knowledge bases is loaded only if a step needs it, because routing may still be
        running.

        Args:
            steps: Transformers with their options, in their order.
            queries: Queries of the search.
            conversation: Conversation of the search.

        Returns:
            The transformed queries, followed by the unchanged vectors and images, and the result of the step that
            reformulated the conversation.
        """
        texts = [query.text for query in queries if query.text is not None and query.vector is None]
        if not steps or not texts:
            return list(queries), TransformResult(texts)
        others = [query for query in queries if query.text is None or query.vector is not None]
        corpus = (
            await self.get_corpus_context() if any(step.transformer.needs_corpus for step in steps) else CorpusContext()
        )
        context = TransformContext(
            name="",
            queries=texts,
            messages=conversation.messages,
            question=texts[0] if conversation.is_query_source or len(texts) == 1 else None,
            languages=corpus.languages,
            prompt=self.prompt,
            max_queries=MAX_QUERIES - len(others),
            chat=self.chat,
            search_run=self.search_run.with_time_share(
                self.time_share,
                max_seconds=time_budget.MAX_DEFAULT_REWRITE_SECONDS if self.uses_default_transformers else None,
            ),
            preview_search=corpus.preview_search,
            needs_analysis=conversation.needs_analysis,
        )
        current: Sequence[str] = texts
        reformulated, requested = TransformResult(texts), frozenset(texts)
        with self.search_run.time_step("rewrite"):
            for step in steps:
                fans_out = step.transformer.fans_out
                degradable_step: DegradableStep = "extra_queries" if fans_out else "rewrite"
                step_context = replace(
                    context, name=step.transformer.name, queries=current, degradable_step=degradable_step
                )
                run_step = _run_transformer if self.step_cache is None else self.step_cache.run_step
                rewritten = await run_step(step, step_context)
                current = rewritten.queries
                reformulated = rewritten if rewritten.reformulation is not None else reformulated
                requested = requested if fans_out else frozenset(current)
        # If transformers replaced all requested queries, the replacements count as requested.
        requested = requested.intersection(current) or frozenset(current)
        transformed = [Query(text, is_extra=text not in requested) for text in current]
        return [*self._drop_extra_queries(transformed), *others], reformulated

    def _drop_extra_queries(self, queries: Sequence[Query]) -> list[Query]:
        """Drop the queries that transformers added, with a notice, if the time is too short for these extra queries."""
        required = [query for query in queries if not query.is_extra]
        if len(required) < len(queries) and self.search_run.remaining_seconds < time_budget.MIN_EXTRA_QUERIES_SECONDS:
            self.search_run.degrade("extra_queries", "no_time")
            self.search_run.add_notice(EXTRA_QUERIES_SKIPPED)
            return required
        return list(queries)
