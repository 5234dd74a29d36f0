"""What a search answers."""

from functools import partial
from typing import Any

from fastapi import Response
from pydantic import BaseModel, Field

from app.api.large_replies import reply_with_hits
from app.api.v1.chunks import node_ids
from app.api.v1.media import MediaOut, media_out
from app.api.v1.schemas import Time
from app.ids import encode_id
from app.prompts.types import PromptName
from app.retrieval.explanation import Explanation
from app.retrieval.routes import RoutedKnowledgeBase
from app.retrieval.types import Hit, Reformulation, SearchResult


class FoundDocument(BaseModel):
    """The document of a result; one from an HTTP source has no id, and its address as ``source_uri``."""

    id: str | None
    source: str
    title: str | None
    source_uri: str | None
    source_created_at: Time | None
    metadata: dict[str, Any]


class ScoresOut(BaseModel):
    """The cosine and the BM25 score, null where that lane did not find it, and what both were fused to."""

    dense: float | None
    lexical: float | None
    fused: float | None


class PlaceOut(BaseModel):
    """Where a lane had it for a query; ``rank`` counts from 1.

    ``query`` counts all that was searched for from 0, also the vectors and pictures that ``queries`` leaves out.
    """

    query: int
    lane: str
    rank: int
    score: float


class ResultOut(BaseModel):
    """A passage; ``score`` orders, ``similarity`` is the cosine with the query (null: the query was not embedded).

    ``text`` is the range from ``start`` to ``end`` of the document's stored text: the passage itself, which is the one
    from ``passage_start`` to ``passage_end``, or what ``expand`` has made of it. ``places`` are there with ``explain``,
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
    passage_start: int
    passage_end: int
    chunk_id: str | None
    chunk_index: int
    total_chunks: int
    document: FoundDocument
    knowledge_base: str
    page: int | None
    page_end: int | None
    slide: int | None
    section_titles: list[str]
    node_path: list[str]
    media: MediaOut | None
    metadata: dict[str, Any]
    flags: list[str]
    citation: str
    vector: list[float] | None = Field(None, exclude_if=lambda vector: vector is None)
    places: list[PlaceOut] | None = Field(None, exclude_if=lambda places: places is None)


class PlanOut(BaseModel):
    """How the lanes of a knowledge base were searched.

    ``share`` of its ``chunks`` passes scope and filter, by a sample. ``dense`` is index (exact where that comes short)
    or exact; ``lexical`` is all (every chunk that passes is scored) or pruned (those that can be among the best).
    """

    chunks: int
    share: float
    dense: str
    lexical: str


class ExplainedIndexOut(BaseModel):
    """A knowledge base with the filter as understood, its own included; no plan where no lane was asked, or one failed.

    ``shared`` is the operator's of that name. ``asked`` is there for an HTTP source: what it was asked for.
    """

    knowledge_base: str
    shared: bool
    filter: dict[str, Any] | None
    plan: PlanOut | None
    asked: list[str] | None = Field(None, exclude_if=lambda asked: asked is None)


class RoutedOut(BaseModel):
    """A knowledge base that the search could have gone to, with what it scored, null where it was not compared.

    ``reason``: ``best`` or ``less_alike``; or searched whatever it would score: ``always``, ``own_documents`` (it holds
    documents of the user or the chat that the search names), ``nothing_known`` (of what it is about), ``not_compared``
    (too few of its embedding model to choose from, or the model does not answer). ``centroids`` and ``texts`` are the
    best cosines with its passages' centroids, and with its descriptions and examples.
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


class ExplainOut(BaseModel):
    """What the search was taken to mean.

    ``transformers`` were asked to change its queries; ``reformulation`` is there where one has understood the
    conversation. ``prompts`` are those of admins that took part, by name: `rewrite`. ``routing`` is there where the
    knowledge bases were chosen: the chosen ones first, best first.
    """

    strategy_options: dict[str, Any]
    knowledge_bases: list[ExplainedIndexOut]
    transformers: list[str]
    prompts: dict[PromptName, UsedPromptOut]
    routing: list[RoutedOut] | None = Field(None, exclude_if=lambda routing: routing is None)
    reformulation: ReformulationOut | None = Field(None, exclude_if=lambda reformulation: reformulation is None)


