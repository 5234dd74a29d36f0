"""Interface of chat models: the protocol, its types and its error."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol

from app.errors import UnavailableError
from app.inference.chat.structured_output import Shape
from app.inference.circuit_breaker import FailureKind

ChatFailureReason = FailureKind | Literal["refused", "circuit_open"]
"""Why a chat model gives no text.

``refused``: it does not serve this request, and a retry does not help. ``circuit_open``: it failed so often that it is
not called for a while.
"""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """Message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ChatTokens:
    """Tokens of the prompt and the text of a call; 0 if the endpoint does not report the numbers."""

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
        reason: ChatFailureReason = "circuit_open",  # the circuit breaker creates the error without a reason
        retry_after: float = 2.0,
        tokens: ChatTokens = ChatTokens(),
        **fields: Any,
    ) -> None:
        super().__init__(message, retry_after=retry_after, **fields)
        self.reason = reason
        self.tokens = tokens


class ChatNotConfigured(UnavailableError):
    """Answers and enrichment need a chat model; set CARREL_CHAT_BASE_URL and CARREL_CHAT_MODEL."""

    code = "chat_not_configured"


@dataclass(frozen=True, slots=True)
class Completion:
    """Complete text of a model. ``is_truncated`` says whether the text ended because it reached ``max_tokens``."""

    text: str
    tokens: ChatTokens
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class StructuredCompletion(Generic[Shape]):
    """Object of the requested Pydantic model, with the tokens of the call."""

    value: Shape
    tokens: ChatTokens


@dataclass(slots=True)
class ChatStream:
    """Text of a model, piece by piece. The other fields are valid after the last piece."""

    pieces: AsyncIterator[str] = field(init=False)
    tokens: ChatTokens = ChatTokens()
    is_truncated: bool = False


class ChatModel(Protocol):
    """Protocol of a chat model.

    No call takes longer than ``timeout_seconds``. A cancelled call closes its connection.
    """

    @property
    def name(self) -> str:
        """Name of the model."""

    async def complete(self, messages: Sequence[ChatMessage], *, max_tokens: int, timeout_seconds: float) -> Completion:
        """Return a complete text, which is never empty. Raises ChatUnavailable."""

    async def complete_structured(
        self, messages: Sequence[ChatMessage], shape: type[Shape], *, max_tokens: int, timeout_seconds: float
    ) -> StructuredCompletion[Shape]:
        """Return an object of a Pydantic model, whose JSON Schema the request contains. Raises ChatUnavailable."""

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_tokens: int,
        timeout_seconds: float,
        first_piece_timeout_seconds: float | None = None,
    ) -> AbstractAsyncContextManager[ChatStream]:
        """Stream a text piece by piece.

        Args:
            messages: Messages of the prompt.
            max_tokens: Maximum number of tokens of the text.
            timeout_seconds: Time for the whole text.
            first_piece_timeout_seconds: Time for the first piece; by default ``timeout_seconds``.

        Returns:
            A context with the stream. Reading its pieces raises ChatUnavailable, also after some pieces.
        """

    async def close(self) -> None:
        """Close connections."""
