"""Construction of the explanation of a search from its plans, queries and routing decisions."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from app.prompts.types import ActivePrompt, PromptName
from app.retrieval.explain import ExplainedIndex, Explanation, RetrieverPlan
from app.retrieval.plan import SearchPlan
from app.retrieval.routing.router import Route
from app.retrieval.source_rewriting import PlannedQueries
from app.retrieval.strategies.hybrid import HybridOptions, find_common_weight
from app.retrieval.strategies.strategy import SearchTarget
from app.retrieval.types import SearchRequest


def build_explanation(
    request: SearchRequest,
    plan: SearchPlan,
    planned: Sequence[PlannedQueries],
    route: Route,
    retriever_plans: Mapping[bytes, RetrieverPlan],
    source_explanations: Sequence[ExplainedIndex],
) -> Explanation:
    """Build the explanation of a search.

    Args:
        request: The search request.
        plan: Common plan of the search.
        planned: Queries of each knowledge base, with its plan.
        route: Searched knowledge bases and the decisions of routing.
        retriever_plans: Plans of the retrievers by search index.
        source_explanations: Explanations of the HTTP sources.

    Returns:
        The explanation. The strategy options are those of all knowledge bases if they are equal, otherwise those of
        the common plan.
    """
    targets = {id(target): item for item in planned for target in item.plan.targets}
    indexes = [
        _explain_target(target, targets[id(target)], plan, retriever_plans)
        for target in route.targets
        if id(target) in targets
    ]
    options = {item.plan.options.model_dump_json(): item.plan.options for item in planned}
    common_options = next(iter(options.values())) if len(options) == 1 else plan.options
    return Explanation(
        _explain_options(common_options, route.targets),
        [*indexes, *source_explanations],
        [step.transformer.name for step in plan.transformer_steps],
        {**plan.collect_used_prompts(), **_find_answer_prompt(request, plan)},
        route.decisions,
    )


def _find_answer_prompt(request: SearchRequest, plan: SearchPlan) -> dict[PromptName, ActivePrompt]:
    """Return the prompt of the answer that is written from the result, by its name; empty without one."""
    return {name: prompt for name, prompt in plan.prompts.items() if name == "answer" and request.needs_analysis}


def _explain_target(
    target: SearchTarget, item: PlannedQueries, plan: SearchPlan, retriever_plans: Mapping[bytes, RetrieverPlan]
) -> ExplainedIndex:
    own_steps = item.plan.steps if item.is_rewritten else ()
    rewrite_prompt = item.plan.rewrite_prompt if item.is_rewritten else None
    own_prompts: dict[PromptName, ActivePrompt] = {} if rewrite_prompt is None else {"rewrite": rewrite_prompt}
    return ExplainedIndex(
        knowledge_base=target.kb.row.name,
        is_shared=target.kb.is_shared,
        filter=target.effective_filter,
        plan=retriever_plans.get(target.kb.index.id.bytes),
        dense_weight=_get_dense_weight(item.plan.options, target),
        score_threshold=target.score_threshold,
        strategy=item.plan.strategy.name,
        strategy_options=_explain_options(item.plan.options, [target]),
        queries=[query.text for query in item.queries if query.text is not None],
        transformers=[step.transformer.name for step in (*plan.transformer_steps, *own_steps)],
        prompts={**plan.collect_used_prompts(), **own_prompts},
        uses_conversation=item.plan.uses_conversation,
        combine=item.plan.combine,
    )


def _get_dense_weight(options: BaseModel, target: SearchTarget) -> float | None:
    """Return the weight of the dense retriever in a knowledge base; None if the strategy has no fusion."""
    if not isinstance(options, HybridOptions):
        return None
    return find_common_weight(options.dense_weight, [target.search_defaults.dense_weight])


def _explain_options(options: BaseModel, targets: Sequence[SearchTarget]) -> dict[str, Any]:
    """Return the options of the strategy, with the default dense weight if all knowledge bases have the same."""
    shown = options.model_dump()
    if isinstance(options, HybridOptions) and targets:
        defaults = [target.search_defaults.dense_weight for target in targets]
        shown["dense_weight"] = find_common_weight(options.dense_weight, defaults)
    return shown
