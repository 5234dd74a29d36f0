"""Key lineage: what belongs to a key passes to the key that rotation creates, and to no other key."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from harness.running_service import Service, Tenant
from harness.wait_until import get_day_with_time_left
from tests.api.problems import assert_problem
from tests.api.test_key_quotas import add, new_key, used
from tests.api.test_quotas import CLIENTS, DOCUMENTS, ask, refused

FILES = "/openai/v1/files"
BATCHES = "/openai/v1/vector_stores/default/file_batches"
DAILY = "embedding_tokens_per_day"
NARROWINGS: tuple[dict[str, Any], ...] = (
    {"knowledge_bases": ["default"]},
    {"user_id": "ada"},
    {"knowledge_bases": ["default"], "user_id": "ada"},
)
NAMES = ["a knowledge base", "a user", "both"]


def successor(tenant: Tenant, key: str) -> tuple[str, httpx2.Client]:
    """Return the id of the key that rotation creates, and a client with it. The former key remains valid."""
    made = tenant.admin.post(f"/v1/api-keys/{key}/rotate").raise_for_status().json()
    return made["id"], tenant.service.create_client(made["key"])


def id_of(client: httpx2.Client) -> str:
    found: str = client.get("/v1/me").json()["key"]["id"]
    return found


def waits_for_tomorrow(tenant: Tenant, document: dict[str, Any]) -> bool:
    """Return whether the document waits, after the worker has looked at it."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = tenant.admin.get(f"{DOCUMENTS}/{document['id']}").json()
        if found["warnings"] or found["status"] in ("ready", "failed"):
            return bool(found["status"] == "queued")
        time.sleep(0.02)
    raise AssertionError("the document was not looked at")


def test_rotated_keys_share_document_quota_under_race(service: Service, tenant: Tenant) -> None:
    key, old = new_key(tenant, documents=7)
    for number in range(2):
        add(old, f"By the old key, number {number}.").raise_for_status()
    _, new = successor(tenant, key)

    def race(number: int) -> int:
        headers = (old if number % 2 else new).headers
        with httpx2.Client(base_url=service.url, headers=headers, timeout=60) as client:
            return client.post(DOCUMENTS, json={"text": f"A text with the number {number}."}).status_code

    with ThreadPoolExecutor(CLIENTS) as pool:
        statuses = Counter(pool.map(race, range(CLIENTS)))
    assert statuses == {202: 5, 429: CLIENTS - 5}
    assert used(old) == used(new) == {"documents": 7}


def test_rotated_keys_share_search_rate_under_race(service: Service, tenant: Tenant) -> None:
    key, old = new_key(tenant, searches_per_second=0.01)
    _, new = successor(tenant, key)

    def race(number: int) -> int:
        headers = (old if number % 2 else new).headers
        with httpx2.Client(base_url=service.url, headers=headers, timeout=60) as client:
            return ask(client).status_code

    with ThreadPoolExecutor(CLIENTS) as pool:
        assert Counter(pool.map(race, range(CLIENTS))) == {200: 1, 429: CLIENTS - 1}


def test_rotated_keys_share_spent_search_rate(tenant: Tenant) -> None:
    key, client = new_key(tenant, searches_per_second=0.01)
    assert ask(client).status_code == 200
    for _ in range(3):
        refused(ask(client), 1, "rate_limited")
        key, client = successor(tenant, key)
    refused(ask(client), 1, "rate_limited")
    _, other = new_key(tenant, searches_per_second=0.01)
    assert ask(other).status_code == 200


def test_rotated_keys_share_daily_tokens(tenant: Tenant) -> None:
    get_day_with_time_left()
    key, old = new_key(tenant, **{DAILY: 1})
    assert add(old, "The first owl, by the old key.").json()["status"] == "ready"
    key, new = successor(tenant, key)
    _, newest = successor(tenant, key)
    spent = used(old)[DAILY]
    assert spent > 1
    assert used(new)[DAILY] == used(newest)[DAILY] == spent
    refused(newest.post("/v1/search", json={"query": "an owl of today", "strategy": "dense"}), 1)
    for client in (old, new, newest):
        text = f"The second owl, by {id_of(client)}."
        assert waits_for_tomorrow(tenant, client.post(DOCUMENTS, json={"text": text}).json())
    _, other = new_key(tenant, **{DAILY: 1})
    assert used(other)[DAILY] == 0
    assert add(other, "The third owl, by another key.").json()["status"] == "ready"


