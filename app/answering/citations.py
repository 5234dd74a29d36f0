"""Find citations of a finished answer: sources that the chat model names, or else sources with the same words."""

import re
from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, Field

from app.answering.lexical_overlap import find_overlapping_texts
from app.answering.types import AnswerSource, Citation, CitationMethod

_NUMBER = re.compile(r"-?\d+")


def _parse_numbers(value: Any) -> Any:
    """Parse the numbers of a model's reply, which come as 3, "3", "[3]" or "source 3"."""
    if not isinstance(value, list):
        return value
    matches = [_NUMBER.search(item) if isinstance(item, str) else None for item in value]
    return [int(match[0][:9]) if match else item for match, item in zip(matches, value, strict=True)]


class CitedSourceNumbers(BaseModel):
    """Reply of the model: the numbers of the sources that support the answer."""

    numbers: Annotated[list[int], BeforeValidator(_parse_numbers)] = Field(
        max_length=1000, description="The `number` of each source that supports the answer"
    )


def find_model_citations(numbers: Sequence[int], sources: Sequence[AnswerSource]) -> list[Citation] | None:
    """Return the citations for the numbers that a model named. Unknown numbers are ignored.

    Args:
        numbers: Numbers of sources, from the model.
        sources: Sources of the answer.

    Returns:
        The citations, or None if all numbers are unknown and the reply is therefore useless.
    """
    sources_by_number = {source.number: source for source in sources}
    used = [sources_by_number[number] for number in dict.fromkeys(numbers) if number in sources_by_number]
    return None if numbers and not used else group_by_document(used, "model")


def find_overlap_citations(answer: str, sources: Sequence[AnswerSource], *, languages: Sequence[str]) -> list[Citation]:
    """Return the citations for the sources that contain many words of the answer.

    Args:
        answer: Text of the answer.
        sources: Sources of the answer.
        languages: Languages of the searched knowledge bases.
    """
    indexes = find_overlapping_texts(answer, [source.text for source in sources], languages=languages)
    return group_by_document([sources[index] for index in indexes], "overlap")


def group_by_document(used: Sequence[AnswerSource], method: CitationMethod) -> list[Citation]:
    """Group sources into one citation for each document.

    Args:
        used: Sources, the most important first.
        method: Method that found the sources.

    Returns:
        The citations in the order of the first source of each document. Sources of a citation are in reading order.
    """
    documents: dict[tuple[UUID, UUID], list[AnswerSource]] = {}
    for source in used:
        document = source.hit.document
        documents.setdefault((document.tenant_id, document.id), []).append(source)
    return [Citation(sorted(each, key=lambda source: source.hit.chunk.ordinal), method) for each in documents.values()]
