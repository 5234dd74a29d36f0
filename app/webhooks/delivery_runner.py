"""Job that sends one attempt of one webhook delivery, outside of any transaction, and stores the outcome."""

from dataclasses import dataclass
from uuid import UUID

from app.audit.repository import AuditRepository
from app.audit.types import SERVICE_ACTOR, AuditAction, AuditEvent
from app.db.session import Database
from app.settings.webhook_delivery import WebhookSettings
from app.webhooks.repository import WebhookRepository
from app.webhooks.sender import WebhookSender
from app.webhooks.types import (
    DeliveryFailed,
    DeliveryOutcome,
    DeliveryStatus,
    DueDelivery,
    WebhookFailureReason,
    WebhookPaused,
)


@dataclass(frozen=True, slots=True)
class WebhookDeliverer:
    """Delivers events of all tenants, at least once: after a crash a receiver may get an event twice."""

    database: Database
    sender: WebhookSender
    settings: WebhookSettings

    async def deliver(self, tenant_id: UUID, delivery_id: UUID, *, is_last: bool, is_replay: bool = False) -> None:
        """Send one attempt of a delivery, and store the outcome.

        Args:
            tenant_id: Tenant of the webhook.
            delivery_id: ID of the delivery.
            is_last: Whether the job queue makes no further attempt.
            is_replay: Whether a caller asked to send the delivery again, whatever its status.

        Raises:
            DeliveryFailed: The attempt failed, and another attempt follows.
            WebhookPaused: The webhook is paused after a failure, so the attempt comes too early.
        """
        async with self.database.transaction(tenant_id) as session:
            repository = WebhookRepository(session, tenant_id)
            due = await repository.load_due(delivery_id, is_replay=is_replay)
            if due is None:
                return
            if not due.enabled:
                await repository.record_outcome(
                    delivery_id,
                    DeliveryStatus.DEAD,
                    DeliveryOutcome(reason=WebhookFailureReason.DISABLED),
                    attempt_count=0,
                )
                return
        if due.paused_until is not None:
            raise WebhookPaused(due.paused_until)
        outcome = await self.sender.send(due.url, due.delivery, due.secrets)
        if not await self._record_outcome(tenant_id, due, outcome, is_last=is_last):
            raise DeliveryFailed(retry_after=outcome.retry_after)

    async def _record_outcome(
        self, tenant_id: UUID, due: DueDelivery, outcome: DeliveryOutcome, *, is_last: bool
    ) -> bool:
        """Store the outcome; return False if another attempt follows. Locks have the same order as in a deletion."""
        delivery_id = due.delivery.id
        async with self.database.transaction(tenant_id) as session:
            repository = WebhookRepository(session, tenant_id)
            if outcome.reason is None:
                await repository.record_success(due.webhook_id)
                await repository.record_outcome(delivery_id, DeliveryStatus.DELIVERED, outcome, attempt_count=1)
                return True
            failures = await repository.record_failure(due.webhook_id, pause_seconds=outcome.retry_after)
            is_final = is_last or due.delivery.attempts + 1 >= self.settings.max_attempts
            if failures is not None and (
                outcome.reason is WebhookFailureReason.GONE or failures >= self.settings.max_consecutive_failures
            ):
                reason = (
                    WebhookFailureReason.GONE
                    if outcome.reason is WebhookFailureReason.GONE
                    else WebhookFailureReason.FAILURES
                )
                await repository.disable(due.webhook_id, reason)
                event = AuditEvent(AuditAction.WEBHOOK_DISABLE, [due.webhook_id], counts={"failures": failures})
                await AuditRepository(session, tenant_id).add(event, SERVICE_ACTOR)
                is_final = True
            status = DeliveryStatus.DEAD if is_final else DeliveryStatus.PENDING
            await repository.record_outcome(delivery_id, status, outcome, attempt_count=1)
            return is_final
