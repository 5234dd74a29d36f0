"""Explanation of a search, for callers who request it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from app.prompts.types import ActivePrompt, PromptName
from app.retrieval.routes import RoutingDecision

DegradableStep = Literal[
    "rewrite", "extra_queries", "rerank", "dense", "lexical", "vectors", "http_source", "strategy", "graph", "include"
]
"""Step that a search can be answered without."""


class RetrieverPlan(NamedTuple):
    """Plan of the retrievers in one search index.

    Attributes:
        chunks: Number of chunks of the index.
        share: Estimated share of the chunks that pass scopes and filter, from a sample.
        dense: ``index`` (vector index, with an exact scan if it finds too few rows) or ``exact``.
        lexical: ``all`` (every passing row is scored) or ``pruned`` (only rows that can be among the best).
    """

    chunks: int
    share: float
    dense: str
    lexical: str


class AutoThreshold(NamedTuple):
    """Calibrated threshold of a knowledge base, for a request with the score threshold ``auto``.

    Attributes:
        knowledge_base: Name of the knowledge base.
        is_shared: Whether the knowledge base belongs to the system tenant.
        score_threshold: Minimum similarity of a hit; None if the model has no calibrated threshold.
    """

    knowledge_base: str
    is_shared: bool
    score_threshold: float | None


@dataclass(frozen=True, slots=True)
class Reformulation:
    """Query that a conversation was reformulated to.

    Attributes:
        query: Standalone query, which needs no earlier message.
        analysis: Analysis of the conversation in words; empty if it was not requested.
        related: Indexes of the messages that matter to the query.
    """

    query: str
    analysis: str = ""
    related: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class ExplainedIndex:
    """Explanation of the search of one knowledge base.

    Attributes:
        knowledge_base: Name of the knowledge base.
        is_shared: Whether the knowledge base belongs to the system tenant.
        filter: Metadata filter with the enforced metadata.
        plan: Plan of the retrievers; None if a retriever failed, or for an HTTP source.
        source_queries: Queries that were sent to the HTTP source; None if the knowledge base is not of kind http.
        dense_weight: Weight of the dense retriever; None if the strategy has no fusion, or for an HTTP source.
        score_threshold: Minimum similarity of a hit; None for no limit.
        strategy: Name of the strategy; None for an HTTP source.
        strategy_options: Options of the strategy, with defaults.
        queries: Texts that were searched in the knowledge base.
        transformers: Names of the transformers that made the queries, in their order.
        prompts: Prompts that an administrator wrote and these transformers used.
        uses_conversation: Whether the messages before the last question were used.
        combine: How the scores for several queries count; None for the default of the strategy.
    """

    knowledge_base: str
    is_shared: bool
    filter: Mapping[str, Any] | None
    plan: RetrieverPlan | None
    source_queries: Sequence[str] | None = None
    dense_weight: float | None = None
    score_threshold: float | None = None
    strategy: str | None = None
    strategy_options: Mapping[str, Any] = field(default_factory=dict)
    queries: Sequence[str] = ()
    transformers: Sequence[str] = ()
    prompts: Mapping[PromptName, ActivePrompt] = field(default_factory=dict)
    uses_conversation: bool = True
    combine: Literal["best", "sum"] | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation of one search.

    Attributes:
        options: Options of the strategy, with defaults.
        indexes: Searched knowledge bases.
        transformers: Names of the transformers for all knowledge bases, in their order.
        prompts: Prompts that an administrator wrote and these transformers used.
        routing_decisions: Knowledge bases that routing considered, chosen knowledge bases first.
    """

    options: Mapping[str, Any]
    indexes: Sequence[ExplainedIndex]
    transformers: Sequence[str] = ()
    prompts: Mapping[PromptName, ActivePrompt] = field(default_factory=dict)
    routing_decisions: Sequence[RoutingDecision] = ()
