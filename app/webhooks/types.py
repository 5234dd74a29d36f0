"""Types of webhooks: events, deliveries, outcomes and errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from app.errors import ConflictError, JobPostponed, NotFoundError, UnavailableError

# What triggers enqueue; their migration has the same word.
SEND_WEBHOOK_JOB = "send_webhook"
TEST_EVENT = "webhook.test"


class WebhookEventName(StrEnum):
    """Events that a webhook can subscribe to."""

    DOCUMENT_READY = "document.ready"
    DOCUMENT_FAILED = "document.failed"
    DOCUMENT_DELETED = "document.deleted"
    KNOWLEDGE_BASE_CREATED = "knowledge_base.created"
    KNOWLEDGE_BASE_UPDATED = "knowledge_base.updated"
    KNOWLEDGE_BASE_REINDEXED = "knowledge_base.reindexed"
    KNOWLEDGE_BASE_DELETED = "knowledge_base.deleted"
    QUOTA_NEAR = "quota.near"


class DeliveryStatus(StrEnum):
    """Yet to be sent or tried again; taken by the receiver; given up."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


class WebhookFailureReason(StrEnum):
    """Why an attempt failed, or a delivery or a webhook was given up; never a word of the receiver's."""

    STATUS = "status"
    REDIRECT = "redirect"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    UNRESOLVED = "unresolved"
    ADDRESS_REFUSED = "address_refused"
    DISABLED = "disabled"
    FAILURES = "failures"
    GONE = "gone"


class WebhookNotFound(NotFoundError):
    """There is no such webhook."""

    code = "webhook_not_found"


class DeliveryNotFound(NotFoundError):
    """There is no such delivery."""

    code = "delivery_not_found"


class TooManyWebhooks(ConflictError):
    """This tenant has as many webhooks as it may have."""

    code = "too_many_webhooks"


class WebhookDisabled(ConflictError):
    """The webhook is disabled: enable it first."""

    code = "webhook_disabled"


class DeliveryFailed(UnavailableError):
    """The receiver of a webhook did not take it."""


class WebhookPaused(JobPostponed):
    """The receiver of a webhook failed a moment ago, and is left alone until then."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address with its events; ``failures`` counts the failed attempts since the last successful one."""

    id: UUID
    url: str
    description: str | None
    events: Sequence[str]
    enabled: bool
    disabled_reason: str | None
    failures: int
    former_until: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event for a webhook, and what became of it; ``reason`` is of the last attempt that failed."""

    id: UUID
    event: str
    data: Mapping[str, Any]
    status: DeliveryStatus
    attempts: int
    response_status: int | None
    reason: str | None
    attempted_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """A delivery with its address and its secrets, the newest secret first."""

    delivery: Delivery
    webhook_id: UUID
    url: str
    enabled: bool
    secrets: Sequence[bytes]
    paused_until: datetime | None


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """The outcome of an attempt; without a reason it was successful."""

    status: int | None = None
    reason: WebhookFailureReason | None = None
    retry_after: float = 0.0
