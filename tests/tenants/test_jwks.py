"""An issuer's keys: fetched on demand, seldom, and used while the issuer does not answer."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from app.tenants.auth.jwks import (
    EMPTY_RETRY_INTERVAL_SECONDS,
    MAX_AGE_SECONDS,
    MAX_RESPONSE_BYTES,
    REFRESH_INTERVAL_SECONDS,
    IssuerUnavailable,
    JwksClient,
)
from harness.manual_clock import ManualClock
from harness.protocol_servers.token_issuer import SigningKey, TokenIssuer

DISCOVERY = "/.well-known/openid-configuration"


@pytest.fixture
def issuer() -> Iterator[TokenIssuer]:
    with TokenIssuer() as running:
        yield running


@asynccontextmanager
async def opened(
    issuer: TokenIssuer, clock: ManualClock, *, jwks: str | None = None, name: str = ""
) -> AsyncIterator[JwksClient]:
    keys = JwksClient(name or issuer.url, jwks, clock)
    try:
        yield keys
    finally:
        await keys.client.aclose()


async def test_jwks_are_fetched_once_while_fresh(issuer: TokenIssuer) -> None:
    clock = ManualClock()
    async with opened(issuer, clock) as keys:
        assert issuer.request_counts == {}
        found = await asyncio.gather(*(keys.find("first") for _ in range(20)))
        assert all(found)
        clock.now += MAX_AGE_SECONDS - 1
        assert await keys.find("first")
        assert issuer.request_counts == {DISCOVERY: 1, "/keys": 1}
        clock.now += 1
        assert await keys.find("first")
        assert issuer.request_counts == {DISCOVERY: 2, "/keys": 2}


async def test_jwks_address_can_be_configured(issuer: TokenIssuer) -> None:
    async with opened(issuer, ManualClock(), jwks=f"{issuer.url}/keys") as keys:
        assert await keys.find("first")
    assert issuer.request_counts == {"/keys": 1}


async def test_jwks_unknown_key_is_fetched_once_a_minute(issuer: TokenIssuer) -> None:
    clock = ManualClock()
    async with opened(issuer, clock, jwks=f"{issuer.url}/keys") as keys:
        assert await keys.find("first")
        issuer.keys.append(SigningKey.generate("second"))
        for _ in range(10):
            assert await keys.find("second") is None
        assert issuer.request_counts["/keys"] == 1
        clock.now += REFRESH_INTERVAL_SECONDS
        assert await keys.find("second")
        for number in range(10):
            assert await keys.find(f"nobody's {number}") is None
        assert issuer.request_counts["/keys"] == 2


async def test_jwks_key_removed_by_issuer_is_removed(issuer: TokenIssuer) -> None:
    clock = ManualClock()
    async with opened(issuer, clock) as keys:
        assert await keys.find("first")
        issuer.keys[:] = [SigningKey.generate("second")]
        clock.now += MAX_AGE_SECONDS
        assert await keys.find("first") is None
        assert await keys.find("second")


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_jwks_are_used_while_issuer_is_unavailable(issuer: TokenIssuer, status: int) -> None:
    clock = ManualClock()
    async with opened(issuer, clock) as keys:
        assert await keys.find("first")
        issuer.failure_status = status
        clock.now += MAX_AGE_SECONDS
        for _ in range(5):
            assert await keys.find("first")
        assert issuer.request_counts[DISCOVERY] == 2
        issuer.failure_status = None
        clock.now += REFRESH_INTERVAL_SECONDS
        assert await keys.find("first")
        assert issuer.request_counts[DISCOVERY] == 3


async def test_jwks_without_keys_raises_and_retries_soon(issuer: TokenIssuer) -> None:
    clock = ManualClock()
    issuer.failure_status = 503
    async with opened(issuer, clock) as keys:
        for _ in range(3):
            with pytest.raises(IssuerUnavailable):
                await keys.find("first")
        assert issuer.request_counts[DISCOVERY] == 1
        issuer.failure_status = None
        clock.now += EMPTY_RETRY_INTERVAL_SECONDS
        assert await keys.find("first")


async def test_jwks_unreachable_issuer_raises() -> None:
    async with opened(TokenIssuer(), ManualClock(), name="http://127.0.0.1:1") as keys:
        with pytest.raises(IssuerUnavailable):
            await keys.find("first")


PLAIN = {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA", "kid": "first"}


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (DISCOVERY, b"no JSON"),
        (DISCOVERY, b"[" * 100_000),
        (DISCOVERY, b"[]"),
        (DISCOVERY, {}),
        (DISCOVERY, {"issuer": "http://another.example", "jwks_uri": "http://another.example/keys"}),
        (DISCOVERY, {"issuer": "<url>"}),
        (DISCOVERY, {"issuer": "<url>", "jwks_uri": 5}),
        (DISCOVERY, {"issuer": "<url>", "jwks_uri": "file:///etc/passwd"}),
        (DISCOVERY, {"issuer": "<url>", "jwks_uri": "http://[broken"}),
        (DISCOVERY, {"issuer": "<url>", "jwks_uri": "http://"}),
        ("/keys", {}),
        ("/keys", {"keys": {}}),
        ("/keys", {"keys": []}),
        ("/keys", {"keys": [None, 5, {}, {"kid": "first"}, {"kid": 1, "kty": "EC"}, {"kid": "first", "kty": "EC"}]}),
        ("/keys", {"keys": [{"kid": "first", "kty": "RSA", "alg": ["RS256"], "n": "AQAB", "e": "AQAB"}]}),
        ("/keys", {"keys": [PLAIN]}),
        ("/keys", {"keys": [{**PLAIN, "alg": "HS256"}]}),
        ("/keys", {"keys": [{**PLAIN, "alg": "none"}]}),
        ("/keys", b" " * (MAX_RESPONSE_BYTES + 1)),
    ],
    ids=range(19),
)
async def test_jwks_malformed_reply_raises(issuer: TokenIssuer, path: str, answer: Any) -> None:
    told = answer if isinstance(answer, bytes) else json.dumps(answer).replace("<url>", issuer.url).encode()
    issuer.answers[path] = told
    async with opened(issuer, ManualClock()) as keys:
        with pytest.raises(IssuerUnavailable):
            await keys.find("first")


async def test_jwks_encryption_and_unnamed_keys_are_ignored(issuer: TokenIssuer) -> None:
    public = issuer.keys[0].public_jwk
    unnamed = {name: value for name, value in public.items() if name != "kid"}
    issuer.answers["/keys"] = {"keys": [{**public, "kid": "enc", "use": "enc"}, unnamed, {**public, "kid": "good"}]}
    async with opened(issuer, ManualClock()) as keys:
        assert await keys.find("good")
        assert await keys.find("enc") is None


@pytest.mark.parametrize(("scheme", "followed"), [("https", True), ("http", False)])
async def test_jwks_of_https_issuer_are_fetched_over_https_only(scheme: str, followed: bool) -> None:
    name, key = "https://issuer.example", SigningKey.generate("first")

    def answer(request: httpx2.Request) -> httpx2.Response:
        described = {"issuer": name, "jwks_uri": f"{scheme}://issuer.example/keys"}
        found = described if request.url.path == DISCOVERY else {"keys": [key.public_jwk]}
        return httpx2.Response(200, stream=httpx2.ByteStream(json.dumps(found).encode()))

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        keys = JwksClient(name, None, ManualClock(), client)
        if followed:
            assert await keys.find("first")
        else:
            with pytest.raises(IssuerUnavailable):
                await keys.find("first")
