"""Extreme values in lists and searches are refused, or stored and returned."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from harness.running_service import Service, Tenant
from proofs.extreme_values import TIMES, ExtremeRequest, list_extreme_requests, read_back
from proofs.isolation.grid import create_everything

TEXT = "A text that is asked for."
DOCUMENTS = "/v1/knowledge-bases/default/documents"
FEW: tuple[Any, ...] = (
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.9999999Z", "+275760-09-13T00:00:00Z", "a\0b", "a\ud800",
    -(1 << 31) - 1, 1 << 31, 1 << 63, 1 << 64, 10**400, float("nan"), 1.7976931348623157e308, {"\0": "\ud800"},
)  # fmt: skip


@pytest.fixture(scope="module")
def tenant(service: Service) -> Tenant:
    return service.create_tenant("extreme values")


@pytest.fixture(scope="module")
def description(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = service.create_client().get("/openapi.json").raise_for_status().json()
    return found


@pytest.fixture(scope="module")
def ids(tenant: Tenant) -> dict[str, str]:
    return {**create_everything(tenant, TEXT)}


def is_ending(one: ExtremeRequest) -> bool:
    return one.method == "delete" or "/rotate" in one.path


def sent(client: httpx2.Client, every: Iterator[ExtremeRequest]) -> list[str]:
    return [str(one) for one in every if not is_ending(one) and one.send(client).status_code in (500, 502)]


def test_extreme_values_cause_no_server_error(tenant: Tenant, description: dict[str, Any], ids: dict[str, str]) -> None:
    assert sent(tenant.admin, list_extreme_requests(description, ids, values=FEW)) == []
    for client in (tenant.admin, tenant.create_client("reader"), tenant.create_client("writer")):
        assert read_back(client, description, ids) == []


def test_extreme_times_are_refused_or_returned(
    tenant: Tenant, description: dict[str, Any], ids: dict[str, str]
) -> None:
    timely = [one for one in list_extreme_requests(description, ids, values=TIMES) if has_time(one)]
    assert {one.place for one in timely} >= {
        "source_created_at", "expires_at", "form source_created_at", "form expires_at", "?from", "?to", "?cursor",
    }  # fmt: skip
    assert sent(tenant.admin, iter(timely)) == []
    assert read_back(tenant.create_client("reader"), description, ids) == []


def has_time(one: ExtremeRequest) -> bool:
    name = one.place.rpartition(" ")[2].rpartition(".")[2].lstrip("?")
    return name.endswith("_at") or name in ("from", "to", "cursor", "after", "before", "gte", "expires_after")


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.9999999Z", "0001-01-01T00:00:00+14:00"])
def test_upload_zero_time_stores_nothing(tenant: Tenant, time: str) -> None:
    before = len(tenant.admin.get(DOCUMENTS).raise_for_status().json()["items"])
    reply = tenant.admin.post(DOCUMENTS, json={"text": "x", "source_created_at": time})
    assert (reply.status_code, reply.json()["errors"][0]["loc"]) == (422, ["body", "source_created_at"])
    assert "between the years 2 and 9998" in reply.json()["detail"]
    assert len(tenant.admin.get(DOCUMENTS).raise_for_status().json()["items"]) == before
