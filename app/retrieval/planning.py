"""What a search does, decided before it begins: by the request, the agent's settings, and the knowledge bases'."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self
from uuid import UUID

from pydantic import BaseModel

from app.db.models.base import SYSTEM_TENANT
from app.documents.scopes import SHARED
from app.filters import compile_filter
from app.inference.chat import ChatModel
from app.inference.embedding.registry import Embedders
from app.knowledge_bases.types import KnowledgeBaseView, Retrieval
from app.prompts.types import PromptInUse, PromptName
from app.retrieval.course import Course
from app.retrieval.glancing import Glance
from app.retrieval.rewriting import clip, conversation_queries
from app.retrieval.routes import RoutedKnowledgeBase
from app.retrieval.strategies import find_strategy, kept_options, kept_strategy, strategy_options
from app.retrieval.strategies.context import Strategy, Target
from app.retrieval.transformers import Step, default_steps, find_steps, joined, kept_steps, strategy_steps
from app.retrieval.transforming import Rewriting
from app.retrieval.types import ExplainedIndex, Explanation, LanePlan, Query, SearchRequest

DEFAULT_TOP_K = 5
# How documents that belong to a conversation and change with it are known to the lanes.
NOT_DYNAMIC = {"$dynamic": {"exists": False}}


def asked_queries(request: SearchRequest) -> list[Query]:
    """As given, else what the conversation asks; over-long ones clipped."""
    given = [Query(query) if isinstance(query, str) else query for query in request.queries]
    clipped = [query if query.text is None else replace(query, text=clip(query.text)) for query in given]
    return clipped or [Query(text) for text in conversation_queries(request.messages)]


@dataclass(frozen=True, slots=True)
class Plan:
    """A search in these knowledge bases; ``hurried`` where nobody has asked for its transformers (``steps``)."""

    targets: Sequence[Target]
    strategy: Strategy[Any]
    options: BaseModel
    steps: Sequence[Step]
    hurried: bool
    top_k: int
    rewrite_prompt: PromptInUse | None
    answer_prompt: PromptInUse | None

    @classmethod
    def of(
        cls,
        request: SearchRequest,
        views: Sequence[KnowledgeBaseView],
        scopes: Sequence[UUID],
        embedders: Embedders,
        course: Course,
        *,
        rewrites: bool,
    ) -> Self:
        """``rewrites`` where there is a chat model for the default transformer. Raises InvalidInput."""
        strategy, options = _strategy(request, views, course)
        own = strategy_steps(strategy.name, strategy.transformers(options), course)
        wished = _wished(request, views, course)
        default = default_steps() if rewrites and not request.queries else []
        return cls(
            targets=_targets(views, scopes, request, embedders),
            strategy=strategy,
            options=options,
            steps=joined(default if wished is None else wished, own),
            hurried=wished is None and not own,
            top_k=_top_k(request, views),
            rewrite_prompt=_prompt("rewrite", request, views),
            answer_prompt=_prompt("answer", request, views),
        )

    @property
    def languages(self) -> list[str]:
        """Those of what is searched, each once."""
        return list(dict.fromkeys(language for target in self.targets for language in target.kb.languages))

    def rewriting(self, chat: ChatModel | None, course: Course, *, look: Glance) -> Rewriting:
        """What runs the steps."""
        prompt = self.rewrite_prompt.text if self.rewrite_prompt is not None else None
        return Rewriting(chat, course, self.languages, prompt, hurried=self.hurried, look=look)

    def explained(
        self,
        plans: Mapping[bytes, LanePlan],
        outside: Sequence[ExplainedIndex],
        routes: Sequence[RoutedKnowledgeBase],
    ) -> Explanation:
        """What was searched for in each knowledge base and how, beside what HTTP sources were asked for."""
        indexes = [
            ExplainedIndex(
                knowledge_base=target.kb.row.name,
                shared=target.kb.row.tenant_id == SYSTEM_TENANT,
                filter=target.filter,
                plan=plans.get(target.kb.index.id.bytes),
            )
            for target in self.targets
        ]
        told = any(step.transformer.takes_prompt for step in self.steps)
        prompts: dict[PromptName, PromptInUse] = {}
        if self.rewrite_prompt is not None and told:
            prompts["rewrite"] = self.rewrite_prompt
        names = [step.transformer.name for step in self.steps]
        return Explanation(self.options.model_dump(), [*indexes, *outside], names, prompts, routes)


def _strategy(
    request: SearchRequest, views: Sequence[KnowledgeBaseView], course: Course
) -> tuple[Strategy[Any], BaseModel]:
    """The named one, else the knowledge base's where there is only one; so its options, the caller's above them."""
    own, given = views[0].retrieval if len(views) == 1 else Retrieval(), request.strategy_options
    if request.strategy is not None:
        strategy = find_strategy(request.strategy, loc=("body", "strategy"))
    else:
        strategy = kept_strategy(own.strategy, course)
        given = given if strategy.name == own.strategy else {}  # they are for the one that is gone
    kept = kept_options(strategy, own.strategy_options, course) if strategy.name == own.strategy else {}
    return strategy, strategy_options(strategy, {**kept, **given}, loc=("body", "strategy_options"))


def _wished(request: SearchRequest, views: Sequence[KnowledgeBaseView], course: Course) -> list[Step] | None:
    """The transformers that are named, else the agent's, else the knowledge base's where there is only one.

    None where nobody says.
    """
    if request.transformers is not None:
        return find_steps(request.transformers, loc=("body", "transformers"))
    if request.kept_transformers is not None:
        return kept_steps(request.kept_transformers, course, owner="agent")
    alone = len(views) == 1 and views[0].row.source is None  # an HTTP source's are its own affair
    own = views[0].retrieval.transformers if alone else None
    return None if own is None else kept_steps(own, course)


def _prompt(name: PromptName, request: SearchRequest, views: Sequence[KnowledgeBaseView]) -> PromptInUse | None:
    """The agent's, else the knowledge base's where there is only one."""
    own = views[0].retrieval.prompt(name, owner=views[0].row.name) if len(views) == 1 else None
    return request.prompts.get(name, own)


def _top_k(request: SearchRequest, views: Sequence[KnowledgeBaseView]) -> int:
    if request.top_k is not None:
        return request.top_k
    return views[0].retrieval.top_k if len(views) == 1 else DEFAULT_TOP_K


def _targets(
    views: Sequence[KnowledgeBaseView], scopes: Sequence[UUID], request: SearchRequest, embedders: Embedders
) -> list[Target]:
    """The knowledge bases, and the shared one of each one's name; nothing but what is shared is seen there."""
    own = [_target(view, scopes, request, embedders) for view in views if view.row.source is None]
    twins = [(view.twin, view.scale) for view in views if view.twin is not None and view.twin.row.source is None]
    shared = [replace(_target(twin, SHARED.visible(), request, embedders), scale=scale) for twin, scale in twins]
    return own + shared


def _target(view: KnowledgeBaseView, scopes: Sequence[UUID], request: SearchRequest, embedders: Embedders) -> Target:
    """The caller's filter and the knowledge base's own, both."""
    own = [one for one in (view.row.guard, NOT_DYNAMIC if request.exclude_dynamic else None) if one]
    guard = {"and": own} if own else None
    compiled = compile_filter(request.filter, guard=guard)
    parts = [*([request.filter] if request.filter else []), *own]
    understood = {"and": parts} if len(parts) > 1 else next(iter(parts), None)
    embedder = embedders.of(view.index.identity)
    return Target(view, embedder, scopes, understood, compiled.contains, compiled.path, view.scale)
