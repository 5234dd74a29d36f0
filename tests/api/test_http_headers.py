"""Response headers: the instructions to browsers, and no values from the request."""

import hashlib
import json
import re
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

import app.api.api_docs
from harness.running_service import Service, Tenant

DOCUMENTS = "/v1/knowledge-bases/default/documents"
EVERY = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "x-frame-options": "DENY"}
API = {"cache-control": "no-store", "content-security-policy": "default-src 'none'; frame-ancestors 'none'"}


def replies(tenant: Tenant) -> list[httpx2.Response]:
    """Return replies of every kind: data, keys, no body, streams, errors of the service and of the framework."""
    admin, anybody = tenant.admin, tenant.service.create_client()
    document = tenant.add_text("Terns fish.")
    path = f"{DOCUMENTS}/{document['id']}"
    made = admin.post("/v1/api-keys", json={"name": "a", "role": "reader"})
    return [
        admin.get("/v1/me"),
        made,
        admin.delete(f"/v1/api-keys/{made.json()['id']}"),
        admin.post("/v1/search", json={"query": "terns"}),
        admin.post("/v1/agent-search", json={"messages": [{"role": "user", "content": "terns"}]}),
        admin.get(f"{path}/events"),
        anybody.get("/v1/me"),
        anybody.get("/healthz"),
        anybody.get("/readyz"),
        anybody.get("/openapi.json"),
        anybody.get("/nothing"),
        anybody.request("TRACE", "/v1/me"),
        admin.post("/v1/search", json={}),
        admin.post("/v1/search", content=b'{"query": "' + b"x" * 17_000_000 + b'"}'),
    ]


def test_every_reply_has_security_headers(tenant: Tenant) -> None:
    for reply in replies(tenant):
        for name, value in {**EVERY, **API}.items():
            assert reply.headers.get_list(name) == [value], (reply.request.url, name)
        assert reply.headers["x-request-id"]


@pytest.mark.parametrize("page", ["/docs", "/redoc"])
def test_docs_page_loads_every_asset_from_its_own_origin(service: Service, page: str) -> None:
    reply = service.create_client().get(page)
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/html")
    assert EVERY.items() <= dict(reply.headers).items()
    policy = dict(part.strip().split(" ", 1) for part in reply.headers["content-security-policy"].split(";"))
    assert (policy["default-src"], policy["frame-ancestors"]) == ("'none'", "'none'")
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in reply.headers["content-security-policy"]
    assert "http" not in reply.headers["content-security-policy"]
    # Without inline scripts and styles, everything is an attribute that names a file.
    assert re.findall(r"<script[^>]*>(.*?)</script>", reply.text, re.DOTALL) == ["", ""]
    assert not re.search(r"<style|\bstyle=|\bon\w+=", reply.text)
    named = re.findall(r'\b(?:src|href|data-description)="([^"]+)"', reply.text)
    assert len(named) >= 4
    for address in named:
        if address != "data:,":
            assert re.match(r"/(?!/)", address), address
            asset = service.create_client().get(address)
            assert asset.status_code == 200, address
            assert EVERY.items() <= dict(asset.headers).items()


@pytest.mark.parametrize(
    ("name", "licences"),
    [("swagger-ui", {"LICENSE", "NOTICE"}), ("redoc", {"LICENSE", "redoc.standalone.js.LICENSE.txt"})],
)
def test_docs_page_files_are_the_pinned_release(name: str, licences: set[str]) -> None:
    static = Path(app.api.api_docs.__file__).with_name("static")
    manifest = json.loads((static / "manifest.json").read_text())[name]
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"])
    (folder,) = static.glob(f"{name}-*")
    assert folder.name == f"{name}-{manifest['version']}"
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    assert digests == manifest["files"]
    assert licences <= set(digests)


@pytest.mark.parametrize("name", ["start.js", "start-redoc.js"])
def test_own_script_of_docs_page_names_no_address(name: str) -> None:
    static = Path(app.api.api_docs.__file__).with_name("static")
    assert "//" not in re.sub(r"^ *//.*$", "", (static / name).read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
async def test_docs_page_behind_a_prefix_names_files_below_it(path: str) -> None:
    prefixed = FastAPI(docs_url=None, redoc_url=None)
    app.api.api_docs.add_docs_pages(prefixed)
    transport = httpx2.ASGITransport(prefixed, root_path="/carrel")
    async with httpx2.AsyncClient(transport=transport, base_url="http://service") as client:
        page = (await client.get(f"/carrel{path}")).text
    named = re.findall(r'\b(?:src|data-description)="([^"]+)"', page)
    assert len(named) == 3
    assert all(address.startswith("/carrel/") for address in named)


@pytest.mark.parametrize("path", ["/v1/tenants/", "/v1/me/", "//evil.example/v1/me", "/v1//me", "/docs/"])
def test_host_header_causes_no_redirect(tenant: Tenant, path: str) -> None:
    reply = tenant.admin.get(f"{tenant.service.url}{path}", headers={"Host": "evil.example"})
    assert reply.status_code == 404
    assert "location" not in reply.headers
    assert "evil" not in reply.text
