"""Reranking: the protocol between retrieval and whatever scores texts against a query."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from app.errors import UnavailableError
from app.inference.circuit_breaker import FailureKind

# "refused": it will not serve this request, now or later; "circuit_open": it has failed so often that it was not asked.
RerankFailureReason = FailureKind | Literal["refused", "circuit_open"]


class RerankUnavailable(UnavailableError):
    """The reranker gives no scores; results keep their order."""

    code = "rerank_unavailable"

    def __init__(
        self,
        message: str | None = None,
        /,
        *,
        reason: RerankFailureReason = "circuit_open",
        retry_after: float = 2.0,
        **fields: Any,
    ) -> None:
        super().__init__(message, retry_after=retry_after, **fields)
        self.reason = reason


class Reranker(Protocol):
    """Says how well each of a few texts answers a query."""

    @property
    def name(self) -> str:
        """The model's name, or a replacement if it has none."""

    async def rerank(
        self, query: str, texts: Sequence[str], *, top_n: int, timeout_seconds: float
    ) -> Mapping[int, float]:
        """Scores by position in ``texts``, greater ones better, finite; of at least the best ``top_n`` where it can.

        What is not there was not scored. It ends within ``timeout_seconds``. Raises RerankUnavailable, and nothing
        else.
        """

    async def close(self) -> None:
        """Let go of connections and threads."""
