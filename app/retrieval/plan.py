"""Plan of a search, from the request, the settings of the agent and the settings of the knowledge base."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic import BaseModel

from app.inference.chat import ChatModel
from app.knowledge_bases.types import KnowledgeBaseView, Retrieval
from app.prompts.types import ActivePrompt, PromptName
from app.retrieval.conversation import (
    MAX_QUERY_CHARACTERS,
    REFORMULATE,
    build_conversation_queries,
    is_conversation_used,
    truncate_query,
)
from app.retrieval.query_transformation import CorpusContext, QueryTransformer
from app.retrieval.search_run import SearchRun
from app.retrieval.strategies import (
    find_strategy,
    parse_strategy_options,
    resolve_stored_options,
    resolve_stored_strategy,
)
from app.retrieval.strategies.strategy import Strategy
from app.retrieval.transformers import (
    TransformerStep,
    create_default_steps,
    merge_steps,
    resolve_steps,
    resolve_stored_steps,
    resolve_strategy_steps,
)
from app.retrieval.types import Combination, Query, SearchRequest
from app.warnings import ServiceWarning, WarningCode

QUERY_TRUNCATED = ServiceWarning(
    WarningCode.QUERY_TRUNCATED, f"Only the last {MAX_QUERY_CHARACTERS:,} characters of a query were searched."
)
QUESTION_MISSING = ServiceWarning(
    WarningCode.QUESTION_MISSING, "The messages contain no question, so nothing was searched."
)


def resolve_queries(request: SearchRequest, search_run: SearchRun) -> list[Query]:
    """Return the queries of a request, or build them from its conversation.

    Long queries are truncated. The caller gets a notice if a provided query is truncated, or if there is no query at
    all.

    Args:
        request: The search request.
        search_run: Collector of the notices.

    Returns:
        The queries; an empty list if the conversation has no question.
    """
    provided = [Query(query) if isinstance(query, str) else query for query in request.queries]
    if any(query.text is not None and len(query.text) > MAX_QUERY_CHARACTERS for query in provided):
        search_run.add_notice(QUERY_TRUNCATED)
    truncated = [query if query.text is None else replace(query, text=truncate_query(query.text)) for query in provided]
    queries = truncated or [Query(text) for text in build_conversation_queries(request.messages)]
    if not queries:
        search_run.add_notice(QUESTION_MISSING)
    return queries


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """Decisions of one search that are made before it runs.

    Attributes:
        strategy: Strategy of the search.
        options: Options of the strategy.
        transformer_steps: Transformers with their options, in their order.
        uses_default_transformers: Whether neither the request nor a stored setting names the transformers.
        has_source_settings: Whether the stored settings of the only knowledge base are part of the plan. If not, each
            knowledge base has a plan.
        has_requested_transformers: Whether the request or its agent names the transformers.
        source_steps: Requested transformers that run for each knowledge base, because their result depends on it.
        top_k: Number of hits to return.
        uses_conversation: Whether the messages before the last question are used.
        combine: How the scores of a chunk for several queries count; None for the default of the strategy.
        prompts: Active prompts by name: a prompt of the request overrides the prompt of the knowledge base.
    """

    strategy: Strategy[Any]
    options: BaseModel
    transformer_steps: Sequence[TransformerStep]
    uses_default_transformers: bool
    has_source_settings: bool
    has_requested_transformers: bool
    source_steps: Sequence[TransformerStep]
    top_k: int
    uses_conversation: bool
    prompts: Mapping[PromptName, ActivePrompt]
    combine: Combination | None

    @classmethod
    def from_request(
        cls,
        request: SearchRequest,
        single_knowledge_base: KnowledgeBaseView | None,
        search_run: SearchRun,
        *,
        can_rewrite: bool,
    ) -> Self:
        """Create the plan of a search.

        Args:
            request: The search request.
            single_knowledge_base: The searched knowledge base, whose stored settings apply. None if the search has
                several knowledge bases: stored settings then do not apply.
            search_run: Collector of the notices.
            can_rewrite: Whether a chat model is configured for the default transformer.

        Returns:
            The plan.

        Raises:
            InvalidInputError: A strategy, transformer or option of the request is invalid.
        """
        is_single = single_knowledge_base is not None
        settings = single_knowledge_base.retrieval if single_knowledge_base is not None else Retrieval()
        # Without a strategy in the request, the options belong to the strategy of each knowledge base.
        common_request = request if is_single or request.strategy is not None else replace(request, strategy_options={})
        strategy, options = resolve_strategy(common_request, settings, search_run)
        fan_out_steps = resolve_strategy_steps(strategy.name, strategy.transformers(options), search_run)
        requested = _resolve_requested_transformers(request, search_run)
        named = requested
        # The federated search applies the transformers of an HTTP source.
        if requested is None and single_knowledge_base is not None and single_knowledge_base.row.source is None:
            named = _resolve_stored_transformers(settings, search_run)
        uses_conversation = is_conversation_used(request, settings)
        steps = _add_reformulation(named or [], request, uses_conversation=uses_conversation, can_rewrite=can_rewrite)
        common_steps, source_steps = (steps, []) if is_single else _split_steps(steps)
        prompts = (
            {} if single_knowledge_base is None else settings.get_active_prompts(owner=single_knowledge_base.row.name)
        )
        return cls(
            strategy=strategy,
            options=options,
            transformer_steps=merge_steps(common_steps, fan_out_steps),
            uses_default_transformers=not named and not fan_out_steps,
            has_source_settings=is_single,
            has_requested_transformers=requested is not None,
            source_steps=source_steps,
            top_k=settings.top_k if request.top_k is None else request.top_k,
            uses_conversation=uses_conversation,
            prompts={**prompts, **request.prompts},
            combine=request.combine or settings.combine,
        )

    def select_queries(self, request: SearchRequest, queries: Sequence[Query]) -> list[Query]:
        """Return the queries of ``resolve_queries``; without the conversation, the last question alone."""
        return list(queries if self.uses_conversation or request.queries else queries[:1])

    def create_query_transformer(
        self, chat: ChatModel | None, search_run: SearchRun, get_corpus_context: Callable[[], Awaitable[CorpusContext]]
    ) -> QueryTransformer:
        """Create the query transformer that runs the steps of the plan.

        Args:
            chat: Chat model; None if none is configured.
            search_run: Deadline, timings and notices of the search.
            get_corpus_context: Function that waits for the route and returns the context of the searched knowledge
                bases.

        Returns:
            The query transformer with the prompt for rewriting.
        """
        prompt = self.prompts.get("rewrite")
        return QueryTransformer(
            chat,
            search_run,
            get_corpus_context,
            None if prompt is None else prompt.text,
            uses_default_transformers=self.uses_default_transformers,
        )

    def collect_used_prompts(self) -> dict[PromptName, ActivePrompt]:
        """Return the prompts that the transformers of the plan use."""
        takes_prompt = any(step.transformer.takes_prompt for step in self.transformer_steps)
        return {name: prompt for name, prompt in self.prompts.items() if takes_prompt and name == "rewrite"}


def resolve_strategy(
    request: SearchRequest, settings: Retrieval, search_run: SearchRun
) -> tuple[Strategy[Any], BaseModel]:
    """Return the strategy of the request or the knowledge base. Requested options override stored options.

    Args:
        request: The search request.
        settings: Stored settings of the knowledge base.
        search_run: Collector of the notices.

    Returns:
        The strategy with its options.

    Raises:
        InvalidInputError: The strategy or an option of the request is unknown or invalid.
    """
    provided = request.strategy_options
    if request.strategy is not None:
        strategy = find_strategy(request.strategy, loc=("body", "strategy"))
    else:
        strategy = resolve_stored_strategy(settings.strategy, search_run)
        provided = provided if strategy.name == settings.strategy else {}  # options of a missing strategy
    stored = (
        resolve_stored_options(strategy, settings.strategy_options, search_run)
        if strategy.name == settings.strategy
        else {}
    )
    return strategy, parse_strategy_options(strategy, {**stored, **provided}, loc=("body", "strategy_options"))


def _resolve_requested_transformers(request: SearchRequest, search_run: SearchRun) -> list[TransformerStep] | None:
    """Return the transformers of the request or its agent, in this order; None if both are missing."""
    if request.transformers is not None:
        return resolve_steps(request.transformers, loc=("body", "transformers"))
    if request.stored_transformers is not None:
        return resolve_stored_steps(request.stored_transformers, search_run, owner="agent")
    return None


def _resolve_stored_transformers(settings: Retrieval, search_run: SearchRun) -> list[TransformerStep] | None:
    return None if settings.transformers is None else resolve_stored_steps(settings.transformers, search_run)


def _add_reformulation(
    steps: Sequence[TransformerStep], request: SearchRequest, *, uses_conversation: bool, can_rewrite: bool
) -> list[TransformerStep]:
    """Put the reformulation before the steps of a conversation, or remove it if the conversation is not used.

    Transformers of the request are complete, except if the request itself turns the conversation on.
    """
    others = [step for step in steps if step.transformer.name != REFORMULATE]
    if not uses_conversation:
        return others
    is_complete = request.transformers is not None and request.conversation is None
    if request.queries or is_complete or not can_rewrite or len(others) < len(steps):
        return list(steps)
    return [*create_default_steps(), *steps]


def _split_steps(steps: Sequence[TransformerStep]) -> tuple[list[TransformerStep], list[TransformerStep]]:
    """Split steps before the first one that depends on a single knowledge base."""
    varying = [number for number, step in enumerate(steps) if step.transformer.varies_by_source]
    split = varying[0] if varying else len(steps)
    return list(steps[:split]), list(steps[split:])
