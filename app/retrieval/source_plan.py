"""Plan of each knowledge base of a search: its strategy, its transformers and its prompts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel

from app.errors import InvalidInputError
from app.knowledge_bases.types import KnowledgeBaseView
from app.prompts.types import ActivePrompt, PromptName
from app.retrieval.conversation import REFORMULATE, is_conversation_used
from app.retrieval.plan import SearchPlan, resolve_strategy
from app.retrieval.routing.router import Route
from app.retrieval.search_run import SearchRun
from app.retrieval.strategies import parse_strategy_options
from app.retrieval.strategies.strategy import SearchTarget, Strategy
from app.retrieval.transformers import TransformerStep, merge_steps, resolve_stored_steps, resolve_strategy_steps
from app.retrieval.types import Combination, SearchRequest
from app.warnings import ServiceWarning, WarningCode


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """Plan of one knowledge base, or of all knowledge bases of a search with common settings.

    Attributes:
        name: Name of the knowledge base, for messages.
        targets: The knowledge base, and the shared knowledge base of its name.
        strategy: Strategy of the search in the knowledge base.
        options: Options of the strategy.
        steps: Transformers that run on the common queries for this knowledge base.
        prompts: Active prompts by name: a prompt of the request overrides the prompt of the knowledge base.
        uses_conversation: Whether the common queries apply. If not, the last question is searched.
        combine: How the scores of a chunk for several queries count; None for the default of the strategy.
    """

    name: str
    targets: Sequence[SearchTarget]
    strategy: Strategy[Any]
    options: BaseModel
    steps: Sequence[TransformerStep] = ()
    prompts: Mapping[PromptName, ActivePrompt] = field(default_factory=dict)
    uses_conversation: bool = True
    combine: Combination | None = None

    @property
    def languages(self) -> list[str]:
        """Distinct languages of the targets."""
        return list(dict.fromkeys(language for target in self.targets for language in target.kb.languages))

    @property
    def rewrite_prompt(self) -> ActivePrompt | None:
        """Prompt that a transformer of the plan uses; None if no transformer uses a prompt."""
        takes_prompt = any(step.transformer.takes_prompt for step in self.steps)
        return self.prompts.get("rewrite") if takes_prompt else None


def create_source_plans(
    route: Route, plan: SearchPlan, request: SearchRequest, search_run: SearchRun
) -> list[SourcePlan]:
    """Create the plan of each searched knowledge base with stored documents.

    The settings of a knowledge base apply in it alone. The request, and the agent of the request, override them.

    Args:
        route: Searched knowledge bases.
        plan: Common plan of the search.
        request: The search request.
        search_run: Collector of the notices.

    Returns:
        One plan if the common plan has the settings of the only knowledge base. Otherwise a plan for each one, the most
        similar to the query first.

    Raises:
        InvalidInputError: The strategy options of the request do not fit the strategy of any knowledge base.
    """
    if plan.has_source_settings:
        prompts = plan.prompts
        common = SourcePlan(
            "", route.targets, plan.strategy, plan.options, (), prompts, plan.uses_conversation, plan.combine
        )
        return [common] if route.targets else []
    targets = {target.kb.row.id: target for target in route.targets}
    plans: list[SourcePlan] = []
    refusals: list[tuple[str, InvalidInputError]] = []
    for view in _sort_by_routing(route):
        counterpart = view.shared_counterpart
        ids = [view.row.id, *([] if counterpart is None else [counterpart.row.id])]
        view_targets = [targets[kb_id] for kb_id in ids if kb_id in targets]
        if not view_targets:
            continue
        try:
            plans.append(_create_source_plan(view, view_targets, plan, request, search_run))
        except InvalidInputError as exc:
            refusals.append((view.row.name, exc))
            ignoring = replace(request, strategy_options={})
            plans.append(_create_source_plan(view, view_targets, plan, ignoring, search_run))
    if not plans and request.strategy is None:
        parse_strategy_options(plan.strategy, request.strategy_options, loc=("body", "strategy_options"))
    if refusals and len(refusals) == len(plans):
        raise refusals[0][1]
    for name, _ in refusals:
        message = f"The strategy_options do not fit the strategy of {name!r}, which was searched without them."
        search_run.add_notice(ServiceWarning(WarningCode.STRATEGY_OPTIONS_IGNORED, message))
    return plans


def warn_unused_answer_prompts(request: SearchRequest, route: Route, plan: SearchPlan, search_run: SearchRun) -> None:
    """Add a notice if knowledge bases have answer prompts, and none applies because there are several of them.

    Args:
        request: The search request; a search without an answer needs no notice.
        route: Searched knowledge bases.
        plan: Common plan of the search.
        search_run: Collector of the notice.
    """
    owners = [view.row.name for view in route.views if view.retrieval.answer_prompt is not None]
    if request.needs_analysis and owners and "answer" not in plan.prompts:
        names = ", ".join(map(repr, owners))
        message = (
            f"The answer_prompt of {names} was not used, because several knowledge bases were searched. Answer in the "
            "name of an agent with an answer_prompt, or from one knowledge base."
        )
        search_run.add_notice(ServiceWarning(WarningCode.ANSWER_PROMPTS_NOT_USED, message))


def _sort_by_routing(route: Route) -> list[KnowledgeBaseView]:
    """Return the knowledge bases in the order of routing, which is best first, or else in their order."""
    ranks = {decision.kb_id: rank for rank, decision in enumerate(route.decisions)}
    return sorted(route.views, key=lambda view: ranks.get(view.row.id, len(ranks)))


def _create_source_plan(
    view: KnowledgeBaseView,
    targets: Sequence[SearchTarget],
    plan: SearchPlan,
    request: SearchRequest,
    search_run: SearchRun,
) -> SourcePlan:
    settings = view.retrieval
    strategy, options, fan_out_steps = plan.strategy, plan.options, list[TransformerStep]()
    if request.strategy is None:
        strategy, options = resolve_strategy(request, settings, search_run)
        fan_out_steps = resolve_strategy_steps(strategy.name, strategy.transformers(options), search_run)
    steps = list(plan.source_steps)
    if not plan.has_requested_transformers:
        steps += resolve_stored_steps(settings.transformers or (), search_run) or []
    common = {step.transformer.name for step in plan.transformer_steps}
    uses_conversation = is_conversation_used(request, settings)
    can_reformulate = uses_conversation and REFORMULATE not in common
    own = [step for step in steps if step.transformer.name != REFORMULATE or can_reformulate]
    prompts = {**settings.get_active_prompts(owner=view.row.name), **request.prompts}
    merged = merge_steps(own, fan_out_steps)
    combine = request.combine or settings.combine
    return SourcePlan(view.row.name, targets, strategy, options, merged, prompts, uses_conversation, combine)
