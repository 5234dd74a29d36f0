"""Types of webhooks: events, deliveries, outcomes and errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from app.errors import ConflictError, JobPostponed, NotFoundError, UnavailableError

# Kind of the jobs that database triggers enqueue. The SQL of the triggers contains the same text.
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
    """Status of a delivery: pending (another attempt follows), delivered, or dead (no further attempt)."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


class WebhookFailureReason(StrEnum):
    """Reason why an attempt failed, a delivery is dead, or a webhook is disabled; never text of the receiver."""

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
    """The receiver of a webhook did not accept a delivery."""


class WebhookPaused(JobPostponed):
    """The webhook is paused after a failure, so the delivery is postponed."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook: a URL and the events to send to it. ``failures`` counts failed attempts since the last success."""

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
    """Delivery of an event to a webhook, with its status; ``reason`` belongs to the last failed attempt."""

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
    """Pending delivery with the URL and the secrets of its webhook, newest secret first."""

    delivery: Delivery
    webhook_id: UUID
    url: str
    enabled: bool
    secrets: Sequence[bytes]
    paused_until: datetime | None


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """Outcome of an attempt. The attempt succeeded if ``reason`` is None. ``retry_after`` is in seconds."""

    status: int | None = None
    reason: WebhookFailureReason | None = None
    retry_after: float = 0.0
