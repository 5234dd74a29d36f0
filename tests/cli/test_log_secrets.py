"""Logs of a whole run at debug level with many failures: no secrets, no content and no file names."""

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import httpx2

from harness.protocol_servers.embedding import EmbeddingServer
from tests.cli.commands import Command, serving
from tests.cli.conftest import embedding_settings
from tests.fixtures.s3 import S3Server

SAMPLES = Path(__file__).parents[1] / "samples"
DOCUMENTS = "/v1/knowledge-bases/default/documents"
# Marker in all requests; no text of the service contains it.
CONTENT = "xylophonist"
OPERATOR_KEY = "operator-key-that-is-planted-0123456789"
EMBEDDING_KEY = "embedding-key-that-is-planted"
# A key in a wrong place, and an invalid one.
STRAY_KEY = "carrel_" + "Pl4nt3d" * 5 + "abc"


def in_every_place(client: httpx2.Client) -> None:
    """Send valid and invalid requests with the content in every field, and keys in wrong places."""
    body = {"text": f"The {CONTENT} plays.", "title": CONTENT, "metadata": {CONTENT: CONTENT}, "user_id": CONTENT}
    client.post(DOCUMENTS, json={**body, "external_id": CONTENT, "source_uri": f"https://{CONTENT}.example/"})
    good = client.post(DOCUMENTS, files={"file": (f"{CONTENT}.txt", CONTENT.encode())}, params={"wait": 30})
    assert good.json()["status"] == "ready", good.text
    broken = {"file": (f"{CONTENT}.pdf", b"%PDF-1.4 " + CONTENT.encode())}
    assert client.post(DOCUMENTS, files=broken, params={"wait": 30}).json()["status"] == "failed"
    locked = {"file": (f"{CONTENT}.pdf", (SAMPLES / "encrypted.pdf").read_bytes())}
    client.post(DOCUMENTS, files=locked, params={"wait": 30})
    client.post(DOCUMENTS, content=f'{{"text": "{CONTENT}'.encode(), headers={"Content-Type": "application/json"})
    client.post(DOCUMENTS, files={"file": (f"{CONTENT}.gz", b"\x1f\x8b" + CONTENT.encode())})
    client.post("/v1/search", json={"query": CONTENT, "filter": {CONTENT: CONTENT}, "scope": {"user_id": CONTENT}})
    client.post("/v1/search", json={"query": CONTENT, "strategy": CONTENT, CONTENT: CONTENT})
    client.post("/v1/agent-search", json={"messages": [{"role": "user", "content": CONTENT}]})
    client.get(f"{DOCUMENTS}/{good.json()['id']}/content")
    client.get(f"/v1/{CONTENT}/{STRAY_KEY}", params={"key": STRAY_KEY, "q": CONTENT})
    client.get("/v1/me", headers={"Authorization": f"Bearer {STRAY_KEY}", "User-Agent": CONTENT})
    client.get("/v1/me", headers={"Authorization": f"Basic {STRAY_KEY}", "Cookie": f"key={STRAY_KEY}"})
    client.get("/v1/me", params={"api_key": OPERATOR_KEY}, headers={"Referer": f"https://{CONTENT}.example/"})
    client.post("/v1/knowledge-bases", json={"name": CONTENT}, headers={"Idempotency-Key": f"{CONTENT}-{STRAY_KEY}"})


@contextmanager
def changed(url: str, there: str, back: str) -> Iterator[None]:
    """Change the database for the duration of the block."""

    async def run(statement: str) -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(statement)
        await connection.close()

    asyncio.run(run(there))
    try:
        yield
    finally:
        asyncio.run(run(back))


