"""How a search went, for those who ask it to explain itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.prompts.types import ActivePrompt, PromptName
from app.retrieval.routes import RoutingDecision


class RetrieverPlan(NamedTuple):
    """How the lanes of an index are searched.

    ``share`` of its ``chunks`` passes scope and filter, by a sample. ``dense`` is index (exact where that comes short)
    or exact; ``lexical`` is all (every row that passes is scored) or pruned (only those that can be among the best).
    """

    chunks: int
    share: float
    dense: str
    lexical: str


@dataclass(frozen=True, slots=True)
class ExplainedIndex:
    """What was searched for in one knowledge base and how: the filter as understood; no plan where a lane was down.

    ``is_shared`` where it is the operator's. ``source_queries`` is what an HTTP source was asked for, if there is one
    in its place.
    """

    knowledge_base: str
    is_shared: bool
    filter: Mapping[str, Any] | None
    plan: RetrieverPlan | None
    source_queries: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a search was taken to mean; ``transformers`` are those that were asked to change its queries.

    ``prompts`` are those of admins that took part in it; ``routing_decisions`` where it could have gone to, the chosen
    ones first.
    """

    options: Mapping[str, Any]
    indexes: Sequence[ExplainedIndex]
    transformers: Sequence[str] = ()
    prompts: Mapping[PromptName, ActivePrompt] = field(default_factory=dict)
    routing_decisions: Sequence[RoutingDecision] = ()
