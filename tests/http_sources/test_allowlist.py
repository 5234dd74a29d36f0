"""Allowlist of HTTP sources: address, method, parameters, headers, secrets and tenants of one binding together."""

import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from app.errors import InvalidInputError
from app.http_sources.addresses import SourceConnections
from app.http_sources.allowlist import SourceAllowlist
from app.http_sources.client import HttpSourceClient
from app.http_sources.types import HeaderValue, HttpSource, ResponsePaths, SourceQuery, SourceUnavailable
from app.ids import encode_id
from app.settings.http_sources import HttpSourceSettings
from harness.protocol_servers.site_search import SiteSearchServer

ONE, OTHER = UUID(int=1), UUID(int=2)
EXACT = {"url": "https://search.example.com/search", "tenants": ["*"]}
BELOW = {"url": "http://10.0.0.5:9200/of-one/", "tenants": [encode_id("ten", ONE)], "methods": ["POST"]}
WHOLE = {"url": "https://EXAMPLE.com:8443/", "tenants": ["*"], "methods": ["GET", "POST"], "headers": ["X-Plain"]}
SECRETS = {"KEY": {"header": "X-Api-Key", "value": "swordfish"}}


def settings(*bindings: Any) -> HttpSourceSettings:
    return HttpSourceSettings(**{"CARREL_HTTP_SOURCES": json.dumps(bindings)})  # type: ignore[arg-type]  # by alias


def gate(*bindings: Any) -> SourceAllowlist:
    return SourceAllowlist(settings(*(bindings or (EXACT, BELOW, WHOLE))).bindings)


def source(url: str, **changes: Any) -> HttpSource:
    return replace(HttpSource(url, ResponsePaths("results", "snippet"), params={"q": "{query}"}), **changes)


def is_allowed(made: SourceAllowlist, asked: HttpSource, tenant: UUID = ONE) -> bool:
    try:
        made.authorize(asked, tenant)
    except InvalidInputError:
        return False
    return True


@pytest.mark.parametrize(
    ("url", "method"),
    [
        ("https://search.example.com/search", "GET"),
        ("HTTPS://SEARCH.example.com:443/search", "GET"),
        ("http://10.0.0.5:9200/of-one/", "POST"),
        ("http://10.0.0.5:9200/of-one/index/_search", "POST"),
        ("https://example.com:8443/", "GET"),
        ("https://example.com:8443", "POST"),
        ("https://example.com:8443/a/b.c/%20d", "GET"),
    ],
)
def test_allow_address_of_binding_passes(url: str, method: str) -> None:
    assert str(gate().authorize(source(url, method=method), ONE).address).lower().startswith(url[:8].lower())


