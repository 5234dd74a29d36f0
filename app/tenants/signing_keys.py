"""The keys that an identity provider signs its tokens with: fetched over HTTP, kept while it does not answer."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
from jwt import PyJWK, PyJWTError

from app.errors import Unavailable
from app.logging import get_logger

logger = get_logger(__name__)

# Those that are checked with a public key: nobody can sign with what everybody may read.
ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
FRESH_SECONDS = 300.0
# A key that is not known may be a new one, or nobody's: it is asked for at most so often.
AGAIN_SECONDS = 60.0
AGAIN_WITHOUT_ANY_SECONDS = 5.0
FETCH_SECONDS = 3.0
MOST_BYTES = 256 * 1024
# As it is: a little that is compressed may be very much.
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}
DISCOVERY = "/.well-known/openid-configuration"


class IssuerUnavailable(Unavailable):
    """The identity provider does not tell its keys; try again."""

    code = "issuer_unavailable"


class WrongAnswer(Exception):
    """What an identity provider has answered is not what was asked for."""


@dataclass(slots=True)
class SigningKeys:
    """By their ``kid``. Without ``jwks_url`` the issuer's discovery document says where they are."""

    issuer: str
    jwks_url: str | None
    clock: Callable[[], float] = time.monotonic
    client: httpx2.AsyncClient = field(default_factory=lambda: httpx2.AsyncClient(timeout=FETCH_SECONDS))
    _keys: Mapping[str, PyJWK] = field(default_factory=dict)
    _fresh_until: float = float("-inf")
    _not_before: float = float("-inf")
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def find(self, kid: str) -> PyJWK | None:
        """The key; None where the issuer has no such one. Raises IssuerUnavailable where none was ever fetched."""
        if self._worth_asking(kid):
            async with self._turn:
                if self._worth_asking(kid):
                    await self._refresh()
        if not self._keys:
            raise IssuerUnavailable
        return self._keys.get(kid)

    def _worth_asking(self, kid: str) -> bool:
        now = self.clock()
        return now >= self._not_before and (kid not in self._keys or now >= self._fresh_until)

    async def _refresh(self) -> None:
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                self._keys = _usable(await self._get(self.jwks_url or await self._discovered()))
            self._fresh_until = self.clock() + FRESH_SECONDS
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, WrongAnswer) as error:
            logger.warning("issuer.unavailable", error=error)
        self._not_before = self.clock() + (AGAIN_SECONDS if self._keys else AGAIN_WITHOUT_ANY_SECONDS)

    async def _discovered(self) -> str:
        found = await self._get(self.issuer.rstrip("/") + DISCOVERY)
        url = found.get("jwks_uri")
        if found.get("issuer") != self.issuer or not isinstance(url, str):
            raise WrongAnswer("that is another issuer's description")
        if httpx2.URL(url).scheme not in ({"https"} if self.issuer.startswith("https:") else {"http", "https"}):
            raise WrongAnswer("keys are not fetched less safely than their issuer is named")
        return url

    async def _get(self, url: str) -> dict[str, Any]:
        body = bytearray()
        async with self.client.stream("GET", url, headers=HEADERS) as reply:
            if reply.status_code != httpx2.codes.OK:  # a redirect as well: whom to ask is configured
                raise WrongAnswer(f"status {reply.status_code}")
            async for part in reply.aiter_raw():
                body += part
                if len(body) > MOST_BYTES:
                    raise WrongAnswer("too long")
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as exc:
            raise WrongAnswer("no JSON") from exc
        if not isinstance(found, dict):
            raise WrongAnswer("no JSON object")
        return found


def _usable(found: Mapping[str, Any]) -> Mapping[str, PyJWK]:
    """Those with a ``kid`` that sign in a way that we know. Raises WrongAnswer where there is none."""
    listed = found.get("keys")
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
        raise WrongAnswer("no key to check signatures with")
    return keys
