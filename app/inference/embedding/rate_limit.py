"""Rate limits for calls of an endpoint: shared limits per minute, and pauses that the endpoint requests."""

from typing import Protocol
from uuid import UUID, uuid5

SHARES_PER_MINUTE = 6
"""Number of shares in which the limit of a minute is granted, so that no minute sees much more than the limit.

The database function ``acquire_rate_slot`` counts in the same shares.
"""

MAX_PAUSE_SECONDS = 600.0
"""Maximum pause. If the endpoint requests a longer one, one call tries it again after this time."""

_PROVIDER_NAMESPACE = UUID("5d0b4c1e-0f57-5c3f-9a55-6f0c8f4e2b7d")


class RateLimiter(Protocol):
    """Protocol of a rate limiter, which decides when the next call may start."""

    @property
    def max_tokens(self) -> int | None:
        """The maximum number of tokens of one call; None for no limit."""

    async def acquire(self, tokens: int, *, interactive: bool) -> float:
        """Count a call if the limits allow it, or return the time to wait.

        Args:
            tokens: Estimated number of tokens.
            interactive: Whether a user waits for the call. Interactive calls have priority over bulk work.

        Returns:
            0 if the call may start, otherwise the seconds before the next try.
        """

    async def pause(self, seconds: float) -> None:
        """Pause calls as the endpoint has requested."""

    def adjust(self, tokens: int) -> None:
        """Adjust the count by ``tokens``, positive or negative, when the real number of tokens is known."""


class UnlimitedRateLimiter:
    """Rate limiter without a limit."""

    max_tokens = None

    async def acquire(self, tokens: int, *, interactive: bool) -> float:  # noqa: ARG002  nothing is counted
        """Return 0: there is no limit."""
        return 0.0

    async def pause(self, seconds: float) -> None:
        """Do nothing: each call waits separately, and the circuit breaker limits failures."""

    def adjust(self, tokens: int) -> None:
        """Do nothing: nothing is counted."""


class RateLimitStore(Protocol):
    """Protocol of the store of the counts that all processes share. The database implements it."""

    async def acquire_rate_slot(
        self,
        provider: UUID,
        *,
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
        tokens: int,
        interactive: bool,
    ) -> int:
        """Return 0 if the call is counted and may start, otherwise the milliseconds before the next try."""

    async def pause_provider(self, provider: UUID, *, milliseconds: int) -> None:
        """Pause all calls to a provider."""


class SharedRateLimiter:
    """Rate limiter that all API processes and workers share. Each acquisition is one statement."""

    def __init__(
        self, store: RateLimitStore, provider: UUID, *, requests_per_minute: int | None, tokens_per_minute: int | None
    ) -> None:
        self._store = store
        self._provider = provider
        self._requests_per_minute = requests_per_minute
        self._tokens_per_minute = tokens_per_minute
        self._correction = 0

    @property
    def max_tokens(self) -> int | None:
        """Maximum number of tokens of one call: a share of the limit, so that tokens for queries remain."""
        limit = self._tokens_per_minute
        return None if limit is None else max(1, limit // SHARES_PER_MINUTE)

    async def acquire(self, tokens: int, *, interactive: bool) -> float:
        """Count a call as ``RateLimiter.acquire`` does. Raises DatabaseUnavailable."""
        # The statement also contains the correction of earlier calls, which saves a separate statement.
        correction, self._correction = self._correction, 0
        milliseconds = await self._store.acquire_rate_slot(
            self._provider,
            requests_per_minute=self._requests_per_minute,
            tokens_per_minute=self._tokens_per_minute,
            tokens=tokens + correction,
            interactive=interactive,
        )
        if milliseconds:
            self._correction += correction
        return milliseconds / 1000

    async def pause(self, seconds: float) -> None:
        """Pause calls of every process. Raises DatabaseUnavailable."""
        await self._store.pause_provider(
            self._provider, milliseconds=min(int(seconds * 1000) + 1, int(MAX_PAUSE_SECONDS * 1000))
        )

    def adjust(self, tokens: int) -> None:
        """Add the correction to the count of the next call."""
        self._correction += tokens


def compute_provider_key(base_url: str, model: str) -> UUID:
    """Return the key of the limits of a model at an endpoint."""
    return uuid5(_PROVIDER_NAMESPACE, f"{base_url}\n{model}")
