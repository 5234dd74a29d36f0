"""SQL view of a knowledge base as an agent platform reads it: its rows, their delay, and its lifetime."""

import asyncio
import json

import asyncpg
import pytest

from harness.running_service import Service, Tenant
from harness.wait_until import create_expired
from tests.api.problems import assert_problem
from tests.sql_views.platform import ENDED, Published, allow, eventually, publish, texts

KB = "/v1/knowledge-bases/default"
PATH = f"{KB}/sql-view"
DOCUMENTS = f"{KB}/documents"
HERON, OTTER = "The heron fishes at dawn.", "The otter sleeps by day."


@pytest.fixture
def tenant(publishing: Service) -> Tenant:
    return allow(publishing.create_tenant())


async def left(service: Service, published: Published) -> int:
    """Return the number of objects of a SQL view in the database."""
    connection = await asyncpg.connect(service.urls.owner)
    try:
        found: int = await connection.fetchval(
            "select (select count(*) from pg_roles where rolname = $1)"
            " + (select count(*) from pg_namespace where nspname = replace($1, 'carrel_sql_view_', 'sql_view_'))"
            " + (select count(*) from sql_view where 'carrel_sql_view_' || replace(id::text, '-', '') = $1)",
            published.connection["user"],
        )
        return found
    finally:
        await connection.close()


@pytest.mark.capability("sql-view")
def test_sql_view_platform_retriever_finds_nearest_rows(tenant: Tenant) -> None:
    tenant.add_text(HERON, metadata={"animal": "bird"})
    tenant.add_text(OTTER, metadata={"animal": "mammal"})
    published = publish(tenant, collection="animals")

    async def retrieve() -> tuple[str, list[str], list[str]]:
        async with published.connected() as reader:
            # At its start the platform checks that the column has its model's dimensions.
            kind = await reader.fetchval(
                "select format_type(atttypid, atttypmod) from pg_attribute"
                " where attrelid = 'animals'::regclass and attname = 'vec'"
            )
            near = await reader.fetchval('select vec::text from animals where metadata @> \'{"animal": "mammal"}\'')
            nearest = "select metadata from animals {} order by vec <=> $1::text::vector limit 2"
            found = await reader.fetch(nearest.format(""), near)
            filtered = await reader.fetch(nearest.format("where metadata @> $2::jsonb"), near, '{"animal": "bird"}')
        bodies = [[json.loads(row[0])["content"] for row in rows] for rows in (found, filtered)]
        return kind, bodies[0], bodies[1]

    assert asyncio.run(retrieve()) == ("halfvec(384)", [OTTER, HERON], [HERON])
    schema = published.connection["user"].replace("carrel_sql_view_", "sql_view_")
    assert published.connection == {
        **published.connection, "type": "pgvector", "collection": f"{schema}.animals", "content_key": "content",
        "embedding_dimensions": 384, "sslmode": "disable", "hostname": "127.0.0.1",
    }  # fmt: skip


def test_sql_view_reply_warns_and_returns_password_once(tenant: Tenant) -> None:
    made = tenant.admin.post(PATH, json={"content_key": "body"}).json()
    assert {one["code"] for one in made["warnings"]} == {"embedded_model", "no_tls"}
    read = tenant.admin.get(PATH)
    assert made["password"] not in read.text
    assert read.json()["connection"] == made["connection"]
    assert made["connection"]["collection"].endswith(".kb_default")
    assert made["connection"]["content_key"] == "body"
    assert_problem(tenant.admin.post(PATH), 409, "sql_view_exists")


def test_sql_view_password_is_not_stored_for_retry(tenant: Tenant) -> None:
    key = {"Idempotency-Key": "publish-once"}
    made = tenant.admin.post(PATH, headers=key)
    assert made.status_code == 202
    found = assert_problem(tenant.admin.post(PATH, headers=key), 409, "idempotency_secret_shown")
    assert made.json()["password"] not in str(found)


def test_sql_view_contains_only_tenant_wide_documents(tenant: Tenant) -> None:
    kept = tenant.add_text(HERON)
    tenant.add_text("A user's.", user_id="u")
    tenant.add_text("A chat's.", chat_id="c")
    tenant.add_text("An agent's.", chat_id="c", agent_id="a")
    tenant.add_text("Passing.", dynamic=True)
    create_expired(lambda end: tenant.admin.post(DOCUMENTS, json={"text": "Expired.", "expires_at": end.isoformat()}))
    published = publish(tenant)
    eventually(lambda: asyncio.run(published.texts()) == {HERON})
    tenant.add_text(OTTER, metadata={"title": "x"})
    assert asyncio.run(published.texts()) == {HERON, OTTER}
    assert asyncio.run(published.texts(title="x")) == {OTTER}
    tenant.admin.delete(f"{KB}/documents/{kept['id']}").raise_for_status()
    assert asyncio.run(published.texts()) == {OTTER}


def test_sql_view_applies_enforced_metadata(publishing: Service, tenant: Tenant) -> None:
    tenant.add_text(HERON)
    published = publish(tenant)
    tenant.admin.patch(KB, json={"metadata_filter": {"shelf": "a"}}).raise_for_status()
    eventually(lambda: asyncio.run(published.texts(shelf="a")) == {HERON})

    async def lose_the_stamp() -> None:
        connection = await asyncpg.connect(publishing.urls.owner)
        await connection.execute("update chunk_embedding set metadata = metadata - 'shelf' where metadata ? 'shelf'")
        await connection.close()

    asyncio.run(lose_the_stamp())
    assert asyncio.run(published.texts()) == set()


