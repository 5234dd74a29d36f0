"""A service with a chat model, and two tenants for the tests of row-level security."""

import asyncio
import uuid
from collections.abc import Iterator

import asyncpg
import pytest

from app.embedded_postgres import EmbeddedPostgres
from app.ids import decode_id
from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer
from harness.running_service import Service, build_settings, run_service
from proofs.isolation.tenants import get_operator_tenant
from tests.isolation.sql import SECRET, SYSTEM, TenantPair, tried

# Rows of tables that ordinary use empties again, or rarely fills.
PASSING = (
    "insert into embedding_checkpoint select $1, $2, '\\x00', id, '[1]' from document where tenant_id = $1 limit 1",
    "insert into embedding_usage values ($1, '1999-01-01', $2::uuid::text, 1, 1)",
    "insert into idempotency_key (tenant_id, api_key_id, route, key, locked_until) values ($1, $2, 'r', 'k', now())",
    "insert into idempotency_subject values ($1, $2, $2, 'r', 'k')",
    "insert into document_page select $1, id, 1, 1, 1, '{0}', '{1}', '{0,0,1,1}' from document"
    " where tenant_id = $1 and id <> $2 limit 1",
    "insert into document_image select $1, id, 1, 7, $2::uuid::text, 'image/png', 1, 64, 64, '\\x00' from document"
    " where tenant_id = $1 limit 1",
    "insert into image_caption select $1, $2, '\\x00', id, 'A picture.' from document where tenant_id = $1 limit 1",
    "insert into provider_rate_limit (tenant_id, provider) values ($1, $2)",
    "insert into quota_lock select $1 where $2::uuid is not null on conflict do nothing",
    "insert into worker_heartbeat (tenant_id, name) values ($1, $2::uuid::text)",
    "insert into deletion (tenant_id, id, kb_id, documents, chunks) values ($1, $2, $2, 1, 1)",
    "insert into chat (tenant_id, chat_id, user_id) values ($1, $2::uuid::text, 'a user')",
    "insert into private_frequency values ($1, $2, $2, 1, 1)",
    "insert into chunk_entity select tenant_id, index_id, id, $2, '{1}', '{1}', '{a name}', 'n' from chunk"
    " where tenant_id = $1 limit 1 on conflict do nothing",
    "insert into entity values ($1, $2, 1, 1, 0, 'a name')",
    "insert into private_entity_frequency values ($1, $2, $2, 1, 1)",
    "insert into entity_alias (tenant_id, kb_id, id, key, target_key) select $1, id, $2, 1, 2 from knowledge_base"
    " where tenant_id = $1 limit 1",
    "insert into relation select tenant_id, index_id, id, 99, 1, 2, 'knows', 0, 1, 'test' from chunk"
    " where tenant_id = $1 and id <> $2 limit 1",
    "insert into node_enrichment select tenant_id, document_id, id, '', 'a summary', '[]', '[]', 'model', 'm', 1, 1"
    " from node where tenant_id = $1 and id <> $2 limit 1 on conflict do nothing",
    "insert into enrichment_result select tenant_id, id, uuid_send($2), '{}', 1, 1 from document"
    " where tenant_id = $1 limit 1",
    "insert into document_enrichment (tenant_id, kb_id, document_id, state) select tenant_id, kb_id, id, 'queued'"
    " from document where tenant_id = $1 and id <> $2 limit 1 on conflict do nothing",
    "insert into enrichment_usage values ($1, '2020-01-01', $2, 1, 1)",
    "insert into rate_bucket values ($1, $2, 1, 1, now())",
    "insert into row_allowance (tenant_id, quota) values ($1, $2::uuid::text)",
    "insert into tenant_usage select $1, 0, 0, 0 where $2::uuid is not null on conflict do nothing",
    "insert into key_usage (tenant_id, key_id) select $1, id from api_key where tenant_id = $1 and id <> $2 limit 1"
    " on conflict do nothing",
    "insert into usage_day (tenant_id, day, key_id) values ($1, '1999-01-01', $2)",
    "insert into agent_binding (tenant_id, agent_id, id) values ($1, $2::uuid::text, $2)",
    "insert into webhook (tenant_id, id, url, events, secret) values ($1, $2, 'https://1.1.1.1/', '{}', '\\x00')",
    "insert into webhook_delivery (tenant_id, id, webhook_id, event, data) values ($1, $2, $2, 'e', '{}')",
    "insert into prompt_version (tenant_id, id, kb_id, prompt, number, text)"
    " select $1, $2, id, 'rewrite', 1999, 'A prompt.' from knowledge_base where tenant_id = $1 limit 1"
    " on conflict do nothing",
    "insert into stored_file (tenant_id, id, filename, bytes, sha256, key, purpose)"
    " values ($1, $2, 'a.txt', 1, '\\x00', $2::uuid::text, 'assistants')",
    "insert into vector_store_labels select $1, id, '{}' from knowledge_base where tenant_id = $1 and id <> $2 limit 1",
    "insert into file_batch (tenant_id, id, kb_id) select $1, $2, id from knowledge_base where tenant_id = $1 limit 1",
    "insert into file_batch_file (tenant_id, batch_id, ordinal, file_id, kb_id) values ($1, $2, 0, $2, $2)",
    "insert into golden_set (tenant_id, id, name) values ($1, $2, 'a set')",
    "insert into golden_item (tenant_id, set_id, id, query, digest) values ($1, $2, $2, 'a query', '\\x00')",
    "insert into evaluation (tenant_id, id, set_id, settings, total) values ($1, $2, $2, '[{}]', 1)",
    "insert into evaluation_result values ($1, $2, $2, 0, '{}')",
    "insert into routing_profile (tenant_id, index_id, model) select $1, id, $2 from search_index"
    " where tenant_id = $1 limit 1 on conflict do nothing",
    "insert into routing_vector select tenant_id, index_id, 99, true, '[1]' from routing_profile"
    " where tenant_id = $1 and index_id <> $2 limit 1",
    "insert into sql_view (tenant_id, id, kb_id, collection, content_key, verifier)"
    " select $1, $2, id, 'v', 'content', 'SCRAM-SHA-256$4096:' || repeat('a', 90) from knowledge_base"
    " where tenant_id = $1 limit 1",
    "insert into api_key_use select $1, id, now() from api_key where tenant_id = $1 and id <> $2 limit 1"
    " on conflict do nothing",
)


