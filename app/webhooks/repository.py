"""SQL of webhooks and their deliveries."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from app.db.page_counts import fetch_page
from app.db.session import Session
from app.db.statements import Record, parse_statement
from app.ids import generate_id
from app.webhooks.types import Delivery, DeliveryOutcome, DeliveryStatus, DueDelivery, Webhook

Position = tuple[datetime, UUID]


class WebhookRepository:
    """Repository of the webhooks of one tenant, in one transaction."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def add(
        self,
        url: str,
        description: str | None,
        events: Sequence[str],
        *,
        enabled: bool,
        secret: bytes,
        max_webhooks: int,
    ) -> Webhook | None:
        """Insert a webhook, and return it; None if the tenant has ``max_webhooks`` webhooks already."""
        values = {"url": url, "description": description, "events": list(events), "enabled": enabled}
        return await self._fetch_webhook(_ADD, {"id": generate_id(), "secret": secret, "most": max_webhooks, **values})

    async def find(self, webhook_id: UUID, *, lock: bool = False) -> Webhook | None:
        """Return a webhook, or None if it does not exist. With ``lock`` no other transaction can change it."""
        return await self._fetch_webhook(_LOCK if lock else _FIND, {"id": webhook_id})

    async def list_webhooks(self, *, after: Position | None, limit: int) -> list[Webhook]:
        """Return a page of the tenant's webhooks, newest first. ``after`` is the last webhook of the previous page."""
        after_time, after_id = after or (None, None)
        values = {"tenant": self.tenant_id, "after_time": after_time, "after_id": after_id, "limit": limit}
        return [Webhook(**row) for row in await fetch_page(self.session, _PAGE, values)]

    async def update(self, webhook_id: UUID, webhook: Webhook) -> Webhook | None:
        """Store the fields that callers can set, reset the failures, and return the webhook; None if it is deleted."""
        values = {
            "id": webhook_id,
            "url": webhook.url,
            "description": webhook.description,
            "events": list(webhook.events),
            "enabled": webhook.enabled,
        }
        return await self._fetch_webhook(_CHANGE, values)

    async def rotate(self, webhook_id: UUID, secret: bytes, overlap: timedelta) -> Webhook | None:
        """Replace the secret of a webhook. Deliveries have signatures of both secrets until the overlap ends."""
        return await self._fetch_webhook(_ROTATE, {"id": webhook_id, "secret": secret, "overlap": overlap})

    async def remove(self, webhook_id: UUID) -> bool:
        """Delete a webhook with its deliveries; return whether it existed."""
        return await self.session.fetch_row(_REMOVE, {"tenant": self.tenant_id, "id": webhook_id}) is not None

    async def add_delivery(self, webhook_id: UUID, event: str, data: Mapping[str, Any]) -> Delivery:
        """Insert the delivery of a test event. Database triggers insert the deliveries of all other events."""
        values = {"tenant": self.tenant_id, "id": generate_id(), "webhook": webhook_id, "event": event}
        row = await self.session.fetch_row(_ADD_DELIVERY, {**values, "data": json.dumps(data)})
        assert row is not None
        return _to_delivery(row)

    async def find_delivery(self, webhook_id: UUID, delivery_id: UUID) -> Delivery | None:
        """Return a delivery of a webhook, or None if it does not exist."""
        values = {"tenant": self.tenant_id, "webhook": webhook_id, "id": delivery_id}
        row = await self.session.fetch_row(_FIND_DELIVERY, values)
        return None if row is None else _to_delivery(row)

    async def list_deliveries(
        self, webhook_id: UUID, status: DeliveryStatus | None, *, after: Position | None, limit: int
    ) -> list[Delivery]:
        """Return a page of a webhook's deliveries, newest first. ``after`` is the last delivery of the page before."""
        after_time, after_id = after or (None, None)
        values = {
            "tenant": self.tenant_id,
            "webhook": webhook_id,
            "status": status,
            "after_time": after_time,
            "after_id": after_id,
            "limit": limit,
        }
        return [_to_delivery(row) for row in await fetch_page(self.session, _DELIVERIES, values)]

    async def requeue(self, webhook_id: UUID, delivery_id: UUID) -> Delivery | None:
        """Reset a delivery, so that it is sent again; None if it does not exist."""
        values = {"tenant": self.tenant_id, "webhook": webhook_id, "id": delivery_id}
        row = await self.session.fetch_row(_REQUEUE, values)
        return None if row is None else _to_delivery(row)

    async def load_due(self, delivery_id: UUID, *, is_replay: bool = False) -> DueDelivery | None:
        """Return a delivery with URL and secrets.

        Args:
            delivery_id: ID of the delivery.
            is_replay: Whether a delivery that is not pending is returned too. An earlier attempt may still have been
                running when the replay was requested, and have stored its success afterwards.

        Returns:
            The delivery; None if it is not pending, or its tenant is being deleted.
        """
        values = {"tenant": self.tenant_id, "id": delivery_id, "is_replay": is_replay}
        row = await self.session.fetch_row(_DUE, values)
        if row is None:
            return None
        former = [] if row["former_secret"] is None else [row["former_secret"]]
        return DueDelivery(
            delivery=_to_delivery(row),
            webhook_id=row["webhook_id"],
            url=row["url"],
            enabled=row["enabled"],
            secrets=[row["secret"], *former],
            paused_until=row["paused_until"],
        )

    async def record_outcome(
        self, delivery_id: UUID, status: DeliveryStatus, outcome: DeliveryOutcome, *, attempt_count: int
    ) -> None:
        """Store the outcome of an attempt; ``attempt_count`` is 0 if nothing was sent."""
        values = {
            "tenant": self.tenant_id,
            "id": delivery_id,
            "status": status,
            "response": outcome.status,
            "reason": outcome.reason,
            "tried": attempt_count,
        }
        await self.session.fetch_rows(_RECORD_OUTCOME, values)

    async def record_success(self, webhook_id: UUID) -> None:
        """Reset the failures and the pause of a webhook."""
        await self.session.fetch_rows(_RECORD_SUCCESS, {"tenant": self.tenant_id, "id": webhook_id})

    async def record_failure(self, webhook_id: UUID, *, pause_seconds: float) -> int | None:
        """Pause a webhook after a failed attempt.

        The pause grows with the consecutive failures, from 1 second to 10 minutes.

        Args:
            webhook_id: ID of the webhook.
            pause_seconds: Minimum pause, which the receiver requests.

        Returns:
            The number of consecutive failures, or None if the webhook is not enabled.
        """
        row = await self.session.fetch_row(
            _RECORD_FAILURE, {"tenant": self.tenant_id, "id": webhook_id, "pause": pause_seconds}
        )
        return None if row is None else row["failures"]

    async def disable(self, webhook_id: UUID, reason: str) -> None:
        """Disable a webhook, so that nothing more is sent to it."""
        await self.session.fetch_rows(_DISABLE, {"tenant": self.tenant_id, "id": webhook_id, "reason": reason})

    async def _fetch_webhook(self, query: Any, values: Mapping[str, Any]) -> Webhook | None:
        row = await self.session.fetch_row(query, {"tenant": self.tenant_id, **values})
        return None if row is None else Webhook(**row)


