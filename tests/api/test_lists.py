"""Walks of lists: every item exactly once, newest first, also during insertions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from harness.running_service import Service
from tests.api.problems import assert_problem

DOCUMENTS = "/v1/knowledge-bases/default/documents"
HANDBOOK = Path(__file__).parents[2] / "samples" / "handbook.pdf"
COUNT = 7


def walk(client: httpx2.Client, path: str, limit: int, *, between: Callable[[], object] = lambda: None) -> list[Any]:
    """Return every item; all pages except the last are full."""
    items: list[Any] = []
    cursor: str | None = None
    while True:
        reply = client.get(path, params={"limit": limit, **({"cursor": cursor} if cursor else {})})
        reply.raise_for_status()
        page = reply.json()
        assert set(page) == {"items", "next_cursor"}
        items += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return items
        assert len(page["items"]) == limit
        assert len(items) < 500
        between()


@pytest.fixture(scope="module")
def admin(service: Service) -> httpx2.Client:
    tenant = service.create_tenant("lists")
    for number in range(COUNT - 1):
        tenant.admin.post("/v1/knowledge-bases", json={"name": f"kb-{number}"}).raise_for_status()
        tenant.admin.post("/v1/api-keys", json={"name": f"key {number}", "role": "reader"}).raise_for_status()
    for number in range(COUNT):
        tenant.admin.post(DOCUMENTS, json={"text": f"document {number}"}).raise_for_status()
    return tenant.admin


@pytest.mark.capability("api-lists")
@pytest.mark.parametrize("limit", [1, 2, 3, COUNT, 200])
@pytest.mark.parametrize("path", [DOCUMENTS, "/v1/knowledge-bases", "/v1/api-keys"])
def test_list_walk_returns_every_item_once_newest_first(admin: httpx2.Client, path: str, limit: int) -> None:
    items = walk(admin, path, limit)
    assert len(items) == len({item["id"] for item in items}) == COUNT
    assert [item["created_at"] for item in items] == sorted((item["created_at"] for item in items), reverse=True)
    assert [item["id"] for item in items] == [item["id"] for item in admin.get(path).json()["items"]]


def test_list_walk_with_concurrent_inserts_is_complete(service: Service) -> None:
    tenant = service.create_tenant("growing")
    there = {tenant.admin.post(DOCUMENTS, json={"text": f"first {n}"}).json()["id"] for n in range(COUNT)}
    added = iter(range(1000))
    seen = walk(
        tenant.admin, DOCUMENTS, 2, between=lambda: tenant.admin.post(DOCUMENTS, json={"text": f"later {next(added)}"})
    )
    assert [item["id"] for item in seen] == sorted(there, reverse=True)
    assert next(added) >= 3


def test_operator_walks_all_tenants(service: Service) -> None:
    made = [service.create_tenant(f"walked {number}").id for number in range(5)]
    gone = service.create_tenant("walked and gone").id
    assert service.operator.delete(f"/v1/tenants/{gone}").status_code == 202
    pages: list[str] = []
    cursor = None
    while not set(made) <= set(pages):
        page = service.operator.get("/v1/tenants", params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        pages += [tenant["id"] for tenant in page["items"]]
        cursor = page["next_cursor"]
        assert cursor or set(made) <= set(pages)
    assert pages[:5] == made[::-1]
    assert len(pages) == len(set(pages))


@pytest.mark.parametrize("limit", [1, 3, 200])
def test_chunk_list_walk_follows_document_order(service: Service, limit: int) -> None:
    tenant = service.create_tenant("chunks")
    document = tenant.add_text("\n\n".join(f"# Part {n}\n\nWords of part {n}." for n in range(COUNT)))
    path = f"{DOCUMENTS}/{document['id']}/chunks"
    chunks = walk(tenant.admin, path, limit)
    assert [chunk["chunk_index"] for chunk in chunks] == list(range(document["chunk_count"]))
    assert document["chunk_count"] >= COUNT
    cursor = tenant.admin.get(DOCUMENTS, params={"limit": 1}).json()["next_cursor"]
    assert cursor is None
    # -1, 2**31, true, 1.5, [1, 2] and the cursor of another list
    for strange in ("Wy0xXQ==", "WzIxNDc0ODM2NDhd", "W3RydWVd", "WzEuNV0=", "WzEsIDJd", "WyJ4IiwgInkiXQ=="):
        assert_problem(tenant.admin.get(path, params={"cursor": strange}), 422, "invalid")
