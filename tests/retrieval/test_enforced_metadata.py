"""Metadata of search results: decoded only for chunks that become results."""

from app.retrieval.repository import RetrievalRepository
from app.retrieval.types import ChunkKey, SearchRequest
from tests.ingestion.workshop import Workshop, add_text
from tests.retrieval.statements import statements

TIED = 30
LABELS = {"labels": [f"label {number}" for number in range(50)], "year": 2024}


async def test_search_statements_return_no_json_metadata(workshop: Workshop) -> None:
    """The driver would decode JSON of every row, including ties, and block the event loop."""
    services = await workshop.new_tenant()
    await workshop.ingest(await add_text(services, "The ferry leaves at nine.", metadata=LABELS))
    async with statements(workshop) as sent:
        found = await services.retrieval.search(SearchRequest(["the ferry"], knowledge_bases=["default"]))
    assert [hit.document.attributes for hit in found.hits] == [LABELS]
    queries = [sql for sql in sent if "c.content" in sql]
    assert queries
    for sql in queries:
        prepared = await workshop.owner.prepare(sql)
        json = {column.name for column in prepared.get_attributes() if column.type.name in ("json", "jsonb")}
        assert json == {"section_titles"}


async def test_ties_are_read_without_decoding_metadata(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    for number in range(TIED):
        text = "The ferry leaves at nine." + " " * number
        await workshop.ingest(await add_text(services, text, metadata=LABELS, source_uri=f"https://a.example/{number}"))
    found = await services.retrieval.search(
        SearchRequest(["the ferry"], knowledge_bases=["default"], top_k=TIED, timeout_seconds=20)
    )
    keys: list[ChunkKey] = [hit.key for hit in found.hits]
    assert len(keys) == TIED
    async with services.retrieval.db.read_transaction() as reader:
        tenants = [services.retrieval.db.tenant_id] * TIED
        rows = await RetrievalRepository(reader).load_chunks(keys, tenants=tenants, retriever="lexical")
    assert not any("facts" in vars(row.chunk.metadata) for row in rows.values())
    assert all(row.document.attributes == row.chunk.attributes == LABELS for row in rows.values())
    assert {row.document.source_uri for row in rows.values()} == {f"https://a.example/{one}" for one in range(TIED)}
