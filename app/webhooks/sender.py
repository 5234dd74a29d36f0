"""One attempt of a webhook delivery, signed by the Standard Webhooks specification and sent to a checked address.

Redirects are not followed, and the response body is not read. Specification:
https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import asyncio
import json
import re
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Self
from uuid import UUID

import httpx2
from standardwebhooks import Webhook as Signer

from app.ids import encode_id
from app.public_addresses import IpAddress
from app.settings.webhook_delivery import WebhookSettings
from app.webhooks.address_policy import AddressNotAllowed, AddressPolicy, WebhookTarget
from app.webhooks.types import Delivery, DeliveryOutcome, WebhookFailureReason

# Maximum number of IP addresses of a host that are tried.
MAX_ADDRESSES = 3
MAX_PAUSE_SECONDS = 600.0
_SECONDS_PATTERN = re.compile(r"\d{1,6}")


class WebhookSender:
    """Sender of the deliveries of all webhooks of a process.

    It uses no proxy of the environment, because a proxy resolves host names itself. It keeps no connection open: a
    connection for one host must not serve another host at the same IP address.
    """

    def __init__(
        self, address_policy: AddressPolicy, *, timeout_seconds: float, certificates: ssl.SSLContext | bool = True
    ) -> None:
        """Create a sender.

        Args:
            address_policy: Check of the addresses.
            timeout_seconds: Maximum time of a whole attempt.
            certificates: Trusted certificates; True for the certificates of the system.
        """
        self.address_policy = address_policy
        self._timeout_seconds = timeout_seconds
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._transport = httpx2.AsyncHTTPTransport(verify=certificates, trust_env=False, limits=limits)

    @classmethod
    def from_settings(cls, settings: WebhookSettings) -> Self:
        """Create a sender; blocking, because it reads certificates."""
        return cls(AddressPolicy(settings.allow_private), timeout_seconds=settings.timeout_seconds)

    async def close(self) -> None:
        """Close the transport."""
        await self._transport.aclose()

    async def send(self, url: str, delivery: Delivery, secrets: Sequence[bytes]) -> DeliveryOutcome:
        """Send a delivery and return the outcome. A status from 200 to 299 before the timeout is a success.

        Args:
            url: URL of the webhook.
            delivery: The delivery.
            secrets: Valid secrets of the webhook; the delivery is signed with each.
        """
        content = build_body(delivery)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                target = await self.address_policy.check(url)
                return await self._post(target, content, build_signature_headers(delivery, content, secrets))
        except AddressNotAllowed as refused:
            return DeliveryOutcome(reason=refused.reason)
        except TimeoutError:
            return DeliveryOutcome(reason=WebhookFailureReason.TIMEOUT)
        except (httpx2.HTTPError, httpx2.InvalidURL):
            return DeliveryOutcome(reason=WebhookFailureReason.UNREACHABLE)

    async def _post(self, target: WebhookTarget, content: bytes, headers: dict[str, str]) -> DeliveryOutcome:
        for address in target.addresses[: MAX_ADDRESSES - 1]:
            try:
                return await self._post_to(address, target, content, headers)
            except httpx2.ConnectError:
                continue
        return await self._post_to(target.addresses[:MAX_ADDRESSES][-1], target, content, headers)

    async def _post_to(
        self, address: IpAddress, target: WebhookTarget, content: bytes, headers: dict[str, str]
    ) -> DeliveryOutcome:
        """Post to an IP address; the Host header has the host name, and the certificate must be valid for it."""
        host = target.url.netloc.decode()
        extensions = {"sni_hostname": target.url.raw_host.decode()} if target.url.scheme == "https" else {}
        request = httpx2.Request(
            "POST",
            target.url.copy_with(host=str(address)),
            headers={"Host": host, **headers},
            content=content,
            extensions=extensions,
        )
        reply = await self._transport.handle_async_request(request)
        try:
            return _to_outcome(reply)
        finally:
            await reply.aclose()  # the body is not read: it is not needed, and may have any length


def _to_outcome(reply: httpx2.Response) -> DeliveryOutcome:
    status = reply.status_code
    if 200 <= status < 300:
        return DeliveryOutcome(status)
    if status == 410:
        return DeliveryOutcome(status, WebhookFailureReason.GONE)
    retry_after = reply.headers.get("Retry-After", "")
    pause = min(MAX_PAUSE_SECONDS, float(retry_after)) if _SECONDS_PATTERN.fullmatch(retry_after) else 0.0
    return DeliveryOutcome(
        status, WebhookFailureReason.REDIRECT if 300 <= status < 400 else WebhookFailureReason.STATUS, pause
    )


def build_body(delivery: Delivery) -> bytes:
    """Return the body of a delivery, which has the same bytes at each attempt."""
    payload = {
        "type": delivery.event,
        "timestamp": delivery.created_at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "data": to_public_data(delivery),
    }
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


_PREFIXES = {"document": "doc", "knowledge_base": "kb", "webhook": "whk"}


def to_public_data(delivery: Delivery) -> dict[str, object]:
    """Return the data of a delivery with public IDs, sorted by name."""
    items = sorted(delivery.data.items())
    return {name: encode_id(_PREFIXES[name], UUID(value)) if name in _PREFIXES else value for name, value in items}


def build_signature_headers(delivery: Delivery, content: bytes, secrets: Sequence[bytes]) -> dict[str, str]:
    """Return the headers of an attempt, with one signature for each secret.

    Args:
        delivery: The delivery.
        content: Body of the request.
        secrets: Valid secrets of the webhook.
    """
    now, message = datetime.now(UTC), encode_id("dlv", delivery.id)
    signatures = [Signer(secret).sign(message, now, content.decode()) for secret in secrets]
    return {
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "Carrel-Webhooks",
        "webhook-id": message,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }
