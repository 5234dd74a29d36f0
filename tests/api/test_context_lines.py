"""Context lines of a chat model: embedded and indexed before the text of a chunk, which stays as written."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.consistency import find_inconsistencies
from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer, ReceivedTextRequest
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service
from harness.section_writer import SectionWriter, measure_tokens, read_material
from tests.api.enriching_service import (
    ENRICHMENT,
    KB,
    TEXT,
    add,
    enable,
    fetch,
    read_state,
    tenant_id,
    wait_for,
    wait_for_state,
)

pytestmark = pytest.mark.usefixtures("chat")
WORD = "zeppelin"


@pytest.fixture(scope="module")
def service(
    running_chat: ChatServer,
    embedding: EmbeddingServer,
    make_database: DatabaseFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    models = {"CARREL_CHAT_BASE_URL": running_chat.base_url, "CARREL_CHAT_MODEL": "talker"}
    settings = build_settings(tmp_path_factory.mktemp("lines"), embedding=embedding.settings, models=models)
    with run_service(settings, make_database()) as running:
        yield running


@pytest.fixture
def chat(running_chat: ChatServer) -> ChatServer:
    """Chat server whose replies have a line about each passage; ``WORD`` is in the line about Grace Hopper only."""
    writer = SectionWriter()

    def write(talk: ReceivedTextRequest) -> str:
        material = read_material(talk)
        reply = json.loads(writer(talk))
        if "passages" in material:
            reply["context_lines"] = [
                {
                    "passage": passage["number"],
                    "line": f"About\n{WORD if 'Compilers' in material['headings'] else 'reels'}",
                }
                for passage in material["passages"]
            ]
        return json.dumps(reply)

    running_chat.reset()
    running_chat.measure_tokens = measure_tokens
    running_chat.delay_seconds = 0.0
    running_chat.reply = write
    return running_chat


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.create_tenant("lines")


def load_chunks(service: Service, tenant: Tenant) -> list[tuple[str, str | None]]:
    """Return the texts and context lines of the chunks in the live search index."""
    statement = (
        "select c.content, c.context_line from chunk c join search_index i on i.tenant_id = c.tenant_id"
        " and i.id = c.index_id and i.state = 'live' where c.tenant_id = $1 order by c.document_id, c.ordinal"
    )
    return [tuple(row) for row in fetch(service, statement, tenant_id(tenant))]


def search(tenant: Tenant, query: str, **fields: Any) -> list[str]:
    body = {"query": query, "knowledge_bases": ["default"], "strategy": "lexical", **fields}
    reply = tenant.admin.post("/v1/search", json=body)
    assert reply.status_code == 200, reply.text
    return [hit["text"] for hit in reply.json()["results"]]


def count_mistakes(service: Service, tenant: Tenant) -> dict[str, Any]:
    return asyncio.run(find_inconsistencies(service.urls.app, tenant_id(tenant)))


@pytest.mark.capability("enrich-context")
@pytest.mark.parametrize("owner", [{}, {"user_id": "user-1"}])
def test_search_finds_chunk_by_word_of_its_line(service: Service, tenant: Tenant, owner: dict[str, str]) -> None:
    enable(tenant, context_lines=True)
    document = add(tenant, **owner)
    wait_for_state(tenant, document, "done")
    chunks = load_chunks(service, tenant)
    assert {line for _, line in chunks} == {f"About {WORD}", "About reels"}
    found = search(tenant, WORD, scope=owner)
    assert found
    assert all("Hopper" in text or "Compilers" in text or "machine" in text for text in found)
    assert all(WORD not in text for text in found)
    assert {text for text, _ in chunks} >= set(found)
    assert count_mistakes(service, tenant) == {}


@pytest.mark.capability("enrich-context-off")
def test_lines_are_off_by_default(service: Service, tenant: Tenant, chat: ChatServer) -> None:
    enable(tenant)
    wait_for_state(tenant, add(tenant), "done")
    assert all("passages" not in read_material(talk) for talk in chat.text_requests)
    assert {line for _, line in load_chunks(service, tenant)} == {None}


@pytest.mark.capability("enrich-context-reindex")
def test_reindex_preserves_lines_without_calls(service: Service, tenant: Tenant, chat: ChatServer) -> None:
    enable(tenant, context_lines=True)
    document = add(tenant)
    wait_for_state(tenant, document, "done")
    calls, former = len(chat.text_requests), load_chunks(service, tenant)
    tokens = tenant.admin.get(ENRICHMENT).json()["tokens_today"]
    reindexed = tenant.admin.post(f"{KB}/reindex", json={"chunking": {"max_tokens": 60}})
    assert reindexed.status_code == 202, reindexed.text
    wait_for(lambda: len(load_chunks(service, tenant)) > len(former))
    assert None not in {line for _, line in load_chunks(service, tenant)}
    wait_for_state(tenant, document, "done")
    assert search(tenant, WORD)
    assert len(chat.text_requests) == calls
    assert tenant.admin.get(ENRICHMENT).json()["tokens_today"] == tokens
    assert count_mistakes(service, tenant) == {}


def test_replaced_and_deleted_documents_have_no_lines(service: Service, tenant: Tenant) -> None:
    enable(tenant, context_lines=True)
    wait_for_state(tenant, add(tenant), "done")
    assert search(tenant, WORD)
    enable(tenant, context_lines=False)
    document = add(tenant, TEXT.replace("built", "designed"))
    wait_for_state(tenant, document, "done")
    assert search(tenant, WORD) == []
    assert count_mistakes(service, tenant) == {}
    deleted = tenant.admin.delete(f"{KB}/documents/{document['id']}")
    deletion = f"/v1/deletions/{deleted.headers['carrel-deletion-id']}"
    wait_for(lambda: tenant.admin.get(deletion).json()["finished_at"])
    assert load_chunks(service, tenant) == []
    assert count_mistakes(service, tenant) == {}


def test_lines_switched_off_are_removed_by_the_next_run(service: Service, tenant: Tenant) -> None:
    enable(tenant, context_lines=True)
    wait_for_state(tenant, add(tenant), "done")
    enable(tenant, context_lines=False)
    assert tenant.admin.post(f"{ENRICHMENT}/run").json() == {"enqueued": 1}
    wait_for(lambda: {line for _, line in load_chunks(service, tenant)} == {None})
    assert search(tenant, WORD) == []
    assert count_mistakes(service, tenant) == {}


def test_switched_lines_do_not_pay_other_parts_again(service: Service, tenant: Tenant, chat: ChatServer) -> None:
    enable(tenant)
    document = add(tenant)
    wait_for_state(tenant, document, "done")
    paid, notes = len(chat.text_requests), load_notes(service, tenant)
    estimate = switch_lines(tenant, document, on=True)
    asked = chat.text_requests[paid:]
    assert len(asked) == estimate["calls"] == 2  # the sections; the document has no other text
    assert all("passages" in read_material(talk) for talk in asked)
    assert all('"relations"' not in talk.messages[0]["content"] for talk in asked)
    tokens = tenant.admin.get(f"{KB}/documents/{document['id']}").json()["enrichment"]["tokens"]
    assert 0.8 <= estimate["total_tokens"] / tokens <= 1.2
    assert load_notes(service, tenant) == notes
    assert None not in {line for _, line in load_chunks(service, tenant)}
    lines = load_chunks(service, tenant)
    for is_on in (False, True):
        assert switch_lines(tenant, document, on=is_on)["calls"] == 0
        assert len(chat.text_requests) == paid + 2
        assert load_notes(service, tenant) == notes
        assert (load_chunks(service, tenant) == lines) is is_on
    assert count_mistakes(service, tenant) == {}


def switch_lines(tenant: Tenant, document: dict[str, Any], *, on: bool) -> dict[str, Any]:
    """Switch context lines on or off, run the enrichment, and return the estimate before the run."""
    enable(tenant, context_lines=on)
    estimate: dict[str, Any] = tenant.admin.post(f"{ENRICHMENT}/estimate").json()
    tenant.admin.post(f"{ENRICHMENT}/run").raise_for_status()
    wait_for_state(tenant, document, "done")
    return estimate


def load_notes(service: Service, tenant: Tenant) -> list[tuple[Any, ...]]:
    """Return the stored summaries, keywords and entities of the sections."""
    statement = "select summary, keywords, entities from node_enrichment where tenant_id = $1 order by summary"
    return [tuple(row) for row in fetch(service, statement, tenant_id(tenant))]


def test_copy_of_a_document_does_not_get_vectors_of_its_lines(service: Service, tenant: Tenant) -> None:
    enable(tenant, context_lines=True)
    wait_for_state(tenant, add(tenant), "done")
    enable(tenant, context_lines=False)
    wait_for_state(tenant, add(tenant, external_id="copy"), "done")
    statement = (
        "select count(distinct e.embedding::text), count(*) from chunk c join chunk_embedding e on"
        " (e.tenant_id, e.index_id, e.chunk_id) = (c.tenant_id, c.index_id, c.id)"
        " where c.tenant_id = $1 and c.ordinal = 0"
    )
    assert tuple(fetch(service, statement, tenant_id(tenant))[0]) == (2, 2)


def test_uploaded_chunks_get_no_line(service: Service, tenant: Tenant, chat: ChatServer) -> None:
    enable(tenant, context_lines=True)
    chunks = [{"text": TEXT[:600]}, {"text": TEXT[600:]}]
    reply = tenant.admin.post(f"{KB}/documents", params={"wait": 30}, json={"chunks": chunks})
    assert reply.json()["status"] == "ready", reply.text
    wait_for_state(tenant, reply.json(), "done")
    assert {line for _, line in load_chunks(service, tenant)} == {None}
    assert all(read_material(talk).get("passages", []) == [] for talk in chat.text_requests)
    assert count_mistakes(service, tenant) == {}


@pytest.mark.capability("enrich-context-estimate")
def test_estimate_counts_lines(tenant: Tenant) -> None:
    add(tenant)
    without = tenant.admin.post(f"{ENRICHMENT}/estimate").json()
    settings = {"enabled": False, "context_lines": True}
    tenant.admin.patch(KB, json={"enrichment": settings}).raise_for_status()
    estimate = tenant.admin.post(f"{ENRICHMENT}/estimate").json()
    assert estimate["calls"] == without["calls"]
    assert estimate["output_tokens"] > without["output_tokens"]
    enable(tenant, context_lines=True)
    tenant.admin.post(f"{ENRICHMENT}/run").raise_for_status()
    wait_for(lambda: tenant.admin.get(ENRICHMENT).json()["documents"]["done"] == 1)


def test_archive_preserves_lines(service: Service, tenant: Tenant, chat: ChatServer) -> None:
    enable(tenant, context_lines=True)
    wait_for_state(tenant, add(tenant), "done")
    archive = tenant.admin.get("/v1/knowledge-bases/default/export").content
    assert b'"version":4' in archive
    calls = len(chat.text_requests)
    other = service.create_tenant("importing")
    imported = other.admin.post(
        "/v1/knowledge-bases/default/import", content=archive, headers={"content-type": "application/x-tar"}
    )
    assert imported.status_code == 200, imported.text
    assert load_chunks(service, other) == load_chunks(service, tenant)
    assert search(other, WORD) == search(tenant, WORD) != []
    assert count_mistakes(service, other) == {}
    assert len(chat.text_requests) == calls


def list_usage(tenant: Tenant) -> list[dict[str, Any]]:
    """Return today's usage of each key."""
    found: list[dict[str, Any]] = tenant.admin.get("/v1/usage", params={"by": "key"}).json()["items"]
    return found


