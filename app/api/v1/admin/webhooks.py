"""Webhooks: addresses that receive events, and the deliveries of events to these addresses."""

from datetime import timedelta
from typing import Annotated, Any, ClassVar
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field, StringConstraints, field_validator

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin, CurrentPageParams, encode_cursor
from app.api.http import example_values
from app.api.http.etags import CurrentPrecondition
from app.api.http.path_parameters import DeliveryPath, WebhookPath
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
    """New webhook."""

    url: Url = Field(
        description="Address that gets the events: https, on the public internet, at most 2,048 characters.",
        examples=["https://hooks.example.com/carrel"],
    )
    events: EventNames = Field(
        description="Events to send, 1 to 100.", examples=[["document.ready", "document.failed"]]
    )
    description: Title | None = Field(
        None, description="Description for people, 1 to 500 characters.", examples=["Notifies the intranet."]
    )
    enabled: bool = Field(True, description="Whether events are sent.", examples=[True])


class WebhookUpdate(StrictRequestModel):
    """Changes of a webhook. Fields left out do not change. Enabling a webhook resets its failures."""

    url: Url | None = Field(
        None,
        description="Address that gets the events: https, on the public internet, at most 2,048 characters.",
        examples=["https://hooks.example.com/carrel"],
    )
    events: EventNames | None = Field(None, description="Events to send, 1 to 100.", examples=[["document.ready"]])
    description: Title | None = Field(
        None,
        description="Description for people, 1 to 500 characters; null removes it.",
        examples=["Notifies the intranet."],
    )
    enabled: bool | None = Field(None, description="Whether events are sent.", examples=[True])

    @field_validator("url", "events", "enabled")
    @classmethod
    def _check_not_null(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("must not be null")
        return value


class WebhookSecretRotateRequest(StrictRequestModel):
    """Rotation of a webhook's secret: the time for which the old secret also signs."""

    overlap_seconds: int = Field(
        86_400,
        ge=0,
        le=MAX_OVERLAP_SECONDS,
        description="Seconds for which deliveries are signed with both secrets, 0 to 604,800 (7 days).",
        examples=[86400],
    )


class WebhookOut(BaseModel):
    """Webhook without its secret."""

    etag_fields: ClassVar = frozenset(WebhookUpdate.model_fields)

    id: str = Field(description="Id of the webhook.", examples=[example_values.WEBHOOK_ID])
    url: str = Field(description="Address that gets the events.", examples=["https://hooks.example.com/carrel"])
    description: str | None = Field(
        description="Description for people; null without one.", examples=["Notifies the intranet."]
    )
    events: list[WebhookEventName] = Field(
        description="Events that are sent.", examples=[["document.ready", "document.failed"]]
    )
    enabled: bool = Field(description="Whether events are sent.", examples=[True])
    disabled_reason: str | None = Field(
        description="Reason why the service disabled the webhook; null if it is enabled, or if a caller disabled it.",
        examples=[None],
    )
    failures: int = Field(description="Number of failed attempts since the last successful one.", examples=[0])
    former_secret_until: Time | None = Field(
        description="Time until which deliveries are also signed with the former secret, in UTC; null without one.",
        examples=[None],
    )
    created_at: Time = Field(description="Time of creation, in UTC.", examples=[example_values.CREATED_AT])
    updated_at: Time = Field(description="Time of the last change, in UTC.", examples=[example_values.UPDATED_AT])


class WebhookList(ListResponse[WebhookOut]):
    """Page of webhooks."""


class NewWebhookOut(WebhookOut):
    """Webhook with its secret."""

    secret: str = Field(
        description="Secret that signs deliveries (Standard Webhooks). It is shown once.",
        examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    )


class WebhookDeliveryOut(BaseModel):
    """Delivery of an event to a webhook."""

    id: str = Field(
        description="Id of the delivery, as in the header `webhook-id`.", examples=[example_values.DELIVERY_ID]
    )
    event: str = Field(description="Name of the event.", examples=["document.ready"])
    data: dict[str, Any] = Field(
        description="Data of the event.",
        examples=[{"document": example_values.DOCUMENT_ID, "knowledge_base": example_values.KNOWLEDGE_BASE_ID}],
    )
    status: DeliveryStatus = Field(
        description="`pending`: not delivered yet. `delivered`: the receiver accepted it. `dead`: it was given up.",
        examples=["delivered"],
    )
    attempts: int = Field(description="Number of attempts.", examples=[1])
    response_status: int | None = Field(
        description="HTTP status of the last attempt; null without a response.", examples=[204]
    )
    reason: str | None = Field(
        description="Reason why the last attempt failed, such as `timeout` or `status`; null if it did not.",
        examples=[None],
    )
    attempted_at: Time | None = Field(
        description="Time of the last attempt, in UTC; null before the first one.", examples=[example_values.UPDATED_AT]
    )
    created_at: Time = Field(description="Time of the event, in UTC.", examples=[example_values.CREATED_AT])


class WebhookDeliveryList(ListResponse[WebhookDeliveryOut]):
    """Page of deliveries."""


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


@router.post("", summary="Create a webhook", status_code=201, response_model=NewWebhookOut)
async def create_webhook(body: WebhookCreate, tenant: CurrentAdmin) -> dict[str, Any]:
    """Create a webhook. Its secret is in this response and nowhere else."""
    events = list(dict.fromkeys(body.events))
    created, secret = await tenant.webhooks.create(body.url, events, description=body.description, enabled=body.enabled)
    return {**_to_webhook_out(created), "secret": secret}


@router.get("", summary="List webhooks", response_model=WebhookList)
async def list_webhooks(page: CurrentPageParams, tenant: CurrentAdmin) -> dict[str, Any]:
    """Return the webhooks of the tenant, newest first, without their secrets."""
    rows = await tenant.webhooks.list_webhooks(after=page.parse_cursor(), limit=page.row_limit)
    items = rows[: page.limit]
    cursor = encode_cursor(items[-1].created_at, items[-1].id) if rows[page.limit :] else None
    return page.build_reply([_to_webhook_out(webhook) for webhook in items], cursor)


@router.get("/{webhook}", summary="Get a webhook", response_model=WebhookOut)
async def get_webhook(webhook: WebhookPath, tenant: CurrentAdmin) -> dict[str, Any]:
    """Return a webhook without its secret."""
    return _to_webhook_out(await tenant.webhooks.get(_decode_webhook_id(webhook)))


@router.patch("/{webhook}", summary="Update a webhook", response_model=WebhookOut)
async def update_webhook(
    webhook: WebhookPath, body: WebhookUpdate, tenant: CurrentAdmin, precondition: CurrentPrecondition
) -> dict[str, Any]:
    """Change some fields of a webhook. Pending deliveries go to the new address."""
    changes = body.model_dump(include=body.model_fields_set)
    if "events" in changes:
        changes["events"] = list(dict.fromkeys(changes["events"]))
    check = precondition.build_check(WebhookOut, _to_webhook_out)
    return _to_webhook_out(await tenant.webhooks.update(_decode_webhook_id(webhook), changes, check=check))


@router.delete("/{webhook}", summary="Delete a webhook", status_code=204)
async def delete_webhook(webhook: WebhookPath, tenant: CurrentAdmin) -> Response:
    """Delete a webhook with its deliveries. Nothing more is sent to it."""
    await tenant.webhooks.delete(_decode_webhook_id(webhook))
    return Response(status_code=204)


@router.post("/{webhook}/rotate", summary="Rotate the secret of a webhook", response_model=NewWebhookOut)
async def rotate_webhook_secret(
    webhook: WebhookPath, tenant: CurrentAdmin, body: WebhookSecretRotateRequest | None = None
) -> dict[str, Any]:
    """Create a new secret. During the overlap, deliveries are signed with both secrets."""
    overlap = timedelta(seconds=(body or WebhookSecretRotateRequest()).overlap_seconds)
    changed, secret = await tenant.webhooks.rotate(_decode_webhook_id(webhook), overlap=overlap)
    return {**_to_webhook_out(changed), "secret": secret}


@router.post("/{webhook}/test", summary="Test a webhook", status_code=202, response_model=WebhookDeliveryOut)
async def test_webhook(webhook: WebhookPath, tenant: CurrentAdmin) -> dict[str, Any]:
    """Send an event `webhook.test`. The list of deliveries shows the outcome."""
    return _to_delivery_out(await tenant.webhooks.send_test(_decode_webhook_id(webhook)))


@router.get("/{webhook}/deliveries", summary="List the deliveries of a webhook", response_model=WebhookDeliveryList)
async def list_webhook_deliveries(
    webhook: WebhookPath,
    page: CurrentPageParams,
    tenant: CurrentAdmin,
    status: Annotated[
        DeliveryStatus | None, Query(description="Only deliveries with this status.", examples=["delivered"])
    ] = None,
) -> dict[str, Any]:
    """Return the deliveries of a webhook of the last 30 days, newest first."""
    deliveries = await tenant.webhooks.list_deliveries(
        _decode_webhook_id(webhook), status, after=page.parse_cursor(), limit=page.row_limit
    )
    items = deliveries[: page.limit]
    cursor = encode_cursor(items[-1].created_at, items[-1].id) if deliveries[page.limit :] else None
    return page.build_reply([_to_delivery_out(delivery) for delivery in items], cursor)


@router.post(
    "/{webhook}/deliveries/{delivery}/replay",
    summary="Replay a delivery",
    status_code=202,
    response_model=WebhookDeliveryOut,
)
async def replay_webhook_delivery(webhook: WebhookPath, delivery: DeliveryPath, tenant: CurrentAdmin) -> dict[str, Any]:
    """Send a delivery again under the same id, whatever its status is."""
    delivery_id = decode_id("dlv", delivery)
    webhook_id = _decode_webhook_id(webhook)
    if delivery_id is None:
        await tenant.webhooks.get(webhook_id)
        raise DeliveryNotFound
    return _to_delivery_out(await tenant.webhooks.replay(webhook_id, delivery_id))
