"""What every reply tells a browser, and what none makes of what a caller sent."""

import base64
import hashlib
import re

import httpx
import pytest

from tests.fixtures.service import Service, Tenant

DOCUMENTS = "/v1/knowledge-bases/default/documents"
EVERY = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "x-frame-options": "DENY"}
API = {"cache-control": "no-store", "content-security-policy": "default-src 'none'; frame-ancestors 'none'"}


def replies(tenant: Tenant) -> list[httpx.Response]:
    """Of every kind: with data, with a key, without a body, streams, errors of ours and of the framework's."""
    admin, anybody = tenant.admin, tenant.service.client()
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


def test_every_reply_has_them(tenant: Tenant) -> None:
    for reply in replies(tenant):
        for name, value in {**EVERY, **API}.items():
            assert reply.headers.get_list(name) == [value], (reply.request.url, name)
        assert reply.headers["x-request-id"]


def test_the_page_runs_its_own_scripts_and_speaks_to_this_server_alone(service: Service) -> None:
    reply = service.client().get("/docs")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/html")
    assert EVERY.items() <= dict(reply.headers).items()
    policy = dict(part.strip().split(" ", 1) for part in reply.headers["content-security-policy"].split(";"))
    inline = re.findall(r"<script>(.*?)</script>", reply.text, re.DOTALL)
    assert len(inline) == 1
    digest = base64.b64encode(hashlib.sha256(inline[0].encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy["script-src"]
    assert "unsafe" not in policy["script-src"]
    for tag, directive in (("script", "script-src"), ("link", "style-src")):
        for source in re.findall(rf'<{tag}[^>]+(?:src|href)="(https?:[^"]+)"', reply.text):
            assert any(source.startswith(allowed) for allowed in policy[directive].split()), source
    assert (policy["default-src"], policy["connect-src"], policy["frame-ancestors"]) == ("'none'", "'self'", "'none'")
    assert "/openapi.json" in inline[0]


@pytest.mark.parametrize("path", ["/v1/tenants/", "/v1/me/", "//evil.example/v1/me", "/v1//me", "/docs/"])
def test_nothing_is_redirected_to_what_the_caller_calls_us(tenant: Tenant, path: str) -> None:
    reply = tenant.admin.get(f"{tenant.service.url}{path}", headers={"Host": "evil.example"})
    assert reply.status_code == 404
    assert "location" not in reply.headers
    assert "evil" not in reply.text
