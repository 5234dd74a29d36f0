"""One delivery attempt: the request, its address, and its outcome."""

import base64
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from standardwebhooks import WebhookVerificationError

from app.ids import encode_id, generate_id
from app.webhooks.address_policy import AddressPolicy
from app.webhooks.sender import WebhookSender
from app.webhooks.types import Delivery, DeliveryOutcome, DeliveryStatus, WebhookFailureReason
from harness.protocol_servers.certificates import CertificateAuthority
from harness.protocol_servers.webhook import WebhookReceiver

SECRETS = [b"a secret of twenty-four b", b"another of twenty-four by"]
DOCUMENT = generate_id()
DELIVERY = Delivery(
    id=generate_id(),
    event="document.failed",
    data={"document": str(DOCUMENT), "status": "failed", "error": {"code": "corrupt", "retryable": False}},
    status=DeliveryStatus.PENDING,
    attempts=0,
    response_status=None,
    reason=None,
    attempted_at=None,
    created_at=datetime(2026, 1, 2, 3, 4, 5, 678900, UTC),
)
LOCAL = ip_network("127.0.0.0/8")


def shown(secret: bytes) -> str:
    return "whsec_" + base64.b64encode(secret).decode()


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with WebhookReceiver() as running:
        yield running


@asynccontextmanager
async def sending(gate: AddressPolicy, *, seconds: float = 20) -> AsyncIterator[WebhookSender]:
    sender = WebhookSender(gate, timeout_seconds=seconds)
    yield sender
    await sender.close()


async def send(url: str, *, seconds: float = 20) -> DeliveryOutcome:
    async with sending(AddressPolicy([LOCAL]), seconds=seconds) as sender:
        return await sender.send(url, DELIVERY, SECRETS)


@pytest.mark.capability("webhooks-sign")
async def test_send_signed_request_has_documented_body_and_headers(receiver: WebhookReceiver) -> None:
    assert await send(f"{receiver.address}/hooks?a=b") == DeliveryOutcome(200)
    (request,) = receiver.received
    assert request.path == "/hooks?a=b"
    assert request.id == encode_id("dlv", DELIVERY.id)
    assert request.headers["host"] == urlsplit(receiver.address).netloc
    assert request.headers["content-type"] == "application/json"
    for secret in SECRETS:
        assert request.verify(shown(secret)) == {
            "type": "document.failed",
            "timestamp": "2026-01-02T03:04:05.678Z",
            "data": {
                "document": encode_id("doc", DOCUMENT),
                "error": {"code": "corrupt", "retryable": False},
                "status": "failed",
            },
        }
    with pytest.raises(WebhookVerificationError):
        request.verify(shown(b"none of the two, but long"))
    with pytest.raises(WebhookVerificationError):
        replace(request, body=request.body.replace(b"corrupt", b"covered")).verify(shown(SECRETS[0]))


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (200, None), (204, None), (299, None), (301, "redirect"), (302, "redirect"), (307, "redirect"), (400, "status"),
        (401, "status"), (404, "status"), (410, "gone"), (429, "status"), (500, "status"), (503, "status"),
    ],
)  # fmt: skip
async def test_send_outcome_depends_on_status(receiver: WebhookReceiver, status: int, reason: str | None) -> None:
    receiver.status = status
    assert await send(receiver.address) == DeliveryOutcome(
        status, None if reason is None else WebhookFailureReason(reason)
    )


async def test_send_redirect_is_not_followed(receiver: WebhookReceiver) -> None:
    with WebhookReceiver() as other:
        receiver.status, receiver.headers = 307, {"Location": other.address}
        assert (await send(receiver.address)).reason == WebhookFailureReason.REDIRECT
        assert (len(receiver.received), len(other.received)) == (1, 0)


@pytest.mark.parametrize(("asked", "seconds"), [("7", 7), ("100000", 600), ("soon", 0), ("-1", 0)])
async def test_send_retry_after_is_returned(receiver: WebhookReceiver, asked: str, seconds: float) -> None:
    receiver.status, receiver.headers = 503, {"Retry-After": asked}
    assert (await send(receiver.address)).retry_after == seconds


async def test_send_long_reply_is_not_read(receiver: WebhookReceiver) -> None:
    receiver.reply_body = b"x" * 30_000_000
    assert await send(receiver.address) == DeliveryOutcome(200)


async def test_send_to_silent_receiver_is_timeout(receiver: WebhookReceiver) -> None:
    receiver.is_silent = True
    assert await send(receiver.address, seconds=0.3) == DeliveryOutcome(reason=WebhookFailureReason.TIMEOUT)
    assert len(receiver.received) == 1


async def test_send_to_stopped_receiver_is_unreachable() -> None:
    with WebhookReceiver() as gone:
        address = gone.address
    assert await send(address) == DeliveryOutcome(reason=WebhookFailureReason.UNREACHABLE)


async def test_send_connects_to_checked_address_despite_dns_rebinding(receiver: WebhookReceiver) -> None:
    """DNS rebinding: a public address at the check, this machine a moment later.

    The checked address is the connected one.
    """
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    url = receiver.address.replace("127.0.0.1", "rebinding.example")
    async with sending(AddressPolicy(resolve=resolve)) as sender:
        assert await sender.send(url, DELIVERY, SECRETS) == DeliveryOutcome(reason=WebhookFailureReason.ADDRESS_REFUSED)
    assert receiver.received == []
    async with sending(AddressPolicy([LOCAL], resolve)) as sender:
        assert await sender.send(url, DELIVERY, SECRETS) == DeliveryOutcome(200)
    # One look-up for each request: a second one between check and connection could give another address.
    assert asked == ["rebinding.example"] * 2
    assert receiver.received[0].headers["host"] == url.removeprefix("http://")


async def test_send_tries_next_address(receiver: WebhookReceiver) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.2", "127.0.0.1"]  # the receiver listens at the second alone

    async with sending(AddressPolicy([LOCAL], resolve)) as sender:
        url = receiver.address.replace("127.0.0.1", "several.example")
        assert await sender.send(url, DELIVERY, SECRETS) == DeliveryOutcome(200)


async def test_send_ignores_proxy_of_environment(receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    with WebhookReceiver() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.address)
        assert await send(receiver.address) == DeliveryOutcome(200)
        assert proxy.received == []


@pytest.mark.parametrize(
    ("host", "outcome"),
    [
        ("hooks.example", DeliveryOutcome(200)),
        ("other.example", DeliveryOutcome(reason=WebhookFailureReason.UNREACHABLE)),
    ],
)
async def test_send_certificate_must_match_name(tmp_path: Path, host: str, outcome: DeliveryOutcome) -> None:
    """The certificate is not for the connected address, and the server gets the name."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    authority, meant = CertificateAuthority(), []
    context = authority.create_server_context("hooks.example", tmp_path)
    context.sni_callback = lambda _socket, name, _context: meant.append(name)
    with WebhookReceiver(tls=context) as receiver:
        url = receiver.address.replace("http://127.0.0.1", f"https://{host}")
        sender = WebhookSender(
            AddressPolicy([LOCAL], resolve), timeout_seconds=20, certificates=authority.create_client_context()
        )
        assert await sender.send(url, DELIVERY, SECRETS) == outcome
        await sender.close()
        strict = WebhookSender(AddressPolicy([LOCAL], resolve), timeout_seconds=20)
        assert (await strict.send(url, DELIVERY, SECRETS)).reason == WebhookFailureReason.UNREACHABLE
        await strict.close()
    assert set(meant) == {host}
    assert len(receiver.received) == (outcome.reason is None)
