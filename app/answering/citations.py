"""The look back: the finished answer and its sources go to the model, which names those that it rests on."""

import re
from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, Field

from app.answering.overlap import overlapping
from app.answering.types import Citation, Method, Source

_NUMBER = re.compile(r"-?\d+")


def _numbers(value: Any) -> Any:
    """Models write 3, "3", "[3]" and "source 3"."""
    if not isinstance(value, list):
        return value
    found = [_NUMBER.search(one) if isinstance(one, str) else None for one in value]
    return [int(match[0][:9]) if match else one for match, one in zip(found, value, strict=True)]


class UsedSources(BaseModel):
    """What the model names."""

    numbers: Annotated[list[int], BeforeValidator(_numbers)] = Field(
        max_length=1000, description="The `number` of each source that the answer rests on"
    )


def named_by_model(numbers: Sequence[int], sources: Sequence[Source]) -> list[Citation] | None:
    """The citations for the numbers that there are; None where all are wrong, so that they say nothing."""
    known = {source.number: source for source in sources}
    used = [known[number] for number in dict.fromkeys(numbers) if number in known]
    return None if numbers and not used else by_document(used, "model")


def named_by_words(answer: str, sources: Sequence[Source], *, languages: Sequence[str]) -> list[Citation]:
    """The citations for the sources that hold the answer's words."""
    places = overlapping(answer, [source.text for source in sources], languages=languages)
    return by_document([sources[place] for place in places], "overlap")


def by_document(used: Sequence[Source], method: Method) -> list[Citation]:
    """One for each document, in the order of their first passages; its passages in theirs."""
    documents: dict[tuple[UUID, UUID], list[Source]] = {}
    for source in used:
        document = source.hit.document
        documents.setdefault((document.tenant_id, document.id), []).append(source)
    return [Citation(sorted(each, key=lambda source: source.hit.chunk.ordinal), method) for each in documents.values()]
