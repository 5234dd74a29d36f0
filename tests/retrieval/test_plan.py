"""The plan that ``explain`` tells, where the counts say that an index is large and has a vector index."""

import asyncio
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.ids import decode_id
from tests.fixtures.service import Service, Tenant

LARGE = 100_000


async def pretend(service: Service, tenant_id: UUID, chunks: int, vector_index: str) -> None:
    owner = await asyncpg.connect(service.urls.owner)
    try:
        (index,) = await owner.fetch("select id from search_index where tenant_id = $1", tenant_id)
        await owner.execute("update search_index set vector_index = $2 where tenant_id = $1", tenant_id, vector_index)
        await owner.execute("delete from lex_totals where tenant_id = $1", tenant_id)
        totals = "insert into lex_totals (tenant_id, index_id, chunks, tokens) values ($1, $2, $3, $3)"
        await owner.execute(totals, tenant_id, index["id"], chunks)
    finally:
        await owner.close()


@pytest.mark.parametrize(
    ("chunks", "vector_index", "body", "plan"),
    [
        (2, "exact", {}, ("exact", "all")),
        (10_000, "exact", {}, ("exact", "pruned")),
        (10_000, "hnsw", {}, ("index", "pruned")),
        (LARGE, "hnsw", {}, ("index", "pruned")),
        (LARGE, "hnsw", {"filter": {"kind": "none"}}, ("exact", "all")),
        (LARGE, "exact", {"filter": {"kind": "a"}}, ("exact", "pruned")),
    ],
    ids=str,
)
def test_the_plan_follows_size_share_and_index(
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
