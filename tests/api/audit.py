"""Reading the audit in tests: all that a list tells."""

import json
from typing import Any

import httpx2

from harness.running_service import Service

EVENTS = "/v1/audit-events"


def events(client: httpx2.Client, path: str = EVENTS, **query: Any) -> list[dict[str, Any]]:
    """All that a list tells, oldest first."""
    reply = client.get(path, params={"format": "jsonl", **query})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in reply.text.splitlines()][::-1]


def of_tenant(service: Service, tenant: str) -> list[dict[str, Any]]:
    """The same of one tenant, as the operator reads it."""
    return events(service.operator, f"/v1/tenants/{tenant}/audit-events")


def told_of(service: Service, tenant: str) -> list[dict[str, Any]]:
    """What was done in a tenant, and to it: its own list, and what is the operator's about it."""
    own_list = of_tenant(service, tenant)
    return own_list + told_since(own_list, events(service.operator, object_id=tenant))


def told_since(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen = {event["id"] for event in before}
    return [event for event in after if event["id"] not in seen]
