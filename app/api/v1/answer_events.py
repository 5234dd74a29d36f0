"""What an answer tells: the events of its stream, and the same in one object."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.answering.types import (
    AnswerEvent,
    Asked,
    Citation,
    Cited,
    Finished,
    Source,
    SourcesFound,
    TextDelta,
)
from app.api.v1.search_results import (
    ExplainOut,
    FoundDocument,
    ReformulationOut,
    ResultOut,
    explain_out,
    reformulation_out,
    result_out,
)


class QueryOut(BaseModel):
    """The question as it is answered, and what was searched for.

    ``reformulation`` is what the conversation was understood as: null where no model has read it, and then the answer
    is written with all of it in view. ``explain`` is there on request.
    """

    question: str
    queries: list[str]
    strategy: str
    reformulation: ReformulationOut | None
    explain: ExplainOut | None = Field(None, exclude_if=lambda explain: explain is None)


class SourceOut(ResultOut):
    """A passage that the answer is written from; ``digest`` is what the model read of it, where it was shortened."""

    number: int
    digest: str | None


class SourcesOut(BaseModel):
    """What the answer is written from, the best first; none where nothing relevant was found."""

    sources: list[SourceOut]


class TokenOut(BaseModel):
    """The next piece of the answer; all of them together are the answer."""

    text: str


class CitationOut(BaseModel):
    """A document that the answer rests on, by the numbers of its passages.

    ``method`` is ``model`` where the model has named them, looking back at its answer, and ``overlap`` where it could
    not: then they hold many of the answer's words.
    """

    document: FoundDocument
    knowledge_base: str
    sources: list[int]
    citation: str
    method: Literal["model", "overlap"]


class CitationsOut(BaseModel):
    """The documents that the answer rests on, one entry each."""

    citations: list[CitationOut]


class AnswerTokens(BaseModel):
    """Of the chat model, as it counts them, for the answer, its citations and digests; 0 where it does not tell."""

    prompt_tokens: int
    completion_tokens: int


class DoneOut(BaseModel):
    """The end; ``abstained`` where nothing relevant was found, so that no model was asked."""

    abstained: bool
    warnings: list[str]
    usage: AnswerTokens
    timings_ms: dict[str, float]


class WrittenOut(BaseModel):
    """All pieces in one."""

    answer: str


# Fields come in the order of the events, so the bases in the other one.
class AnswerOut(DoneOut, CitationsOut, SourcesOut, WrittenOut, QueryOut):
    """The whole answer: the data of all events."""


EVENTS: Mapping[str, type[BaseModel]] = {
    "query": QueryOut,
    "sources": SourcesOut,
    "token": TokenOut,
    "citations": CitationsOut,
    "done": DoneOut,
}


def event_out(event: AnswerEvent) -> tuple[str, BaseModel]:
    """The name and the data of an event."""
    match event:
        case Asked():
            return "query", _query(event)
        case SourcesFound():
            return "sources", SourcesOut(sources=[_source(source) for source in event.sources])
        case TextDelta():
            return "token", TokenOut(text=event.text)
        case Cited():
            return "citations", CitationsOut(citations=_citations(event.citations))
        case Finished():
            return "done", _done(event)


async def answer_out(events: AsyncGenerator[AnswerEvent]) -> AnswerOut:
    """All events in one object. Raises as they do."""
    told: dict[str, Any] = {}
    pieces: list[str] = []
    async with aclosing(events):
        async for event in events:
            if isinstance(event, TextDelta):
                pieces.append(event.text)
            else:
                told |= dict(event_out(event)[1])
    return AnswerOut(answer="".join(pieces), **told)


def _query(event: Asked) -> QueryOut:
    found = event.found
    return QueryOut(
        question=event.question,
        queries=list(found.queries),
        strategy=found.strategy,
        reformulation=None if found.reformulation is None else reformulation_out(found.reformulation),
        explain=explain_out(found),
    )


def _source(source: Source) -> SourceOut:
    return SourceOut(number=source.number, digest=source.digest, **dict(result_out(source.hit)))


def _citations(citations: Sequence[Citation]) -> list[CitationOut]:
    return [
        CitationOut(
            document=result_out(one.sources[0].hit).document,
            knowledge_base=one.sources[0].hit.knowledge_base,
            sources=[source.number for source in one.sources],
            citation=one.label,
            method=one.method,
        )
        for one in citations
    ]


def _done(event: Finished) -> DoneOut:
    return DoneOut(
        abstained=event.abstained,
        warnings=list(event.warnings),
        usage=AnswerTokens(prompt_tokens=event.tokens.prompt, completion_tokens=event.tokens.completion),
        timings_ms=dict(event.timings_ms),
    )