def database_errors(client: httpx2.Client, owner_url: str) -> None:
    """Cause errors that quote the row, or the statement with its parameters."""
    body = {"text": f"{CONTENT} again", "title": CONTENT, "external_id": CONTENT}
    no_row = "alter table document add constraint planted check (bytes < 0) not valid"
    with changed(owner_url, no_row, "alter table document drop constraint planted"):
        assert not client.post(DOCUMENTS, json=body).is_success
    with changed(owner_url, "alter table document rename to planted", "alter table planted rename to document"):
        for reply in (client.post(DOCUMENTS, json=body), client.get(DOCUMENTS, params={"external_id": CONTENT})):
            assert (reply.status_code, CONTENT in reply.text) == (500, False)


def malformed(url: str) -> None:
    """Send requests that the HTTP server refuses."""
    host, port = url.removeprefix("http://").split(":")
    for request in (f"{CONTENT} {STRAY_KEY}", f"GET /{CONTENT} HTTP/1.1" + f"\r\nX-Planted: {STRAY_KEY}" * 200):
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(f"{request}\r\nAuthorization: Bearer {STRAY_KEY}\r\n\r\n".encode())
            assert connection.recv(65_536).startswith(b"HTTP/1.1 4")


def written_by(service: Command, place: Path) -> str:
    """Return the logs of the API, its worker, their parsers and their Postgres."""
    location = re.search(r"embedded Postgres in ([^)]+)\)", service.screen)
    assert location is not None
    logs = [service.log, *Path(location[1]).rglob("*.log"), *(place / ".carrel").glob("*.log")]
    assert len(logs) > 1
    return "\n".join(log.read_text(errors="replace") for log in logs)


def test_logs_contain_no_secret_and_no_content(place: Path, s3_server: S3Server, endpoint: EmbeddingServer) -> None:
    endpoint.api_key = EMBEDDING_KEY
    endpoint.latency_seconds = 0
    settings = {
        **embedding_settings(endpoint),
        "CARREL_EMBEDDING_API_KEY": EMBEDDING_KEY,
        "CARREL_OPERATOR_KEY": OPERATOR_KEY,
        "CARREL_LOG_LEVEL": "debug",
        "CARREL_S3_BUCKET": s3_server.bucket,
        "CARREL_S3_ENDPOINT_URL": s3_server.endpoint_url,
        "CARREL_S3_ACCESS_KEY_ID": s3_server.access_key_id,
        "CARREL_S3_SECRET_ACCESS_KEY": s3_server.secret_access_key,
    }
    with serving(place, **settings) as service, service.client() as client, service.client(OPERATOR_KEY) as operator:
        runtime = json.loads((place / ".carrel" / "runtime.json").read_text())
        passwords = {urlsplit(url).password or "" for url in runtime.values()}
        made = operator.post("/v1/tenants", json={"name": CONTENT}).json()["api_key"]["key"]
        reader = client.post("/v1/api-keys", json={"name": CONTENT, "role": "reader"}).json()["key"]
        in_every_place(client)
        database_errors(client, runtime["admin_database_url"])
        endpoint.fail(400, times=None)
        client.post(DOCUMENTS, json={"text": f"another {CONTENT}"}, params={"wait": 20})
        client.post("/v1/search", json={"query": f"where is the {CONTENT}?"})
        malformed(service.url)
        service.wait_for("request", count=20)
        assert service.end() == 0
        text = written_by(service, place)
    secrets = {
        OPERATOR_KEY,
        EMBEDDING_KEY,
        STRAY_KEY,
        s3_server.secret_access_key,
        service.key,
        made,
        reader,
        *passwords,
    }
    assert all(len(secret) >= 16 for secret in secrets)
    for secret in secrets:
        assert secret not in text
        # The log does not hold most of a secret either; a short prefix or suffix reveals little.
        assert secret[8:-4] not in text
    assert CONTENT not in text.lower()
    assert {200, 202, 401, 404, 415, 422, 500} <= {event["status"] for event in service.events("request")}
    assert {"job.done", "job.failed", "request.failed"} <= set(re.findall(r'"event":"([^"]+)"', text))
    assert "database system is shut down" in text
