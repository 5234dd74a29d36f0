"""`count=true` of lists: the total of every list, under the filters and restrictions of the list."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from app.db.page_counts import fetch_page
from app.db.page_limits import create_page_limit
from app.db.session import Database
from app.db.statements import parse_statement
from app.embedded_postgres import DatabaseUrls
from harness.running_service import Service, Tenant
from harness.unopened_app import build_openapi_document
from tests.api.problems import assert_problem
from tests.api.reference_objects import ReferenceObjects, create_reference_objects
from tests.api.test_api_reference import iterate_operations

LISTS = {
    name.split()[1]: operation
    for name, operation in iterate_operations(build_openapi_document())
    if "count" in {parameter["name"] for parameter in operation.get("parameters", ())}
}


@pytest.fixture(scope="module")
def objects(service: Service) -> ReferenceObjects:
    return create_reference_objects(service)


def iterate_items(client: httpx2.Client, path: str) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        page = (
            client.get(path, params={"limit": 200} | ({"cursor": cursor} if cursor else {})).raise_for_status().json()
        )
        yield from page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return


def count(client: httpx2.Client, path: str, **query: Any) -> int:
    reply = client.get(path, params={"limit": 1, "count": True, **query})
    assert reply.status_code == 200, reply.text
    assert "warnings" not in reply.json()
    total: int = reply.json()["total"]
    return total


def test_lists_of_the_api_take_count() -> None:
    assert {
        "/v1/api-keys", "/v1/knowledge-bases", "/v1/jobs", "/v1/deletions", "/v1/audit-events", "/v1/tenants",
        "/v1/webhooks", "/v1/agents", "/v1/knowledge-bases/{kb}/documents", "/v1/knowledge-bases/{kb}/chunks",
        "/v1/knowledge-bases/{kb}/documents/{document}/chunks", "/v1/webhooks/{webhook}/deliveries",
    } <= set(LISTS)  # fmt: skip


@pytest.mark.capability("api-count")
@pytest.mark.parametrize("path", LISTS)
def test_count_is_number_of_items_on_all_pages(objects: ReferenceObjects, path: str) -> None:
    client, filled = objects.get_client(path), path
    for parameter in LISTS[path]["parameters"]:
        if parameter["in"] == "path":
            value = quote(objects.substitute(str(parameter["example"])), safe="")
            filled = filled.replace(f"{{{parameter['name']}}}", value)
    plain = client.get(filled, params={"limit": 1}).raise_for_status().json()
    assert "total" not in plain
    if path not in ("/v1/tenants", "/v1/jobs"):  # other tests and the worker change them
        assert count(client, filled) == len(list(iterate_items(client, filled)))
    if plain["next_cursor"]:
        assert count(client, filled, cursor=plain["next_cursor"]) == count(client, filled)


def test_count_has_filters_scopes_and_tenant_of_the_list(service: Service, tenant: Tenant) -> None:
    documents = "/v1/knowledge-bases/default/documents"
    for number in range(3):
        tenant.add_text(f"Text {number}.", metadata={"colour": "red" if number else "blue"})
    tenant.add_text("Bob's note.", user_id="bob")
    tenant.add_text("Alice's note.", user_id="alice")
    assert count(tenant.admin, documents) == 5
    assert count(tenant.admin, documents, filter='{"colour": "red"}') == 2
    assert count(tenant.admin, documents, user_id="bob") == 1
    assert count(tenant.create_client("reader", user_id="bob"), documents) == 4
    assert count(tenant.create_client("reader", user_id="bob"), "/v1/knowledge-bases/default/chunks") == 4
    assert count(tenant.create_client("reader", knowledge_bases=["default"]), "/v1/knowledge-bases") == 1
    other = service.create_tenant().admin
    assert (count(other, documents), count(other, "/v1/api-keys")) == (0, 1)
    assert_problem(tenant.admin.get(documents, params={"count": "much"}), 422, "invalid")


async def test_count_that_takes_too_long_is_left_out(database: DatabaseUrls) -> None:
    statement = parse_statement("select pg_sleep(60), n from generate_series(1, 3) n order by n limit :limit")
    limit = create_page_limit(0, needs_count=True)
    db = Database.connect(database.app, pool_size=1)
    try:
        async with db.transaction(None) as session:
            assert await fetch_page(session, statement, {"limit": limit}) == []
            assert limit.total is None
            await session.fetch_rows(parse_statement("select 1"), {})
    finally:
        await db.close()
