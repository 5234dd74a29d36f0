"""Webhooks over HTTP: create, change, test and list them, and the requests that receivers get."""

from collections.abc import Iterator
from typing import Any

import pytest
from standardwebhooks import WebhookVerificationError

from harness.protocol_servers.webhook import WebhookReceiver
from harness.running_service import Tenant
from tests.api.problems import assert_problem

WEBHOOKS = "/v1/webhooks"
NOWHERE = "http://127.0.0.1:9/"


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with WebhookReceiver() as running:
        yield running


def make(tenant: Tenant, url: str, *events: str, **fields: Any) -> dict[str, Any]:
    reply = tenant.admin.post(WEBHOOKS, json={"url": url, "events": events, **fields})
    assert reply.status_code == 201, reply.text
    made: dict[str, Any] = reply.json()
    return made


def deliveries(tenant: Tenant, webhook: dict[str, Any], **query: Any) -> list[dict[str, Any]]:
    reply = tenant.admin.get(f"{WEBHOOKS}/{webhook['id']}/deliveries", params=query)
    assert reply.status_code == 200, reply.text
    items: list[dict[str, Any]] = reply.json()["items"]
    return items


def test_webhook_can_be_created_read_changed_and_deleted(tenant: Tenant) -> None:
    made = make(tenant, NOWHERE, "document.ready", "quota.near", "document.ready", description="The CRM")
    secret = made.pop("secret")
    assert secret.startswith("whsec_")
    assert made["id"].startswith("whk_")
    assert made["events"] == ["document.ready", "quota.near"]
    assert (made["url"], made["description"], made["enabled"]) == (NOWHERE, "The CRM", True)
    assert (made["failures"], made["disabled_reason"], made["former_secret_until"]) == (0, None, None)
    path = f"{WEBHOOKS}/{made['id']}"
    assert tenant.admin.get(path).json() == made
    assert tenant.admin.get(WEBHOOKS).json() == {"items": [made], "next_cursor": None}
    assert secret not in tenant.admin.get(WEBHOOKS).text
    changed = tenant.admin.patch(path, json={"events": ["document.failed"], "enabled": False, "description": None})
    assert changed.json() == {
        **made,
        "events": ["document.failed"],
        "enabled": False,
        "description": None,
        "updated_at": changed.json()["updated_at"],
    }
    assert tenant.admin.patch(path, json={}).json() == changed.json()
    assert tenant.admin.delete(path).status_code == 204
    for reply in (tenant.admin.get(path), tenant.admin.delete(path), tenant.admin.get(f"{path}/deliveries")):
        assert_problem(reply, 404, "webhook_not_found")


@pytest.mark.parametrize(
    "body",
    [
        {"url": "https://10.0.0.1/", "events": ["document.ready"]},
        {"url": "https://169.254.169.254/latest/meta-data", "events": ["document.ready"]},
        {"url": "https://[::1]/", "events": ["document.ready"]},
        {"url": "https://[::ffff:10.0.0.1]/", "events": ["document.ready"]},
        {"url": "http://1.1.1.1/", "events": ["document.ready"]},
        {"url": "ftp://1.1.1.1/", "events": ["document.ready"]},
        {"url": "https://user:word@1.1.1.1/", "events": ["document.ready"]},
        {"url": "https://nobody.invalid/", "events": ["document.ready"]},
        {"url": "x" * 3000, "events": ["document.ready"]},
        {"url": NOWHERE, "events": []},
        {"url": NOWHERE, "events": ["document.read"]},
        {"url": NOWHERE, "events": ["webhook.test"]},
        {"url": NOWHERE},
        {"url": NOWHERE, "events": ["document.ready"], "secret": "mine"},
    ],
    ids=str,
)
def test_webhook_with_invalid_body_is_422(tenant: Tenant, body: dict[str, Any]) -> None:
    assert_problem(tenant.admin.post(WEBHOOKS, json=body), 422, "invalid")
    assert tenant.admin.get(WEBHOOKS).json()["items"] == []


