"""What an answer tells: the events of its stream, and the same in one object."""

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
from app.api.http.warning_schema import WarningOut, to_warnings_out
from app.api.v1.search.search_results import (
    ExplanationOut,
    ReformulationOut,
    ResultDocumentOut,
    SearchResultOut,
    to_explanation_out,
    to_reformulation_out,
    to_result_out,
)


class AnswerQueryOut(BaseModel):
    """The question as it is answered, and what was searched for.

    ``reformulation`` is what the conversation was understood as: null where no model has read it, and then the answer
    is written with all of it in view. ``explain`` is there on request.
    """

    question: str
    queries: list[str]
    strategy: str
    reformulation: ReformulationOut | None
    explain: ExplanationOut | None = Field(None, exclude_if=lambda explain: explain is None)


class AnswerSourceOut(SearchResultOut):
    """A passage that the answer is written from; the model read ``compressed_text`` in its place, if set."""

    number: int
    compressed_text: str | None


class AnswerSourcesOut(BaseModel):
    """What the answer is written from, the best first; none where nothing relevant was found."""

    sources: list[AnswerSourceOut]


class AnswerTokenOut(BaseModel):
    """The next piece of the answer; all of them together are the answer."""

    text: str


class AnswerCitationOut(BaseModel):
    """A document that the answer rests on, by the numbers of its passages.

    ``method`` is ``model`` where the model has named them, looking back at its answer, and ``overlap`` where it could
    not: then they hold many of the answer's words.
    """

    document: ResultDocumentOut
    knowledge_base: str
    sources: list[int]
    citation: str
    method: Literal["model", "overlap"]


class AnswerCitationsOut(BaseModel):
    """The documents that the answer rests on, one entry each."""

    citations: list[AnswerCitationOut]


class TokenUsageOut(BaseModel):
    """Tokens of the answer, its citations and compressed sources, as the chat model counts them; 0 if it does not."""

    prompt_tokens: int
    completion_tokens: int


class AnswerDoneOut(BaseModel):
    """The end; ``abstained`` where nothing relevant was found, so that no model was asked."""

    abstained: bool
    warnings: list[WarningOut]
    usage: TokenUsageOut
    timings_ms: dict[str, float]


class AnswerTextOut(BaseModel):
    """All pieces in one."""

    answer: str


# Fields come in the order of the events, so the bases in the other one.
class AnswerOut(AnswerDoneOut, AnswerCitationsOut, AnswerSourcesOut, AnswerTextOut, AnswerQueryOut):
    """The whole answer: the data of all events."""


EVENT_MODELS: Mapping[str, type[BaseModel]] = {
    "query": AnswerQueryOut,
    "sources": AnswerSourcesOut,
    "token": AnswerTokenOut,
    "citations": AnswerCitationsOut,
    "done": AnswerDoneOut,
}


def to_event_out(event: AnswerEvent) -> tuple[str, BaseModel]:
    """The name and the data of an event."""
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
    """All events in one object. Raises as they do."""
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
