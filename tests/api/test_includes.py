"""Includes of search results: entities, summaries of sections and keywords."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from app.db.session import Database
from app.db.statements import parse_statement
from app.graph.entity_ids import decode_entity_id
from app.ids import decode_id, encode_id
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem
from tests.fixtures.mcp import mcp_client

SEARCH = "/v1/knowledge-bases/default/search"
NAMES = ["entities", "parent_summaries", "keywords"]
TEXT = (
    "# Films\n\nThis is a list of films and of their music.\n\n## Billy Elliot\n\nThe score is by Stephen Warbeck. "
    "Critics praised Stephen Warbeck for the quiet music of the film.\n"
)
ADD_ALIAS = parse_statement("""
insert into entity_alias (tenant_id, kb_id, id, key, target_key, document_id, target_name)
select :t, id, :id::uuid, :key::int, :target::int, :document::uuid, :name::text
  from knowledge_base where tenant_id = :t and name = 'default' returning id""")


@pytest.fixture(scope="module")
def films(service: Service) -> Tenant:
    tenant = service.create_tenant("films")
    tenant.add_text(TEXT, media_type="text/markdown", title="Film music")
    return tenant


def search(tenant: Tenant, **body: Any) -> dict[str, Any]:
    reply = tenant.admin.post(SEARCH, json={"query": "Who wrote the score of Billy Elliot?", **body})
    reply.raise_for_status()
    found: dict[str, Any] = reply.json()
    return found


def correct(tenant: Tenant, key: int, target: int, *, document_id: str | None = None, name: str | None = None) -> None:
    """Store a correction: a merge, or with a document a split."""
    values: dict[str, Any] = {"t": decode_id("ten", tenant.id), "id": uuid4(), "key": key, "target": target}
    document = None if document_id is None else decode_id("doc", document_id)

    async def run() -> None:
        database = Database.connect(tenant.service.urls.app, pool_size=1)
        try:
            tenant_id: UUID = values["t"]
            async with database.transaction(tenant_id) as session:
                await session.fetch_rows(ADD_ALIAS, {**values, "document": document, "name": name})
        finally:
            await database.close()

    asyncio.run(run())


def find_entity(found: dict[str, Any], name: str) -> dict[str, Any]:
    entities = [entity for result in found["results"] for entity in result["entities"]]
    return next(entity for entity in entities if entity["name"] == name)


def test_search_without_include_has_no_included_fields(films: Tenant) -> None:
    assert all(not set(NAMES) & set(result) for result in search(films)["results"])


@pytest.mark.capability("search-include-entities")
def test_search_with_entities_lists_names_of_the_chunk(films: Tenant) -> None:
    found = search(films, include=["entities"])
    entity = find_entity(found, "Stephen Warbeck")
    assert entity["id"].startswith("ent_")
    assert (entity["kind"], entity["type"], entity["count"]) == ("name", None, 2)
    assert not {"parent_summaries", "keywords"} & set(found["results"][0])


@pytest.mark.capability("search-include-summaries")
def test_search_with_summaries_and_keywords_describes_sections(films: Tenant) -> None:
    results = search(films, include=["parent_summaries", "keywords"])["results"]
    result = next(result for result in results if "Stephen Warbeck" in result["text"])
    assert result["parent_summaries"][0]["kind"] == "document"
    assert {summary["method"] for summary in result["parent_summaries"]} == {"extractive"}
    assert {summary["node_id"] for summary in result["parent_summaries"]} <= set(result["node_path"])
    assert result["keywords"][0]["score"] == 1.0
    assert result["keywords"][0]["method"] == "extractive"


def test_search_with_unknown_include_lists_known_names(films: Tenant) -> None:
    reply = films.admin.post(SEARCH, json={"query": "score", "include": ["entities", "colours"]})
    problem = assert_problem(reply, 422)
    assert problem["errors"][0]["loc"] == ["body", "include", 1]
    assert all(name in str(problem) for name in NAMES)


def test_merged_entities_count_as_one(tenant: Tenant) -> None:
    tenant.add_text("In Oxford, Stephen Warbeck met S. Warbeck-Smith. Later, Stephen Warbeck wrote to Mary Jones.")
    found = search(tenant, include=["entities"])
    source, target = find_entity(found, "Mary Jones"), find_entity(found, "Stephen Warbeck")
    keys = [decode_entity_id(entity["id"]) for entity in (source, target)]
    assert keys[0] is not None
    assert keys[1] is not None
    correct(tenant, keys[0], keys[1])
    corrected = search(tenant, include=["entities"])
    assert find_entity(corrected, "Stephen Warbeck")["count"] == source["count"] + target["count"]
    assert "Mary Jones" not in {entity["name"] for entity in corrected["results"][0]["entities"]}


def test_split_entity_has_corrected_name_in_its_document_alone(tenant: Tenant) -> None:
    documents = [tenant.add_text(f"Stephen Warbeck lives in the {place}.") for place in ("north", "south")]
    entity = find_entity(search(tenant, include=["entities"]), "Stephen Warbeck")
    key = decode_entity_id(entity["id"])
    assert key is not None
    correct(tenant, key, 77, document_id=documents[0]["id"], name="Stephen Warbeck (painter)")
    names = {
        result["document"]["id"]: {item["name"] for item in result["entities"]}
        for result in search(tenant, include=["entities"])["results"]
    }
    assert "Stephen Warbeck (painter)" in names[documents[0]["id"]]
    assert "Stephen Warbeck" in names[documents[1]["id"]]


def test_corrections_of_other_tenant_change_nothing(films: Tenant, tenant: Tenant) -> None:
    entity = find_entity(search(films, include=["entities"]), "Stephen Warbeck")
    key = decode_entity_id(entity["id"])
    assert key is not None
    correct(tenant, key, 78)
    assert find_entity(search(films, include=["entities"]), "Stephen Warbeck") == entity


def test_includes_of_other_users_document_stay_hidden(tenant: Tenant) -> None:
    tenant.add_text("Stephen Warbeck keeps a secret diary about Mary Jones.", user_id="u1")
    tenant.add_text("Stephen Warbeck writes film music.")
    body = {"query": "Stephen Warbeck", "include": NAMES}
    reply = tenant.create_client("reader", user_id="u2").post(SEARCH, json=body)
    assert [result["text"] for result in reply.json()["results"]] == ["Stephen Warbeck writes film music."]
    assert "Mary Jones" not in reply.text
    assert "diary" not in reply.text


def test_include_that_waits_too_long_is_left_out_with_a_warning(films: Tenant) -> None:
    """A lock on the table of corrections lets the include wait until its time limit."""

    async def run() -> dict[str, Any]:
        connection = await asyncpg.connect(films.service.urls.owner)
        try:
            async with connection.transaction():
                await connection.execute("lock table entity_alias in access exclusive mode")
                return await asyncio.to_thread(search, films, include=["entities", "keywords"], timeout_seconds=2.0)
        finally:
            await connection.close()

    found = asyncio.run(run())
    assert found["results"]
    assert [warning["code"] for warning in found["warnings"]] == ["include_skipped"]
    assert [step["step"] for step in found["degraded"]] == ["include"]


def test_include_of_chunks_that_waits_too_long_is_left_out_with_a_warning(films: Tenant) -> None:
    """A lock on the table of corrections lets the include wait until its time limit."""
    kb = "/v1/knowledge-bases/default"
    [chunk, *_] = films.admin.get(f"{kb}/chunks").json()["items"]
    own = f"{kb}/documents/{chunk['document']['id']}/chunks"
    paths = [f"{kb}/chunks", own, f"{own}/{chunk['id']}", f"/v1/chunks/{chunk['id']}"]

    def read() -> list[Any]:
        return [films.admin.get(path, params={"include": "entities,keywords"}) for path in paths]

    async def run() -> list[Any]:
        connection = await asyncpg.connect(films.service.urls.owner)
        try:
            async with connection.transaction():
                await connection.execute("lock table entity_alias in access exclusive mode")
                return await asyncio.to_thread(read)
        finally:
            await connection.close()

    for reply in asyncio.run(run()):
        assert reply.status_code == 200, reply.text
        body = reply.json()
        assert [warning["code"] for warning in body["warnings"]] == ["include_skipped"]
        assert set(NAMES) & set(body.get("items", [body])[0]) == {"keywords"}


def read_chunks(tenant: Tenant, document: str, **params: str) -> list[dict[str, Any]]:
    """Return the second chunk of a document from each route that reads chunks."""
    own = f"/v1/knowledge-bases/default/documents/{document}/chunks"
    listed = tenant.admin.get(own, params=params).json()["items"]
    chunk = next(item for item in listed if "Critics" in item["text"])
    everywhere = tenant.admin.get("/v1/knowledge-bases/default/chunks", params=params).json()["items"]
    return [
        chunk,
        next(item for item in everywhere if item["id"] == chunk["id"]),
        tenant.admin.get(f"{own}/{chunk['id']}", params=params).json(),
        tenant.admin.get(f"/v1/chunks/{chunk['id']}", params=params).json(),
    ]


@pytest.mark.capability("search-include-chunks")
def test_chunk_routes_have_the_includes_of_a_search(films: Tenant) -> None:
    result = next(one for one in search(films, include=NAMES)["results"] if "Critics" in one["text"])
    for chunk in read_chunks(films, result["document"]["id"], include="entities, parent_summaries,keywords"):
        assert {name: chunk[name] for name in NAMES} == {name: result[name] for name in NAMES}
    for chunk in read_chunks(films, result["document"]["id"], include="keywords"):
        assert set(NAMES) & set(chunk) == {"keywords"}
    for chunk in read_chunks(films, result["document"]["id"]):
        assert not set(NAMES) & set(chunk)


def test_chunk_routes_refuse_unknown_include(films: Tenant) -> None:
    for path in ("/v1/knowledge-bases/default/chunks", f"/v1/chunks/{encode_id('chk', uuid4())}"):
        problem = assert_problem(films.admin.get(path, params={"include": "entities,colours"}), 422, "invalid")
        assert problem["errors"][0]["loc"][:2] == ["query", "include"]
        assert "parent_summaries" in problem["detail"]


@pytest.mark.capability("search-include-mcp")
def test_mcp_search_has_the_includes_of_a_search(films: Tenant) -> None:
    result = search(films, include=NAMES)["results"][0]
    with mcp_client() as process:
        client = process.of(films)
        found = client.call("search_knowledge", query="Who wrote the score of Billy Elliot?", include=NAMES)["results"][
            0
        ]
        plain = client.call("search_knowledge", query="Who wrote the score of Billy Elliot?")["results"][0]
        message, _ = client.refused("search_knowledge", query="music", include=["colours"])
    assert {name: found[name] for name in NAMES} == {name: result[name] for name in NAMES}
    assert not set(NAMES) & set(plain)
    assert "parent_summaries" in message
