"""Readers of audit events for tests: whole lists, oldest first."""

import json
from typing import Any

import httpx2

from harness.running_service import Service

EVENTS = "/v1/audit-events"


def events(client: httpx2.Client, path: str = EVENTS, **query: Any) -> list[dict[str, Any]]:
    """Return all audit events of a list, oldest first."""
    reply = client.get(path, params={"format": "jsonl", **query})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in reply.text.splitlines()][::-1]


def of_tenant(service: Service, tenant: str) -> list[dict[str, Any]]:
    """Return all audit events of one tenant, as the operator reads them."""
    return events(service.operator, f"/v1/tenants/{tenant}/audit-events")


def events_about(service: Service, tenant: str) -> list[dict[str, Any]]:
    """Return the tenant's own audit events and the operator's events about the tenant."""
    own_list = of_tenant(service, tenant)
    return own_list + find_new_events(own_list, events(service.operator, object_id=tenant))


def find_new_events(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen = {event["id"] for event in before}
    return [event for event in after if event["id"] not in seen]
