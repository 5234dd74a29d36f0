"""Service whose documents a chat model enriches, and steps of its tests."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg

from app.ids import decode_id
from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service

KB = "/v1/knowledge-bases/default"
ENRICHMENT = f"{KB}/enrichment"
ENRICHMENT_TABLES = ("node_enrichment", "enrichment_result", "document_enrichment")
LOVELACE = "Ada Lovelace wrote the first program with Charles Babbage for the engine. "
HOPPER = "Grace Hopper built the first compiler with Howard Aiken at the university. "
FILLER = "The machine read numbers from cards and printed them on paper in long columns of figures. "
TEXT = f"# Engines\n\n{LOVELACE}{FILLER * 8}\n\n# Compilers\n\n{HOPPER}{FILLER * 8}\n"


@contextmanager
def run_enriching_service(chat: ChatServer, make_database: DatabaseFactory, data_dir: Path) -> Iterator[Service]:
    """Run a service with two chat models, on a new database.

    Args:
        chat: Server of the chat models.
        make_database: Maker of databases.
        data_dir: Directory of the service.
    """
    models: dict[str, Any] = {
        "CARREL_CHAT_BASE_URL": chat.base_url,
        "CARREL_CHAT_MODEL": "talker",
        "CARREL_REWRITE_MODEL": "smaller",
        "CARREL_CHAT_TIMEOUT_SECONDS": 3,
    }
    with EmbeddingServer() as embedding:
        settings = build_settings(data_dir, embedding=embedding.settings, models=models)
        with run_service(settings, make_database()) as running:
            yield running


def enable(tenant: Tenant, **settings: Any) -> dict[str, Any]:
    reply = tenant.admin.patch(KB, json={"enrichment": {"enabled": True, **settings}})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()["enrichment"]
    return found


def add(tenant: Tenant, text: str = TEXT, external_id: str = "engines", **fields: Any) -> dict[str, Any]:
    document = tenant.add_text(text, external_id=external_id, media_type="text/markdown", **fields)
    assert document["status"] == "ready", document
    return document


def read_state(tenant: Tenant, document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = tenant.admin.get(f"{KB}/documents/{document['id']}").raise_for_status().json()
    assert found["status"] == "ready"
    state: dict[str, Any] = found["enrichment"]
    return state


def wait_for(holds: Callable[[], Any], *, seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def wait_for_state(tenant: Tenant, document: dict[str, Any], state: str) -> dict[str, Any]:
    def find() -> dict[str, Any] | None:
        found = read_state(tenant, document)
        return found if found["state"] == state else None

    found: dict[str, Any] = wait_for(find)
    return found


def fetch(service: Service, statement: str, *arguments: Any) -> list[asyncpg.Record]:
    """Run a statement as the owner of the tables."""

    async def run() -> list[asyncpg.Record]:
        connection = await asyncpg.connect(service.urls.owner)
        try:
            return list(await connection.fetch(statement, *arguments))
        finally:
            await connection.close()

    return asyncio.run(run())


def tenant_id(tenant: Tenant) -> Any:
    return decode_id("ten", tenant.id)


def count_rows(service: Service, tenant: Tenant) -> dict[str, int]:
    """Return the number of rows of the tenant in each table that the enrichment of documents writes."""
    query = "select count(*) from {} where tenant_id = $1"
    return {
        table: fetch(service, query.format(table), tenant_id(tenant))[0][0]
        for table in (*ENRICHMENT_TABLES, "relation")
    }
