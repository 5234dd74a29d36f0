"""Types of quotas: errors, the state of a rate limit, storage and usage."""

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from math import ceil
from typing import ClassVar, Self
from uuid import UUID

from app.errors import TooManyRequestsError

# The key id of usage without an API key: usage of the operator, and of work that no upload caused.
NO_KEY = UUID(int=0)
# A storage quota has room again only after a deletion, so quick retries are useless.
STORAGE_RETRY_AFTER_SECONDS = 60.0


class QuotaExceeded(TooManyRequestsError):
    """A quota of this tenant or API key is used up. Delete something, wait, or ask the operator for more."""

    code = "quota_exceeded"

    @classmethod
    def from_quota(cls, quota: str, limit: int, *, owner_kind: str = "tenant") -> Self:
        """Create the error of a storage quota."""
        message = (
            f"This {owner_kind}'s quota of {limit} {quota.replace('_', ' ')} is used up. "
            "Delete some, or ask the operator for more."
        )
        return cls(message, retry_after=STORAGE_RETRY_AFTER_SECONDS, quota=quota, limit=limit)


class DailyTokenLimitReached(QuotaExceeded):
    """The embedding tokens of this day are used up. Try again tomorrow (UTC)."""

    QUOTA: ClassVar[str] = "embedding_tokens_per_day"

    def __init__(self, limit: int, now: datetime) -> None:
        self.until = get_next_day_start(now)
        message = f"The quota of {limit} embedding tokens a day is used up until {self.until:%Y-%m-%dT%H:%M:%SZ}."
        retry_after = max(1, ceil((self.until - now).total_seconds()))
        super().__init__(message, retry_after=retry_after, quota=self.QUOTA, limit=limit)


class RateLimitExceeded(TooManyRequestsError):
    """The rate of searches is exceeded. Try again a moment later."""

    code = "rate_limited"


def get_next_day_start(now: datetime) -> datetime:
    """Return the start of the next day (UTC)."""
    return datetime.combine(now.astimezone(UTC).date() + timedelta(days=1), time(), UTC)


@dataclass(frozen=True, slots=True)
class RateLimitState:
    """State of a rate limit after a search.

    Attributes:
        limit: Maximum number of searches in a burst.
        remaining: Searches that are possible immediately.
        reset_seconds: Time until ``remaining`` equals ``limit`` again.
    """

    limit: int
    remaining: int
    reset_seconds: int


@dataclass(frozen=True, slots=True)
class StorageUsage:
    """The current storage of a tenant or an API key."""

    documents: int
    stored_bytes: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of a day or of an API key.

    ``embedding_tokens`` counts tokens of documents and of queries. The enrichment by a chat model belongs to no key.
    """

    uploads: int
    documents: int
    bytes: int
    chunks: int
    searches: int
    embedding_tokens: int
    enrichment_calls: int = 0
    enrichment_tokens: int = 0