@pytest.mark.parametrize("changes", [{"url": "https://10.0.0.1/"}, {"url": None}, {"events": None}, {"events": []}])
def test_webhook_with_invalid_change_is_422(tenant: Tenant, changes: dict[str, Any]) -> None:
    made = make(tenant, NOWHERE, "quota.near")
    path = f"{WEBHOOKS}/{made['id']}"
    assert_problem(tenant.admin.patch(path, json=changes), 422, "invalid")
    assert tenant.admin.get(path).json() == {name: value for name, value in made.items() if name != "secret"}


def test_webhook_with_public_address_is_accepted(tenant: Tenant) -> None:
    assert make(tenant, "https://1.1.1.1/hooks?x=1", "quota.near")["url"] == "https://1.1.1.1/hooks?x=1"


def test_webhook_above_limit_of_fifty_is_409(tenant: Tenant) -> None:
    for _ in range(50):
        make(tenant, NOWHERE, "quota.near")
    assert_problem(
        tenant.admin.post(WEBHOOKS, json={"url": NOWHERE, "events": ["quota.near"]}), 409, "too_many_webhooks"
    )
    first = tenant.admin.get(WEBHOOKS, params={"limit": 30}).json()
    second = tenant.admin.get(WEBHOOKS, params={"limit": 30, "cursor": first["next_cursor"]}).json()
    assert len({one["id"] for one in first["items"] + second["items"]}) == 50
    assert second["next_cursor"] is None


@pytest.mark.parametrize("narrowing", [{"knowledge_bases": ["default"]}, {"user_id": "u"}])
def test_webhook_with_restricted_key_is_403(tenant: Tenant, narrowing: dict[str, Any]) -> None:
    made = make(tenant, NOWHERE, "quota.near")
    client, path = tenant.create_client("admin", **narrowing), f"{WEBHOOKS}/{made['id']}"
    assert_problem(client.get(WEBHOOKS), 403, "forbidden")
    assert_problem(client.post(WEBHOOKS, json={"url": NOWHERE, "events": ["quota.near"]}), 403, "forbidden")
    for reply in (client.get(path), client.patch(path, json={}), client.delete(path), client.post(f"{path}/test")):
        assert_problem(reply, 403, "forbidden")


def test_webhook_secret_is_returned_once(tenant: Tenant) -> None:
    body = {"url": NOWHERE, "events": ["quota.near"]}
    headers = {"Idempotency-Key": "one-webhook"}
    made = tenant.admin.post(WEBHOOKS, json=body, headers=headers).json()
    again = assert_problem(tenant.admin.post(WEBHOOKS, json=body, headers=headers), 409, "idempotency_secret_shown")
    assert made["id"] in again["detail"]
    assert made["secret"] not in str(again)


@pytest.mark.capability("webhooks")
def test_webhook_ready_document_sends_event_without_content(tenant: Tenant, receiver: WebhookReceiver) -> None:
    webhook = make(tenant, f"{receiver.address}/carrel", "document.ready", "document.deleted")
    document = tenant.add_text("The quetzal flies.", title="Of birds")
    (request,) = receiver.wait_for(1)
    kb = tenant.admin.get("/v1/knowledge-bases/default").json()["id"]
    told = request.verify(webhook["secret"])
    data = {"document": document["id"], "knowledge_base": kb, "knowledge_base_name": "default", "version": 1}
    assert (told["type"], told["data"]) == ("document.ready", {**data, "status": "ready", "error": None})
    assert tenant.admin.delete(f"/v1/knowledge-bases/default/documents/{document['id']}").status_code == 204
    second = receiver.wait_for(2)[1].verify(webhook["secret"])
    assert (second["type"], second["data"]) == ("document.deleted", {**data, "status": "deleted"})
    assert second["timestamp"] > told["timestamp"]
    listed = deliveries(tenant, webhook)
    assert [one["event"] for one in listed] == ["document.deleted", "document.ready"]
    assert [one["id"] for one in listed] == [one.id for one in receiver.received[::-1]]
    for text in (b"quetzal", b"birds"):
        assert all(text not in one.body for one in receiver.received)


