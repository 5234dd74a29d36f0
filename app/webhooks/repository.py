"""Queries about webhooks and their deliveries."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from app.db.session import Session
from app.db.statements import Record, statement
from app.ids import new_id
from app.webhooks.types import Delivery, DeliveryStatus, DueDelivery, Outcome, Webhook

Position = tuple[datetime, UUID]


class WebhookRepository:
    """Queries in one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def add(
        self, url: str, description: str | None, events: Sequence[str], *, enabled: bool, secret: bytes, most: int
    ) -> Webhook | None:
        """Insert a webhook; None where the tenant has ``most`` of them."""
        values = {"url": url, "description": description, "events": list(events), "enabled": enabled}
        return await self._webhook(_ADD, {"id": new_id(), "secret": secret, "most": most, **values})

    async def find(self, webhook_id: UUID, *, lock: bool = False) -> Webhook | None:
        """The webhook; with ``lock`` nobody else changes it until the transaction ends."""
        return await self._webhook(_LOCK if lock else _FIND, {"id": webhook_id})

    async def page(self, *, after: Position | None, limit: int) -> list[Webhook]:
        """Newest first."""
        after_time, after_id = after or (None, None)
        values = {"tenant": self.tenant_id, "after_time": after_time, "after_id": after_id, "limit": limit}
        return [Webhook(**row) for row in await self.session.rows(_PAGE, values)]

    async def change(self, webhook_id: UUID, webhook: Webhook) -> Webhook | None:
        """Set what callers set. One that is enabled begins anew."""
        values = {
            "id": webhook_id,
            "url": webhook.url,
            "description": webhook.description,
            "events": list(webhook.events),
            "enabled": webhook.enabled,
        }
        return await self._webhook(_CHANGE, values)

    async def rotate(self, webhook_id: UUID, secret: bytes, overlap: timedelta) -> Webhook | None:
        """Another secret; the one of before signs beside it for a while."""
        return await self._webhook(_ROTATE, {"id": webhook_id, "secret": secret, "overlap": overlap})

    async def remove(self, webhook_id: UUID) -> bool:
        """Delete a webhook with its deliveries."""
        return await self.session.row(_REMOVE, {"tenant": self.tenant_id, "id": webhook_id}) is not None

    async def add_delivery(self, webhook_id: UUID, event: str, data: Mapping[str, Any]) -> Delivery:
        """Insert one that no trigger makes."""
        values = {"tenant": self.tenant_id, "id": new_id(), "webhook": webhook_id, "event": event}
        row = await self.session.row(_ADD_DELIVERY, {**values, "data": json.dumps(data)})
        assert row is not None
        return _delivery(row)

    async def find_delivery(self, webhook_id: UUID, delivery_id: UUID) -> Delivery | None:
        """One of this webhook's."""
        values = {"tenant": self.tenant_id, "webhook": webhook_id, "id": delivery_id}
        row = await self.session.row(_FIND_DELIVERY, values)
        return None if row is None else _delivery(row)

    async def deliveries(
        self, webhook_id: UUID, status: DeliveryStatus | None, *, after: Position | None, limit: int
    ) -> list[Delivery]:
        """Newest first."""
        after_time, after_id = after or (None, None)
        values = {
            "tenant": self.tenant_id,
            "webhook": webhook_id,
            "status": status,
            "after_time": after_time,
            "after_id": after_id,
            "limit": limit,
        }
        return [_delivery(row) for row in await self.session.rows(_DELIVERIES, values)]

    async def renew(self, webhook_id: UUID, delivery_id: UUID) -> Delivery | None:
        """It is to be sent again, as if it never had been."""
        values = {"tenant": self.tenant_id, "webhook": webhook_id, "id": delivery_id}
        row = await self.session.row(_RENEW, values)
        return None if row is None else _delivery(row)

    async def due(self, delivery_id: UUID) -> DueDelivery | None:
        """What is to be sent; None where it was, was given up, or the tenant is being deleted."""
        row = await self.session.row(_DUE, {"tenant": self.tenant_id, "id": delivery_id})
        if row is None:
            return None
        former = [] if row["former_secret"] is None else [row["former_secret"]]
        return DueDelivery(
            delivery=_delivery(row),
            webhook_id=row["webhook_id"],
            url=row["url"],
            enabled=row["enabled"],
            secrets=[row["secret"], *former],
            resting_until=row["resting_until"],
        )

    async def settle(self, delivery_id: UUID, status: DeliveryStatus, outcome: Outcome, *, tried: int) -> None:
        """What became of it; ``tried`` is 0 where it was not sent."""
        values = {
            "tenant": self.tenant_id,
            "id": delivery_id,
            "status": status,
            "response": outcome.status,
            "reason": outcome.reason,
            "tried": tried,
        }
        await self.session.rows(_SETTLE, values)

    async def succeeded(self, webhook_id: UUID) -> None:
        """Its receiver takes what is sent."""
        await self.session.rows(_SUCCEEDED, {"tenant": self.tenant_id, "id": webhook_id})

    async def failed(self, webhook_id: UUID, *, pause: float) -> int | None:
        """Its receiver does not: leave it alone for a while. How often in a row; None where it is not enabled."""
        row = await self.session.row(_FAILED, {"tenant": self.tenant_id, "id": webhook_id, "pause": pause})
        return None if row is None else row["failures"]

    async def disable(self, webhook_id: UUID, reason: str) -> None:
        """Nothing more is sent to it."""
        await self.session.rows(_DISABLE, {"tenant": self.tenant_id, "id": webhook_id, "reason": reason})

    async def _webhook(self, asked: Any, values: Mapping[str, Any]) -> Webhook | None:
        row = await self.session.row(asked, {"tenant": self.tenant_id, **values})
        return None if row is None else Webhook(**row)


