"""CORS: what the Fetch standard lets a page of another origin do with the service."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from app.settings import SettingsError, load_settings
from harness.databases import DatabaseFactory
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.problems import assert_problem

DOCUMENTS = "/v1/knowledge-bases/default/documents"
ORIGIN = "https://app.example.com"
SAFE_METHODS = {"GET", "HEAD", "POST"}
SAFE_REQUEST_HEADERS = {"accept", "accept-language", "content-language"}
SAFE_CONTENT_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
SAFE_RESPONSE_HEADERS = {"cache-control", "content-language", "content-length", "content-type"}


class Blocked(Exception):
    """A network error, as a page sees it."""


@dataclass
class Answer:
    """The parts of a reply that a page may read."""

    status: int
    headers: dict[str, str]
    reply: httpx2.Response


@dataclass
class Page:
    """A script of a page, which calls the service through a browser with preflights."""

    client: httpx2.Client
    origin: str = ORIGIN

    def fetch(self, method: str, path: str, *, key: str | None = None, **options: Any) -> Answer:
        headers = dict(options.pop("headers", {})) | ({"Authorization": f"Bearer {key}"} if key else {})
        request = self.client.build_request(method, path, headers={**headers, "Origin": self.origin}, **options)
        asked = sorted({name.lower() for name in headers} - SAFE_REQUEST_HEADERS)
        kind = request.headers.get("content-type", "")
        if kind and not kind.startswith(SAFE_CONTENT_TYPES):
            asked = sorted({*asked, "content-type"})
        if asked or method not in SAFE_METHODS:
            self.ask(method, path, asked)
        reply = self.client.send(request)
        self.let_in(reply)
        exposed = {name.strip().lower() for name in reply.headers.get("access-control-expose-headers", "").split(",")}
        seen = {name: value for name, value in reply.headers.items() if name in exposed | SAFE_RESPONSE_HEADERS}
        return Answer(reply.status_code, seen, reply)

    def ask(self, method: str, path: str, names: list[str]) -> None:
        """Send the preflight, which never carries a key."""
        wish = {"Access-Control-Request-Method": method} | (
            {"Access-Control-Request-Headers": ",".join(names)} if names else {}
        )
        reply = self.client.options(path, headers={"Origin": self.origin, **wish})
        self.let_in(reply)
        methods = {name.strip() for name in reply.headers["access-control-allow-methods"].split(",")}
        allowed = {name.strip().lower() for name in reply.headers["access-control-allow-headers"].split(",")}
        if not reply.is_success or method not in methods | SAFE_METHODS or not allowed.issuperset(names):
            raise Blocked
        assert reply.headers["x-request-id"]

    def let_in(self, reply: httpx2.Response) -> None:
        if reply.headers.get("access-control-allow-origin") not in (self.origin, "*"):
            raise Blocked
        assert "access-control-allow-credentials" not in reply.headers


@pytest.fixture(scope="module")
def open_service(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Service that two origins may call."""

    async def broken() -> None:
        raise RuntimeError("something nobody thought of")

    with EmbeddingServer(dimensions=64) as embedding:
        settings = build_settings(
            tmp_path_factory.mktemp("open"),
            server={"CARREL_CORS_ORIGINS": f"{ORIGIN}, http://localhost:3000"},
            embedding=embedding.settings,
        )
        with run_service(settings, make_database()) as running:
            running.app.add_api_route("/broken", broken)
            yield running


@pytest.fixture(scope="module")
def caller(open_service: Service) -> Tenant:
    return open_service.create_tenant("frontend")


