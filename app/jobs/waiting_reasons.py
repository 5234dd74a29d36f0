"""Reasons why a job waits, in the words of the API."""

from datetime import timedelta
from typing import Literal, get_args

WaitingReason = Literal[
    "worker", "tenant_limit", "rate_limit", "embedding_endpoint", "vision_endpoint", "object_store", "retry"
]
WAITING_REASONS: frozenset[str] = frozenset(get_args(WaitingReason))
# A worker is alive if its last heartbeat is at most this old.
MAX_WORKER_SILENCE = timedelta(seconds=60)
_REASON_BY_ERROR_CODE: dict[str, WaitingReason] = {
    "embedding_unavailable": "embedding_endpoint",
    "vision_unavailable": "vision_endpoint",
    "object_store_unavailable": "object_store",
    "tokens_spent": "rate_limit",
    "quota_exceeded": "rate_limit",
}


def find_postponement_reason(code: str | None) -> WaitingReason:
    """Return the reason why a job is due later. ``code`` is the error code of its last attempt, or None."""
    return _REASON_BY_ERROR_CODE.get(code or "", "retry")


def find_waiting_reason(*, has_workers: bool, running: int, max_running: int) -> WaitingReason:
    """Return the reason why a due job waits.

    Args:
        has_workers: Whether a worker is alive.
        running: Number of running jobs of the tenant.
        max_running: Maximum number of running jobs of the tenant.
    """
    return "tenant_limit" if has_workers and running >= max_running else "worker"