def limit_tokens(tenant: Tenant, tokens: int) -> None:
    """Set the quota of embedding tokens a day."""
    quotas = {"embedding_tokens_per_day": tokens}
    tenant.service.operator.patch(f"/v1/tenants/{tenant.id}", json={"quotas": quotas}).raise_for_status()


def wait_until_postponed(tenant: Tenant, document: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a document whose enrichment waits."""

    def find() -> dict[str, Any] | None:
        state = read_state(tenant, document)
        return state if state["waiting_for"] is not None else None

    found: dict[str, Any] = wait_for(find)
    assert (found["state"], [warning["code"] for warning in found["warnings"]]) == ("pending", ["processing_postponed"])
    assert set(found["warnings"][0]) == {"code", "message"}
    return found


def test_lines_wait_for_embedding_tokens_of_the_tenant(service: Service, tenant: Tenant, chat: ChatServer) -> None:
    document = add(tenant)
    tokens = sum(item["embedding_tokens"] for item in list_usage(tenant))
    assert tokens > 0
    limit_tokens(tenant, tokens)
    enable(tenant, context_lines=True)
    tenant.admin.post(f"{ENRICHMENT}/run").raise_for_status()
    assert wait_until_postponed(tenant, document)["waiting_for"] == "rate_limit"
    assert tenant.admin.get(ENRICHMENT).json()["waiting_for"] == "rate_limit"
    calls = len(chat.text_requests)
    assert {line for _, line in load_chunks(service, tenant)} == {None}
    assert sum(item["embedding_tokens"] for item in list_usage(tenant)) == tokens
    is_later = "select run_at > now() from job where tenant_id = $1 and kind = 'enrich_document'"
    wait_for(lambda: [row[0] for row in fetch(service, is_later, tenant_id(tenant))] == [True])
    limit_tokens(tenant, 1_000_000)
    assert tenant.admin.post(f"{ENRICHMENT}/run").json() == {"enqueued": 1}
    wait_for_state(tenant, document, "done")
    assert len(chat.text_requests) == calls
    assert search(tenant, WORD)
    assert count_mistakes(service, tenant) == {}


def test_lines_wait_for_embedding_tokens_of_the_key(service: Service, tenant: Tenant) -> None:
    enable(tenant, context_lines=True)
    writer = tenant.create_client("writer", quotas={"embedding_tokens_per_day": 1})
    other = tenant.create_client("writer", quotas={"embedding_tokens_per_day": 1_000_000})
    documents = [
        client.post(f"{KB}/documents", params={"wait": 30}, json={"text": f"{TEXT} {number}"}).json()
        for number, client in enumerate((writer, other))
    ]
    assert wait_until_postponed(tenant, documents[0])["waiting_for"] == "rate_limit"
    wait_for_state(tenant, documents[1], "done")
    assert {line for _, line in load_chunks(service, tenant)} >= {f"About {WORD}", None}
    used = {item["key"]: item["embedding_tokens"] for item in list_usage(tenant)}
    uploaded, with_lines = (client.get("/v1/me").json()["key"]["id"] for client in (writer, other))
    assert used[with_lines] > used[uploaded] > 0
    assert count_mistakes(service, tenant) == {}


def test_lines_wait_for_embedding_model_that_does_not_answer(
    service: Service, tenant: Tenant, chat: ChatServer, embedding: EmbeddingServer
) -> None:
    document = add(tenant)
    embedding.failing_word = WORD
    try:
        enable(tenant, context_lines=True)
        tenant.admin.post(f"{ENRICHMENT}/run").raise_for_status()
        assert wait_until_postponed(tenant, document)["waiting_for"] == "embedding_endpoint"
    finally:
        embedding.failing_word = None
    calls = len(chat.text_requests)

    def run_again() -> bool:
        tenant.admin.post(f"{ENRICHMENT}/run").raise_for_status()
        return bool(read_state(tenant, document)["state"] == "done")

    wait_for(run_again)
    assert len(chat.text_requests) == calls
    assert search(tenant, WORD)
    assert count_mistakes(service, tenant) == {}