@pytest.mark.capability("api-cors")
def test_cors_page_can_upload_follow_search_and_delete(caller: Tenant) -> None:
    page, key = Page(caller.service.create_client()), caller.key
    files = {"file": ("tides.txt", b"Tides follow the moon.")}
    uploaded = page.fetch("POST", DOCUMENTS, key=key, files=files, headers={"Idempotency-Key": "once"})
    assert uploaded.status == 202
    assert {"x-request-id", "location"} <= uploaded.headers.keys()
    again = page.fetch("POST", DOCUMENTS, key=key, files=files, headers={"Idempotency-Key": "once"})
    assert again.headers["idempotent-replayed"] == "true"
    document = uploaded.headers["location"]

    followed = page.fetch("GET", f"{document}/events", key=key, headers={"Accept": "text/event-stream"})
    assert followed.headers["content-type"].startswith("text/event-stream")
    *_, last = followed.reply.text.strip().split("\n\n")
    assert "event: ready" in last
    resumed = page.fetch("GET", f"{document}/events", key=key, headers={"Last-Event-ID": last.partition("id: ")[2]})
    assert resumed.status in (200, 204)

    found = page.fetch("POST", "/v1/search", key=key, json={"query": "moon"})
    assert [result["text"] for result in found.reply.json()["results"]] == ["Tides follow the moon."]
    assert found.headers["server-timing"]
    changed = page.fetch("PATCH", document, key=key, json={"title": "Tides"})
    assert changed.reply.json()["title"] == "Tides"

    content = page.fetch("GET", f"{document}/content", key=key, headers={"Range": "bytes=0-4"})
    assert (content.status, content.reply.content) == (206, b"Tides")
    assert {"content-disposition", "content-range", "etag"} <= content.headers.keys()
    deleted = page.fetch("DELETE", document, key=key)
    assert (deleted.status, deleted.headers["carrel-deletion-id"][:4]) == (204, "del_")


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("GET", "/v1/me", {"key": "none of ours"}, 401),
        ("GET", "/v1/nothing", {}, 404),
        ("POST", "/v1/search", {"json": {}}, 422),
        ("POST", "/v1/search", {"json": {"query": "x" * 17_000_000}}, 413),
        ("POST", DOCUMENTS, {"files": {"file": ("a.gz", b"\x1f\x8b\x08")}}, 415),
        ("GET", "/broken", {}, 500),
    ],
    ids=["401", "404", "422", "413", "415", "500"],
)
def test_cors_page_can_read_errors(
    caller: Tenant, method: str, path: str, options: dict[str, Any], status: int
) -> None:
    seen = Page(caller.service.create_client()).fetch(method, path, **{"key": caller.key, **options})
    assert assert_problem(seen.reply, status)["request_id"] == seen.headers["x-request-id"]


def test_cors_every_configured_origin_is_allowed(caller: Tenant) -> None:
    page = Page(caller.service.create_client(), "http://localhost:3000")
    assert page.fetch("GET", "/v1/me", key=caller.key).status == 200
    assert page.fetch("GET", "/healthz").reply.headers["vary"] == "Origin"


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://app.example.com",
        "https://app.example.com:8443",
        "https://app.example.com.evil.example",
        "https://evil-app.example.com",
        "https://app.example.com/",
        "HTTPS://APP.EXAMPLE.COM",
        "*",
        "",
    ],
)
def test_cors_other_origin_is_blocked(caller: Tenant, origin: str) -> None:
    page = Page(caller.service.create_client(), origin)
    with pytest.raises(Blocked):
        page.fetch("GET", "/v1/me", key=caller.key)
    with pytest.raises(Blocked):
        page.fetch("GET", "/healthz")


@pytest.mark.parametrize(("method", "name"), [("GET", "X-Evil"), ("PROPFIND", "Authorization")])
def test_cors_unused_methods_and_headers_are_blocked(caller: Tenant, method: str, name: str) -> None:
    with pytest.raises(Blocked):
        Page(caller.service.create_client()).fetch(method, "/v1/me", headers={name: "x"})


@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("GET", "/v1/me", {}),
        ("POST", "/v1/search", {"json": {"query": "x"}}),
        ("POST", DOCUMENTS, {"files": {"file": ("a.txt", b"text")}}),
        ("GET", "/healthz", {"key": None}),
    ],
    ids=["GET", "search", "upload", "without a key"],
)
def test_cors_without_setting_is_off(tenant: Tenant, method: str, path: str, options: dict[str, Any]) -> None:
    with pytest.raises(Blocked):
        Page(tenant.service.create_client()).fetch(method, path, **{"key": tenant.key, **options})
    preflight = tenant.service.create_client().options(
        path, headers={"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
    )
    assert_problem(preflight, 405)
    assert not any(name.startswith("access-control") for name in preflight.headers)
    assert tenant.admin.get(DOCUMENTS).json()["items"] == []


@pytest.mark.parametrize(
    "given",
    [
        "https://a.example/", "https://a.example/path", "a.example", "//a.example", "null", "https://A.example",
        "https://*.a.example", "*, https://a.example", "https://a.example https://b.example", "https://u@a.example",
    ],
)  # fmt: skip
def test_cors_setting_invalid_origin_is_refused(given: str) -> None:
    with pytest.raises(SettingsError, match="CARREL_CORS_ORIGINS: takes origins without a path"):
        load_settings(server={"CARREL_CORS_ORIGINS": given})


@pytest.mark.parametrize("given", ["*", "https://a.example:8443", "http://[::1]:3000", "tauri://localhost", ""])
def test_cors_setting_valid_origin_is_accepted(given: str) -> None:
    assert load_settings(server={"CARREL_CORS_ORIGINS": given}).server.cors_origins == ((given,) if given else ())
