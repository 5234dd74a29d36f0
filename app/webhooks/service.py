"""Use cases of webhooks: create, change, test and delete them, and list and repeat their deliveries."""

import base64
import secrets
from collections.abc import Callable, Mapping, Sequence
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

# Standard Webhooks requires 24 to 64 random bytes after this prefix.
SECRET_PREFIX, SECRET_BYTES = "whsec_", 24


@dataclass(frozen=True, slots=True)
class WebhookService:
    """Service for webhooks of a tenant. Callers are admins; a restricted key cannot use the service."""

    db: TenantDatabase
    principal: Principal
    address_policy: AddressPolicy
    queue: JobQueue

    async def create(
        self, url: str, events: Sequence[str], *, description: str | None, enabled: bool
    ) -> tuple[Webhook, str]:
        """Create a webhook.

        Args:
            url: URL of the receiver.
            events: Names of the events to send.
            description: Description of the webhook, for its administrators.
            enabled: Whether events are sent.

        Returns:
            The webhook and its secret, which cannot be read later.

        Raises:
            InvalidInputError: The URL is not allowed.
            TooManyWebhooks: The quota of webhooks is used up.
            ForbiddenError: The API key is restricted.
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
        """Return a webhook. Raises WebhookNotFound, ForbiddenError."""
        self._require_unrestricted_key()
        async with self.db.transaction() as session:
            return _require_webhook(await self._create_repository(session).find(webhook_id))

    async def list_webhooks(self, *, after: Position | None, limit: int) -> Sequence[Webhook]:
        """Return the tenant's webhooks, newest first. Raises ForbiddenError."""
        self._require_unrestricted_key()
        async with self.db.transaction() as session:
            return await self._create_repository(session).list_webhooks(after=after, limit=limit)

    async def update(
        self, webhook_id: UUID, changes: Mapping[str, Any], *, check: Callable[[Webhook], None] | None = None
    ) -> Webhook:
        """Change fields of a webhook. A change resets its consecutive failures.

        Args:
            webhook_id: ID of the webhook.
            changes: New values by field.
            check: Check of the stored webhook under its lock, before the change; None without one.

        Returns:
            The changed webhook.

        Raises:
            WebhookNotFound: The webhook does not exist.
            InvalidInputError: The URL is not allowed.
            ForbiddenError: The API key is restricted.
        """
        await self.get(webhook_id)
        if "url" in changes:
            await self._check(changes["url"])
        async with self.db.transaction() as session:
            repository = self._create_repository(session)
            before = _require_webhook(await repository.find(webhook_id, lock=True))
            if check is not None:
                check(before)
            after = replace(before, **changes)
            if after == before:
                return before
            await self._record(session, AuditAction.WEBHOOK_UPDATE, webhook_id)
            return _require_webhook(await repository.update(webhook_id, after))

    async def rotate(self, webhook_id: UUID, *, overlap: timedelta) -> tuple[Webhook, str]:
        """Replace the secret of a webhook.

        Args:
            webhook_id: ID of the webhook.
            overlap: Period in which deliveries are signed with both secrets.

        Returns:
            The webhook and its new secret, which cannot be read later.

        Raises:
            WebhookNotFound: The webhook does not exist.
            ForbiddenError: The API key is restricted.
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
        """Send a test event to a webhook, whatever events it subscribes to, and return the delivery.

        Raises:
            WebhookNotFound: The webhook does not exist.
            WebhookDisabled: The webhook is disabled.
            ForbiddenError: The API key is restricted.
        """
        self._require_unrestricted_key()
        async with self.db.transaction() as session:
            repository = await self._require_enabled(session, webhook_id)
            delivery = await repository.add_delivery(webhook_id, TEST_EVENT, {"webhook": str(webhook_id)})
            await self._enqueue(session, delivery)
            await self._record(session, AuditAction.WEBHOOK_TEST, webhook_id)
        return delivery

    async def replay(self, webhook_id: UUID, delivery_id: UUID) -> Delivery:
        """Send a delivery again with the same ID, and return the delivery.

        Raises:
            WebhookNotFound: The webhook does not exist.
            DeliveryNotFound: The webhook has no such delivery.
            WebhookDisabled: The webhook is disabled.
            ForbiddenError: The API key is restricted.
        """
        self._require_unrestricted_key()
        async with self.db.transaction() as session:
            repository = await self._require_enabled(session, webhook_id)
            delivery = await repository.requeue(webhook_id, delivery_id)
            if delivery is None:
                raise DeliveryNotFound
            await self._enqueue(session, delivery, is_replay=True)
            await self._record(session, AuditAction.WEBHOOK_REPLAY, webhook_id)
        return delivery

    async def _require_enabled(self, session: Session, webhook_id: UUID) -> WebhookRepository:
        repository = self._create_repository(session)
        if not _require_webhook(await repository.find(webhook_id)).enabled:
            raise WebhookDisabled
        return repository

    async def _enqueue(self, session: Session, delivery: Delivery, *, is_replay: bool = False) -> None:
        payload = {"delivery": str(delivery.id)} | ({"replay": True} if is_replay else {})
        await self.queue.enqueue(
            session, SEND_WEBHOOK_JOB, tenant_id=self.db.tenant_id, payload=payload, priority=INTERACTIVE
        )

    async def _check(self, url: str) -> None:
        try:
            await self.address_policy.check(url)
        except AddressNotAllowed as refused:
            raise InvalidInputError(refused.message, loc=("body", "url")) from None

    def _require_unrestricted_key(self) -> None:
        """Refuse restricted keys, because webhooks receive the events of the whole tenant."""
        if self.principal.knowledge_base_ids is not None or self.principal.user_id is not None:
            raise ForbiddenError("A restricted API key cannot manage webhooks; use an unrestricted key of an admin.")

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
