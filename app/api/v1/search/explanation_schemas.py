"""Schemas of the explanation of a search."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from app.api.http import example_values
from app.prompts.types import PromptName


class QueryPlanOut(BaseModel):
    """Plan of the retrievers for one knowledge base."""

    chunks: int = Field(description="Number of chunks of the knowledge base.", examples=[12840])
    share: float = Field(
        description="Share of the chunks that scope and filter admit, from 0 to 1, estimated from a sample.",
        examples=[0.35],
    )
    dense: str = Field(
        description="`index`: the vector index was used, with an exact scan if it returned too few chunks. `exact`: "
        "all admitted vectors were compared.",
        examples=["exact"],
    )
    lexical: str = Field(
        description="`all`: every admitted chunk was scored. `pruned`: only chunks that can be among the best.",
        examples=["pruned"],
    )


class UsedPromptOut(BaseModel):
    """Version of a prompt that took part in a search."""

    owner: str = Field(
        description="Name of the knowledge base, or id of the agent, that the prompt belongs to.",
        examples=[example_values.KNOWLEDGE_BASE_NAME],
    )
    version: int = Field(description="Number of the version, from 1.", examples=[2])


class ExplainedIndexOut(BaseModel):
    """Knowledge base that was searched, with the filter as the service understood it."""

    knowledge_base: str = Field(
        description="Name of the knowledge base.", examples=[example_values.KNOWLEDGE_BASE_NAME]
    )
    shared: bool = Field(
        description="Whether this is the shared knowledge base of that name, which the operator fills for all tenants.",
        examples=[False],
    )
    filter: dict[str, Any] | None = Field(
        description="Filter of the request and enforced metadata of the knowledge base together; null without any.",
        examples=[{"year": {"gte": 2024}}],
    )
    plan: QueryPlanOut | None = Field(description="Plan of the retrievers; null if no retriever ran, or if one failed.")
    source_queries: list[str] | None = Field(
        None,
        description="Queries that an HTTP source received. Only present for a knowledge base of kind `http`.",
        examples=[["parental leave days"]],
        exclude_if=lambda queries: queries is None,
    )
    dense_weight: float | None = Field(
        None,
        description="Weight of the dense retriever in the fusion; the lexical one has the rest. Only present if the "
        "strategy fuses them.",
        examples=[0.6],
        exclude_if=lambda weight: weight is None,
    )
    score_threshold: float | None = Field(
        None,
        description="Minimum cosine similarity of a result, after `auto` was resolved. Only present if a threshold "
        "applies.",
        examples=[0.3],
        exclude_if=lambda threshold: threshold is None,
    )
    strategy: str | None = Field(
        description="Strategy of the search in this knowledge base; null for a knowledge base of kind `http`.",
        examples=["hybrid"],
    )
    strategy_options: dict[str, Any] = Field(
        description="Options of that strategy with all defaults; empty for a knowledge base of kind `http`.",
        examples=[{"fusion": "weighted", "dense_weight": 0.6}],
    )
    queries: list[str] = Field(
        description="Texts that this knowledge base was searched with, after all transformers.",
        examples=[["How many days of parental leave are there?"]],
    )
    transformers: list[str] = Field(
        description="Transformers that made these queries, in their order: the common ones, then those of the "
        "knowledge base.",
        examples=[["reformulate", "translate"]],
    )
    prompts: dict[PromptName, UsedPromptOut] = Field(
        description="Prompts of admins that these transformers used, by name.",
        examples=[{"rewrite": {"owner": example_values.KNOWLEDGE_BASE_NAME, "version": 2}}],
    )
    conversation: bool = Field(
        description="Whether messages before the last question count in this knowledge base: the switch "
        "`conversation`.",
        examples=[True],
    )
    combine: Literal["best", "sum"] | None = Field(
        None,
        description="How results that several queries found count in this knowledge base. Only present if the "
        "request, the agent or the knowledge base sets it.",
        examples=["sum"],
        exclude_if=lambda combine: combine is None,
    )


class RoutingDecisionOut(BaseModel):
    """Knowledge base that routing considered, and whether it was searched."""

    knowledge_base: str = Field(
        description="Name of the knowledge base.", examples=[example_values.KNOWLEDGE_BASE_NAME]
    )
    chosen: bool = Field(description="Whether the search ran in this knowledge base.", examples=[True])
    reason: str = Field(
        description="`best` or `less_similar`: the score decided. The other reasons do not depend on the score. "
        "`always`: the routing settings say so. `own_documents`: it has documents of the user or the chat. "
        "`no_profile`: its contents are not profiled yet. `not_compared`: too few knowledge bases have its embedding "
        "model, or the model does not answer. `named`: the search or the agent names it, and nothing had to be "
        "chosen. `all_searched`: all knowledge bases of the key were searched.",
        examples=["best"],
    )
    score: float | None = Field(
        description="Similarity of the knowledge base to the query, multiplied by `scale`; null if it was not "
        "compared.",
        examples=[0.52],
    )
    centroids: float | None = Field(
        description="Highest cosine of the query with the centroids of the chunks; null if it was not compared.",
        examples=[0.55],
    )
    texts: float | None = Field(
        description="Highest cosine of the query with descriptions and examples of the routing settings; null if it "
        "was not compared.",
        examples=[0.44],
    )
    scale: float = Field(description="Factor of the routing settings, by which scores are multiplied.", examples=[1.0])


class ReformulationOut(BaseModel):
    """Query that was made from a conversation."""

    query: str = Field(
        description="Last question of the conversation, complete by itself.",
        examples=["Can parental leave be divided between parents of twins?"],
    )
    analysis: str = Field(
        description="Analysis of the conversation by the chat model, in words; empty without one.",
        examples=["The user asks whether the answer about parental leave also holds for twins."],
    )
    indices_of_related_messages: list[int] = Field(
        description="Indices of the messages that matter to the query, from 0.", examples=[[0, 2]]
    )


class AutoThresholdOut(BaseModel):
    """Calibrated threshold of a knowledge base: the value of `score_threshold` `auto`."""

    knowledge_base: str = Field(
        description="Name of the knowledge base.", examples=[example_values.KNOWLEDGE_BASE_NAME]
    )
    shared: bool = Field(description="Whether this is the shared knowledge base of that name.", examples=[False])
    score_threshold: float | None = Field(
        description="Minimum cosine similarity of a result; null if the embedding model has no calibrated threshold.",
        examples=[0.3],
    )


class ExplanationOut(BaseModel):
    """Explanation of a search: settings, plans and choices that led to the results."""

    strategy_options: dict[str, Any] = Field(
        description="Options of the strategy with all defaults. `dense_weight` is null if the default weights of the "
        "knowledge bases differ. If the strategies differ, `knowledge_bases` has the options of each.",
        examples=[{"fusion": "weighted", "dense_weight": 0.6}],
    )
    knowledge_bases: list[ExplainedIndexOut] = Field(description="Knowledge bases that were searched.")
    transformers: list[str] = Field(
        description="Transformers that ran for all knowledge bases, in their order.", examples=[["reformulate"]]
    )
    prompts: dict[PromptName, UsedPromptOut] = Field(
        description="Prompts of admins that took part, by name: `rewrite` for these transformers, `answer` for an "
        "answer.",
        examples=[{"rewrite": {"owner": example_values.KNOWLEDGE_BASE_NAME, "version": 2}}],
    )
    routing: list[RoutingDecisionOut] | None = Field(
        None,
        description="Decisions of routing: the chosen knowledge bases first, best first. Only present if the search "
        "was routed.",
        exclude_if=lambda routing: routing is None,
    )
    reformulation: ReformulationOut | None = Field(
        None,
        description="Reformulated conversation. Only present if a transformer has read the messages.",
        exclude_if=lambda reformulation: reformulation is None,
    )
