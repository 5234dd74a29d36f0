"""Sources shortened by the model to what matters to the question, so that more of them have room."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel, Field

from app.answering.context import tokens_of
from app.answering.prompt import to_digest
from app.answering.types import Source
from app.inference.chat import ChatModel, ChatTokens, ChatUnavailable
from app.logging import get_logger

logger = get_logger(__name__)

# A call for each of the best, so many at a time: those behind them are left out.
MOST, AT_A_TIME = 16, 4
MAX_TOKENS = 300


class Digest(BaseModel):
    """What the model writes."""

    digest: str = Field("", description="What of the source matters to the question; empty where nothing does")


@dataclass(frozen=True, slots=True)
class Digested:
    """The sources that matter; so many of them ``failed``, and are as they were."""

    sources: Sequence[Source]
    failed: int
    tokens: Sequence[ChatTokens]


async def digested(
    chat: ChatModel, question: str, sources: Sequence[Source], *, most_tokens: int, seconds: float
) -> Digested:
    """Those that the model has something of, in their order; what is too long for it stays as it is."""
    turns = asyncio.Semaphore(AT_A_TIME)
    until = asyncio.get_running_loop().time() + seconds
    spent: list[ChatTokens] = []

    async def one(source: Source) -> Source | None:
        """None where it could not be done."""
        async with turns:
            left = until - asyncio.get_running_loop().time()
            if left <= 0 or tokens_of(source) > most_tokens:
                return None
            try:
                answer = await chat.structured(to_digest(question, source), Digest, max_tokens=MAX_TOKENS, seconds=left)
            except ChatUnavailable as exc:
                logger.warning("answer.digest_failed", reason=exc.reason)
                spent.append(exc.tokens)
                return None
            spent.append(answer.tokens)
            return replace(source, digest=answer.value.digest.replace("\0", " ").strip())

    best = sources[:MOST]
    made = await asyncio.gather(*map(one, best))
    kept = [new or old for new, old in zip(made, best, strict=True) if new is None or new.digest]
    return Digested(kept, made.count(None), spent)
