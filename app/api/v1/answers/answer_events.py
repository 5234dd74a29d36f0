"""Schemas of answers: the events of a stream, and one object with the data of all events."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.answering.types import (
    AnswerEvent,
    AnswerFinished,
    AnswerSource,
    Citation,
    CitationsFound,
    QueryResolved,
    SourcesFound,
    TextDelta,
)
from app.api.http import example_values
from app.api.http.warning_schema import WarningOut, to_warnings_out
from app.api.v1.search.explanation_schemas import AutoThresholdOut, ExplanationOut, ReformulationOut
from app.api.v1.search.search_result_schemas import ResultDocumentOut, SearchResultOut
from app.api.v1.search.search_results import (
    to_auto_thresholds_out,
    to_explanation_out,
    to_reformulation_out,
    to_result_out,
)


class AnswerQueryOut(BaseModel):
    """Question that is answered, and the search queries that were made from the question."""

    question: str = Field(
        description="Question, complete by itself.", examples=["How many days of parental leave are there?"]
    )
    queries: list[str] = Field(
        description="Texts that the search ran with, after all transformers.",
        examples=[["How many days of parental leave are there?"]],
    )
    strategy: str = Field(description="Strategy of the search.", examples=["hybrid"])
    auto_thresholds: list[AutoThresholdOut] | None = Field(
        None,
        description="Thresholds that were used. Only present if `score_threshold` is `auto`.",
        exclude_if=lambda thresholds: thresholds is None,
    )
    reformulation: ReformulationOut | None = Field(
        description="Reformulated conversation; null if no chat model has read it. The answer then takes the "
        "whole conversation into account.",
        examples=[None],
    )
    explain: ExplanationOut | None = Field(
        None,
        description="Explanation of the search. Only present if the request sets `explain`.",
        exclude_if=lambda explain: explain is None,
    )


class AnswerSourceOut(SearchResultOut):
    """Source of an answer: a search result that the chat model reads."""

    number: int = Field(description="Number by which answer and citations refer to the source, from 1.", examples=[1])
    compressed_text: str | None = Field(
        description="Text that the chat model reads in place of `text`; null without `compress`.", examples=[None]
    )


class AnswerSourcesOut(BaseModel):
    """Sources of the answer."""

    sources: list[AnswerSourceOut] = Field(description="Sources, best first; empty if nothing relevant was found.")


class AnswerTokenOut(BaseModel):
    """Next piece of the answer."""

    text: str = Field(description="Text to append to the answer.", examples=["Parents may take "])


class AnswerCitationOut(BaseModel):
    """Document that supports the answer."""

    document: ResultDocumentOut = Field(description="The document.")
    knowledge_base: str = Field(
        description="Name of the knowledge base of the document.", examples=[example_values.KNOWLEDGE_BASE_NAME]
    )
    sources: list[int] = Field(
        description="Numbers of the sources in this document that support the answer.", examples=[[1]]
    )
    citation: str = Field(
        description="Citation for people: name of the document or address of the web page, with pages, slides or rows.",
        examples=["handbook.pdf, p. 4"],
    )
    method: Literal["model", "overlap"] = Field(
        description="`model`: the chat model named the sources after it had written the answer. `overlap`: the "
        "model could not; these sources share many words with the answer.",
        examples=["model"],
    )


class AnswerCitationsOut(BaseModel):
    """Citations of the answer."""

    citations: list[AnswerCitationOut] = Field(description="Documents that support the answer, one entry per document.")


class TokenUsageOut(BaseModel):
    """Tokens that the chat model reported for answer, citations and compressed sources; 0 if it reports none."""

    prompt_tokens: int = Field(description="Number of input tokens.", examples=[812])
    completion_tokens: int = Field(description="Number of output tokens.", examples=[64])


class AnswerDoneOut(BaseModel):
    """End of the answer."""

    abstained: bool = Field(
        description="Whether no answer was written because the search found nothing relevant.", examples=[False]
    )
    warnings: list[WarningOut] = Field(description="Warnings of search and answer.", examples=[[]])
    usage: TokenUsageOut = Field(description="Tokens of the chat model.")
    timings_ms: dict[str, float] = Field(
        description="Duration of each step and of the whole request (`total`), in milliseconds.",
        examples=[{"search": 12.3, "total": 1480.5}],
    )


class AnswerTextOut(BaseModel):
    """Complete answer."""

    answer: str = Field(
        description="Text of the answer; numbers in brackets name sources.",
        examples=["Parents may take up to 14 months of parental leave [1]."],
    )


# Pydantic puts the fields of the last base first, so the fields have the order of the events.
class AnswerOut(AnswerDoneOut, AnswerCitationsOut, AnswerSourcesOut, AnswerTextOut, AnswerQueryOut):
    """Answer with its sources and citations: the data of all events."""


EVENT_MODELS: Mapping[str, type[BaseModel]] = {
    "query": AnswerQueryOut,
    "sources": AnswerSourcesOut,
    "token": AnswerTokenOut,
    "citations": AnswerCitationsOut,
    "done": AnswerDoneOut,
}


def to_event_out(event: AnswerEvent) -> tuple[str, BaseModel]:
    """Return the name and the data of an event."""
    match event:
        case QueryResolved():
            return "query", _to_query_out(event)
        case SourcesFound():
            return "sources", AnswerSourcesOut(sources=[_to_source_out(source) for source in event.sources])
        case TextDelta():
            return "token", AnswerTokenOut(text=event.text)
        case CitationsFound():
            return "citations", AnswerCitationsOut(citations=_to_citations_out(event.citations))
        case AnswerFinished():
            return "done", _to_done_out(event)


async def collect_answer(events: AsyncGenerator[AnswerEvent]) -> AnswerOut:
    """Collect all events into one object. Errors of the events pass through."""
    fields: dict[str, Any] = {}
    pieces: list[str] = []
    async with aclosing(events):
        async for event in events:
            if isinstance(event, TextDelta):
                pieces.append(event.text)
            else:
                fields |= dict(to_event_out(event)[1])
    return AnswerOut(answer="".join(pieces), **fields)


def _to_query_out(event: QueryResolved) -> AnswerQueryOut:
    result = event.search_result
    return AnswerQueryOut(
        question=event.question,
        queries=list(result.queries),
        strategy=result.strategy,
        auto_thresholds=to_auto_thresholds_out(result),
        reformulation=None if result.reformulation is None else to_reformulation_out(result.reformulation),
        explain=to_explanation_out(result),
    )


def _to_source_out(source: AnswerSource) -> AnswerSourceOut:
    return AnswerSourceOut(
        number=source.number, compressed_text=source.compressed_text, **dict(to_result_out(source.hit))
    )


def _to_citations_out(citations: Sequence[Citation]) -> list[AnswerCitationOut]:
    return [
        AnswerCitationOut(
            document=to_result_out(citation.sources[0].hit).document,
            knowledge_base=citation.sources[0].hit.knowledge_base,
            sources=[source.number for source in citation.sources],
            citation=citation.label,
            method=citation.method,
        )
        for citation in citations
    ]


def _to_done_out(event: AnswerFinished) -> AnswerDoneOut:
    return AnswerDoneOut(
        abstained=event.abstained,
        warnings=to_warnings_out(event.warnings),
        usage=TokenUsageOut(prompt_tokens=event.tokens.prompt, completion_tokens=event.tokens.completion),
        timings_ms=dict(event.timings_ms),
    )