def _to_delivery(row: Record) -> Delivery:
    return Delivery(
        id=row["id"],
        event=row["event"],
        data=row["data"],
        status=DeliveryStatus(row["status"]),
        attempts=row["attempts"],
        response_status=row["response_status"],
        reason=row["reason"],
        attempted_at=row["attempted_at"],
        created_at=row["created_at"],
    )


# The columns of Webhook and Delivery.
_WEBHOOK_COLUMNS = """id, url, description, events, enabled, disabled_reason, failures,
case when former_until > now() then former_until end as former_until, created_at, updated_at"""
_DELIVERY_COLUMNS = (
    "d.id, d.event, d.data, d.status, d.attempts, d.response_status, d.reason, d.attempted_at, d.created_at"
)
_WHERE_ID = "where tenant_id = :tenant and id = :id"
_WHERE_WEBHOOK = "d.tenant_id = :tenant and d.webhook_id = :webhook"
_ADD = parse_statement(f"""
insert into webhook (tenant_id, id, url, description, events, enabled, secret)
select :tenant::uuid, :id::uuid, :url::text, :description::text, :events::text[], :enabled::boolean, :secret::bytea
 where (select count(*) from webhook where tenant_id = :tenant) < :most::int returning {_WEBHOOK_COLUMNS}""")  # noqa: S608
