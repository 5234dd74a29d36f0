"""The nouns of quotas: what is over one, what is left of a rate, and what was used."""

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from math import ceil
from typing import ClassVar, Self
from uuid import UUID

from app.errors import TooManyRequestsError

# Usage without a key: the operator's, and work that no upload has caused.
NO_KEY = UUID(int=0)
# What is over a quota of what is stored fits again once something is deleted: sooner, there is no use in asking.
STORAGE_RETRY_AFTER_SECONDS = 60.0


class QuotaExceeded(TooManyRequestsError):
    """A quota of this tenant, or of this key, is used up."""

    code = "quota_exceeded"

    @classmethod
    def from_quota(cls, quota: str, limit: int, *, owner_kind: str = "tenant") -> Self:
        """Create the error of a storage quota."""
        message = (
            f"This {owner_kind}'s quota of {limit} {quota.replace('_', ' ')} is used up: delete some, or ask for more."
        )
        return cls(message, retry_after=STORAGE_RETRY_AFTER_SECONDS, quota=quota, limit=limit)


class DailyTokenLimitReached(QuotaExceeded):
    """The day's embedding tokens are used up."""

    QUOTA: ClassVar[str] = "embedding_tokens_per_day"

    def __init__(self, limit: int, now: datetime) -> None:
        self.until = get_next_day_start(now)
        message = f"The quota of {limit} embedding tokens a day is used up until {self.until:%Y-%m-%dT%H:%M:%SZ}."
        retry_after = max(1, ceil((self.until - now).total_seconds()))
        super().__init__(message, retry_after=retry_after, quota=self.QUOTA, limit=limit)


class RateLimitExceeded(TooManyRequestsError):
    """More searches a second than are allowed; try again a moment later."""

    code = "rate_limited"


def get_next_day_start(now: datetime) -> datetime:
    """Return the end of the day (UTC) of this moment."""
    return datetime.combine(now.astimezone(UTC).date() + timedelta(days=1), time(), UTC)


@dataclass(frozen=True, slots=True)
class RateLimitState:
    """A bucket of searches after one was taken: what it holds when full, now, and in how many seconds it is full."""

    limit: int
    remaining: int
    reset_seconds: int


@dataclass(frozen=True, slots=True)
class StorageUsage:
    """The current storage of a tenant or a key."""

    documents: int
    stored_bytes: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a day or of a key; ``embedding_tokens`` counts those of documents and of queries."""

    uploads: int
    documents: int
    bytes: int
    chunks: int
    searches: int
    embedding_tokens: int
