"""What a search answers."""

from functools import partial
from typing import Any

from fastapi import Response
from pydantic import BaseModel, Field

from app.api.http.large_responses import create_hits_response
from app.api.http.warning_schema import WarningOut, to_warnings_out
from app.api.v1.documents.chunks import encode_node_path
from app.api.v1.documents.images import ImageOut, to_image_out
from app.api.v1.schemas import Time
from app.ids import encode_id
from app.prompts.types import PromptName
from app.retrieval.explain import Explanation
from app.retrieval.routes import RoutingDecision
from app.retrieval.types import DegradableStep, Hit, Reformulation, RetrieverName, SearchResult


class ResultDocumentOut(BaseModel):
    """The document of a result; one from an HTTP source has no id, and its address as ``source_uri``."""

    id: str | None
    source: str
    title: str | None
    source_uri: str | None
    source_created_at: Time | None
    metadata: dict[str, Any]


class ScoresOut(BaseModel):
    """Cosine and BM25 score of a chunk, null if that retriever did not return it, and the fused score."""

    dense: float | None
    lexical: float | None
    fused: float | None


class RetrieverRankOut(BaseModel):
    """Rank of a chunk in the results of one retriever for one query; ``rank`` counts from 1.

    ``query`` is the number of the query from 0. It counts vectors and images too, which ``queries`` leaves out.
    """

    query: int
    retriever: RetrieverName
    rank: int
    score: float


class SearchResultOut(BaseModel):
    """A passage; ``score`` orders, ``similarity`` is the cosine with the query (null: the query was not embedded).

    ``text`` is the range from ``start`` to ``end`` of the document's stored text: the passage itself, which is the one
    from ``chunk_start`` to ``chunk_end``, or what ``expand`` has made of it. ``ranks`` are there with ``explain``,
    ``vector`` with ``return_vectors``. ``flags`` say what in the passage speaks to a model and not to a reader:
    ``instructions``, ``chat_markup``, ``hidden_text``.

    A result of an HTTP source (a knowledge base of kind http) is not stored here: ``chunk_id`` and the document's id
    are null, its text is the only chunk, and ``similarity`` is not known.
    """

    score: float
    scores: ScoresOut
    similarity: float | None
    text: str
    start: int
    end: int
    chunk_start: int
    chunk_end: int
    chunk_id: str | None
    chunk_index: int
    total_chunks: int
    document: ResultDocumentOut
    knowledge_base: str
    page: int | None
    page_end: int | None
    slide: int | None
    section_titles: list[str]
    node_path: list[str]
    image: ImageOut | None
    metadata: dict[str, Any]
    flags: list[str]
    citation: str
    vector: list[float] | None = Field(None, exclude_if=lambda vector: vector is None)
    ranks: list[RetrieverRankOut] | None = Field(None, exclude_if=lambda ranks: ranks is None)


class QueryPlanOut(BaseModel):
    """How the retrievers searched a knowledge base.

    ``share`` of its ``chunks`` passes scope and filter, by a sample. ``dense`` is index (exact where that comes short)
    or exact; ``lexical`` is all (every chunk that passes is scored) or pruned (those that can be among the best).
    """

    chunks: int
    share: float
    dense: str
    lexical: str


class ExplainedIndexOut(BaseModel):
    """A knowledge base with the filter as understood, its own included; no plan if no retriever ran, or one failed.

    ``shared`` is the operator's of that name. ``source_queries`` are the queries to an HTTP source.
    """

    knowledge_base: str
    shared: bool
    filter: dict[str, Any] | None
    plan: QueryPlanOut | None
    source_queries: list[str] | None = Field(None, exclude_if=lambda queries: queries is None)


class RoutingDecisionOut(BaseModel):
    """A knowledge base that the search could have gone to, with what it scored, null where it was not compared.

    ``reason``: ``best`` or ``less_similar``; or searched whatever it would score: ``always``, ``own_documents`` (it
    holds documents of the user or the chat that the search names), ``no_profile`` (its content is not profiled yet),
    ``not_compared`` (too few of its embedding model to choose from, or the model does not answer). ``centroids`` and
    ``texts`` are the best cosines with its passages' centroids, and with its descriptions and examples.
    """

    knowledge_base: str
    chosen: bool
    reason: str
    score: float | None
    centroids: float | None
    texts: float | None
    scale: float


class ReformulationOut(BaseModel):
    """What the conversation asks last, and its messages that matter to that, counted from 0."""

    query: str
    analysis: str
    indices_of_related_messages: list[int]


class UsedPromptOut(BaseModel):
    """Which version of whose prompt: the knowledge base's name, or the agent's id."""

    owner: str
    version: int


class ExplanationOut(BaseModel):
    """What the search was taken to mean.

    ``transformers`` were asked to change its queries; ``reformulation`` is there where one has understood the
    conversation. ``prompts`` are those of admins that took part, by name: `rewrite`. ``routing`` is there where the
    knowledge bases were chosen: the chosen ones first, best first.
    """

    strategy_options: dict[str, Any]
    knowledge_bases: list[ExplainedIndexOut]
    transformers: list[str]
    prompts: dict[PromptName, UsedPromptOut]
    routing: list[RoutingDecisionOut] | None = Field(None, exclude_if=lambda routing: routing is None)
    reformulation: ReformulationOut | None = Field(None, exclude_if=lambda reformulation: reformulation is None)


