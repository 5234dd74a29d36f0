"""Webhooks: addresses that are told of what happens, and what became of what was sent to them."""

from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, StringConstraints, field_validator

from app.api.bodies import STORABLE
from app.api.dependencies import CurrentAdmin, CurrentPage, GuardedRoute, next_cursor
from app.api.v1.schemas import Input, Listing, Time, Title
from app.ids import decode_id, encode_id
from app.webhooks.sending import public_data
from app.webhooks.types import Delivery, DeliveryNotFound, DeliveryStatus, EventName, Webhook, WebhookNotFound

router = APIRouter(prefix="/webhooks", tags=["webhooks"], route_class=GuardedRoute)
Url = Annotated[str, StringConstraints(min_length=1, max_length=2048), STORABLE]
Events = Annotated[list[EventName], Field(min_length=1, max_length=100)]
LONGEST_OVERLAP = 7 * 86_400


class WebhookIn(Input):
    """An https address on the public internet, and what it is told of."""

    url: Url
    events: Events
    description: Title | None = None
    enabled: bool = True


class WebhookChanges(Input):
    """What is to be another; what is left out stays. Enabling one forgets its failures."""

    url: Url | None = None
    events: Events | None = None
    description: Title | None = None
    enabled: bool | None = None

    @field_validator("url", "events", "enabled")
    @classmethod
    def _not_null(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("must not be null")
        return value


class RotationIn(Input):
    """For how long what is sent is signed with both secrets."""

    overlap_seconds: int = Field(86_400, ge=0, le=LONGEST_OVERLAP)


class WebhookOut(BaseModel):
    """A webhook; ``failures`` are attempts that failed since the last that did not.

    ``disabled_reason`` says why the service has disabled it; it is null where a caller has. Until
    ``former_secret_until`` what is sent is signed with the secret of before too.
    """

    id: str
    url: str
    description: str | None
    events: list[EventName]
    enabled: bool
    disabled_reason: str | None
    failures: int
    former_secret_until: Time | None
    created_at: Time
    updated_at: Time


class NewWebhookOut(WebhookOut):
    """With its secret, which is shown this once."""

    secret: str


class DeliveryOut(BaseModel):
    """What was sent, or is to be, and what became of it; ``id`` is the header ``webhook-id``.

    ``reason`` and ``response_status`` are of the last attempt.
    """

    id: str
    event: str
    data: dict[str, Any]
    status: DeliveryStatus
    attempts: int
    response_status: int | None
    reason: str | None
    attempted_at: Time | None
    created_at: Time


def _out(webhook: Webhook) -> dict[str, Any]:
    return {
        "id": encode_id("whk", webhook.id),
        "url": webhook.url,
        "description": webhook.description,
        "events": webhook.events,
        "enabled": webhook.enabled,
        "disabled_reason": webhook.disabled_reason,
        "failures": webhook.failures,
        "former_secret_until": webhook.former_until,
        "created_at": webhook.created_at,
        "updated_at": webhook.updated_at,
    }


def _delivery_out(delivery: Delivery) -> dict[str, Any]:
    return {
        "id": encode_id("dlv", delivery.id),
        "event": delivery.event,
        "data": public_data(delivery),
        "status": delivery.status,
        "attempts": delivery.attempts,
        "response_status": delivery.response_status,
        "reason": delivery.reason,
        "attempted_at": delivery.attempted_at,
        "created_at": delivery.created_at,
    }


def _id(text: str) -> UUID:
    found = decode_id("whk", text)
    if found is None:
        raise WebhookNotFound
    return found


@router.post("", status_code=201, response_model=NewWebhookOut)
async def create_webhook(body: WebhookIn, tenant: CurrentAdmin) -> dict[str, Any]:
    """Tell an address of events from now on; its secret is in this reply and nowhere else."""
    events = list(dict.fromkeys(body.events))
    made, secret = await tenant.webhooks.create(body.url, events, description=body.description, enabled=body.enabled)
    return {**_out(made), "secret": secret}


@router.get("", response_model=Listing[WebhookOut])
async def list_webhooks(page: CurrentPage, tenant: CurrentAdmin) -> dict[str, Any]:
    """Newest first."""
    found = await tenant.webhooks.page(after=page.after(), limit=page.limit + 1)
    items = found[: page.limit]
    cursor = next_cursor(items[-1].created_at, items[-1].id) if found[page.limit :] else None
    return {"items": [_out(webhook) for webhook in items], "next_cursor": cursor}


@router.get("/{webhook}", response_model=WebhookOut)
async def get_webhook(webhook: str, tenant: CurrentAdmin) -> dict[str, Any]:
    """One webhook, without its secret."""
    return _out(await tenant.webhooks.get(_id(webhook)))


@router.patch("/{webhook}", response_model=WebhookOut)
async def update_webhook(webhook: str, body: WebhookChanges, tenant: CurrentAdmin) -> dict[str, Any]:
    """Change some of it; what waits to be sent goes where it leads by then."""
    changes = body.model_dump(include=body.model_fields_set)
    if "events" in changes:
        changes["events"] = list(dict.fromkeys(changes["events"]))
    return _out(await tenant.webhooks.change(_id(webhook), changes))


@router.delete("/{webhook}", status_code=204)
async def delete_webhook(webhook: str, tenant: CurrentAdmin) -> Response:
    """Nothing more is sent to it, and its deliveries are gone."""
    await tenant.webhooks.delete(_id(webhook))
    return Response(status_code=204)


@router.post("/{webhook}/rotate", response_model=NewWebhookOut)
async def rotate_webhook_secret(webhook: str, tenant: CurrentAdmin, body: RotationIn | None = None) -> dict[str, Any]:
    """Make another secret; what is sent during the overlap is signed with both."""
    overlap = timedelta(seconds=(body or RotationIn()).overlap_seconds)
    changed, secret = await tenant.webhooks.rotate(_id(webhook), overlap=overlap)
    return {**_out(changed), "secret": secret}


@router.post("/{webhook}/test", status_code=202, response_model=DeliveryOut)
async def test_webhook(webhook: str, tenant: CurrentAdmin) -> dict[str, Any]:
    """Send a `webhook.test`; the list of deliveries says what became of it."""
    return _delivery_out(await tenant.webhooks.test(_id(webhook)))


@router.get("/{webhook}/deliveries", response_model=Listing[DeliveryOut])
async def list_webhook_deliveries(
    webhook: str, page: CurrentPage, tenant: CurrentAdmin, status: DeliveryStatus | None = None
) -> dict[str, Any]:
    """What was sent, or is to be, newest first; they are kept for 30 days."""
    found = await tenant.webhooks.deliveries(_id(webhook), status, after=page.after(), limit=page.limit + 1)
    items = found[: page.limit]
    cursor = next_cursor(items[-1].created_at, items[-1].id) if found[page.limit :] else None
    return {"items": [_delivery_out(delivery) for delivery in items], "next_cursor": cursor}


@router.post("/{webhook}/deliveries/{delivery}/replay", status_code=202, response_model=DeliveryOut)
async def replay_webhook_delivery(webhook: str, delivery: str, tenant: CurrentAdmin) -> dict[str, Any]:
    """Send it again, whatever became of it, under the same id."""
    key = decode_id("dlv", delivery)
    webhook_id = _id(webhook)
    if key is None:
        await tenant.webhooks.get(webhook_id)
        raise DeliveryNotFound
    return _delivery_out(await tenant.webhooks.replay(webhook_id, key))
