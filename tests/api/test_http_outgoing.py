"""Outgoing requests: the service calls only configured addresses, whatever a caller sends."""

import re
from pathlib import Path

import pytest

import app
from harness.hostile import HostileFile
from harness.hostile.links import generate_linking_files
from harness.hostile.listener import LinkListener, link_listener
from harness.running_service import Tenant
from tests.api.breakable_service import BreakableService

DOCUMENTS = "/v1/knowledge-bases/default/documents"
SOURCES = Path(app.__file__).parent
# Modules that can open connections, and the packages that may import them.
# Before adding one, check that no caller chooses the address.
CLIENTS = {
    "socket", "ssl", "http.client", "urllib.request", "urllib3", "ftplib", "smtplib", "poplib", "imaplib", "telnetlib",
    "xmlrpc", "webbrowser", "requests", "aiohttp", "httpx", "httpx2", "openai", "boto3", "botocore", "s3transfer",
    "asyncpg", "websockets",
}  # fmt: skip
ALLOWED = {
    "cli": {"socket", "httpx2", "webbrowser"},  # webbrowser: the demo opens the console
    "db": {"asyncpg", "ssl"},  # ssl: connections to the operator's list of foreign databases
    "embedded_postgres": {"socket"},
    "http_sources": {"httpx2", "socket", "ssl"},
    "inference": {"httpx2", "openai"},
    "object_store": {"boto3", "botocore", "s3transfer"},
    "source_kinds": {"httpx2"},  # sends to the operator's list of sources
    "sandbox": {"socket"},  # socket pairs between the service and its child processes
    "tenants": {"httpx2"},
    "webhooks": {"httpx2", "socket", "ssl"},
    "worker": {"socket"},
}


def clients_of(path: Path) -> set[str]:
    """Return the networking modules that a module imports, for types too."""
    found = re.findall(r"^ *(?:from|import) ([\w.]+)(?: import (\w+))?", path.read_text(), re.MULTILINE)
    names = {name for module, part in found for name in (module, f"{module}.{part}")}
    return {client for client in CLIENTS if any(f"{name}.".startswith(f"{client}.") for name in names)}


def test_only_adapters_of_configured_services_can_call_out() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        room = path.relative_to(SOURCES).parts[0]
        found[room] = found.get(room, set()) | clients_of(path)
    assert {room: clients for room, clients in found.items() if clients} == ALLOWED


def places(url: str) -> list[dict[str, object]]:
    """Return bodies with the address in each field that could be read as one."""
    text = f"See {url}/text and ![picture]({url}/picture.png)."
    return [
        {"text": text, "source_uri": f"{url}/source", "title": f"{url}/title", "external_id": f"{url}/id"},
        {"text": f'<img src="{url}/a"><link rel="stylesheet" href="{url}/b">words', "media_type": "text/html"},
        {"text": text, "media_type": "text/markdown", "metadata": {"url": f"{url}/m"}},
        {"chunks": [{"text": text, "metadata": {"image": {"url": f"{url}/c"}}}]},
    ]


def ask_everything(tenant: Tenant, url: str) -> None:
    """Send searches, names and headers that contain the address."""
    client = tenant.admin
    for body in places(url):
        assert client.post(DOCUMENTS, json=body, params={"wait": 60}).status_code == 201
    spoofed = {"Host": url.removeprefix("http://"), "X-Forwarded-Host": url, "Referer": url, "Origin": url}
    for path in ("/v1/search", "/v1/agent-search"):
        body = {"query": url, "filter": {"url": f"{url}/m"}} if path == "/v1/search" else {}
        messages = [{"role": "user", "content": f"read {url}"}]
        assert client.post(path, json=body or {"messages": messages}, headers=spoofed).status_code == 200
    assert client.get("/v1/me", headers=spoofed).status_code == 200
    client.post("/v1/knowledge-bases", json={"name": "linked", "title": url, "description": url})
    client.get("/v1/me", headers={"Authorization": f"Bearer {url}"})


def upload(tenant: Tenant, file: HostileFile) -> str:
    """Upload a file, and return the status of the document or of the refusal."""
    reply = tenant.admin.post(DOCUMENTS, files={"file": (file.name, file.content)}, params={"wait": 60})
    return str(reply.json()["status"])


@pytest.fixture
def listener() -> LinkListener:  # type: ignore[misc]  # a generator
    with link_listener() as made:
        yield made


@pytest.mark.capability("api-no-calls")
def test_urls_in_uploads_and_searches_are_not_fetched(fragile: BreakableService, listener: LinkListener) -> None:
    tenant = fragile.service.create_tenant("linking")
    ask_everything(tenant, listener.url)
    files = {file.label: file for file in generate_linking_files(listener.url)}
    ends = [upload(tenant, files[label]) for label in ("html", "markdown", "docx", "pptx", "epub", "pdf URI", "mail")]
    assert set(ends) == {"ready"}
    assert listener.connections == 0
