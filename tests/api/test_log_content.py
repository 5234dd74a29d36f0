"""Log lines of requests: outcomes and ids, never the content of a request."""

import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.running_service import Service, Tenant
from tests.api.breakable_service import BreakableService

SAMPLES = Path(__file__).parents[1] / "samples"
DOCUMENTS = "/v1/knowledge-bases/default/documents"
PLANTED = "xylophonist"
# These ids mark the requests of this test, since a line of the test before may come late.
OF_THE_TEST, OF_ONE = "request-of-the-test", "one-request-of-the-test"


def provoke(tenant: Tenant) -> None:
    """Send every kind of request with a marker in every field."""
    client = tenant.admin
    client.headers["X-Request-Id"] = OF_THE_TEST
    tenant.add_text(
        f"The {PLANTED} plays.", title=PLANTED, metadata={PLANTED: PLANTED}, external_id=PLANTED, user_id=PLANTED
    )
    client.post(DOCUMENTS, files={"file": (f"{PLANTED}.pdf", b"%PDF-1.4 " + PLANTED.encode())}, params={"wait": 60})
    client.post(DOCUMENTS, files={"file": (f"{PLANTED}.gz", b"\x1f\x8b" + PLANTED.encode())})
    client.post(DOCUMENTS, files={"file": ("a.txt", b"x")}, data={PLANTED: PLANTED, "metadata": PLANTED})
    client.post(DOCUMENTS, content=f'{{"text": "{PLANTED}'.encode(), headers={"Content-Type": "application/json"})
    client.post("/v1/search", json={"query": PLANTED, "filter": {PLANTED: PLANTED}, "scope": {"user_id": PLANTED}})
    client.post("/v1/search", json={"query": PLANTED, "strategy": PLANTED})
    client.post("/v1/search", json={"query": PLANTED, PLANTED: PLANTED, "filter": {PLANTED: {PLANTED: 1}}})
    client.post("/v1/agent-search", json={"messages": [{"role": "user", "content": PLANTED}], PLANTED: PLANTED})
    client.get(f"/v1/{PLANTED}", params={PLANTED: PLANTED})
    client.get(f"/v1/knowledge-bases/{PLANTED}", headers={"X-Request-Id": OF_ONE})
    client.get(DOCUMENTS, params={"cursor": PLANTED, "filter": PLANTED})
    client.post("/v1/knowledge-bases", json={"name": PLANTED, "description": PLANTED})
    client.post("/v1/knowledge-bases", json={"name": PLANTED})
    given = {"X-Request-Id": OF_THE_TEST}
    tenant.service.create_client(f"carrel_{PLANTED}").get("/v1/me", headers=given)
    wrong = given | {"Authorization": f"Basic {PLANTED}", "User-Agent": PLANTED}
    tenant.service.create_client().get("/v1/me", headers=wrong)


Lines = list[dict[str, Any]]


def all_requests(lines: Lines) -> Lines:
    return [line for line in lines if line["event"] == "request"]


def requests_of(lines: Lines) -> Lines:
    """Return the requests of this test. A line of the test before may come late."""
    return [line for line in all_requests(lines) if line["request_id"] in (OF_THE_TEST, OF_ONE)]


def lines_of(stream: io.StringIO, *, requests: int, counted: Callable[[Lines], Lines] = requests_of) -> Lines:
    """Return the log's lines after this number of requests. A line is written after its response is sent."""
    deadline = time.monotonic() + 20
    while True:
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        if len(counted(lines)) >= requests or time.monotonic() > deadline:
            return lines
        time.sleep(0.02)


@pytest.mark.capability("api-logs")
def test_log_contains_no_content_and_no_keys(service: Service, fragile: BreakableService, stream: io.StringIO) -> None:
    tenant, broken = service.create_tenant(PLANTED), fragile.service.create_tenant(PLANTED)
    provoke(tenant)
    fragile.embedding.fail(400, times=None)
    try:
        provoke(broken)
    finally:
        fragile.embedding.reset()
    lines = lines_of(stream, requests=2 * 16)
    text = stream.getvalue()
    assert PLANTED not in text.lower()
    for key in (tenant.key, broken.key):
        assert key not in text
        assert key[7:20] not in text
    requests = requests_of(lines)
    assert len(requests) == 2 * 16
    assert {line["status"] for line in requests} >= {200, 201, 202, 401, 404, 409, 415, 422}
    assert all(line["request_id"] for line in all_requests(lines))
    assert [line["status"] for line in requests if line["request_id"] == OF_ONE] == [404, 404]
    assert "/v1/knowledge-bases/{kb}" in {line["route"] for line in requests}
    assert {"job.failed", "job.done"} <= {line["event"] for line in lines}
