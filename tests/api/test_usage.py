"""GET /v1/usage: by day, by key, and the present storage, of the caller's tenant alone."""

from datetime import date, timedelta
from typing import Any

import httpx2
import pytest

from harness.running_service import Service, Tenant
from harness.wait_until import get_day_with_time_left
from tests.api.problems import assert_problem

DOCUMENTS = "/v1/knowledge-bases/default/documents"


def usage(client: httpx2.Client, **query: str) -> dict[str, Any]:
    reply = client.get("/v1/usage", params=query)
    reply.raise_for_status()
    found: dict[str, Any] = reply.json()
    return found


@pytest.fixture
def today() -> date:
    return get_day_with_time_left()


def test_usage_without_activity_is_zero(tenant: Tenant, today: date) -> None:
    found = usage(tenant.admin)
    assert (found["to"], found["by"], found["items"]) == (str(today), "day", [])
    assert found["from"] == str(today - timedelta(days=29))
    assert found["storage"] == {"documents": 0, "stored_bytes": 0, "chunks": 0}


@pytest.mark.capability("usage")
def test_usage_counts_by_day_and_key(service: Service, tenant: Tenant, today: date) -> None:
    writer, stranger = tenant.create_client("writer"), service.create_tenant("stranger")
    text = "# Waders\n\nThe avocet has a bill that bends upwards."
    assert writer.post(DOCUMENTS, params={"wait": 30}, json={"text": text}).json()["status"] == "ready"
    tenant.add_text("A second text.")
    for _ in range(3):
        writer.post("/v1/search", json={"query": "which bill bends"}).raise_for_status()
    assert_problem(writer.post("/v1/search", json={}), 422)
    stranger.add_text("Of another tenant.")
    stranger.admin.post("/v1/search", json={"query": "which bill bends"}).raise_for_status()

    (used,) = usage(tenant.admin)["items"]
    assert used["day"] == str(today)
    numbers = {name: used[name] for name in ("uploads", "documents", "bytes", "chunks", "searches")}
    assert numbers == {
        "uploads": 2, "documents": 2, "bytes": len(text) + len("A second text."), "chunks": 2, "searches": 3,
    }  # fmt: skip
    by_key = {item["name"]: item for item in usage(tenant.admin, by="key")["items"]}
    assert by_key.keys() == {"a writer", "first key"}
    assert by_key["a writer"]["searches"] == 3
    assert by_key["a writer"]["key"] == writer.get("/v1/me").json()["key"]["id"]
    assert by_key["first key"]["bytes"] == len("A second text.")
    assert all(item["embedding_tokens"] > 0 for item in by_key.values())
    assert sum(item["embedding_tokens"] for item in by_key.values()) == used["embedding_tokens"]
    assert usage(tenant.admin)["storage"] == {"documents": 2, "stored_bytes": numbers["bytes"], "chunks": 2}
    (theirs,) = usage(stranger.admin)["items"]
    assert (theirs["uploads"], theirs["searches"]) == (1, 1)


def test_usage_of_deleted_documents_is_counted(tenant: Tenant, today: date) -> None:
    document = tenant.add_text("It comes, and it goes.")
    tenant.admin.delete(f"{DOCUMENTS}/{document['id']}").raise_for_status()
    found = usage(tenant.admin, to=str(today))
    assert found["storage"]["documents"] == 0
    assert found["items"][0]["documents"] == 1


def test_usage_of_other_days_is_empty(tenant: Tenant, today: date) -> None:
    tenant.add_text("Today.")
    yesterday = str(today - timedelta(days=1))
    assert usage(tenant.admin, to=yesterday)["items"] == []
    assert usage(tenant.admin, **{"from": yesterday})["items"]


@pytest.mark.parametrize(
    "query",
    [
        {"from": "2026-02-30"}, {"to": "today"}, {"by": "hour"}, {"from": "2024-01-01", "to": "2026-01-01"},
        {"from": "2026-01-02", "to": "2026-01-01"}, {"from": "9999-12-31"},
    ],
)  # fmt: skip
def test_usage_with_invalid_dates_is_422(tenant: Tenant, query: dict[str, str]) -> None:
    assert_problem(tenant.admin.get("/v1/usage", params=query), 422, "invalid")


def test_usage_accepts_ends_of_calendar(tenant: Tenant) -> None:
    assert usage(tenant.admin, to="0002-01-01")["from"] == "0001-12-03"
    assert usage(tenant.admin, **{"from": "9998-12-31", "to": "9998-12-31"})["items"] == []
    for day in ("0001-01-01", "9999-12-31"):
        assert_problem(tenant.admin.get("/v1/usage", params={"from": day, "to": day}), 422, "invalid")


def test_usage_with_restricted_key_is_403(tenant: Tenant) -> None:
    for narrowing in ({"knowledge_bases": ["default"]}, {"user_id": "u"}):
        assert_problem(tenant.create_client("admin", **narrowing).get("/v1/usage"), 403, "forbidden")
