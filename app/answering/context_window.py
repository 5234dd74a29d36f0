"""Select the sources for the context of the chat model: complete chunks, the best first, as many as fit."""

import json
from collections.abc import Sequence
from typing import Any

from app.answering.types import AnswerSource
from app.errors import InvalidInputError
from app.inference.embedding.token_estimate import estimate_tokens
from app.retrieval.types import Hit

TOKENS_PER_CHUNK = 100
"""Low estimate of the tokens of a chunk, so that a search returns more chunks than fit the context."""

MIN_CHUNKS, MAX_CHUNKS = 10, 100


def compute_default_top_k(max_context_tokens: int) -> int:
    """Compute the number of results that a search returns by default, from 10 to 100."""
    return min(MAX_CHUNKS, max(MIN_CHUNKS, max_context_tokens // TOKENS_PER_CHUNK))


def number_sources(hits: Sequence[Hit]) -> list[AnswerSource]:
    """Number the results of a search from 1, in their order."""
    return [AnswerSource(number, hit) for number, hit in enumerate(hits, start=1)]


def to_prompt_json(source: AnswerSource) -> dict[str, Any]:
    """Return a source for the prompt: number, title, headings and text, because a text alone lacks its context."""
    hit = source.hit
    document = hit.document.title or hit.document.source
    fields: dict[str, Any] = {"number": source.number, "document": document, "text": source.text}
    if hit.chunk.section_titles:
        fields["section"] = " > ".join(hit.chunk.section_titles)
    return fields


def select_within_budget(sources: Sequence[AnswerSource], *, max_tokens: int) -> list[AnswerSource]:
    """Select the sources that fit the context, and number them from 1. A source that does not fit is left out.

    Args:
        sources: Sources, the best first.
        max_tokens: Maximum number of tokens of the sources, estimated upwards.

    Returns:
        The selected sources.

    Raises:
        InvalidInputError: No source fits.
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
        message = f"No chunk that the search found fits: the shortest has {min_tokens} tokens. Increase the limit."
        raise InvalidInputError(message, loc=("body", "max_context_tokens"))
    return selected


def estimate_source_tokens(source: AnswerSource) -> int:
    """Estimate the tokens of a source in the prompt; the estimate is rather too high than too low."""
    return estimate_tokens(json.dumps(to_prompt_json(source), ensure_ascii=False))
