"""Changes of documents and search indexes with context lines: the rows equal those of a new search index."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.consistency import find_inconsistencies
from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer, ReceivedTextRequest
from harness.running_service import Service, Tenant
from harness.section_writer import SectionWriter, read_material
from tests.api.enriching_service import (
    ENRICHMENT,
    ENRICHMENT_TABLES,
    FILLER,
    KB,
    LOVELACE,
    add,
    enable,
    fetch,
    run_enriching_service,
    tenant_id,
    wait_for,
)

SCOPES: dict[str, dict[str, str]] = {
    "open": {},
    "user": {"user_id": "u"},
    "chat": {"chat_id": "c", "agent_id": "a"},
    "removed": {},
    "replaced": {},
}
# Vectors, lengths and weights of the chunks of the live search index. The term keys differ between search indexes.
CHUNKS = """
select d.external_id, c.ordinal, c.content, c.context_line, e.scope_key, l.scope_key, e.embedding::text, l.dl,
       array(select w[1] from regexp_matches(l.terms::text, ':([0-9.e+-]+)', 'g') w order by 1)
  from chunk c join document d on d.tenant_id = c.tenant_id and d.id = c.document_id
  join search_index i on i.tenant_id = c.tenant_id and i.id = c.index_id and i.state = 'live'
  join chunk_embedding e on (e.tenant_id, e.index_id, e.chunk_id) = (c.tenant_id, c.index_id, c.id)
  join chunk_lexical l on (l.tenant_id, l.index_id, l.chunk_id) = (c.tenant_id, c.index_id, c.id)
 where c.tenant_id = $1 order by d.external_id, c.ordinal"""
FREQUENCIES = """
select f.df, count(*) from (select f.key, sum(f.df) as df from term_document_frequency f
  join search_index i on i.tenant_id = f.tenant_id and i.id = f.index_id and i.state = 'live'
 where f.tenant_id = $1 group by f.key having sum(f.df) <> 0) f group by 1 order by 1"""
PRIVATE_FREQUENCIES = """
select f.scope_key, f.chunks, count(*) from (select f.scope_key, f.key, sum(f.chunks) as chunks from private_frequency f
  join search_index i on i.tenant_id = f.tenant_id and i.id = f.index_id and i.state = 'live'
 where f.tenant_id = $1 group by 1, 2 having sum(f.chunks) <> 0) f group by 1, 2 order by 1, 2"""
TOTALS = """
select sum(t.chunks), sum(t.tokens) from index_totals t
  join search_index i on i.tenant_id = t.tenant_id and i.id = t.index_id and i.state = 'live' where t.tenant_id = $1"""


@pytest.fixture(scope="module")
def service(
    running_chat: ChatServer, make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    with run_enriching_service(running_chat, make_database, tmp_path_factory.mktemp("changing")) as running:
        yield running


@pytest.fixture
def chat(running_chat: ChatServer, writer: SectionWriter) -> ChatServer:
    """Chat server whose lines name the section, so that they do not depend on the size of the chunks."""

    def write(talk: ReceivedTextRequest) -> str:
        material, reply = read_material(talk), json.loads(writer(talk))
        if "passages" in material:
            line = f"A line about {' and '.join(material['headings'])}."
            reply["context_lines"] = [{"passage": item["number"], "line": line} for item in material["passages"]]
        return json.dumps(reply)

    running_chat.reply = write
    return running_chat


def compose(name: str) -> str:
    return "\n\n".join(f"# Part {part} of {name}\n\n{LOVELACE}{FILLER * 7}" for part in ("one", "two"))


def settle(tenant: Tenant, documents: int) -> None:
    """Wait until all documents are enriched, also in the live search index."""

    def is_settled() -> bool:
        kb, status = tenant.admin.get(KB).json(), tenant.admin.get(ENRICHMENT).json()
        return kb["reindex"] is None and status["documents"]["done"] == documents

    wait_for(is_settled, seconds=120)


def read_rows(service: Service, tenant: Tenant) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of the live search index by table."""
    queries = {"chunks": CHUNKS, "df": FREQUENCIES, "private": PRIVATE_FREQUENCIES, "totals": TOTALS}
    rows = {name: [tuple(row) for row in fetch(service, query, tenant_id(tenant))] for name, query in queries.items()}
    return rows | {"chunks": [(*row[:-1], compare_weights(row[-1])) for row in rows["chunks"]]}