@pytest.fixture(scope="session")
def service(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Service with the embedded defaults and a chat model, which answers everything with one text."""
    with ChatServer(reply=lambda _: "I do not know.") as chat:
        models = {"CARREL_CHAT_BASE_URL": chat.base_url, "CARREL_CHAT_MODEL": "talker"}
        settings = build_settings(tmp_path_factory.mktemp("data"), models=models, sql_views={"CARREL_SQL_VIEWS": True})
        with run_service(settings, make_database()) as running:
            yield running


async def _filled(connection: asyncpg.Connection, own: uuid.UUID, job: uuid.UUID) -> asyncpg.Record:
    """Insert a row of every passing table for the tenant and the system tenant; return the tenant's search index."""
    async with connection.transaction():
        for each in (SYSTEM, own):
            await connection.execute("select set_config('app.tenant_id', $1, true)", str(each))
            # A finished job is deleted, so this one waits for a time that never comes.
            await connection.execute(
                "insert into job (tenant_id, id, kind, run_at) values ($1, $2, 'never', 'infinity')", each, job
            )
            for statement in PASSING:
                await connection.execute(statement, each, job)
        return await connection.fetchrow("select id, kb_id from search_index where tenant_id = $1", own)


@pytest.fixture(scope="module")
def pair(service: Service, postgres_server: EmbeddedPostgres) -> Iterator[TenantPair]:
    a, b = service.create_tenant("a"), service.create_tenant("b")
    for tenant, word in ((a, SECRET), (b, "ordinary")):
        made = tenant.add_text(f"# About\n\nThe {word} is what this text is about.\n", user_id=f"user of {word}")
        assert made["status"] == "ready"
    operator = service.operator
    operator.post("/v1/knowledge-bases", json={"name": f"shared-{a.id[-10:]}"}).raise_for_status()
    operator.post("/v1/api-keys", json={"name": "a key", "role": "reader"}).raise_for_status()
    shared = get_operator_tenant(service)
    assert shared.add_text("What everybody may read.", kb=f"shared-{a.id[-10:]}")["status"] == "ready"
    name = service.urls.app.rpartition("/")[2]

    async def prepare() -> TenantPair:
        own, other = decode_id("ten", a.id), decode_id("ten", b.id)
        assert own is not None
        assert other is not None
        job = uuid.uuid4()
        connection = await asyncpg.connect(service.urls.app)
        try:
            row = await _filled(connection, own, job)
        finally:
            await connection.close()
        return TenantPair(service.urls.app, postgres_server.build_url(name), own, other, row["id"], row["kb_id"], job)

    async def clear(made: TenantPair) -> None:
        connection = await asyncpg.connect(made.superuser)
        await connection.execute("delete from job where id = $1", made.job)
        # Rows of the system tenant that would conflict with the next module's; children were inserted last.
        for statement in reversed(PASSING):
            table = statement.split()[2]
            await connection.execute(f"delete from {table} where tenant_id = any($1)", [made.a, SYSTEM])
        await connection.close()

    prepared = asyncio.run(prepare())
    yield prepared
    print(f"\n{tried['statements']} statements so far")
    asyncio.run(clear(prepared))
