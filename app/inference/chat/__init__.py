"""Chat models: the protocol between rewriting or answering and whatever writes the text."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol

from app.errors import UnavailableError
from app.inference.chat.structured_output import Shape
from app.inference.circuit_breaker import FailureKind

# "refused": it will not serve this request, now or later; "circuit_open": it has failed so often that it was not asked.
ChatFailureReason = FailureKind | Literal["refused", "circuit_open"]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of what the model reads."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ChatTokens:
    """The tokens of a call as the endpoint counts them; 0 if it does not report them."""

    prompt: int = 0
    completion: int = 0


class ChatUnavailable(UnavailableError):
    """The chat model is not answering; try again."""

    code = "chat_unavailable"

    def __init__(
        self,
        message: str | None = None,
        /,
        *,
        reason: ChatFailureReason = "circuit_open",  # as the breaker raises it
        retry_after: float = 2.0,
        tokens: ChatTokens = ChatTokens(),
        **fields: Any,
    ) -> None:
        super().__init__(message, retry_after=retry_after, **fields)
        self.reason = reason
        self.tokens = tokens


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole text; ``is_truncated`` where ``max_tokens`` ended it."""

    text: str
    tokens: ChatTokens
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class StructuredCompletion(Generic[Shape]):
    """An object of the shape that was asked for."""

    value: Shape
    tokens: ChatTokens


@dataclass(slots=True)
class ChatStream:
    """A text as it comes; the other fields are known when ``pieces`` has ended."""

    pieces: AsyncIterator[str] = field(init=False)
    tokens: ChatTokens = ChatTokens()
    is_truncated: bool = False


class ChatModel(Protocol):
    """Writes text. No call takes longer than ``timeout_seconds``, and one that is given up closes its connection."""

    @property
    def name(self) -> str:
        """The model's name."""

    async def complete(self, messages: Sequence[ChatMessage], *, max_tokens: int, timeout_seconds: float) -> Completion:
        """Return a whole text, never an empty one. Raises ChatUnavailable."""

    async def complete_structured(
        self, messages: Sequence[ChatMessage], shape: type[Shape], *, max_tokens: int, timeout_seconds: float
    ) -> StructuredCompletion[Shape]:
        """Return an object of this shape; the request carries its JSON Schema. Raises ChatUnavailable."""

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_tokens: int,
        timeout_seconds: float,
        first_piece_timeout_seconds: float | None = None,
    ) -> AbstractAsyncContextManager[ChatStream]:
        """Stream a text piece by piece, the first within ``first_piece_timeout_seconds``.

        Reading the pieces raises ChatUnavailable, also after some of them.
        """

    async def close(self) -> None:
        """Close connections."""