_FIND = parse_statement(f"select {_WEBHOOK_COLUMNS} from webhook {_WHERE_ID}")  # noqa: S608
# Not `for update`, which would wait for transactions that insert a delivery: they lock the webhook's key.
_LOCK = parse_statement(f"select {_WEBHOOK_COLUMNS} from webhook {_WHERE_ID} for no key update")  # noqa: S608
_PAGE = parse_statement(f"""
select {_WEBHOOK_COLUMNS} from webhook
 where tenant_id = :tenant and (:after_time::timestamptz is null or (created_at, id) < (:after_time, :after_id::uuid))
 order by created_at desc, id desc limit :limit""")  # noqa: S608
_CHANGE = parse_statement(f"""
update webhook
   set url = :url, description = :description, events = :events::text[], enabled = :enabled, updated_at = now(),
       disabled_reason = null, failures = 0, paused_until = null {_WHERE_ID} returning {_WEBHOOK_COLUMNS}""")  # noqa: S608
_ROTATE = parse_statement(f"""
update webhook set former_secret = secret, former_until = now() + :overlap::interval, secret = :secret,
       updated_at = now() {_WHERE_ID} returning {_WEBHOOK_COLUMNS}""")  # noqa: S608
_REMOVE = parse_statement(f"delete from webhook {_WHERE_ID} returning 1")  # noqa: S608
_ADD_DELIVERY = parse_statement(f"""
insert into webhook_delivery as d (tenant_id, id, webhook_id, event, data)
values (:tenant, :id, :webhook, :event, :data::jsonb) returning {_DELIVERY_COLUMNS}""")  # noqa: S608
_FIND_DELIVERY = parse_statement(
    f"select {_DELIVERY_COLUMNS} from webhook_delivery d where {_WHERE_WEBHOOK} and d.id = :id"  # noqa: S608
)
_DELIVERIES = parse_statement(f"""
select {_DELIVERY_COLUMNS} from webhook_delivery d
 where {_WHERE_WEBHOOK} and (:status::text is null or d.status = :status)
   and (:after_time::timestamptz is null or (d.created_at, d.id) < (:after_time, :after_id::uuid))
 order by d.created_at desc, d.id desc limit :limit""")  # noqa: S608
_REQUEUE = parse_statement(f"""
update webhook_delivery d set status = 'pending', attempts = 0, response_status = null, reason = null
 where {_WHERE_WEBHOOK} and d.id = :id returning {_DELIVERY_COLUMNS}""")  # noqa: S608
_DUE = parse_statement(f"""
select {_DELIVERY_COLUMNS}, w.id as webhook_id, w.url, w.enabled, w.secret,
       case when w.former_until > now() then w.former_secret end as former_secret,
       case when w.paused_until > now() then w.paused_until end as paused_until
  from webhook_delivery d
  join webhook w on w.tenant_id = d.tenant_id and w.id = d.webhook_id
  join tenant t on t.id = d.tenant_id and t.deleted_at is null
 where d.tenant_id = :tenant and d.id = :id and (:is_replay::boolean or d.status = 'pending')""")  # noqa: S608
_RECORD_OUTCOME = parse_statement(f"""
update webhook_delivery
   set status = :status, attempts = attempts + :tried, response_status = :response, reason = :reason,
       attempted_at = case when :tried > 0 then now() else attempted_at end {_WHERE_ID}""")  # noqa: S608
_RECORD_SUCCESS = parse_statement(f"update webhook set failures = 0, paused_until = null {_WHERE_ID} and failures > 0")  # noqa: S608
_RECORD_FAILURE = parse_statement(f"""
update webhook
   set failures = failures + 1,
       paused_until = now() + interval '1 s' * greatest(:pause::float8, least(600, 4 ^ least(failures, 9)))
 {_WHERE_ID} and enabled returning failures""")  # noqa: S608
_DISABLE = parse_statement(f"update webhook set enabled = false, disabled_reason = :reason {_WHERE_ID}")  # noqa: S608
