"""Plan of a search, from the request, the settings of the agent and the settings of the knowledge base."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic import BaseModel

from app.inference.chat import ChatModel
from app.knowledge_bases.types import KnowledgeBaseView, Retrieval
from app.prompts.types import ActivePrompt, PromptName
from app.retrieval.conversation import MAX_QUERY_CHARACTERS, build_conversation_queries, truncate_query
from app.retrieval.explain import ExplainedIndex, Explanation, RetrieverPlan
from app.retrieval.query_transformation import CorpusContext, QueryTransformer
from app.retrieval.routing.router import Route
from app.retrieval.search_run import SearchRun
from app.retrieval.strategies import (
    find_strategy,
    parse_strategy_options,
    resolve_stored_options,
    resolve_stored_strategy,
)
from app.retrieval.strategies.hybrid import HybridOptions, find_common_weight
from app.retrieval.strategies.strategy import SearchTarget, Strategy
from app.retrieval.transformers import (
    TransformerStep,
    create_default_steps,
    merge_steps,
    resolve_steps,
    resolve_stored_steps,
    resolve_strategy_steps,
)
from app.retrieval.types import Query, SearchRequest
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
        top_k: Number of hits to return.
        prompts: Active prompts by name: a prompt of the request overrides the prompt of the knowledge base.
    """

    strategy: Strategy[Any]
    options: BaseModel
    transformer_steps: Sequence[TransformerStep]
    uses_default_transformers: bool
    top_k: int
    prompts: Mapping[PromptName, ActivePrompt]

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
        settings = single_knowledge_base.retrieval if single_knowledge_base is not None else Retrieval()
        strategy, options = _resolve_strategy(request, settings, search_run)
        fan_out_steps = resolve_strategy_steps(strategy.name, strategy.transformers(options), search_run)
        # The federated search applies the transformers of an HTTP source.
        stored = (
            None
            if single_knowledge_base is None or single_knowledge_base.row.source is not None
            else settings.transformers
        )
        requested = _resolve_transformers(request, stored, search_run)
        steps = create_default_steps() if requested is None and can_rewrite and not request.queries else requested or []
        prompts = (
            {} if single_knowledge_base is None else settings.get_active_prompts(owner=single_knowledge_base.row.name)
        )
        return cls(
            strategy=strategy,
            options=options,
            transformer_steps=merge_steps(steps, fan_out_steps),
            uses_default_transformers=requested is None and not fan_out_steps,
            top_k=settings.top_k if request.top_k is None else request.top_k,
            prompts={**prompts, **request.prompts},
        )

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

    def explain(
        self, route: Route, plans: Mapping[bytes, RetrieverPlan], source_explanations: Sequence[ExplainedIndex]
    ) -> Explanation:
        """Build the explanation of the search.

        Args:
            route: Searched knowledge bases and the decisions of routing.
            plans: Plans of the retrievers by search index.
            source_explanations: Explanations of the HTTP sources.

        Returns:
            The explanation.
        """
        indexes = [
            ExplainedIndex(
                knowledge_base=target.kb.row.name,
                is_shared=target.kb.is_shared,
                filter=target.effective_filter,
                plan=plans.get(target.kb.index.id.bytes),
                dense_weight=self._get_dense_weight(target),
                score_threshold=target.score_threshold,
            )
            for target in route.targets
        ]
        has_prompted_step = any(step.transformer.takes_prompt for step in self.transformer_steps)
        used_prompts = ("rewrite",) if has_prompted_step else ()
        prompts = {name: prompt for name, prompt in self.prompts.items() if name in used_prompts}
        names = [step.transformer.name for step in self.transformer_steps]
        options = self._explain_options(route.targets)
        return Explanation(options, [*indexes, *source_explanations], names, prompts, route.decisions)

    def _get_dense_weight(self, target: SearchTarget) -> float | None:
        """Return the weight of the dense retriever in a knowledge base; None if the strategy has no fusion."""
        if not isinstance(self.options, HybridOptions):
            return None
        return find_common_weight(self.options.dense_weight, [target.search_defaults.dense_weight])

    def _explain_options(self, targets: Sequence[SearchTarget]) -> dict[str, Any]:
        """Return the options of the strategy, with the default dense weight if all knowledge bases have the same."""
        options = self.options.model_dump()
        if isinstance(self.options, HybridOptions) and targets:
            defaults = [target.search_defaults.dense_weight for target in targets]
            options["dense_weight"] = find_common_weight(self.options.dense_weight, defaults)
        return options


def _resolve_strategy(
    request: SearchRequest, settings: Retrieval, search_run: SearchRun
) -> tuple[Strategy[Any], BaseModel]:
    """Return the strategy of the request or the knowledge base. Requested options override stored options."""
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


def _resolve_transformers(
    request: SearchRequest, stored: Sequence[Mapping[str, Any]] | None, search_run: SearchRun
) -> list[TransformerStep] | None:
    """Return the transformers of the request, the agent or ``stored``, in this order; None if all are missing."""
    if request.transformers is not None:
        return resolve_steps(request.transformers, loc=("body", "transformers"))
    if request.stored_transformers is not None:
        return resolve_stored_steps(request.stored_transformers, search_run, owner="agent")
    return None if stored is None else resolve_stored_steps(stored, search_run)
