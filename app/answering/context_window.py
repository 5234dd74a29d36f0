"""What goes into the model's context: whole passages, the best first, as many as there is room for (pure)."""

import json
from collections.abc import Sequence
from typing import Any

from app.answering.types import AnswerSource
from app.errors import InvalidInputError
from app.inference.embedding.token_estimate import estimate_tokens
from app.retrieval.types import Hit

# A passage is hardly ever shorter: so more is fetched than fits.
TOKENS_PER_CHUNK = 100
MIN_CHUNKS, MAX_CHUNKS = 10, 100


def compute_default_top_k(max_context_tokens: int) -> int:
    """How many the search is asked for where the caller does not say."""
    return min(MAX_CHUNKS, max(MIN_CHUNKS, max_context_tokens // TOKENS_PER_CHUNK))


def number_sources(hits: Sequence[Hit]) -> list[AnswerSource]:
    """As they were found."""
    return [AnswerSource(number, hit) for number, hit in enumerate(hits, start=1)]


def to_prompt_json(source: AnswerSource) -> dict[str, Any]:
    """What the model is given of it: a passage says little without the title and the headings that it stands under."""
    hit = source.hit
    document = hit.document.title or hit.document.source
    fields: dict[str, Any] = {"number": source.number, "document": document, "text": source.text}
    if hit.chunk.section_titles:
        fields["section"] = " > ".join(hit.chunk.section_titles)
    return fields


def select_within_budget(sources: Sequence[AnswerSource], *, max_tokens: int) -> list[AnswerSource]:
    """Those for which there is room, numbered anew; one that is too large is left out whole.

    Raises InvalidInputError where there is room for none of them.
    """
    selected: list[AnswerSource] = []
    remaining_tokens = max_tokens
    for source in sources:
        candidate = AnswerSource(len(selected) + 1, source.hit, source.compressed_text)
        tokens = estimate_source_tokens(candidate)
        if tokens <= remaining_tokens:
            selected.append(candidate)
            remaining_tokens -= tokens
    if sources and not selected:
        min_tokens = min(map(estimate_source_tokens, sources))
        message = f"There is no room for any of the passages found: the shortest takes {min_tokens} tokens."
        raise InvalidInputError(message, loc=("body", "max_context_tokens"))
    return selected


def estimate_source_tokens(source: AnswerSource) -> int:
    """What it takes of the context, estimated upwards."""
    return estimate_tokens(json.dumps(to_prompt_json(source), ensure_ascii=False))
