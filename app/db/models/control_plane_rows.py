"""Rows of the control functions: across tenants, read only, one class a function."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class AuthenticatedKey:
    """A key that is valid now, and for how long at most; and whose it is."""

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
    """A key that is not valid any more, and whose it is."""

    tenant_id: UUID
    key_id: UUID
    key_name: str


@dataclass(frozen=True, slots=True)
class ListedTenant:
    """A row of the operator's list."""

    id: UUID
    name: str
    created_at: datetime
    deleted_at: datetime | None


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job that this worker holds until its lease ends; one with ``every`` is periodic."""

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
    """A job taken back from a worker that was lost."""

    tenant_id: UUID
    id: UUID
    kind: str
    document_id: UUID | None
    dead: bool


@dataclass(frozen=True, slots=True)
class ExpiredDocument:
    """A document whose time has passed, and where it is."""

    tenant_id: UUID
    kb_id: UUID
    document_id: UUID


@dataclass(frozen=True, slots=True)
class ChangedIndex:
    """A search index: one whose chunks have changed, or one that is to go."""

    tenant_id: UUID
    index_id: UUID


@dataclass(frozen=True, slots=True)
class OutdatedIndex:
    """A search index whose weights, or what it is routed by, are too far from what is in it."""

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
    """A deletion that is not over although it was asked for some time ago."""

    tenant_id: UUID
    deletion_id: UUID


@dataclass(frozen=True, slots=True)
class WorkerConfinement:
    """How far a worker confines its parser processes: ``full``, ``partial`` or ``none``, and a line about it."""

    level: str
    detail: str


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Figures of the jobs of one tenant or of all tenants; all counts but that of running jobs stop at 1,000.

    ``waiting`` jobs can run now, ``postponed`` ones at a later time. ``failed`` jobs were given up within 24 hours.
    """

    waiting: int
    oldest_at: datetime | None
    postponed: int
    running: int
    failed: int