def compare_weights(weights: list[str]) -> list[float]:
    """Return the weights of a chunk relative to the highest one: they do not depend on the index's average length."""
    odds = sorted(1 / float(weight) - 1 for weight in weights)
    return [round(value / odds[0], 3) for value in odds]


def check(service: Service, tenant: Tenant) -> None:
    """Check the counts, and that each chunk has its line."""
    assert asyncio.run(find_inconsistencies(service.urls.app, tenant_id(tenant))) == {}
    assert all(row[3] is not None and row[3].endswith(f"{row[0]}.") for row in read_rows(service, tenant)["chunks"])


def change(service: Service, tenant: Tenant) -> None:
    """Upload documents, reindex, roll back, promote a document of a chat, replace one, and delete one."""
    documents = {name: add(tenant, compose(name), name, **scope) for name, scope in SCOPES.items()}
    settle(tenant, 5)
    check(service, tenant)
    started = tenant.admin.post(f"{KB}/reindex", json={"chunking": {"max_tokens": 60}})
    assert started.status_code == 202, started.text
    settle(tenant, 5)
    check(service, tenant)
    add(tenant, compose("late"), "late", user_id="u")
    settle(tenant, 6)
    assert tenant.admin.post(f"{KB}/reindex/rollback").status_code == 202
    settle(tenant, 6)
    check(service, tenant)
    for scope in ({"level": "chat_shared", "chat_id": "c"}, {"level": "user", "user_id": "u"}):
        tenant.admin.patch(f"{KB}/documents/{documents['chat']['id']}", json={"scope": scope}).raise_for_status()
    add(tenant, f"{compose('replaced')} It has a new sentence.", "replaced")
    tenant.admin.delete(f"{KB}/documents/{documents['removed']['id']}").raise_for_status()
    settle(tenant, 5)
    check(service, tenant)


@pytest.mark.usefixtures("chat")
def test_index_with_lines_after_changes_equals_index_built_again(service: Service) -> None:
    changed, built = service.create_tenant("changed"), service.create_tenant("built")
    for tenant in (changed, built):
        enable(tenant, context_lines=True)
    change(service, changed)
    add(built, compose("open"), "open")
    add(built, f"{compose('replaced')} It has a new sentence.", "replaced")
    for name in ("user", "chat", "late"):
        add(built, compose(name), name, user_id="u")
    settle(built, 5)
    actual, expected = read_rows(service, changed), read_rows(service, built)
    for table, rows in expected.items():
        assert rows, table
        assert actual[table] == rows, table


def delete(tenant: Tenant, document: dict[str, Any]) -> dict[str, int]:
    """Delete a document, and return the numbers of remaining rows of the receipt."""
    deleted = tenant.admin.delete(f"{KB}/documents/{document['id']}")
    deletion = f"/v1/deletions/{deleted.headers['carrel-deletion-id']}"
    wait_for(lambda: tenant.admin.get(deletion).json()["finished_at"])
    remaining: dict[str, int] = tenant.admin.get(deletion).json()["remaining"]
    return remaining


@pytest.mark.usefixtures("chat")
def test_receipt_of_documents_with_lines_counts_no_row(service: Service) -> None:
    tenant = service.create_tenant("emptied")
    enable(tenant, context_lines=True)
    documents = [add(tenant, compose(name), name, **SCOPES[name]) for name in ("open", "chat")]
    settle(tenant, 2)
    tenant.admin.post(f"{KB}/reindex", json={"chunking": {"max_tokens": 60}}).raise_for_status()
    settle(tenant, 2)
    for document in documents:
        remaining = delete(tenant, document)
        assert not any(remaining.values())
        assert set(ENRICHMENT_TABLES) <= remaining.keys()
    rows = read_rows(service, tenant)
    assert (rows["chunks"], rows["df"], rows["private"]) == ([], [], [])
    assert rows["totals"] == [(0, 0)]
    assert asyncio.run(find_inconsistencies(service.urls.app, tenant_id(tenant))) == {}