def test_tokens_spent_by_new_key_count_for_old_key(tenant: Tenant) -> None:
    get_day_with_time_left()
    key, old = new_key(tenant, **{DAILY: 1})
    _, new = successor(tenant, key)
    assert add(new, "A rail, by the new key.").json()["status"] == "ready"
    assert used(old) == used(new)
    assert waits_for_tomorrow(tenant, old.post(DOCUMENTS, json={"text": "A rail, by the old key."}).json())


def test_usage_lists_old_and_new_key_separately(tenant: Tenant) -> None:
    key, old = new_key(tenant)
    other, new = successor(tenant, key)
    add(old, "By the old key.").raise_for_status()
    for number in range(2):
        add(new, f"By the new key, number {number}.").raise_for_status()
    items = tenant.admin.get("/v1/usage", params={"by": "key"}).json()["items"]
    assert {item["key"]: item["documents"] for item in items} == {key: 1, other: 2}


def keep(client: httpx2.Client, text: str) -> str:
    part = {"file": ("a.txt", text.encode())}
    reply = client.post(FILES, files=part, data={"purpose": "assistants"}).raise_for_status()
    found: str = reply.json()["id"]
    return found


def files_of(client: httpx2.Client) -> set[str]:
    return {file["id"] for file in client.get(FILES).raise_for_status().json()["data"]}


@pytest.mark.parametrize("narrowing", NARROWINGS, ids=NAMES)
def test_files_of_restricted_key_pass_to_rotated_key(tenant: Tenant, narrowing: dict[str, Any]) -> None:
    old, other = (tenant.create_client("writer", **narrowing) for _ in range(2))
    first, second = keep(old, "The first file."), keep(old, "The second file.")
    middle, _ = successor(tenant, id_of(old))
    _, new = successor(tenant, middle)
    third = keep(new, "The third file.")
    assert files_of(old) == files_of(new) == {first, second, third}
    assert new.get(f"{FILES}/{first}/content").text == "The first file."
    # A key with the same restrictions, and its successors, have no access.
    for client in (other, successor(tenant, id_of(other))[1]):
        assert files_of(client) == set()
        for file in (first, third):
            for path in (f"{FILES}/{file}", f"{FILES}/{file}/content"):
                assert client.get(path).status_code == 404
            assert client.delete(f"{FILES}/{file}").status_code == 404
    assert new.delete(f"{FILES}/{first}").json()["deleted"] is True
    tenant.admin.delete(f"/v1/api-keys/{middle}").raise_for_status()
    assert old.delete(f"{FILES}/{third}").json()["deleted"] is True
    assert files_of(new) == files_of(tenant.admin) == {second}


def test_batches_of_user_key_pass_to_rotated_key(tenant: Tenant) -> None:
    old, other = (tenant.create_client("writer", user_id="ada") for _ in range(2))
    batch = old.post(BATCHES, json={"file_ids": [keep(old, "A file of a batch.")]}).raise_for_status().json()
    _, new = successor(tenant, id_of(old))
    assert new.get(f"{BATCHES}/{batch['id']}").json()["id"] == batch["id"]
    assert other.get(f"{BATCHES}/{batch['id']}").status_code == 404


def test_retry_by_rotated_key_is_replayed(tenant: Tenant) -> None:
    key, old = new_key(tenant)
    _, new = successor(tenant, key)
    _, other = new_key(tenant)
    body, headers = {"text": "A stint."}, {"Idempotency-Key": "one"}
    first = old.post(DOCUMENTS, json=body, headers=headers)
    again = new.post(DOCUMENTS, json=body, headers=headers)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert_problem(new.post(DOCUMENTS, json={"text": "Another."}, headers=headers), 409, "idempotency_key_reused")
    assert other.post(DOCUMENTS, json={"text": "Another."}, headers=headers).status_code == 202