class SearchOut(BaseModel):
    """Results best first, and how they came about."""

    results: list[ResultOut]
    queries: list[str]
    strategy: str
    warnings: list[str]
    timings_ms: dict[str, float]
    explain: ExplainOut | None = Field(None, exclude_if=lambda explain: explain is None)


def result_out(hit: Hit) -> ResultOut:
    """As callers see it."""
    chunk, document, passage = hit.chunk, hit.document, hit.passage
    return ResultOut(
        score=round(hit.score, 6),
        similarity=_rounded(hit.similarity),
        scores=ScoresOut(
            dense=_rounded(hit.scores.dense), lexical=_rounded(hit.scores.lexical), fused=_rounded(hit.scores.fused)
        ),
        text=passage.text,
        start=passage.start,
        end=passage.end,
        passage_start=chunk.start,
        passage_end=chunk.end,
        chunk_id=None if hit.outside else encode_id("chk", chunk.id),
        chunk_index=chunk.ordinal,
        total_chunks=document.chunk_count,
        document=FoundDocument(
            id=None if hit.outside else encode_id("doc", document.id),
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
        node_path=[] if hit.outside else node_ids(document.id, chunk.version, chunk.node_path),
        media=media_out(hit.knowledge_base, document.id, chunk.media_ordinal, chunk.media_type),
        metadata=chunk.attributes,
        flags=chunk.flags,
        citation=hit.citation,
        vector=None if hit.vector is None else list(hit.vector),
        places=[PlaceOut(**place._asdict()) for place in hit.places] or None,
    )


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 6)


def _explain(found: Explanation, understood: Reformulation | None) -> ExplainOut:
    return ExplainOut(
        strategy_options=dict(found.options),
        knowledge_bases=[
            ExplainedIndexOut(
                knowledge_base=one.knowledge_base,
                shared=one.shared,
                filter=None if one.filter is None else dict(one.filter),
                plan=None if one.plan is None else PlanOut(**one.plan._asdict()),
                asked=None if one.asked is None else list(one.asked),
            )
            for one in found.indexes
        ],
        transformers=list(found.transformers),
        prompts={name: UsedPromptOut(owner=one.owner, version=one.version) for name, one in found.prompts.items()},
        routing=[_routed(one) for one in found.routes] or None,
        reformulation=None if understood is None else reformulation_out(understood),
    )


def _routed(one: RoutedKnowledgeBase) -> RoutedOut:
    return RoutedOut(
        knowledge_base=one.name,
        chosen=one.chosen,
        reason=one.reason,
        score=_rounded(one.score),
        centroids=_rounded(one.centroids),
        texts=_rounded(one.texts),
        scale=one.scale,
    )


def reformulation_out(understood: Reformulation) -> ReformulationOut:
    """As callers see it."""
    return ReformulationOut(
        query=understood.query, analysis=understood.analysis, indices_of_related_messages=list(understood.related)
    )


def explain_out(result: SearchResult) -> ExplainOut | None:
    """What the search was taken to mean, where that was asked."""
    return None if result.explanation is None else _explain(result.explanation, result.reformulation)


async def search_reply(result: SearchResult, response: Response) -> SearchOut | Response:
    """As callers see it."""
    out = SearchOut(
        results=[],
        queries=list(result.queries),
        strategy=result.strategy,
        warnings=list(result.warnings),
        timings_ms=dict(result.timings_ms),
        explain=explain_out(result),
    )
    made = ((hit, partial(result_out, hit)) for hit in result.hits)
    return await reply_with_hits(out, "results", made, response)
