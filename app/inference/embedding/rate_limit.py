"""Whose turn it is to call an endpoint: limits a minute that all processes share, and pauses that it asks for."""

from typing import Protocol
from uuid import UUID, uuid5

# A limit a minute is given out in shares of ten seconds: what is held back is ready at once, and no minute sees much
# more than the limit. The function acquire_rate_slot counts in the same shares.
SHARES_PER_MINUTE = 6
# An endpoint that asks for more is asked again by one call after that time, whatever it said.
MAX_PAUSE_SECONDS = 600.0
_PROVIDER_NAMESPACE = UUID("5d0b4c1e-0f57-5c3f-9a55-6f0c8f4e2b7d")


class RateLimiter(Protocol):
    """When the next call may be made."""

    @property
    def max_tokens(self) -> int | None:
        """The maximum number of tokens of one call; None for no limit."""

    async def acquire(self, tokens: int, *, interactive: bool) -> float:
        """Return 0 if the call is counted and may start, else the seconds before the next try."""

    async def pause(self, seconds: float) -> None:
        """Pause calls as the endpoint has requested."""

    def adjust(self, tokens: int) -> None:
        """Correct the count by ``tokens``, positive or negative, after the cost of a call is known."""


class UnlimitedRateLimiter:
    """No limit, and nothing that is shared."""

    max_tokens = None

    async def acquire(self, tokens: int, *, interactive: bool) -> float:  # noqa: ARG002  nothing is counted
        """Return 0: there is no limit."""
        return 0.0

    async def pause(self, seconds: float) -> None:
        """Do nothing: each call waits for itself, and the circuit breaker limits failures."""

    def adjust(self, tokens: int) -> None:
        """Do nothing: nothing is counted."""


class RateLimitStore(Protocol):
    """The store of the counts that all processes share: the database."""

    async def acquire_rate_slot(
        self,
        provider: UUID,
        *,
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
        tokens: int,
        interactive: bool,
    ) -> int:
        """Return 0 if the call is counted, else the milliseconds before the next try."""

    async def pause_provider(self, provider: UUID, *, milliseconds: int) -> None:
        """Pause all calls to a provider."""


class SharedRateLimiter:
    """Limits that all API processes and workers share; asking is one statement."""

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
        """A share, so that no call uses up what queries need."""
        limit = self._tokens_per_minute
        return None if limit is None else max(1, limit // SHARES_PER_MINUTE)

    async def acquire(self, tokens: int, *, interactive: bool) -> float:
        """Return 0 if the call is counted, else the seconds before the next try. Raises DatabaseUnavailable."""
        # The correction of earlier calls is sent along, which saves a statement.
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
    """Return the key of the limits: those of a model at an endpoint."""
    return uuid5(_PROVIDER_NAMESPACE, f"{base_url}\n{model}")
