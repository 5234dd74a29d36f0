"""Make, change and try webhooks, and read what became of what was sent."""

import base64
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from app.audit.repository import AuditRepository
from app.audit.types import Actor, AuditAction, AuditEvent
from app.db.session import Session, TenantDatabase
from app.errors import ForbiddenError, InvalidInputError
from app.jobs.queue import INTERACTIVE, JobQueue
from app.principal import Principal
from app.webhooks.address_policy import AddressNotAllowed, AddressPolicy
from app.webhooks.repository import Position, WebhookRepository
from app.webhooks.types import (
    SEND_WEBHOOK_JOB,
    TEST_EVENT,
    Delivery,
    DeliveryNotFound,
    DeliveryStatus,
    TooManyWebhooks,
    Webhook,
    WebhookDisabled,
    WebhookNotFound,
)

# As Standard Webhooks writes it: 24 to 64 bytes behind the prefix.
SECRET_PREFIX, SECRET_BYTES = "whsec_", 24


@dataclass(frozen=True, slots=True)
class WebhookService:
    """The admin's operations on webhooks; a restricted key cannot use them."""

    db: TenantDatabase
    principal: Principal
    address_policy: AddressPolicy
    queue: JobQueue

    async def create(
        self, url: str, events: Sequence[str], *, description: str | None, enabled: bool
    ) -> tuple[Webhook, str]:
        """Create a webhook with a secret, shown only once.

        Raises InvalidInputError, TooManyWebhooks, ForbiddenError.
        """
        self._require_unrestricted_key()
        await self._check(url)
        secret = secrets.token_bytes(SECRET_BYTES)
        async with self.db.transaction() as session:
            webhook = await self._create_repository(session).add(
                url,
                description,
                events,
                enabled=enabled,
                secret=secret,
                max_webhooks=self.principal.quotas.get_row_limit("webhooks"),
            )
            if webhook is None:
                raise TooManyWebhooks
            await self._record(session, AuditAction.WEBHOOK_CREATE, webhook.id)
        return webhook, _format_secret(secret)

    async def get(self, webhook_id: UUID) -> Webhook:
        """Raises WebhookNotFound, ForbiddenError."""
        self._require_unrestricted_key()
        async with self.db.transaction() as session:
            return _require_webhook(await self._create_repository(session).find(webhook_id))

    async def list_webhooks(self, *, after: Position | None, limit: int) -> Sequence[Webhook]:
        """Return the tenant's webhooks, newest first. Raises ForbiddenError."""
        self._require_unrestricted_key()
        async with self.db.transaction() as session:
            return await self._create_repository(session).list_webhooks(after=after, limit=limit)

    async def update(self, webhook_id: UUID, changes: Mapping[str, Any]) -> Webhook:
        """Set the given fields; a webhook that is enabled starts with no failures.

        Raises WebhookNotFound, InvalidInputError, ForbiddenError.
        """
        await self.get(webhook_id)
        if "url" in changes:
            await self._check(changes["url"])
        async with self.db.transaction() as session:
            repository = self._create_repository(session)
            before = _require_webhook(await repository.find(webhook_id, lock=True))
            after = replace(before, **changes)
            if after == before:
                return before
            await self._record(session, AuditAction.WEBHOOK_UPDATE, webhook_id)
            return _require_webhook(await repository.update(webhook_id, after))

    async def rotate(self, webhook_id: UUID, *, overlap: timedelta) -> tuple[Webhook, str]:
        """Replace the secret; the new one is shown only once. Deliveries are signed with both for a while.

        Raises WebhookNotFound, ForbiddenError.
        """
        self._require_unrestricted_key()
        secret = secrets.token_bytes(SECRET_BYTES)
        async with self.db.transaction() as session:
            changed = _require_webhook(await self._create_repository(session).rotate(webhook_id, secret, overlap))
            await self._record(session, AuditAction.WEBHOOK_ROTATE, webhook_id)
        return changed, _format_secret(secret)

    async def delete(self, webhook_id: UUID) -> None:
        """Delete a webhook with its deliveries. Raises WebhookNotFound, ForbiddenError."""
        self._require_unrestricted_key()
        async with self.db.transaction() as session:
            if not await self._create_repository(session).remove(webhook_id):
                raise WebhookNotFound
            await self._record(session, AuditAction.WEBHOOK_DELETE, webhook_id)

    async def list_deliveries(
        self, webhook_id: UUID, status: DeliveryStatus | None, *, after: Position | None, limit: int
    ) -> Sequence[Delivery]:
        """Return the deliveries of a webhook, newest first. Raises WebhookNotFound, ForbiddenError."""
        self._require_unrestricted_key()
        async with self.db.transaction() as session:
            repository = self._create_repository(session)
            _require_webhook(await repository.find(webhook_id))
            return await repository.list_deliveries(webhook_id, status, after=after, limit=limit)

    async def send_test(self, webhook_id: UUID) -> Delivery:
        """Send it something, whatever events it asks for. Raises WebhookNotFound, WebhookDisabled, ForbiddenError."""
        self._require_unrestricted_key()
        async with self.db.transaction() as session:
            repository = await self._require_enabled(session, webhook_id)
            delivery = await repository.add_delivery(webhook_id, TEST_EVENT, {"webhook": str(webhook_id)})
            await self._enqueue(session, delivery)
            await self._record(session, AuditAction.WEBHOOK_TEST, webhook_id)
        return delivery

    async def replay(self, webhook_id: UUID, delivery_id: UUID) -> Delivery:
        """Send it again, under the same id.

        Raises WebhookNotFound, DeliveryNotFound, WebhookDisabled, ForbiddenError.
        """
        self._require_unrestricted_key()
        async with self.db.transaction() as session:
            repository = await self._require_enabled(session, webhook_id)
            delivery = await repository.requeue(webhook_id, delivery_id)
            if delivery is None:
                raise DeliveryNotFound
            await self._enqueue(session, delivery)
            await self._record(session, AuditAction.WEBHOOK_REPLAY, webhook_id)
        return delivery

    async def _require_enabled(self, session: Session, webhook_id: UUID) -> WebhookRepository:
        repository = self._create_repository(session)
        if not _require_webhook(await repository.find(webhook_id)).enabled:
            raise WebhookDisabled
        return repository

    async def _enqueue(self, session: Session, delivery: Delivery) -> None:
        payload = {"delivery": str(delivery.id)}
        await self.queue.enqueue(
            session, SEND_WEBHOOK_JOB, tenant_id=self.db.tenant_id, payload=payload, priority=INTERACTIVE
        )

    async def _check(self, url: str) -> None:
        try:
            await self.address_policy.check(url)
        except AddressNotAllowed as refused:
            raise InvalidInputError(refused.message, loc=("body", "url")) from None

    def _require_unrestricted_key(self) -> None:
        """Refuse restricted keys: the events of webhooks are those of the whole tenant."""
        if self.principal.knowledge_base_ids is not None or self.principal.user_id is not None:
            raise ForbiddenError("A key that is narrowed cannot manage webhooks.")

    async def _record(self, session: Session, action: AuditAction, webhook_id: UUID) -> None:
        event = AuditEvent(action, [webhook_id])
        await AuditRepository(session, self.db.tenant_id).add(event, Actor.from_principal(self.principal))

    def _create_repository(self, session: Session) -> WebhookRepository:
        return WebhookRepository(session, self.db.tenant_id)


def _format_secret(secret: bytes) -> str:
    return SECRET_PREFIX + base64.b64encode(secret).decode()


def _require_webhook(webhook: Webhook | None) -> Webhook:
    if webhook is None:
        raise WebhookNotFound
    return webhook
