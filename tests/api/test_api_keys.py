"""API keys: rotation with an overlap, and the time of the last use."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import httpx2
import pytest

from app.ids import encode_id, generate_id
from harness.running_service import Service, Tenant
from harness.wait_until import create_expired
from tests.api.problems import assert_problem

DAY = timedelta(days=1)
A_LITTLE = timedelta(seconds=30)


def make(tenant: Tenant, **fields: Any) -> dict[str, Any]:
    reply = tenant.admin.post("/v1/api-keys", json={"name": "a key", "role": "reader", **fields})
    reply.raise_for_status()
    found: dict[str, Any] = reply.json()
    return found


def listed(tenant: Tenant) -> dict[str, dict[str, Any]]:
    return {key["id"]: key for key in tenant.admin.get("/v1/api-keys", params={"limit": 200}).json()["items"]}


def rotate(tenant: Tenant, key: str, **body: Any) -> httpx2.Response:
    return tenant.admin.post(f"/v1/api-keys/{key}/rotate", json=body or None)


def moment(text: str | None) -> datetime:
    assert text is not None
    return datetime.fromisoformat(text)


@pytest.mark.capability("key-rotate")
def test_rotated_key_is_valid_for_overlap(service: Service, tenant: Tenant) -> None:
    kb = tenant.admin.get("/v1/knowledge-bases/default").json()["id"]
    old = make(tenant, role="writer", user_id="ada", knowledge_bases=["default"])
    reply = rotate(tenant, old["id"])
    assert reply.status_code == 201
    new = reply.json()
    same = {"name": "a key", "role": "writer", "user_id": "ada", "knowledge_bases": [kb], "expires_at": None}
    assert {name: new[name] for name in same} == same
    assert new["id"] != old["id"]
    assert new["key"] != old["key"]
    assert new["replaced_by"] is None
    for key, narrowed in ((old, same), (new, same)):
        me = service.create_client(key["key"]).get("/v1/me").json()["key"]
        assert (me["id"], me["user_id"], me["knowledge_bases"]) == (key["id"], "ada", narrowed["knowledge_bases"])
    after = listed(tenant)[old["id"]]
    assert after["replaced_by"] == new["id"]
    assert abs(moment(after["expires_at"]) - datetime.now(UTC) - DAY) < A_LITTLE
    assert new["key"] not in tenant.admin.get("/v1/api-keys").text


def test_rotated_key_without_overlap_is_invalid_immediately(service: Service, tenant: Tenant) -> None:
    old = make(tenant)
    client = service.create_client(old["key"])
    assert client.get("/v1/me").status_code == 200  # and the cached key is valid
    new = rotate(tenant, old["id"], overlap_seconds=0).json()
    assert_problem(client.get("/v1/me"), 401, "unauthorized")
    assert service.create_client(new["key"]).get("/v1/me").status_code == 200


@pytest.mark.parametrize(("days", "overlap", "left"), [(2, 86_400, 1), (2, 30 * 86_400, 2), (None, 30 * 86_400, 30)])
def test_rotated_key_ends_at_earlier_of_overlap_and_expiry(
    tenant: Tenant, days: int | None, overlap: int, left: int
) -> None:
    end = None if days is None else (datetime.now(UTC) + days * DAY).isoformat()
    old = make(tenant, expires_at=end)
    new = rotate(tenant, old["id"], overlap_seconds=overlap).json()
    assert new["expires_at"] == old["expires_at"]
    assert abs(moment(listed(tenant)[old["id"]]["expires_at"]) - datetime.now(UTC) - left * DAY) < A_LITTLE


def test_key_can_rotate_itself(service: Service, tenant: Tenant) -> None:
    (first,) = listed(tenant).values()
    new = rotate(tenant, first["id"], overlap_seconds=60).json()
    assert tenant.admin.get("/v1/me").json()["key"]["id"] == first["id"]
    again = service.create_client(new["key"]).post(f"/v1/api-keys/{new['id']}/rotate")
    assert again.status_code == 201


def test_rotating_replaced_revoked_or_unknown_key_is_refused(service: Service, tenant: Tenant) -> None:
    replaced, revoked, brief = make(tenant), make(tenant), make(tenant)
    new = rotate(tenant, replaced["id"]).json()
    assert_problem(rotate(tenant, replaced["id"]), 409, "api_key_replaced")
    tenant.admin.delete(f"/v1/api-keys/{new['id']}").raise_for_status()
    assert_problem(rotate(tenant, replaced["id"]), 409, "api_key_replaced")
    tenant.admin.delete(f"/v1/api-keys/{revoked['id']}").raise_for_status()
    rotate(tenant, brief["id"], overlap_seconds=0).raise_for_status()
    assert_problem(rotate(tenant, brief["id"]), 409, "api_key_replaced")
    body = {"name": "short", "role": "reader"}
    expired = create_expired(
        lambda end: tenant.admin.post("/v1/api-keys", json={**body, "expires_at": end.isoformat()})
    )
    assert_problem(rotate(tenant, expired.json()["id"]), 409, "api_key_expired")
    other = make(service.create_tenant())
    for unknown in (revoked["id"], other["id"], encode_id("key", generate_id()), tenant.id, "nothing", "%00"):
        assert_problem(rotate(tenant, unknown), 404, "api_key_not_found")


@pytest.mark.parametrize(
    "body",
    [
        {"overlap_seconds": -1}, {"overlap_seconds": 30 * 86_400 + 1}, {"overlap_seconds": "a day"},
        {"overlap_seconds": None}, {"overlap_seconds": 1.5}, {"overlap": 60}, {"role": "admin"},
    ],
    ids=str,
)  # fmt: skip
def test_rotation_with_invalid_body_is_422(tenant: Tenant, body: dict[str, Any]) -> None:
    key = make(tenant)
    assert_problem(rotate(tenant, key["id"], **body), 422, "invalid")
    assert listed(tenant)[key["id"]]["replaced_by"] is None


def test_concurrent_rotations_create_one_key(tenant: Tenant) -> None:
    key, before = make(tenant), len(listed(tenant))
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: rotate(tenant, key["id"]), range(16)))
    assert sorted(reply.status_code for reply in replies) == [201] + [409] * 15
    assert len(listed(tenant)) == before + 1


def test_repeated_rotation_creates_no_second_key(tenant: Tenant) -> None:
    key = make(tenant)
    headers = {"Idempotency-Key": "rotate"}
    path = f"/v1/api-keys/{key['id']}/rotate"
    assert tenant.admin.post(path, headers=headers).status_code == 201
    assert_problem(tenant.admin.post(path, headers=headers), 409)
    assert len(listed(tenant)) == 3


def test_key_list_shows_last_use(service: Service, tenant: Tenant) -> None:
    used, unused = make(tenant), make(tenant)
    assert used["last_used_at"] is None
    before = datetime.now(UTC)
    service.create_client(used["key"]).get("/v1/me").raise_for_status()
    deadline = time.monotonic() + 30
    while listed(tenant)[used["id"]]["last_used_at"] is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    found = listed(tenant)
    assert before - A_LITTLE <= moment(found[used["id"]]["last_used_at"]) <= datetime.now(UTC)
    assert found[unused["id"]]["last_used_at"] is None


async def test_request_does_not_wait_for_recording_key_use(service: Service, tenant: Tenant) -> None:
    client = service.create_client(make(tenant)["key"])
    connection = await asyncpg.connect(service.urls.owner)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("lock table api_key_use in access exclusive mode")
    try:
        for _ in range(3):
            assert client.get("/v1/me", timeout=20).status_code == 200
    finally:
        await transaction.rollback()
        await connection.close()


def test_refused_request_is_not_recorded_as_key_use(service: Service, tenant: Tenant) -> None:
    """A request with only the beginning of a key does not count as a use either."""
    key = make(tenant)
    assert_problem(service.create_client(key["key"][:-1] + "!").get("/v1/me"), 401)
    assert listed(tenant)[key["id"]]["last_used_at"] is None
