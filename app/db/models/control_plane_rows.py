"""Result rows of the control functions, which read across tenants. Each function has one class."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class AuthenticatedKey:
    """A valid API key with its tenant. ``seconds_left`` is the time until it expires."""

    tenant_id: UUID
    tenant_name: str
    key_id: UUID
    key_name: str
    role: str
    knowledge_base_ids: list[UUID] | None
    user_id: str | None
    seconds_left: float
    quotas: dict[str, Any] | None = None
    key_quotas: dict[str, Any] | None = None
    key_lineage_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class RejectedKey:
    """An API key that is no longer valid, with its tenant."""

    tenant_id: UUID
    key_id: UUID
    key_name: str


@dataclass(frozen=True, slots=True)
class ListedTenant:
    """A tenant in the operator's list."""

    id: UUID
    name: str
    created_at: datetime
    deleted_at: datetime | None


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job that a worker holds until its lease expires. A job with ``every`` is periodic."""

    tenant_id: UUID
    id: UUID
    kind: str
    document_id: UUID | None
    payload: dict[str, Any]
    attempts: int
    max_attempts: int
    every: timedelta | None = None


@dataclass(frozen=True, slots=True)
class ReapedJob:
    """A job whose worker was lost. ``dead`` is whether no attempts are left."""

    tenant_id: UUID
    id: UUID
    kind: str
    document_id: UUID | None
    dead: bool


@dataclass(frozen=True, slots=True)
class ExpiredDocument:
    """A document whose ``expires_at`` has passed, with its tenant and knowledge base."""

    tenant_id: UUID
    kb_id: UUID
    document_id: UUID


@dataclass(frozen=True, slots=True)
class ChangedIndex:
    """A search index whose chunks have changed, or whose rollback period has ended."""

    tenant_id: UUID
    index_id: UUID


@dataclass(frozen=True, slots=True)
class OutdatedIndex:
    """A search index whose term weights (``drifted``) or routing profile (``unrouted``) are outdated."""

    tenant_id: UUID
    index_id: UUID
    drifted: bool
    unrouted: bool


@dataclass(frozen=True, slots=True)
class StalledBackfill:
    """A knowledge base whose metadata backfill no job continues."""

    tenant_id: UUID
    kb_id: UUID


@dataclass(frozen=True, slots=True)
class UnfinishedDeletion:
    """A deletion that is unfinished some time after its request."""

    tenant_id: UUID
    deletion_id: UUID


@dataclass(frozen=True, slots=True)
class WorkerConfinement:
    """Confinement of a worker's parser processes: ``full``, ``partial`` or ``none``, and a line of detail."""

    level: str
    detail: str


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Statistics of the jobs of one tenant or of all tenants. All counts except ``running`` stop at 1,000.

    ``waiting`` jobs are due, ``postponed`` jobs are due later. ``failed`` jobs were given up within 24 hours.
    """

    waiting: int
    oldest_at: datetime | None
    postponed: int
    running: int
    failed: int
