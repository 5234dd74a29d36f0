"""The plan in ``explain``, if the counts say that an index is large and has a vector index."""

import asyncio
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.documents.scopes import DocumentScope
from app.embedded_postgres import DatabaseUrls
from app.ids import decode_id
from harness.running_service import Service, Tenant

LARGE = 100_000


async def pretend(service: Service, tenant_id: UUID, chunks: int, vector_index: str) -> None:
    owner = await asyncpg.connect(service.urls.owner)
    try:
        (index,) = await owner.fetch("select id from search_index where tenant_id = $1", tenant_id)
        await owner.execute("update search_index set vector_index = $2 where tenant_id = $1", tenant_id, vector_index)
        await owner.execute("delete from index_totals where tenant_id = $1", tenant_id)
        totals = "insert into index_totals (tenant_id, index_id, chunks, tokens) values ($1, $2, $3, $3)"
        await owner.execute(totals, tenant_id, index["id"], chunks)
    finally:
        await owner.close()


@pytest.mark.parametrize(
    ("chunks", "vector_index", "body", "plan"),
    [
        (2, "exact", {}, ("exact", "all")),
        (10_000, "exact", {}, ("exact", "pruned")),
        (10_000, "exact", {"filter": {"kind": "none"}}, ("exact", "pruned")),
        (10_000, "hnsw", {}, ("index", "pruned")),
        (10_000, "hnsw", {"filter": {"kind": "none"}}, ("exact", "all")),
        (10_000, "exact", {"query": "harbor " + " ".join(map(str, range(100)))}, ("exact", "all")),
        (LARGE, "hnsw", {}, ("index", "pruned")),
        (LARGE, "hnsw", {"filter": {"kind": "a"}}, ("index", "pruned")),
        (LARGE, "hnsw", {"filter": {"kind": "none"}}, ("exact", "all")),
        (LARGE, "exact", {"filter": {"kind": "a"}}, ("exact", "pruned")),
    ],
    ids=str,
)
def test_plan_follows_size_share_and_index(
    service: Service, tenant: Tenant, chunks: int, vector_index: str, body: dict[str, Any], plan: tuple[str, str]
) -> None:
    for kind in ("a", "b"):
        tenant.add_text(f"a harbor of {kind}", metadata={"kind": kind})
    tenant_id = decode_id("ten", tenant.id)
    assert tenant_id is not None
    asyncio.run(pretend(service, tenant_id, chunks, vector_index))
    reply = tenant.admin.post(
        "/v1/knowledge-bases/default/search", json={"query": "harbor", "explain": True, **body}
    ).json()
    told = reply["explain"]["knowledge_bases"][0]["plan"]
    assert (told["chunks"], told["dense"], told["lexical"]) == (chunks, *plan)
    assert told["share"] == {None: 1.0, "a": 0.5, "none": 0.0}[body.get("filter", {}).get("kind")]


@pytest.mark.parametrize(
    ("filter", "dense"),
    [
        ({"kind": "rare"}, "exact"),
        ({"kind": ["rare", "rarer"]}, "exact"),
        ({"or": [{"kind": "rare"}, {"number": 11}]}, "exact"),
        ({"and": [{"kind": "rare"}, {"number": {"lt": 9}}]}, "exact"),
        # A filter without an index reads every row, however few rows pass.
        ({"number": {"lt": 1}}, "index"),
        ({"kind": {"contains": "rare"}}, "index"),
        ({"or": [{"kind": "rare"}, {"number": {"lt": 0}}]}, "index"),
        ({"or": [{"kind": "rare"}, {"nothing": {"exists": True}}]}, "index"),
        ({"or": [{"kind": "rare"}, {"kind": {"starts_with": "x"}}]}, "index"),
        ({"kind": {"not": "common"}}, "index"),
    ],
    ids=str,
)
def test_plan_uses_vector_index_only_if_it_exists(
    service: Service, tenth: Tenant, filter: dict[str, Any], dense: str
) -> None:
    body = {"query": "harbor", "explain": True, "filter": filter}
    reply = tenth.admin.post("/v1/knowledge-bases/default/search", json=body).json()
    told = reply["explain"]["knowledge_bases"][0]["plan"]
    assert (told["share"], told["dense"]) == (0.1, dense)


@pytest.fixture(scope="module")
def tenth(service: Service) -> Tenant:
    """Ten documents, of which one is rare; the counts say a hundred thousand, with a vector index."""
    tenant = service.create_tenant()
    for number in range(10):
        metadata = {"kind": "common" if number else "rare", "number": number}
        tenant.add_text(f"a harbor of {number}", metadata=metadata)
    tenant_id = decode_id("ten", tenant.id)
    assert tenant_id is not None
    asyncio.run(pretend(service, tenant_id, LARGE, "hnsw"))
    return tenant


@pytest.mark.parametrize(("vector_index", "share"), [("hnsw", 0.1), ("exact", 1.0)])
async def test_plan_of_small_index_is_sampled_only_with_vector_index(
    service: Service, tenth: Tenant, vector_index: str, share: float
) -> None:
    tenant_id = decode_id("ten", tenth.id)
    assert tenant_id is not None
    await pretend(service, tenant_id, 12_000, vector_index)
    owner = await asyncpg.connect(service.urls.owner)
    try:
        index = await owner.fetchval("select id from search_index where tenant_id = $1", tenant_id)
        await owner.execute(f"set role carrel_search; select set_config('app.tenant_id', '{tenant_id}', false)")
        sample = 'select share from search_sample($1, $2, $3, \'{"kind": "rare"}\', null, null)'
        found = await owner.fetchval(sample, tenant_id, index, DocumentScope().list_visible_keys())
    finally:
        await owner.close()
        await pretend(service, tenant_id, LARGE, "hnsw")
    assert found == share


@pytest.mark.parametrize(
    ("chunks", "share", "reach", "rows", "index"),
    [
        (LARGE, 1.0, 1.0, 100, True),
        (LARGE, 0.33, 0.33, 100, True),
        (LARGE, 0.1, 0.1, 100, False),  # an index of the filter finds them sooner
        (LARGE, 0.1, 1.0, 100, True),  # a range has no index
        (LARGE, 0.1, 0.33, 100, True),
        (LARGE, 0.12, 0.2, 100, False),  # a range whose terms find slightly more
        (LARGE, 0.05, 1.0, 100, False),  # few
        (10 * LARGE, 0.02, 0.02, 100, False),
        (10 * LARGE, 0.1, 0.1, 100, True),
        (10 * LARGE, 0.05, 0.05, 1000, False),  # it would find too little
        (20_001, 1.0, 1.0, 1000, False),
    ],
    ids=str,
)
async def test_prefers_hnsw_chooses_the_faster_way(
    database: DatabaseUrls, chunks: int, share: float, reach: float, rows: int, index: bool
) -> None:
    owner = await asyncpg.connect(database.owner)
    try:
        await owner.execute("set role carrel_search")
        assert await owner.fetchval("select prefers_hnsw($1, $2, $3, $4)", chunks, share, reach, rows) is index
    finally:
        await owner.close()
