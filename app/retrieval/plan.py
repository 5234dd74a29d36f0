"""What a search does, decided before it begins: by the request, the agent's settings, and the knowledge bases'."""

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
from app.retrieval.strategies.strategy import Strategy
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
    WarningCode.QUERY_TRUNCATED, f"Of a query only the last {MAX_QUERY_CHARACTERS:,} characters are searched for."
)
QUESTION_MISSING = ServiceWarning(
    WarningCode.QUESTION_MISSING, "There is no question in messages: nothing was searched for."
)


def resolve_queries(request: SearchRequest, search_run: SearchRun) -> list[Query]:
    """As given, else what the conversation asks; over-long ones clipped, which is told of those that were given."""
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
    """How a search is done; ``uses_default_transformers`` where nobody has asked for its transformers (``steps``)."""

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
        """``single_knowledge_base`` is the knowledge base that is searched where there is only one: its own settings
        hold then.

        ``can_rewrite`` where there is a chat model for the default transformer. Raises InvalidInputError.
        """
        settings = single_knowledge_base.retrieval if single_knowledge_base is not None else Retrieval()
        strategy, options = _resolve_strategy(request, settings, search_run)
        fan_out_steps = resolve_strategy_steps(strategy.name, strategy.transformers(options), search_run)
        # An HTTP source's are its own affair.
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
        """What runs the steps."""
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
        """What was searched for in each knowledge base and how, beside what HTTP sources were asked for."""
        indexes = [
            ExplainedIndex(
                knowledge_base=target.kb.row.name,
                is_shared=target.kb.is_shared,
                filter=target.effective_filter,
                plan=plans.get(target.kb.index.id.bytes),
            )
            for target in route.targets
        ]
        has_prompted_step = any(step.transformer.takes_prompt for step in self.transformer_steps)
        used_prompts = ("rewrite",) if has_prompted_step else ()
        prompts = {name: prompt for name, prompt in self.prompts.items() if name in used_prompts}
        names = [step.transformer.name for step in self.transformer_steps]
        return Explanation(self.options.model_dump(), [*indexes, *source_explanations], names, prompts, route.decisions)


def _resolve_strategy(
    request: SearchRequest, settings: Retrieval, search_run: SearchRun
) -> tuple[Strategy[Any], BaseModel]:
    """The named one, else the knowledge base's where there is only one; so its options, the caller's above them."""
    provided = request.strategy_options
    if request.strategy is not None:
        strategy = find_strategy(request.strategy, loc=("body", "strategy"))
    else:
        strategy = resolve_stored_strategy(settings.strategy, search_run)
        provided = provided if strategy.name == settings.strategy else {}  # they are for the one that is gone
    stored = (
        resolve_stored_options(strategy, settings.strategy_options, search_run)
        if strategy.name == settings.strategy
        else {}
    )
    return strategy, parse_strategy_options(strategy, {**stored, **provided}, loc=("body", "strategy_options"))


def _resolve_transformers(
    request: SearchRequest, stored: Sequence[Mapping[str, Any]] | None, search_run: SearchRun
) -> list[TransformerStep] | None:
    """The transformers that are named, else the agent's, else those that are kept with the one knowledge base.

    None where nobody says.
    """
    if request.transformers is not None:
        return resolve_steps(request.transformers, loc=("body", "transformers"))
    if request.stored_transformers is not None:
        return resolve_stored_steps(request.stored_transformers, search_run, owner="agent")
    return None if stored is None else resolve_stored_steps(stored, search_run)
