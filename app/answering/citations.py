"""The look back: the finished answer and its sources go to the model, which names those that it rests on."""

import re
from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, Field

from app.answering.lexical_overlap import find_overlapping_texts
from app.answering.types import AnswerSource, Citation, CitationMethod

_NUMBER = re.compile(r"-?\d+")


def _parse_numbers(value: Any) -> Any:
    """Models write 3, "3", "[3]" and "source 3"."""
    if not isinstance(value, list):
        return value
    matches = [_NUMBER.search(item) if isinstance(item, str) else None for item in value]
    return [int(match[0][:9]) if match else item for match, item in zip(matches, value, strict=True)]


class CitedSourceNumbers(BaseModel):
    """What the model names."""

    numbers: Annotated[list[int], BeforeValidator(_parse_numbers)] = Field(
        max_length=1000, description="The `number` of each source that the answer rests on"
    )


def find_model_citations(numbers: Sequence[int], sources: Sequence[AnswerSource]) -> list[Citation] | None:
    """The citations for the numbers that there are; None where all are wrong, so that they say nothing."""
    sources_by_number = {source.number: source for source in sources}
    used = [sources_by_number[number] for number in dict.fromkeys(numbers) if number in sources_by_number]
    return None if numbers and not used else group_by_document(used, "model")


def find_overlap_citations(answer: str, sources: Sequence[AnswerSource], *, languages: Sequence[str]) -> list[Citation]:
    """The citations for the sources that hold the answer's words."""
    indexes = find_overlapping_texts(answer, [source.text for source in sources], languages=languages)
    return group_by_document([sources[index] for index in indexes], "overlap")


def group_by_document(used: Sequence[AnswerSource], method: CitationMethod) -> list[Citation]:
    """One for each document, in the order of their first passages; its passages in theirs."""
    documents: dict[tuple[UUID, UUID], list[AnswerSource]] = {}
    for source in used:
        document = source.hit.document
        documents.setdefault((document.tenant_id, document.id), []).append(source)
    return [Citation(sorted(each, key=lambda source: source.hit.chunk.ordinal), method) for each in documents.values()]
