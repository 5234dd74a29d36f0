"""Signing keys of an identity provider, fetched over HTTP and reused while the provider does not answer."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
from jwt import PyJWK, PyJWTError

from app.errors import UnavailableError
from app.logging import get_logger

logger = get_logger(__name__)

# Algorithms with a public key only: with a shared secret, every reader of the secret could sign.
ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
MAX_AGE_SECONDS = 300.0
# An unknown key may be new or forged: the key set is refreshed at most once in this interval.
REFRESH_INTERVAL_SECONDS = 60.0
EMPTY_RETRY_INTERVAL_SECONDS = 5.0
FETCH_TIMEOUT_SECONDS = 3.0
MAX_RESPONSE_BYTES = 256 * 1024
# Without compression, because a small compressed reply could become very large.
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}
DISCOVERY_PATH = "/.well-known/openid-configuration"


class IssuerUnavailable(UnavailableError):
    """The identity provider does not return its keys. Try again."""

    code = "issuer_unavailable"


class InvalidJwksResponse(Exception):
    """The reply of the identity provider is not a key set."""


@dataclass(slots=True)
class JwksClient:
    """Client of an issuer's set of signing keys (JWKS), which finds keys by their id (``kid``).

    Without ``jwks_url``, the client takes the address of the key set from the issuer's discovery document.
    """

    issuer: str
    jwks_url: str | None
    clock: Callable[[], float] = time.monotonic
    client: httpx2.AsyncClient = field(default_factory=lambda: httpx2.AsyncClient(timeout=FETCH_TIMEOUT_SECONDS))
    _keys: Mapping[str, PyJWK] = field(default_factory=dict)
    _fresh_until: float = float("-inf")
    _next_fetch_at: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def find(self, kid: str) -> PyJWK | None:
        """Return a signing key.

        Args:
            kid: The id of the key.

        Returns:
            The key, or None if the issuer has no such key.

        Raises:
            IssuerUnavailable: No key set was ever fetched.
        """
        if self._needs_refresh(kid):
            async with self._lock:
                if self._needs_refresh(kid):
                    await self._refresh()
        if not self._keys:
            raise IssuerUnavailable
        return self._keys.get(kid)

    def _needs_refresh(self, kid: str) -> bool:
        now = self.clock()
        return now >= self._next_fetch_at and (kid not in self._keys or now >= self._fresh_until)

    async def _refresh(self) -> None:
        try:
            async with asyncio.timeout(FETCH_TIMEOUT_SECONDS):
                self._keys = _parse_signing_keys(
                    await self._fetch_json(self.jwks_url or await self._discover_jwks_url())
                )
            self._fresh_until = self.clock() + MAX_AGE_SECONDS
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, InvalidJwksResponse) as error:
            logger.warning("issuer.unavailable", error=error)
        self._next_fetch_at = self.clock() + (REFRESH_INTERVAL_SECONDS if self._keys else EMPTY_RETRY_INTERVAL_SECONDS)

    async def _discover_jwks_url(self) -> str:
        document = await self._fetch_json(self.issuer.rstrip("/") + DISCOVERY_PATH)
        url = document.get("jwks_uri")
        if document.get("issuer") != self.issuer or not isinstance(url, str):
            raise InvalidJwksResponse("the discovery document names another issuer")
        if httpx2.URL(url).scheme not in ({"https"} if self.issuer.startswith("https:") else {"http", "https"}):
            raise InvalidJwksResponse("the address of the keys must use https, like the issuer")
        return url

    async def _fetch_json(self, url: str) -> dict[str, Any]:
        body = bytearray()
        async with self.client.stream("GET", url, headers=HEADERS) as reply:
            if reply.status_code != httpx2.codes.OK:  # redirects are refused, because the address is configured
                raise InvalidJwksResponse(f"status {reply.status_code}")
            async for part in reply.aiter_raw():
                body += part
                if len(body) > MAX_RESPONSE_BYTES:
                    raise InvalidJwksResponse("the response is too long")
        try:
            document = json.loads(body)
        except (ValueError, RecursionError) as exc:
            raise InvalidJwksResponse("the response is not JSON") from exc
        if not isinstance(document, dict):
            raise InvalidJwksResponse("the response is not a JSON object")
        return document


def _parse_signing_keys(document: Mapping[str, Any]) -> Mapping[str, PyJWK]:
    """Return the keys with a ``kid`` and a known algorithm. Raises InvalidJwksResponse if there is none."""
    listed = document.get("keys")
    keys = {}
    for data in listed if isinstance(listed, list) else []:
        if not isinstance(data, dict) or data.get("use", "sig") != "sig" or not isinstance(data.get("kid"), str):
            continue
        if data.get("alg") not in (None, *ALGORITHMS):
            continue
        try:
            key = PyJWK(data)
        except PyJWTError:
            continue
        if key.algorithm_name in ALGORITHMS:
            keys[data["kid"]] = key
    if not keys:
        raise InvalidJwksResponse("the response has no usable signing key")
    return keys
