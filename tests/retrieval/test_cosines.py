"""Cosines of hits: every hit has one, whichever retriever found it; the lexical retriever computes few."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import asyncpg
import numpy as np
import pytest

from app.bootstrap import TenantServices
from app.inference.embedding import Vectors
from app.retrieval.types import Hit, Query, SearchRequest, SearchResult
from app.warnings import ServiceWarning
from tests.ingestion.workshop import Workshop, add_text
from tests.retrieval.statements import statements

COMPARED = "d.metadata::text as own, (select (1 - (e.embedding <=> "
# Texts that the lexical retriever finds by a word with little weight in the vectors; the last ones are equal.
TEXTS = [
    f"A report on {subject}, signed by Zwingli." for subject in ("ships", "taxes", "rain", "bees", "locks", "wool")
]
TEXTS += [f"How {animal} are fed and kept." for animal in ("goats", "horses", "hens", "pigs", "sheep", "geese")]
TEXTS += ["Zwingli wrote this." + " " * number for number in range(6)]


@pytest.fixture(scope="module")
async def tenant(workshop: Workshop) -> TenantServices:
    services = await workshop.new_tenant()
    for text in TEXTS:
        await workshop.ingest(await add_text(services, text))
    return services


async def find(services: TenantServices, query: str, top_k: int, **wishes: Any) -> SearchResult:
    """Search with one candidate for each retriever, so that most hits are found by only one of them."""
    retrieval = replace(services.retrieval, retriever_candidates=1)
    return await retrieval.search(SearchRequest([query], **{"top_k": top_k, "timeout_seconds": 20.0, **wishes}))


def hits_of(result: SearchResult) -> list[Hit]:
    return list(result.hits)


async def cosine(workshop: Workshop, services: TenantServices, query: str | Vectors, chunk: UUID) -> float:
    vector = query
    if isinstance(query, str):
        (vector,) = await services.resources.embedders.default.embed_queries([query])
    found: float = await workshop.owner.fetchval(
        "select 1 - (embedding <=> $1::text::halfvec) from chunk_embedding where tenant_id = $2 and chunk_id = $3",
        str(np.asarray(vector).tolist()), services.principal.tenant_id, chunk,
    )  # fmt: skip
    return found


QUERIES = ("feeding animals, Zwingli", "Zwingli", "Zwingli on bees", "keeping hens and geese")


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("top_k", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("state", ["exact", "hnsw"])
async def test_every_hit_has_its_cosine(
    workshop: Workshop, tenant: TenantServices, query: str, top_k: int, state: str
) -> None:
    """A threshold, too, needs every cosine before the chunks are read."""
    await workshop.owner.execute("update search_index set vector_index = $1", state)
    filter = None if state == "exact" else {"$media_type": "text/plain"}  # both retrievers run in parallel
    hits = hits_of(await find(tenant, query, top_k, filter=filter))
    assert hits == hits_of(await find(tenant, query, top_k, filter=filter, score_threshold=-1))
    assert len(hits) == top_k
    for hit in hits:
        assert hit.similarity == pytest.approx(await cosine(workshop, tenant, query, hit.chunk.id), abs=1e-6)


@pytest.mark.parametrize("strategy", ["hybrid", "lexical"])
async def test_similarity_is_highest_cosine_of_queries(
    workshop: Workshop, tenant: TenantServices, strategy: str
) -> None:
    """A threshold compares with the highest cosine in every strategy, even if that query's retrievers did not find the
    hit.
    """
    # All are nearer to the second query, whose rows and words are others than the first one finds.
    near = np.sum(await tenant.resources.embedders.default.embed_queries(TEXTS), axis=0)
    queries = [Query("wool or geese", vector=-near), Query("Zwingli", vector=near)]
    retrieval = replace(tenant.retrieval, retriever_candidates=1)
    request = SearchRequest(queries, strategy=strategy, top_k=6, score_threshold=-1, explain=True, timeout_seconds=20.0)
    hits = list((await retrieval.search(request)).hits)
    cosines = [await cosine(workshop, tenant, near, hit.chunk.id) for hit in hits]
    assert [hit.similarity for hit in hits] == pytest.approx(cosines, abs=1e-6)
    assert any({place.query for place in hit.ranks} == {0} for hit in hits)
    least = round(min(cosines), 6) - 1e-6
    assert hits == list((await retrieval.search(replace(request, score_threshold=least))).hits)
    if strategy != "lexical":
        assert hits == list((await retrieval.search(replace(request, score_threshold=None))).hits)


async def test_lexical_retriever_cosines_are_enough_for_top_hits(workshop: Workshop, tenant: TenantServices) -> None:
    retrieval = replace(tenant.retrieval, retriever_candidates=3)
    async with statements(workshop) as sent:
        request = SearchRequest(
            ["feeding animals, Zwingli"], strategy_options={"dense_weight": 0.3}, top_k=3, timeout_seconds=20.0
        )
        hits = hits_of(await retrieval.search(request))
    assert {hit.scores.dense is None for hit in hits} == {True, False}
    assert not any(COMPARED in sql for sql in sent)


async def test_next_hits_after_deleted_ones_have_cosines(workshop: Workshop) -> None:
    """The next hits are beyond those whose cosine was requested: one retriever finds the animals, the other the
    letters.
    """
    services = await workshop.new_tenant()
    for text in [f"How {animal} are fed." for animal in ("goats", "horses", "hens", "pigs", "sheep", "geese")]:
        await workshop.ingest(await add_text(services, text))
    for number in range(6):
        await workshop.ingest(await add_text(services, "Letters of Zwingli" + ", and of others" * number))
    query = "How goats are fed."
    (vector,) = await services.resources.embedders.default.embed_queries([query])
    retrieval, request = (
        replace(services.retrieval, retriever_candidates=6),
        SearchRequest(
            [Query("Zwingli", vector)],
            strategy_options={"fusion": "rrf", "dense_weight": 0.45},
            top_k=2,
            timeout_seconds=20.0,
        ),
    )
    best = [hit.document.id for hit in (await retrieval.search(request)).hits]
    await workshop.owner.execute("update document set expires_at = now() - interval '1 hour' where id = any($1)", best)
    async with statements(workshop) as sent:
        hits = list((await retrieval.search(request)).hits)
    assert len(hits) == 2
    assert any(hit.scores.dense is None for hit in hits)
    assert any(COMPARED in sql for sql in sent)
    for hit in hits:
        assert hit.document.id not in best
        assert hit.similarity == pytest.approx(await cosine(workshop, services, query, hit.chunk.id), abs=1e-6)


async def test_unavailable_retriever_is_not_queried_for_cosines(workshop: Workshop, tenant: TenantServices) -> None:
    locked = await asyncpg.connect(workshop.urls.owner)
    await locked.execute("begin; lock table chunk_embedding in access exclusive mode")
    try:
        result = await find(tenant, "Zwingli", 3, timeout_seconds=3.0)
    finally:
        await locked.close()
    assert [hit.similarity for hit in result.hits] == [None] * 3
    assert list(result.warnings) == [ServiceWarning("retriever_unavailable", "The dense retriever did not answer.")]