class DegradedStepOut(BaseModel):
    """A step that the search left out, in whole or in part, and why: a stable word such as ``timeout``."""

    step: DegradableStep
    reason: str


class SearchOut(BaseModel):
    """Results best first, with the queries, the strategy and the steps that were left out."""

    results: list[SearchResultOut]
    queries: list[str]
    strategy: str
    degraded: list[DegradedStepOut]
    warnings: list[WarningOut]
    timings_ms: dict[str, float]
    explain: ExplanationOut | None = Field(None, exclude_if=lambda explain: explain is None)


def to_result_out(hit: Hit) -> SearchResultOut:
    """As callers see it."""
    chunk, document, excerpt = hit.chunk, hit.document, hit.text_span
    return SearchResultOut(
        score=round(hit.score, 6),
        similarity=_round_score(hit.similarity),
        scores=ScoresOut(
            dense=_round_score(hit.scores.dense),
            lexical=_round_score(hit.scores.lexical),
            fused=_round_score(hit.scores.fused),
        ),
        text=excerpt.text,
        start=excerpt.start,
        end=excerpt.end,
        chunk_start=chunk.start,
        chunk_end=chunk.end,
        chunk_id=None if hit.is_external else encode_id("chk", chunk.id),
        chunk_index=chunk.ordinal,
        total_chunks=document.chunk_count,
        document=ResultDocumentOut(
            id=None if hit.is_external else encode_id("doc", document.id),
            source=document.source,
            title=document.title,
            source_uri=document.source_uri,
            source_created_at=document.source_created_at,
            metadata=document.attributes,
        ),
        knowledge_base=hit.knowledge_base,
        page=chunk.page,
        page_end=chunk.page_end,
        slide=chunk.slide,
        section_titles=chunk.section_titles,
        node_path=[] if hit.is_external else encode_node_path(document.id, chunk.version, chunk.node_path),
        image=to_image_out(hit.knowledge_base, document.id, chunk.image_ordinal, chunk.media_type),
        metadata=chunk.attributes,
        flags=chunk.flags,
        citation=hit.citation,
        vector=None if hit.vector is None else list(hit.vector),
        ranks=[RetrieverRankOut(**rank._asdict()) for rank in hit.ranks] or None,
    )


def _round_score(score: float | None) -> float | None:
    return None if score is None else round(score, 6)


def _build_explanation_out(explanation: Explanation, reformulation: Reformulation | None) -> ExplanationOut:
    return ExplanationOut(
        strategy_options=dict(explanation.options),
        knowledge_bases=[
            ExplainedIndexOut(
                knowledge_base=item.knowledge_base,
                shared=item.is_shared,
                filter=None if item.filter is None else dict(item.filter),
                plan=None if item.plan is None else QueryPlanOut(**item.plan._asdict()),
                source_queries=None if item.source_queries is None else list(item.source_queries),
            )
            for item in explanation.indexes
        ],
        transformers=list(explanation.transformers),
        prompts={
            name: UsedPromptOut(owner=item.owner, version=item.version) for name, item in explanation.prompts.items()
        },
        routing=[_to_routing_decision_out(item) for item in explanation.routing_decisions] or None,
        reformulation=None if reformulation is None else to_reformulation_out(reformulation),
    )


def _to_routing_decision_out(routed: RoutingDecision) -> RoutingDecisionOut:
    return RoutingDecisionOut(
        knowledge_base=routed.name,
        chosen=routed.is_chosen,
        reason=routed.reason,
        score=_round_score(routed.score),
        centroids=_round_score(routed.centroids),
        texts=_round_score(routed.texts),
        scale=routed.weight,
    )


def to_reformulation_out(reformulation: Reformulation) -> ReformulationOut:
    """As callers see it."""
    return ReformulationOut(
        query=reformulation.query,
        analysis=reformulation.analysis,
        indices_of_related_messages=list(reformulation.related),
    )


def to_explanation_out(result: SearchResult) -> ExplanationOut | None:
    """What the search was taken to mean, where that was asked."""
    return None if result.explanation is None else _build_explanation_out(result.explanation, result.reformulation)


async def create_search_response(result: SearchResult, response: Response) -> SearchOut | Response:
    """As callers see it."""
    out = SearchOut(
        results=[],
        queries=list(result.queries),
        strategy=result.strategy,
        degraded=[DegradedStepOut(step=step, reason=reason) for step, reason in result.degraded_steps.items()],
        warnings=to_warnings_out(result.warnings),
        timings_ms=dict(result.timings_ms),
        explain=to_explanation_out(result),
    )
    results = ((hit, partial(to_result_out, hit)) for hit in result.hits)
    return await create_hits_response(out, "results", results, response)
