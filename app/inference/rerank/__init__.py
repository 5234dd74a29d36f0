"""Interface of rerankers: the protocol and its error."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from app.errors import UnavailableError
from app.inference.circuit_breaker import FailureKind

RerankFailureReason = FailureKind | Literal["refused", "circuit_open"]
"""Why a reranker gives no scores.

``refused``: it does not serve this request, and a retry does not help. ``circuit_open``: it failed so often that it is
not called for a while.
"""


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
    """Protocol of a reranker, which scores how well each of a few texts answers a query."""

    @property
    def name(self) -> str:
        """Name of the model, or a label if the model has no name."""

    async def rerank(
        self, query: str, texts: Sequence[str], *, top_n: int, timeout_seconds: float
    ) -> Mapping[int, float]:
        """Score texts for a query.

        Args:
            query: Text of the query.
            texts: Texts to score.
            top_n: Number of best texts that need a score.
            timeout_seconds: Time until the call must end.

        Returns:
            Finite scores by position in ``texts``; a higher score is better. A missing position has no score.

        Raises:
            RerankUnavailable: The reranker gives no scores.
        """

    async def close(self) -> None:
        """Close connections and threads."""
