"""Sources shortened by the model to what matters to the question, so that more of them have room."""

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

# A call for each of the best, so many at a time: those behind them are left out.
MAX_SOURCES, MAX_CONCURRENT_CALLS = 16, 4
MAX_TOKENS = 300


class CompressedText(BaseModel):
    """What the model writes."""

    text: str = Field("", description="What of the source matters to the question; empty where nothing does")


@dataclass(frozen=True, slots=True)
class CompressionResult:
    """The sources that matter; ``failed_count`` of them could not be compressed, and are as they were."""

    sources: Sequence[AnswerSource]
    failed_count: int
    tokens: Sequence[ChatTokens]


async def compress_sources(
    chat: ChatModel, question: str, sources: Sequence[AnswerSource], *, max_source_tokens: int, timeout_seconds: float
) -> CompressionResult:
    """Those that the model has something of, in their order; what is too long for it stays as it is."""
    semaphore = asyncio.Semaphore(MAX_CONCURRENT_CALLS)
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    used_tokens: list[ChatTokens] = []

    async def compress_source(source: AnswerSource) -> AnswerSource | None:
        """None where it could not be done."""
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
