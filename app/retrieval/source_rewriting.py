"""Rewriting of the common queries for each knowledge base, at the same time and within one share of the time."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from app.inference.chat import ChatModel
from app.retrieval import time_budget
from app.retrieval.query_transformation import Conversation, CorpusContext, QueryTransformer, StepCache
from app.retrieval.search_run import SearchRun, gather
from app.retrieval.source_plan import SourcePlan
from app.retrieval.strategies.strategy import SearchTarget
from app.retrieval.transformers.transformer import PreviewSearcher
from app.retrieval.types import Query
from app.warnings import ServiceWarning, WarningCode

DEFAULT_MAX_REWRITTEN_SOURCES = 8


@dataclass(frozen=True, slots=True)
class PlannedQueries:
    """Queries of one knowledge base, with the plan that they were made by."""

    plan: SourcePlan
    queries: Sequence[Query]
    is_rewritten: bool = False


@dataclass(frozen=True, slots=True)
class SourceRewriter:
    """Rewriter of the common queries of one search for each of its knowledge bases.

    Attributes:
        chat: Chat model; None if none is configured.
        search_run: Deadline, timings and notices of the search.
        max_sources: Maximum number of knowledge bases whose queries are rewritten.
        create_preview: Function that creates the quick first search in targets.
        revalidate: Function that checks cached knowledge bases before a model is called.
    """

    chat: ChatModel | None
    search_run: SearchRun
    max_sources: int
    create_preview: Callable[[Sequence[SearchTarget]], PreviewSearcher]
    revalidate: Callable[[], Awaitable[None]]

    async def rewrite(
        self, plans: Sequence[SourcePlan], queries: Sequence[Query], conversation: Conversation
    ) -> list[PlannedQueries]:
        """Rewrite the queries for each knowledge base that has transformers.

        All knowledge bases are rewritten at the same time. Equal steps of several knowledge bases, such as translations
        into the same language, are one call of the chat model.

        Args:
            plans: Plans of the knowledge bases, the most important first.
            queries: Common queries of the search.
            conversation: Conversation of the search.

        Returns:
            The queries of each knowledge base. Those beyond ``max_sources`` keep the common queries, with a notice.
        """
        with_steps = [plan for plan in plans if plan.steps] if queries else []
        if not with_steps:
            return [PlannedQueries(plan, _select_queries(plan, queries, conversation)) for plan in plans]
        await self.revalidate()
        selected = with_steps[: self.max_sources]
        if skipped := with_steps[self.max_sources :]:
            self._report_limit(skipped)
        # The sources run at the same time, so their times are not added up.
        run = replace(self.search_run, timings_ms={})
        cache = StepCache()
        with self.search_run.time_step("rewrite"):
            rewritten = await gather(
                [
                    self._rewrite_source(plan, run, cache, _select_queries(plan, queries, conversation), conversation)
                    for plan in selected
                ]
            )
        by_plan = {id(plan): result for plan, result in zip(selected, rewritten, strict=True)}
        return [
            PlannedQueries(plan, by_plan[id(plan)], is_rewritten=True)
            if id(plan) in by_plan
            else PlannedQueries(plan, _select_queries(plan, queries, conversation))
            for plan in plans
        ]

    async def _rewrite_source(
        self,
        plan: SourcePlan,
        search_run: SearchRun,
        cache: StepCache,
        queries: Sequence[Query],
        conversation: Conversation,
    ) -> list[Query]:
        async def get_corpus_context() -> CorpusContext:
            return CorpusContext(plan.languages, self.create_preview(plan.targets))

        prompt = plan.prompts.get("rewrite")
        transformer = QueryTransformer(
            self.chat,
            search_run,
            get_corpus_context,
            None if prompt is None else prompt.text,
            uses_default_transformers=False,
            time_share=time_budget.SOURCE_REWRITE,
            step_cache=cache,
        )
        transformed, _ = await transformer.run(plan.steps, queries, conversation)
        return transformed

    def _report_limit(self, skipped: Sequence[SourcePlan]) -> None:
        names = ", ".join(repr(plan.name) for plan in skipped)
        message = (
            f"{names}: searched with the common queries, because a search rewrites its queries for at most "
            f"{self.max_sources} knowledge bases."
        )
        self.search_run.add_notice(ServiceWarning(WarningCode.REWRITE_LIMIT_REACHED, message))


def _select_queries(plan: SourcePlan, queries: Sequence[Query], conversation: Conversation) -> Sequence[Query]:
    """Return the common queries, or the last question if the knowledge base does not use the conversation."""
    is_alone = queries and conversation.last_question and not plan.uses_conversation
    return conversation.last_question if is_alone else queries
