"""What goes into the model's context: whole passages, the best first, as many as there is room for (pure)."""

import json
from collections.abc import Sequence
from typing import Any

from app.answering.types import Source
from app.errors import InvalidInput
from app.inference.embedding.estimating import estimate
from app.retrieval.types import Hit

# A passage is hardly ever shorter: so more is fetched than fits.
TOKENS_A_PASSAGE = 100
FEWEST, MOST = 10, 100


def passages_to_fetch(max_context_tokens: int) -> int:
    """How many the search is asked for where the caller does not say."""
    return min(MOST, max(FEWEST, max_context_tokens // TOKENS_A_PASSAGE))


def numbered(hits: Sequence[Hit]) -> list[Source]:
    """As they were found."""
    return [Source(number, hit) for number, hit in enumerate(hits, start=1)]


def as_material(source: Source) -> dict[str, Any]:
    """What the model is given of it: a passage says little without the title and the headings that it stands under."""
    hit = source.hit
    document = hit.document.title or hit.document.source
    told: dict[str, Any] = {"number": source.number, "document": document, "text": source.text}
    if hit.chunk.section_titles:
        told["section"] = " > ".join(hit.chunk.section_titles)
    return told


def fitting(sources: Sequence[Source], *, most_tokens: int) -> list[Source]:
    """Those for which there is room, numbered anew; one that is too large is left out whole.

    Raises InvalidInput where there is room for none of them.
    """
    kept: list[Source] = []
    room = most_tokens
    for source in sources:
        candidate = Source(len(kept) + 1, source.hit, source.digest)
        tokens = tokens_of(candidate)
        if tokens <= room:
            kept.append(candidate)
            room -= tokens
    if sources and not kept:
        least = min(map(tokens_of, sources))
        message = f"There is no room for any of the passages found: the shortest takes {least} tokens."
        raise InvalidInput(message, loc=("body", "max_context_tokens"))
    return kept


def tokens_of(source: Source) -> int:
    """What it takes of the context, estimated upwards."""
    return estimate(json.dumps(as_material(source), ensure_ascii=False))