@pytest.mark.parametrize(
    "url",
    [
        # other hosts, schemes and ports
        "https://example.com/q",
        "http://search.example.com/search",
        "https://search.example.com./search",
        "https://a.search.example.com/search",
        "https://search.example.com:8443/search",
        "https://10.0.0.5:9200/of-one/q",
        "http://10.0.0.5/of-one/q",
        "http://167772165:9200/of-one/q",
        "http://0x0a000005:9200/of-one/q",
        "http://[::ffff:10.0.0.5]:9200/of-one/q",
        "https://search.example.com\t.elsewhere.example/search",
        "https://search.example.com%2eelsewhere.example/search",
        "https:///search.example.com/search",
        "//search.example.com/search",
        "https://search.example.com:99999999/search",
        "https://\u2160search.example.com/search",
        "",
        # other paths of an allowed host
        "https://search.example.com",
        "https://search.example.com/",
        "https://search.example.com/search/",
        "https://search.example.com/search/x",
        "https://search.example.com/searches",
        "https://search.example.com/SEARCH",
        "https://search.example.com/%73earch",
        "https://search.example.com//search",
        "https://search.example.com/x/../search",
        "https://search.example.com/search?q=1",
        "https://search.example.com/search#x",
        "https://search.example.com/search;x=1",
        "http://10.0.0.5:9200/",
        "http://10.0.0.5:9200/of-one",
        "http://10.0.0.5:9200/of-one-more/q",
        "http://10.0.0.5:9200/of-one/../of-two/q",
        "http://10.0.0.5:9200/of-one/./q",
        "http://10.0.0.5:9200/of-one/%2e%2e/of-two/q",
        "http://10.0.0.5:9200/of-one/%2E./of-two/q",
        "http://10.0.0.5:9200/of-one/.%2e/of-two/q",
        "http://10.0.0.5:9200/of-one/%252e%252e/of-two/q",
        "http://10.0.0.5:9200/of-one/..%2fof-two/q",
        "http://10.0.0.5:9200/of-one/..%5cof-two/q",
        "http://10.0.0.5:9200/of-one/..;/of-two/q",
        "http://10.0.0.5:9200/of-one/..%3b/of-two/q",
        "http://10.0.0.5:9200/of-one/%2fof-two/q",
        "http://10.0.0.5:9200/of-one//of-two/q",
        "http://10.0.0.5:9200/of-one/%00/q",
        "http://10.0.0.5:9200/of-one/%0d%0aX:%20y",
        "http://10.0.0.5:9200/of-one/%c0%ae%c0%ae/of-two",
        "http://10.0.0.5:9200/of-one/a%zz",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_allow_other_address_is_refused(url: str, method: str) -> None:
    assert not is_allowed(gate(), source(url, method=method))


@pytest.mark.parametrize(
    ("changes", "tenant"),
    [
        ({"method": "POST"}, ONE),
        ({"method": "POST", "body": {"query": "{query}"}}, ONE),
        ({"headers": {"X-Plain": "a"}}, ONE),
        ({"headers": {"X-Api-Key": "a"}}, ONE),
        ({"headers": {"Authorization": {"secret": "KEY"}}}, ONE),
        ({"headers": {"X-Plain": {"secret": "KEY"}}}, ONE),
        ({"headers": {"X-Api-Key": {"secret": "key"}}}, ONE),
        ({"params": {"q": "{query}", "shards": "elsewhere"}}, ONE),
        ({}, OTHER),
    ],
)
def test_allow_binding_different_in_one_part_is_refused(changes: dict[str, Any], tenant: UUID) -> None:
    bound = {**EXACT, "tenants": [encode_id("ten", ONE)], "params": ["q"], "secrets": SECRETS}
    whole = {**WHOLE, "secrets": SECRETS}
    made = gate(bound, BELOW, whole)
    asked = source("https://search.example.com/search", headers={"x-api-KEY": {"secret": "KEY"}})
    assert is_allowed(made, asked)
    assert not is_allowed(made, replace(asked, **changes), tenant)


def test_allow_several_bindings_of_one_address_are_not_mixed() -> None:
    made = gate({**EXACT, "secrets": SECRETS}, {**EXACT, "methods": ["POST"], "headers": ["X-Plain"]})
    both: dict[str, HeaderValue] = {"X-Api-Key": {"secret": "KEY"}, "X-Plain": "a"}
    url = "https://search.example.com/search"
    assert is_allowed(made, source(url, headers={"X-Api-Key": {"secret": "KEY"}}))
    assert is_allowed(made, source(url, method="POST", headers={"X-Plain": "a"}))
    for method in ("GET", "POST"):
        assert not is_allowed(made, source(url, method=method, headers=both))


def test_allow_secret_is_sent_and_not_shown() -> None:
    made = gate({**EXACT, "secrets": SECRETS})
    asked = source("https://search.example.com/search", headers={"X-Api-Key": {"secret": "KEY"}})
    allowed = made.authorize(asked, ONE)
    assert (allowed.headers, allowed.secrets) == ({"X-Api-Key": "swordfish"}, ["swordfish"])
    assert "swordfish" not in repr(made)
    # A secret of another tenant's binding is refused like a name that does not exist.
    other = gate({**EXACT, "secrets": SECRETS, "tenants": [encode_id("ten", OTHER)]}, EXACT)
    messages = []
    for name in ("KEY", "NOTHING"):
        with pytest.raises(InvalidInputError) as refused:
            other.authorize(replace(asked, headers={"X-Api-Key": {"secret": name}}), ONE)
        messages.append(refused.value.message.replace(name, ""))
    assert messages[0] == messages[1]


def test_allow_without_bindings_names_the_setting() -> None:
    with pytest.raises(InvalidInputError, match="CARREL_HTTP_SOURCES"):
        SourceAllowlist().authorize(source("https://search.example.com/q"), ONE)


async def test_ask_removed_binding_is_not_called() -> None:
    with SiteSearchServer() as site:
        asked = source(site.url, headers={"X-Api-Key": {"secret": "KEY"}})
        for bindings in ([], [EXACT], [{"url": site.url, "tenants": ["*"]}]):
            sources = HttpSourceClient.from_settings(settings(*bindings), lambda _text: [])
            with pytest.raises(SourceUnavailable, match="no longer allows"):
                await sources.query(asked, SourceQuery("ferry", 5), tenant_id=ONE, kb_id=ONE, timeout_seconds=30)
            await sources.close()
        assert site.received == []


@asynccontextmanager
async def resolving(
    site: SiteSearchServer, addresses: Sequence[str], **changes: Any
) -> AsyncIterator[HttpSourceClient]:
    """Open a client whose resolver returns these addresses for every name."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    bound = {"url": f"http://site.example:{site.address.rpartition(':')[2]}/", "tenants": ["*"], **changes}
    connections = SourceConnections(ssl.create_default_context(), resolve)
    sources = HttpSourceClient(SourceAllowlist(settings(bound).bindings), lambda _text: [], connections)
    yield sources
    await sources.close()


@pytest.mark.parametrize(
    ("addresses", "changes", "arrives"),
    [
        (["127.0.0.1"], {"allow_private": True}, True),
        (["127.0.0.1"], {}, False),
        (["1.1.1.1", "127.0.0.1"], {}, False),
        (["::ffff:127.0.0.1"], {}, False),
        (["127.0.0.9", "127.0.0.1"], {"allow_private": True}, True),
    ],
)
async def test_ask_name_with_private_address_needs_operators_permission(
    addresses: list[str], changes: dict[str, Any], arrives: bool
) -> None:
    """127.0.0.9 accepts no connection: the next address is tried, and the Host header has the name."""
    with SiteSearchServer() as site:
        port = site.address.rpartition(":")[2]
        asked = source(f"http://site.example:{port}/search", timeout_seconds=30.0)
        async with resolving(site, addresses, **changes) as sources:
            if arrives:
                found = await sources.query(
                    asked, SourceQuery("ferry", 5), tenant_id=ONE, kb_id=ONE, timeout_seconds=30
                )
                assert "ferry" in found[0].text
                assert [one.headers["host"] for one in site.received] == [f"site.example:{port}"]
            else:
                with pytest.raises(SourceUnavailable, match="no longer allows"):
                    await sources.query(asked, SourceQuery("ferry", 5), tenant_id=ONE, kb_id=ONE, timeout_seconds=30)
                assert site.received == []