@pytest.mark.capability("sql-view-reindex")
def test_sql_view_follows_reindex(tenant: Tenant) -> None:
    tenant.add_text("# Birds\n\n" + " ".join(f"The heron number {n} fishes." for n in range(60)))
    published = publish(tenant)
    before = asyncio.run(published.texts())
    tenant.admin.post(f"{KB}/reindex", json={"chunking": {"max_tokens": 64}}).raise_for_status()
    eventually(lambda: tenant.admin.get(KB).json()["reindex"] is None)

    def live() -> set[str]:
        page = tenant.admin.get(f"{KB}/documents").json()["items"][0]["id"]
        chunks = tenant.admin.get(f"{KB}/documents/{page}/chunks", params={"limit": 100}).json()["items"]
        return {chunk["text"] for chunk in chunks}

    assert len(live()) > len(before)
    eventually(lambda: asyncio.run(published.texts()) == live())


@pytest.mark.capability("sql-view-revoked")
def test_sql_view_revoked_shows_nothing_and_is_removed(publishing: Service, tenant: Tenant) -> None:
    tenant.add_text(HERON)
    published = publish(tenant)

    async def revoke() -> set[str]:
        async with published.connected() as reader:
            assert await texts(reader, published.connection) == {HERON}
            await asyncio.to_thread(lambda: tenant.admin.delete(PATH).raise_for_status())
            try:
                return await texts(reader, published.connection)
            except ENDED:
                return set()  # the session was ended already

    assert asyncio.run(revoke()) == set()
    eventually(lambda: asyncio.run(left(publishing, published)) == 0)
    with pytest.raises(asyncpg.InvalidPasswordError):
        asyncio.run(published.texts())
    assert_problem(tenant.admin.get(PATH), 404, "sql_view_not_found")
    assert tenant.admin.delete(PATH).status_code == 204
    assert asyncio.run(publish(tenant).texts()) == {HERON}


def test_sql_view_revoked_ends_open_session(publishing: Service, tenant: Tenant) -> None:
    published = publish(tenant)

    async def outlive() -> bool:
        async with published.connected() as reader:
            await asyncio.to_thread(lambda: tenant.admin.delete(PATH).raise_for_status())
            await asyncio.to_thread(lambda: eventually(lambda: asyncio.run(left(publishing, published)) == 0))
            try:
                await reader.fetch("select 1")
            except ENDED:
                return False
        return True

    assert not asyncio.run(outlive())


def test_sql_view_is_removed_with_knowledge_base(publishing: Service, tenant: Tenant) -> None:
    tenant.admin.post("/v1/knowledge-bases", json={"name": "gone"}).raise_for_status()
    tenant.add_text(HERON, kb="gone")
    published = publish(tenant, "gone")
    deletion = tenant.admin.delete("/v1/knowledge-bases/gone").headers["carrel-deletion-id"]
    assert asyncio.run(published.shows_nothing())
    path = f"/v1/deletions/{deletion}"
    eventually(lambda: tenant.admin.get(path).json()["finished_at"] is not None)
    assert tenant.admin.get(path).json()["remaining"]["sql_view"] == 0
    assert asyncio.run(left(publishing, published)) == 0


def test_sql_view_is_removed_with_tenant(publishing: Service, tenant: Tenant) -> None:
    tenant.add_text(HERON)
    published = publish(tenant)
    publishing.operator.delete(f"/v1/tenants/{tenant.id}").raise_for_status()
    assert asyncio.run(published.shows_nothing())
    eventually(lambda: asyncio.run(left(publishing, published)) == 0)


@pytest.mark.parametrize("collection", ["pg_class", "select", "A", "a b", 'a"', "a;b", "1a", "a" * 64, ""])
def test_sql_view_invalid_name_is_422(tenant: Tenant, collection: str) -> None:
    found = assert_problem(tenant.admin.post(PATH, json={"collection": collection}), 422)
    assert found["errors"][0]["loc"] == ["body", "collection"]


def test_sql_view_of_auto_language_does_not_move_to_another_model(tenant: Tenant) -> None:
    """The service chooses no other model: its vectors may have the same dimensions, so that no error would appear."""
    german = "Die Kündigungsfrist für die Wohnung beträgt drei Monate, und der Mieter muss einen Brief senden."
    for name in ("published", "plain"):
        tenant.admin.post("/v1/knowledge-bases", json={"name": name, "language": "auto"}).raise_for_status()
    tenant.admin.post("/v1/knowledge-bases/published/sql-view").raise_for_status()
    assert [tenant.add_text(german, kb=name)["status"] for name in ("published", "plain")] == ["ready", "ready"]

    def find_model(name: str) -> str:
        found = tenant.admin.get(f"/v1/knowledge-bases/{name}").json()
        return str((found["reindex"] or found)["embedding"]["model"])

    eventually(lambda: find_model("plain") == "multilingual-e5-small")
    assert [find_model(name) for name in ("published", "plain")] == ["bge-small-en-v1.5", "multilingual-e5-small"]
