"""Webhooks: addresses that are told of what happens, and what became of what was sent to them."""

from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, StringConstraints, field_validator

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin, CurrentPageParams, encode_cursor
from app.api.http.request_models import STORABLE
from app.api.v1.schemas import ListResponse, StrictRequestModel, Time, Title
from app.ids import decode_id, encode_id
from app.webhooks.sender import to_public_data
from app.webhooks.types import Delivery, DeliveryNotFound, DeliveryStatus, Webhook, WebhookEventName, WebhookNotFound

router = APIRouter(prefix="/webhooks", tags=["webhooks"], route_class=AuthenticatedRoute)
Url = Annotated[str, StringConstraints(min_length=1, max_length=2048), STORABLE]
EventNames = Annotated[list[WebhookEventName], Field(min_length=1, max_length=100)]
MAX_OVERLAP_SECONDS = 7 * 86_400


class WebhookCreate(StrictRequestModel):
    """An https address on the public internet, and what it is told of."""

    url: Url
    events: EventNames
    description: Title | None = None
    enabled: bool = True


class WebhookUpdate(StrictRequestModel):
    """What is to be another; what is left out stays. Enabling one forgets its failures."""

    url: Url | None = None
    events: EventNames | None = None
    description: Title | None = None
    enabled: bool | None = None

    @field_validator("url", "events", "enabled")
    @classmethod
    def _check_not_null(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("must not be null")
        return value


class WebhookSecretRotateRequest(StrictRequestModel):
    """For how long what is sent is signed with both secrets."""

    overlap_seconds: int = Field(86_400, ge=0, le=MAX_OVERLAP_SECONDS)


class WebhookOut(BaseModel):
    """A webhook; ``failures`` are attempts that failed since the last that did not.

    ``disabled_reason`` says why the service has disabled it; it is null where a caller has. Until
    ``former_secret_until`` what is sent is signed with the secret of before too.
    """

    id: str
    url: str
    description: str | None
    events: list[WebhookEventName]
    enabled: bool
    disabled_reason: str | None
    failures: int
    former_secret_until: Time | None
    created_at: Time
    updated_at: Time


class WebhookList(ListResponse[WebhookOut]):
    """A page of webhooks."""


class NewWebhookOut(WebhookOut):
    """With its secret, which is shown this once."""

    secret: str


class WebhookDeliveryOut(BaseModel):
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


class WebhookDeliveryList(ListResponse[WebhookDeliveryOut]):
    """A page of deliveries to a webhook."""


def _to_webhook_out(webhook: Webhook) -> dict[str, Any]:
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


def _to_delivery_out(delivery: Delivery) -> dict[str, Any]:
    return {
        "id": encode_id("dlv", delivery.id),
        "event": delivery.event,
        "data": to_public_data(delivery),
        "status": delivery.status,
        "attempts": delivery.attempts,
        "response_status": delivery.response_status,
        "reason": delivery.reason,
        "attempted_at": delivery.attempted_at,
        "created_at": delivery.created_at,
    }


def _decode_webhook_id(text: str) -> UUID:
    decoded = decode_id("whk", text)
    if decoded is None:
        raise WebhookNotFound
    return decoded


@router.post("", status_code=201, response_model=NewWebhookOut)
async def create_webhook(body: WebhookCreate, tenant: CurrentAdmin) -> dict[str, Any]:
    """Tell an address of events from now on; its secret is in this reply and nowhere else."""
    events = list(dict.fromkeys(body.events))
    created, secret = await tenant.webhooks.create(body.url, events, description=body.description, enabled=body.enabled)
    return {**_to_webhook_out(created), "secret": secret}


@router.get("", response_model=WebhookList)
async def list_webhooks(page: CurrentPageParams, tenant: CurrentAdmin) -> dict[str, Any]:
    """Newest first."""
    rows = await tenant.webhooks.list_webhooks(after=page.parse_cursor(), limit=page.limit + 1)
    items = rows[: page.limit]
    cursor = encode_cursor(items[-1].created_at, items[-1].id) if rows[page.limit :] else None
    return {"items": [_to_webhook_out(webhook) for webhook in items], "next_cursor": cursor}


@router.get("/{webhook}", response_model=WebhookOut)
async def get_webhook(webhook: str, tenant: CurrentAdmin) -> dict[str, Any]:
    """One webhook, without its secret."""
    return _to_webhook_out(await tenant.webhooks.get(_decode_webhook_id(webhook)))


@router.patch("/{webhook}", response_model=WebhookOut)
async def update_webhook(webhook: str, body: WebhookUpdate, tenant: CurrentAdmin) -> dict[str, Any]:
    """Change some of it; what waits to be sent goes where it leads by then."""
    changes = body.model_dump(include=body.model_fields_set)
    if "events" in changes:
        changes["events"] = list(dict.fromkeys(changes["events"]))
    return _to_webhook_out(await tenant.webhooks.update(_decode_webhook_id(webhook), changes))


@router.delete("/{webhook}", status_code=204)
async def delete_webhook(webhook: str, tenant: CurrentAdmin) -> Response:
    """Nothing more is sent to it, and its deliveries are gone."""
    await tenant.webhooks.delete(_decode_webhook_id(webhook))
    return Response(status_code=204)


@router.post("/{webhook}/rotate", response_model=NewWebhookOut)
async def rotate_webhook_secret(
    webhook: str, tenant: CurrentAdmin, body: WebhookSecretRotateRequest | None = None
) -> dict[str, Any]:
    """Make another secret; what is sent during the overlap is signed with both."""
    overlap = timedelta(seconds=(body or WebhookSecretRotateRequest()).overlap_seconds)
    changed, secret = await tenant.webhooks.rotate(_decode_webhook_id(webhook), overlap=overlap)
    return {**_to_webhook_out(changed), "secret": secret}


@router.post("/{webhook}/test", status_code=202, response_model=WebhookDeliveryOut)
async def test_webhook(webhook: str, tenant: CurrentAdmin) -> dict[str, Any]:
    """Send a `webhook.test`; the list of deliveries says what became of it."""
    return _to_delivery_out(await tenant.webhooks.send_test(_decode_webhook_id(webhook)))


@router.get("/{webhook}/deliveries", response_model=WebhookDeliveryList)
async def list_webhook_deliveries(
    webhook: str, page: CurrentPageParams, tenant: CurrentAdmin, status: DeliveryStatus | None = None
) -> dict[str, Any]:
    """What was sent, or is to be, newest first; they are kept for 30 days."""
    deliveries = await tenant.webhooks.list_deliveries(
        _decode_webhook_id(webhook), status, after=page.parse_cursor(), limit=page.limit + 1
    )
    items = deliveries[: page.limit]
    cursor = encode_cursor(items[-1].created_at, items[-1].id) if deliveries[page.limit :] else None
    return {"items": [_to_delivery_out(delivery) for delivery in items], "next_cursor": cursor}


@router.post("/{webhook}/deliveries/{delivery}/replay", status_code=202, response_model=WebhookDeliveryOut)
async def replay_webhook_delivery(webhook: str, delivery: str, tenant: CurrentAdmin) -> dict[str, Any]:
    """Send it again, whatever became of it, under the same id."""
    delivery_id = decode_id("dlv", delivery)
    webhook_id = _decode_webhook_id(webhook)
    if delivery_id is None:
        await tenant.webhooks.get(webhook_id)
        raise DeliveryNotFound
    return _to_delivery_out(await tenant.webhooks.replay(webhook_id, delivery_id))
