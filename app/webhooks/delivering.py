"""The job that sends: one attempt of one delivery, outside of any transaction, and what follows from it."""

from dataclasses import dataclass
from uuid import UUID

from app.audit.repository import AuditRepository
from app.audit.types import SERVICE, Action, Event
from app.db.session import Database
from app.settings.webhooks import WebhookSettings
from app.webhooks.repository import WebhookRepository
from app.webhooks.sending import WebhookSender
from app.webhooks.types import DeliveryFailed, DeliveryStatus, DueDelivery, Outcome, Reason, Resting


@dataclass(frozen=True, slots=True)
class Delivering:
    """Of all tenants. What a crash leaves unsettled is sent again: a receiver may get it twice, never not at all."""

    database: Database
    sender: WebhookSender
    settings: WebhookSettings

    async def deliver(self, tenant_id: UUID, delivery_id: UUID, *, is_last: bool) -> None:
        """``is_last`` is told of an attempt after which the queue would give up by itself.

        Raises DeliveryFailed to be called again, Resting where it is too early for that.
        """
        async with self.database.transaction(tenant_id) as session:
            repository = WebhookRepository(session, tenant_id)
            due = await repository.due(delivery_id)
            if due is None:
                return
            if not due.enabled:
                await repository.settle(delivery_id, DeliveryStatus.DEAD, Outcome(reason=Reason.DISABLED), tried=0)
                return
        if due.resting_until is not None:
            raise Resting(due.resting_until)
        outcome = await self.sender.send(due.url, due.delivery, due.secrets)
        if not await self._settle(tenant_id, due, outcome, is_last=is_last):
            raise DeliveryFailed(retry_after=outcome.retry_after)

    async def _settle(self, tenant_id: UUID, due: DueDelivery, outcome: Outcome, *, is_last: bool) -> bool:
        """False where it is to be tried again. The webhook before the delivery, as whoever deletes one has them."""
        delivery_id = due.delivery.id
        async with self.database.transaction(tenant_id) as session:
            repository = WebhookRepository(session, tenant_id)
            if outcome.reason is None:
                await repository.succeeded(due.webhook_id)
                await repository.settle(delivery_id, DeliveryStatus.DELIVERED, outcome, tried=1)
                return True
            failures = await repository.failed(due.webhook_id, pause=outcome.retry_after)
            ends = is_last or due.delivery.attempts + 1 >= self.settings.max_attempts
            if failures is not None and (outcome.reason is Reason.GONE or failures >= self.settings.disable_after):
                reason = Reason.GONE if outcome.reason is Reason.GONE else Reason.FAILURES
                await repository.disable(due.webhook_id, reason)
                event = Event(Action.WEBHOOK_DISABLE, [due.webhook_id], counts={"failures": failures})
                await AuditRepository(session, tenant_id).add(event, SERVICE)
                ends = True
            status = DeliveryStatus.DEAD if ends else DeliveryStatus.PENDING
            await repository.settle(delivery_id, status, outcome, tried=1)
            return ends
