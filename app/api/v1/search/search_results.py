"""Conversion of search results to the schemas of the response."""

from collections.abc import Mapping
from functools import partial

from fastapi import Response

from app.api.http.include_schemas import to_included_fields
from app.api.http.large_responses import create_hits_response
from app.api.http.locator_schema import to_locator_out
from app.api.http.warning_schema import to_warnings_out
from app.api.v1.documents.chunks import encode_node_path
from app.api.v1.documents.images import to_image_out
from app.api.v1.search.explanation_schemas import (
    AutoThresholdOut,
    ExplainedIndexOut,
    ExplanationOut,
    QueryPlanOut,
    ReformulationOut,
    RoutingDecisionOut,
    UsedPromptOut,
)
from app.api.v1.search.graph_schemas import to_graph_out
from app.api.v1.search.search_result_schemas import (
    DegradedStepOut,
    DuplicateOut,
    ResultDocumentOut,
    RetrieverRankOut,
    ScoresOut,
    SearchOut,
    SearchResultOut,
)
from app.ids import encode_id
from app.prompts.types import ActivePrompt, PromptName
from app.retrieval.explain import Explanation, Reformulation
from app.retrieval.routes import RoutingDecision
from app.retrieval.types import MAX_NAMED_DUPLICATES, Hit, SearchResult


def to_result_out(hit: Hit) -> SearchResultOut:
    """Convert a hit to a result of the response.

    Args:
        hit: Hit of a search. A hit of an HTTP source gets no ids in the result.
    """
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
        table_head=excerpt.table_head,
        start=excerpt.start,
        end=excerpt.end,
        source_start=excerpt.source_range and excerpt.source_range[0],
        source_end=excerpt.source_range and excerpt.source_range[1],
        chunk_start=chunk.start,
        chunk_end=chunk.end,
        chunk_id=None if hit.is_external else encode_id("chk", chunk.id),
        chunk_index=chunk.ordinal,
        total_chunks=document.chunk_count,
        document=ResultDocumentOut(
            id=None if hit.is_external else encode_id("doc", document.id),
            source=document.source,
            title=document.title or document.source or None,
            source_uri=document.source_uri,
            source_created_at=document.source_created_at,
            metadata=document.attributes,
        ),
        knowledge_base=hit.knowledge_base,
        page=hit.pages[0],
        page_end=hit.pages[1],
        slide=chunk.slide,
        section_titles=chunk.section_titles,
        node_path=[] if hit.is_external else encode_node_path(document.id, chunk.version, chunk.node_path),
        image=to_image_out(hit.knowledge_base, document.id, chunk.image_ordinal, chunk.media_type),
        metadata=chunk.attributes,
        flags=chunk.flags,
        citation=hit.citation,
        locator=to_locator_out(hit.locator),
        duplicates=_to_duplicates_out(hit),
        duplicate_count=None if hit.duplicates is None else len(hit.duplicates),
        vector=None if hit.vector is None else list(hit.vector),
        ranks=[RetrieverRankOut(**rank._asdict()) for rank in hit.ranks] or None,
        path_names=list(hit.path_names) or None,
        **to_included_fields(hit.included),
    )


def _to_duplicates_out(hit: Hit) -> list[DuplicateOut] | None:
    """Return the chunks that a hit represents, at most ``MAX_NAMED_DUPLICATES``; None if hits were not collapsed."""
    if hit.duplicates is None:
        return None
    return [
        DuplicateOut(
            document_id=encode_id("doc", item.document_id),
            chunk_id=encode_id("chk", item.chunk_id),
            chunk_index=item.chunk_index,
            source=item.source,
        )
        for item in hit.duplicates[:MAX_NAMED_DUPLICATES]
    ]


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
                dense_weight=item.dense_weight,
                score_threshold=item.score_threshold,
                strategy=item.strategy,
                strategy_options=dict(item.strategy_options),
                queries=list(item.queries),
                transformers=list(item.transformers),
                prompts=_to_used_prompts_out(item.prompts),
                conversation=item.uses_conversation,
                combine=item.combine,
            )
            for item in explanation.indexes
        ],
        transformers=list(explanation.transformers),
        prompts=_to_used_prompts_out(explanation.prompts),
        routing=[_to_routing_decision_out(item) for item in explanation.routing_decisions] or None,
        reformulation=None if reformulation is None else to_reformulation_out(reformulation),
    )


def _to_used_prompts_out(prompts: Mapping[PromptName, ActivePrompt]) -> dict[PromptName, UsedPromptOut]:
    return {name: UsedPromptOut(owner=item.owner, version=item.version) for name, item in prompts.items()}


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
    """Convert a reformulated conversation to its schema."""
    return ReformulationOut(
        query=reformulation.query,
        analysis=reformulation.analysis,
        indices_of_related_messages=list(reformulation.related),
    )


def to_explanation_out(result: SearchResult) -> ExplanationOut | None:
    """Return the explanation of a search; None if the caller requested none."""
    return None if result.explanation is None else _build_explanation_out(result.explanation, result.reformulation)


def to_auto_thresholds_out(result: SearchResult) -> list[AutoThresholdOut] | None:
    """Return the calibrated thresholds of a search; None if the caller did not request `auto`."""
    if result.auto_thresholds is None:
        return None
    return [
        AutoThresholdOut(
            knowledge_base=item.knowledge_base, shared=item.is_shared, score_threshold=item.score_threshold
        )
        for item in result.auto_thresholds
    ]


async def create_search_response(result: SearchResult, response: Response) -> SearchOut | Response:
    """Create the response of a search.

    Args:
        result: Result of the search.
        response: Response with headers that the route has set.

    Returns:
        The schema of the response, or a response with encoded bytes if the result is large.
    """
    out = SearchOut(
        results=[],
        queries=list(result.queries),
        strategy=result.strategy,
        degraded=[DegradedStepOut(step=step, reason=reason) for step, reason in result.degraded_steps.items()],
        warnings=to_warnings_out(result.warnings),
        graph=to_graph_out(result.subgraph, result.graph_text),
        auto_thresholds=to_auto_thresholds_out(result),
        timings_ms=dict(result.timings_ms),
        explain=to_explanation_out(result),
    )
    results = ((hit, partial(to_result_out, hit)) for hit in result.hits)
    return await create_hits_response(out, "results", results, response)
