"""What a search does, decided before it begins: by the request, the agent's settings, and the knowledge bases'."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic import BaseModel

from app.inference.chat import ChatModel
from app.knowledge_bases.types import KnowledgeBaseView, Retrieval
from app.prompts.types import PromptInUse, PromptName
from app.retrieval.course import NO_QUESTION, Course
from app.retrieval.explanation import ExplainedIndex, Explanation, LanePlan
from app.retrieval.rewriting import MAX_QUERY_CHARACTERS, clip, conversation_queries
from app.retrieval.router import Route
from app.retrieval.strategies import find_strategy, kept_options, kept_strategy, strategy_options
from app.retrieval.strategies.context import Strategy
from app.retrieval.transformers import Step, default_steps, find_steps, joined, kept_steps, strategy_steps
from app.retrieval.transforming import Ground, Rewriting
from app.retrieval.types import Query, SearchRequest

CLIPPED = f"Of a query only the last {MAX_QUERY_CHARACTERS:,} characters are searched for."


def asked_queries(request: SearchRequest, course: Course) -> list[Query]:
    """As given, else what the conversation asks; over-long ones clipped, which is told of those that were given."""
    given = [Query(query) if isinstance(query, str) else query for query in request.queries]
    if any(query.text is not None and len(query.text) > MAX_QUERY_CHARACTERS for query in given):
        course.remark(CLIPPED)
    clipped = [query if query.text is None else replace(query, text=clip(query.text)) for query in given]
    asked = clipped or [Query(text) for text in conversation_queries(request.messages)]
    if not asked:
        course.remark(NO_QUESTION)
    return asked


@dataclass(frozen=True, slots=True)
class Plan:
    """How a search is done; ``hurried`` where nobody has asked for its transformers (``steps``)."""

    strategy: Strategy[Any]
    options: BaseModel
    steps: Sequence[Step]
    hurried: bool
    top_k: int
    prompts: Mapping[PromptName, PromptInUse]

    @classmethod
    def of(
        cls,
        request: SearchRequest,
        alone: KnowledgeBaseView | None,
        course: Course,
        *,
        rewrites: bool,
    ) -> Self:
        """``alone`` is the knowledge base that is searched where there is only one: its own settings hold then.

        ``rewrites`` where there is a chat model for the default transformer. Raises InvalidInput.
        """
        own = alone.retrieval if alone is not None else Retrieval()
        strategy, options = _strategy(request, own, course)
        fanning = strategy_steps(strategy.name, strategy.transformers(options), course)
        # An HTTP source's are its own affair.
        kept = None if alone is None or alone.row.source is not None else own.transformers
        wished = _wished(request, kept, course)
        steps = default_steps() if wished is None and rewrites and not request.queries else wished or []
        prompts = {} if alone is None else own.prompts(owner=alone.row.name)
        return cls(
            strategy=strategy,
            options=options,
            steps=joined(steps, fanning),
            hurried=wished is None and not fanning,
            top_k=own.top_k if request.top_k is None else request.top_k,
            prompts={**prompts, **request.prompts},
        )

    def rewriting(self, chat: ChatModel | None, course: Course, ground: Callable[[], Awaitable[Ground]]) -> Rewriting:
        """What runs the steps."""
        prompt = self.prompts.get("rewrite")
        return Rewriting(chat, course, ground, None if prompt is None else prompt.text, hurried=self.hurried)

    def explained(
        self, route: Route, plans: Mapping[bytes, LanePlan], outside: Sequence[ExplainedIndex]
    ) -> Explanation:
        """What was searched for in each knowledge base and how, beside what HTTP sources were asked for."""
        indexes = [
            ExplainedIndex(
                knowledge_base=target.kb.row.name,
                shared=target.kb.is_shared,
                filter=target.understood,
                plan=plans.get(target.kb.index.id.bytes),
            )
            for target in route.targets
        ]
        told = any(step.transformer.takes_prompt for step in self.steps)
        taken = ("rewrite",) if told else ()
        prompts = {name: one for name, one in self.prompts.items() if name in taken}
        names = [step.transformer.name for step in self.steps]
        return Explanation(self.options.model_dump(), [*indexes, *outside], names, prompts, route.routed)


def _strategy(request: SearchRequest, own: Retrieval, course: Course) -> tuple[Strategy[Any], BaseModel]:
    """The named one, else the knowledge base's where there is only one; so its options, the caller's above them."""
    given = request.strategy_options
    if request.strategy is not None:
        strategy = find_strategy(request.strategy, loc=("body", "strategy"))
    else:
        strategy = kept_strategy(own.strategy, course)
        given = given if strategy.name == own.strategy else {}  # they are for the one that is gone
    kept = kept_options(strategy, own.strategy_options, course) if strategy.name == own.strategy else {}
    return strategy, strategy_options(strategy, {**kept, **given}, loc=("body", "strategy_options"))


def _wished(request: SearchRequest, kept: Sequence[Mapping[str, Any]] | None, course: Course) -> list[Step] | None:
    """The transformers that are named, else the agent's, else those that are kept with the one knowledge base.

    None where nobody says.
    """
    if request.transformers is not None:
        return find_steps(request.transformers, loc=("body", "transformers"))
    if request.kept_transformers is not None:
        return kept_steps(request.kept_transformers, course, owner="agent")
    return None if kept is None else kept_steps(kept, course)
