"""Compress sources: the chat model shortens each one to its relevant parts, so that more sources fit the context."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel, Field

from app.answering.context_window import estimate_source_tokens
from app.answering.prompt_messages import build_compression_messages
from app.answering.types import AnswerSource
from app.inference.chat import ChatModel, ChatTokens, ChatUnavailable
from app.logging import get_logger

logger = get_logger(__name__)

MAX_SOURCES, MAX_CONCURRENT_CALLS = 16, 4
"""Number of best sources that are compressed (the others are dropped), and maximum number of concurrent calls."""

MAX_TOKENS = 300
"""Maximum number of tokens of a compressed source."""


class CompressedText(BaseModel):
    """Reply of the model: the relevant part of a source."""

    text: str = Field("", description="The part of the source that matters to the question; empty if nothing does")


@dataclass(frozen=True, slots=True)
class CompressionResult:
    """Result of the compression of the sources of an answer.

    Attributes:
        sources: Relevant sources; sources that could not be compressed are unchanged.
        failed_count: Number of sources that could not be compressed.
        tokens: Tokens of each call.
    """

    sources: Sequence[AnswerSource]
    failed_count: int
    tokens: Sequence[ChatTokens]


async def compress_sources(
    chat: ChatModel, question: str, sources: Sequence[AnswerSource], *, max_source_tokens: int, timeout_seconds: float
) -> CompressionResult:
    """Compress the first 16 sources.

    Args:
        chat: Chat model.
        question: The question.
        sources: Sources, the best first.
        max_source_tokens: Maximum size of a source that is sent to the model; a longer one stays unchanged.
        timeout_seconds: Time for all calls together.

    Returns:
        The sources in the same order, without those that the model found irrelevant.
    """
    semaphore = asyncio.Semaphore(MAX_CONCURRENT_CALLS)
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    used_tokens: list[ChatTokens] = []

    async def compress_source(source: AnswerSource) -> AnswerSource | None:
        """Return the compressed source, or None if the compression failed."""
        async with semaphore:
            remaining_seconds = deadline - asyncio.get_running_loop().time()
            if remaining_seconds <= 0 or estimate_source_tokens(source) > max_source_tokens:
                return None
            try:
                answer = await chat.complete_structured(
                    build_compression_messages(question, source),
                    CompressedText,
                    max_tokens=MAX_TOKENS,
                    timeout_seconds=remaining_seconds,
                )
            except ChatUnavailable as exc:
                logger.warning("answer.compression_failed", reason=exc.reason)
                used_tokens.append(exc.tokens)
                return None
            used_tokens.append(answer.tokens)
            return replace(source, compressed_text=answer.value.text.replace("\0", " ").strip())

    best = sources[:MAX_SOURCES]
    results = await asyncio.gather(*map(compress_source, best))
    compressed = [new or old for new, old in zip(results, best, strict=True) if new is None or new.compressed_text]
    return CompressionResult(compressed, results.count(None), used_tokens)
