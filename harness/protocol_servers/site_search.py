"""Search API of a website, and of a web search engine. They search a few pages and can simulate failures."""

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from harness.protocol_servers.http_server import FailingServer, ProtocolHandler, ProtocolHttpServer

SiteFailure = Literal[
    "never", "late", "drip", "disconnect", "redirect", "not_json", "html", "deep", "huge", "many", "gzip",
    "wrong_shape", "no_text", "cookie",
]  # fmt: skip
PAGES = {
    "/opening": ("Opening hours", "The harbour museum is open from ten to six, on Mondays it is closed."),
    "/tickets": ("Tickets", "A ticket of the harbour museum costs twelve euros, for children it is free."),
    "/ferry": ("Ferry", "The ferry to the lighthouse leaves from the old harbour at noon."),
}


@dataclass(frozen=True, slots=True)
class ReceivedSiteSearchRequest:
    """Received request. ``params`` are the query parameters, each with its first value."""

    method: str
    path: str
    params: dict[str, str]
    body: Any
    headers: dict[str, str]


@dataclass
class SiteSearchServer(FailingServer[SiteFailure | int]):
    """Search APIs while the ``with`` block runs. With ``api_key``, requests need the header ``X-Api-Key``.

    - GET ``/search`` with ``q`` and ``n`` returns ``results``.
    - POST ``/api/query`` with JSON returns ``hits.hits``.
    - GET ``/web`` is a search engine over many sites, which supports ``site:``.
    - GET ``/echo`` returns the request's headers.
    """

    api_key: str | None = None
    pages: Mapping[str, tuple[str, str]] = field(default_factory=lambda: PAGES)
    sites: Mapping[str, str] = field(default_factory=dict)
    received: list[ReceivedSiteSearchRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.arrived = threading.Event()

    def create_http_server(self) -> ThreadingHTTPServer:
        """Create the HTTP server, bound to a port and not yet serving."""
        return ProtocolHttpServer(self, _SiteSearchHandler)

    @property
    def url(self) -> str:
        """Address of the search with GET."""
        return f"{self.address}/search"

    def fail(self, how: SiteFailure | int, *, times: int = 1) -> None:
        """Make the next requests fail. A number is an HTTP status; "late" replies when ``released`` is set."""
        with self._lock:
            self._failures += [how] * times

    def find_pages(self, query: str) -> list[dict[str, Any]]:
        """Return the pages with any word of the query, those with most of the words first.

        Args:
            query: The query.
        """
        requested = set(re.findall(r"\w+", query.lower()))
        scored = [
            {
                "title": title,
                "snippet": text,
                "link": path,
                "rank": len(requested & set(re.findall(r"\w+", text.lower()))),
            }
            for path, (title, text) in self.pages.items()
        ]
        return sorted((item for item in scored if item["rank"]), key=lambda item: -item["rank"])

    def search_web(self, query: str) -> list[dict[str, Any]]:
        """Return the pages of all sites with any word of the query.

        Args:
            query: The query; ``site:`` with a host name restricts the results to that site and may be repeated.
        """
        only = re.findall(r"site:(\S+)", query)
        words = set(re.findall(r"\w+", re.sub(r"site:\S+", "", query).lower()))
        return [
            {"name": "A page", "url": url, "snippet": text}
            for url, text in self.sites.items()
            if words & set(re.findall(r"\w+", text.lower()))
            and (not only or any(urlsplit(url).hostname == item for item in only))
        ]


def build_source_settings(*sites: SiteSearchServer, **binding: Any) -> dict[str, str]:
    """Build settings that allow all tenants to send any request to these sites.

    Args:
        sites: The sites.
        binding: Further fields of each site's settings.
    """
    whole = {"tenants": ["*"], "methods": ["GET", "POST"], **binding}
    return {"CARREL_HTTP_SOURCES": json.dumps([{"url": f"{site.address}/", **whole} for site in sites])}


class _SiteSearchHandler(ProtocolHandler[SiteSearchServer]):
    def do_GET(self) -> None:
        self.serve(None)

    def do_POST(self) -> None:
        self.serve(self.read_json())

    def serve(self, body: Any) -> None:
        site = self.served
        parts = urlsplit(self.path)
        params = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        headers = self.read_headers()
        how = site.record(ReceivedSiteSearchRequest(self.command, parts.path, params, body, headers))
        site.arrived.set()
        if site.api_key is not None and headers.get("x-api-key") != site.api_key:
            self.answer(401, {"error": "a message that may repeat the key"})
        elif isinstance(how, int):
            self.answer(how, {"error": "a message that may repeat the query"})
        elif not self.send_failure(how):
            self.answer(200, self.build_results(parts.path, params, body), cookie=how == "cookie")

    def build_results(self, path: str, params: dict[str, str], body: Any) -> Any:
        site = self.served
        if path == "/echo":
            return {"results": [{"snippet": f"{name}: {value}"} for name, value in self.read_headers().items()]}
        if path == "/search":
            return {"results": site.find_pages(params["q"])[: int(params.get("n", 10))]}
        if path == "/web":
            return {"webPages": {"value": site.search_web(params["q"])}}
        hits = [
            {"_source": item, "_score": item["rank"]}
            for item in site.find_pages(body["query"]["match"])[: body["size"]]
        ]
        return {"hits": {"hits": hits}}

    def send_failure(self, how: SiteFailure | None) -> bool:
        """Send a failure that replaces the reply.

        Args:
            how: The failure.

        Returns:
            Whether the request is finished; otherwise a reply must follow.
        """
        replies: dict[str, tuple[bytes, dict[str, str]]] = {
            "not_json": (b"{'results': []}", {}),
            "html": (b'{"results": []}', {"Content-Type": "text/html"}),
            "deep": (b"[" * 50_000, {}),
            "huge": (b'{"results": [' + b" " * 2_500_000 + b"]}", {}),
            "many": (b'{"results": [' + b"{}," * 30_000 + b"{}]}", {}),
            "gzip": (b'{"results": []}', {"Content-Encoding": "gzip"}),
            "wrong_shape": (b'{"results": {"first": "a text"}}', {}),
            "no_text": (b'{"results": [{"snippet": 7}]}', {}),
        }
        if how in replies:
            body, headers = replies[how]
            self.send(200, body, headers)
        elif how == "redirect":
            self.send(302, b"", {"Location": f"{self.served.address}/elsewhere"})
        elif how == "disconnect":
            self.close_connection = True
        elif how in ("never", "drip"):
            self.wait_without_answer(drips=how == "drip")
        else:
            if how == "late":
                self.served.released.wait(30)
            return False
        return True

    def answer(self, status: int, reply: Any, *, cookie: bool = False) -> None:
        self.send(status, json.dumps(reply).encode(), {"Set-Cookie": "session=of-somebody"} if cookie else {})
