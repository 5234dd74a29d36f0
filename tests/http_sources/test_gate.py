"""What the operator allows: hosts to the letter, and secrets for their hosts and tenants."""

import json
from typing import Any
from uuid import UUID

import pytest

from app.errors import InvalidInput
from app.http_sources.client import HttpSources
from app.http_sources.gate import SourceGate
from app.http_sources.types import Asked, HeaderValue, HttpSource, ResponsePaths, SourceUnavailable
from app.ids import encode_id
from app.settings.http_sources import HttpSourceSettings
from tests.protocol_servers.site_search import SiteSearchServer

ONE, OTHER = UUID(int=1), UUID(int=2)
HOSTS = "search.example.com, EXAMPLE.com:8443, http://10.0.0.5:9200, http://[::1]:80, xn--bcher-kva.example"
SECRETS = {
    "OF_ONE": {"value": "swordfish", "hosts": ["search.example.com"], "tenants": [encode_id("ten", ONE)]},
    "OF_ALL": {"value": "goldfish", "hosts": ["http://10.0.0.5:9200", "search.example.com"], "tenants": ["*"]},
}


def settings(hosts: str = HOSTS, secrets: Any = SECRETS) -> HttpSourceSettings:
    given = {"CARREL_HTTP_SOURCE_HOSTS": hosts, "CARREL_HTTP_SOURCE_SECRETS": json.dumps(secrets)}
    return HttpSourceSettings(**given)  # type: ignore[arg-type]  # by alias


@pytest.fixture
def gate() -> SourceGate:
    made = settings()
    return SourceGate(frozenset(made.hosts), made.secrets or {})


@pytest.mark.parametrize(
    "url",
    [
        "https://search.example.com/q",
        "HTTPS://SEARCH.example.com:443/q",
        "https://example.com:8443/",
        "http://10.0.0.5:9200/index/_search",
        "http://[::1]/q",
        "https://xn--bcher-kva.example/q",
    ],
)
def test_who_is_asked(gate: SourceGate, url: str) -> None:
    assert str(gate.address(url)).lower().startswith(url[:8].lower())


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/q",
        "https://example.com:443/q",
        "http://search.example.com/q",
        "https://search.example.com.",
        "https://a.search.example.com/",
        "https://search.example.com:8443/",
        "https://10.0.0.5:9200/",
        "http://10.0.0.5/",
        "http://167772165:9200/",
        "http://0x0a000005:9200/",
        "http://[::ffff:10.0.0.5]:9200/",
        "http://localhost/",
        "https://search.example.com\t.elsewhere.example/",
        "https://search.example.com%2eelsewhere.example/",
        "https://search.example.com%00.elsewhere.example/",
        "https:///search.example.com/",
        "//search.example.com/",
        "https://search.example.com:99999999/",
        "https://\u2160search.example.com/",
        "",
    ],
)
def test_who_is_not(gate: SourceGate, url: str) -> None:
    with pytest.raises(InvalidInput):
        gate.address(url)


def test_without_a_list_nobody_is() -> None:
    with pytest.raises(InvalidInput, match="CARREL_HTTP_SOURCE_HOSTS"):
        SourceGate().address("https://search.example.com/q")


@pytest.mark.parametrize(
    ("name", "url", "tenant", "value"),
    [
        ("OF_ONE", "https://search.example.com/q", ONE, "swordfish"),
        ("OF_ONE", "https://search.example.com/q", OTHER, None),
        ("OF_ONE", "http://10.0.0.5:9200/q", ONE, None),
        ("OF_ONE", "https://example.com:8443/q", ONE, None),
        ("OF_ALL", "https://search.example.com/q", OTHER, "goldfish"),
        ("OF_ALL", "http://10.0.0.5:9200/q", ONE, "goldfish"),
        ("OF_ALL", "https://example.com:8443/q", ONE, None),
        ("of_all", "https://search.example.com/q", ONE, None),
    ],
)
def test_a_secret_goes_where_it_may_for_whom_it_may(
    gate: SourceGate, name: str, url: str, tenant: UUID, value: str | None
) -> None:
    asked: dict[str, HeaderValue] = {"X-Api-Key": {"secret": name}, "X-Plain": "plain"}
    if value is not None:
        assert gate.headers(asked, gate.address(url), tenant) == {"X-Api-Key": value, "X-Plain": "plain"}
        return
    with pytest.raises(InvalidInput) as refused:
        gate.headers(asked, gate.address(url), tenant)
    # The same for one that is another's and one that is nobody's.
    assert refused.value.message == f"There is no secret {name!r} that may be sent to this host."
    assert "fish" not in repr(gate)


async def test_what_is_allowed_no_more_is_not_asked() -> None:
    with SiteSearchServer() as site:
        source = HttpSource(
            site.url,
            ResponsePaths("results", "snippet"),
            params={"q": "{query}"},
            headers={"X-Api-Key": {"secret": "OF_ALL"}},
        )
        for hosts in ("", "search.example.com", site.address):
            sources = HttpSources.open(settings(hosts), lambda _text: [])
            with pytest.raises(SourceUnavailable, match="any more"):
                await sources.ask(source, Asked("ferry", 5), tenant_id=ONE, kb_id=ONE, seconds=30)
            await sources.close()
        assert site.received == []