def _delivery(row: Record) -> Delivery:
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
_W = """id, url, description, events, enabled, disabled_reason, failures,
case when former_until > now() then former_until end as former_until, created_at, updated_at"""
_D = "d.id, d.event, d.data, d.status, d.attempts, d.response_status, d.reason, d.attempted_at, d.created_at"
_ONE = "where tenant_id = :tenant and id = :id"
_OF = "d.tenant_id = :tenant and d.webhook_id = :webhook"
_ADD = statement(f"""
insert into webhook (tenant_id, id, url, description, events, enabled, secret)
select :tenant::uuid, :id::uuid, :url::text, :description::text, :events::text[], :enabled::boolean, :secret::bytea
 where (select count(*) from webhook where tenant_id = :tenant) < :most::int returning {_W}""")  # noqa: S608
_FIND = statement(f"select {_W} from webhook {_ONE}")  # noqa: S608
# Not `for update`: whoever writes a delivery holds the key, and would be waited for.
_LOCK = statement(f"select {_W} from webhook {_ONE} for no key update")  # noqa: S608
_PAGE = statement(f"""
select {_W} from webhook
 where tenant_id = :tenant and (:after_time::timestamptz is null or (created_at, id) < (:after_time, :after_id::uuid))
 order by created_at desc, id desc limit :limit""")  # noqa: S608
_CHANGE = statement(f"""
update webhook
   set url = :url, description = :description, events = :events::text[], enabled = :enabled, updated_at = now(),
       disabled_reason = null, failures = 0, resting_until = null {_ONE} returning {_W}""")  # noqa: S608
_ROTATE = statement(f"""
update webhook set former_secret = secret, former_until = now() + :overlap::interval, secret = :secret,
       updated_at = now() {_ONE} returning {_W}""")  # noqa: S608
_REMOVE = statement(f"delete from webhook {_ONE} returning 1")  # noqa: S608
_ADD_DELIVERY = statement(f"""
insert into webhook_delivery as d (tenant_id, id, webhook_id, event, data)
values (:tenant, :id, :webhook, :event, :data::jsonb) returning {_D}""")  # noqa: S608
_FIND_DELIVERY = statement(f"select {_D} from webhook_delivery d where {_OF} and d.id = :id")  # noqa: S608
_DELIVERIES = statement(f"""
select {_D} from webhook_delivery d
 where {_OF} and (:status::text is null or d.status = :status)
   and (:after_time::timestamptz is null or (d.created_at, d.id) < (:after_time, :after_id::uuid))
 order by d.created_at desc, d.id desc limit :limit""")  # noqa: S608
_RENEW = statement(f"""
update webhook_delivery d set status = 'pending', attempts = 0, response_status = null, reason = null
 where {_OF} and d.id = :id returning {_D}""")  # noqa: S608
_DUE = statement(f"""
select {_D}, w.id as webhook_id, w.url, w.enabled, w.secret,
       case when w.former_until > now() then w.former_secret end as former_secret,
       case when w.resting_until > now() then w.resting_until end as resting_until
  from webhook_delivery d
  join webhook w on w.tenant_id = d.tenant_id and w.id = d.webhook_id
  join tenant t on t.id = d.tenant_id and t.deleted_at is null
 where d.tenant_id = :tenant and d.id = :id and d.status = 'pending'""")  # noqa: S608
_SETTLE = statement(f"""
update webhook_delivery
   set status = :status, attempts = attempts + :tried, response_status = :response, reason = :reason,
       attempted_at = case when :tried > 0 then now() else attempted_at end {_ONE}""")  # noqa: S608
_SUCCEEDED = statement(f"update webhook set failures = 0, resting_until = null {_ONE} and failures > 0")  # noqa: S608
_FAILED = statement(f"""
update webhook
   set failures = failures + 1,
       resting_until = now() + interval '1 s' * greatest(:pause::float8, least(600, 4 ^ least(failures, 9)))
 {_ONE} and enabled returning failures""")  # noqa: S608
_DISABLE = statement(f"update webhook set enabled = false, disabled_reason = :reason {_ONE}")  # noqa: S608