def test_webhook_test_sends_event(tenant: Tenant, receiver: WebhookReceiver) -> None:
    webhook = make(tenant, receiver.address, "quota.near")
    path = f"{WEBHOOKS}/{webhook['id']}"
    reply = tenant.admin.post(f"{path}/test")
    assert (reply.status_code, reply.json()["status"], reply.json()["attempts"]) == (202, "pending", 0)
    (request,) = receiver.wait_for(1)
    assert request.id == reply.json()["id"]
    assert request.verify(webhook["secret"])["type"] == "webhook.test"
    assert request.verify(webhook["secret"])["data"] == {"webhook": webhook["id"]}
    tenant.admin.patch(path, json={"enabled": False}).raise_for_status()
    assert_problem(tenant.admin.post(f"{path}/test"), 409, "webhook_disabled")


@pytest.mark.capability("webhooks-replay")
def test_webhook_replay_sends_same_delivery_id(tenant: Tenant, receiver: WebhookReceiver) -> None:
    webhook = make(tenant, receiver.address, "knowledge_base.created")
    made = tenant.admin.post("/v1/knowledge-bases", json={"name": "birds"}).json()
    receiver.wait_for(1)
    (delivery,) = deliveries(tenant, webhook)
    path = f"{WEBHOOKS}/{webhook['id']}/deliveries"
    assert tenant.admin.post(f"{path}/{delivery['id']}/replay").status_code == 202
    first, second = receiver.wait_for(2)
    assert (first.id, first.body) == (second.id, second.body)
    assert second.verify(webhook["secret"])["data"] == {
        "knowledge_base": made["id"],
        "knowledge_base_name": "birds",
    }
    assert [one["id"] for one in deliveries(tenant, webhook)] == [delivery["id"]]
    other = make(tenant, receiver.address, "quota.near")
    for webhook_id, name in ((webhook["id"], "dlv_nothing"), (other["id"], delivery["id"])):
        reply = tenant.admin.post(f"{WEBHOOKS}/{webhook_id}/deliveries/{name}/replay")
        assert_problem(reply, 404, "delivery_not_found")


def test_webhook_deliveries_are_paged_and_filtered(tenant: Tenant) -> None:
    webhook = make(tenant, NOWHERE, "knowledge_base.created")
    for name in ("one", "two", "three"):
        tenant.admin.post("/v1/knowledge-bases", json={"name": name}).raise_for_status()
    path = f"{WEBHOOKS}/{webhook['id']}/deliveries"
    first = tenant.admin.get(path, params={"limit": 2}).json()
    second = tenant.admin.get(path, params={"limit": 2, "cursor": first["next_cursor"]}).json()
    names = [one["data"]["knowledge_base_name"] for one in first["items"] + second["items"]]
    assert (names, second["next_cursor"]) == (["three", "two", "one"], None)
    assert len(deliveries(tenant, webhook, status="pending")) == 3
    assert deliveries(tenant, webhook, status="delivered") == []
    assert_problem(tenant.admin.get(path, params={"status": "lost"}), 422, "invalid")


def test_webhook_rotated_secret_and_old_one_both_sign(tenant: Tenant, receiver: WebhookReceiver) -> None:
    webhook = make(tenant, receiver.address, "quota.near")
    path = f"{WEBHOOKS}/{webhook['id']}"
    rotated = tenant.admin.post(f"{path}/rotate", json={"overlap_seconds": 3600})
    assert rotated.status_code == 200
    assert rotated.json()["former_secret_until"] is not None
    tenant.admin.post(f"{path}/test").raise_for_status()
    (both,) = receiver.wait_for(1)
    for secret in (webhook["secret"], rotated.json()["secret"]):
        assert both.verify(secret)["type"] == "webhook.test"
    newest = tenant.admin.post(f"{path}/rotate", json={"overlap_seconds": 0}).json()
    assert newest["former_secret_until"] is None
    tenant.admin.post(f"{path}/test").raise_for_status()
    alone = receiver.wait_for(2)[1]
    assert alone.verify(newest["secret"])["type"] == "webhook.test"
    for secret in (webhook["secret"], rotated.json()["secret"]):
        with pytest.raises(WebhookVerificationError):
            alone.verify(secret)
