"""Lexical search with a similarity threshold: the rows, scores and cosines of the plain lexical retriever."""

import random
from dataclasses import replace
from typing import Any

import pytest

from app.bootstrap import TenantServices
from app.documents.scopes import DocumentScope
from app.filters import compile_filter
from app.lexical.analyzers import get_analyzer
from app.lexical.weights import compute_query_terms, compute_salt
from app.retrieval.repository import RetrievalRepository, RetrieverHits, RetrieverQuery
from tests.ingestion.workshop import Workshop, add_text

WORDS = ["anchor", "candle", "dagger", "eagle", "ferry", "forest", "goblet", "harbor", "lantern", "meadow"]
FILTERS: list[dict[str, Any] | None] = [None, {"odd": True}, {"number": {"lt": 20}}]
Row = tuple[float, str, float | None]


@pytest.fixture(scope="module")
async def tenant(workshop: Workshop) -> TenantServices:
    """Texts of a few words each, of two users; the model has refused one of them."""
    services, rng = await workshop.new_tenant(), random.Random(1)
    for number in range(60):
        text = f"{' '.join(rng.choices(WORDS, k=rng.randint(1, 9)))} {number}"
        metadata = {"odd": number % 2 == 1, "number": number}
        document = await add_text(
            services, text, metadata=metadata, scope=DocumentScope(user_id="u" if number % 3 else None)
        )
        await workshop.ingest(document)
    await workshop.owner.execute(
        "delete from chunk_embedding where tenant_id = $1 and chunk_id = (select min(id::text)::uuid from chunk"
        " where tenant_id = $1)",
        services.principal.tenant_id,
    )
    return services


async def lexical_rows(services: TenantServices, call: RetrieverQuery, *, size: int) -> list[Row]:
    """Return the lexical retriever's rows, best first."""
    async with services.documents.db.read_transaction() as reader:
        found: list[RetrieverHits] = await RetrievalRepository(reader).run_retrievers([call], size=size)
    rows = [
        (-score, str(chunk), similarity)
        for one in found
        for chunk, score, similarity in zip(one.chunk_ids, one.scores, one.similarities, strict=True)
    ]
    return sorted(rows)


@pytest.mark.parametrize("size", [3, 1000])
@pytest.mark.parametrize("filter", FILTERS, ids=str)
@pytest.mark.parametrize("scope", [DocumentScope(), DocumentScope(user_id="u")], ids=["tenant", "user"])
async def test_near_words_equals_lexical_retriever_above_threshold(
    tenant: TenantServices, scope: DocumentScope, filter: dict[str, Any] | None, size: int
) -> None:
    kb = await tenant.knowledge_bases.find("default")
    counts = set()
    for query in ("ferry", "ferry lantern harbor", "anchor unknownword eagle meadow"):
        (vector,) = await tenant.resources.embedders.default.embed_queries([query])
        terms, keys = compute_query_terms(get_analyzer("english").tokenize(query), compute_salt(kb.index.id))
        visible = scope.with_tenant(tenant.principal.tenant_id).list_visible_keys()
        call = RetrieverQuery(
            tenant.principal.tenant_id, kb.index.id, kb.index.dim, vector, terms, keys, visible,
            compile_filter(filter), only_similarity=True,
        )  # fmt: skip
        whole = await lexical_rows(tenant, call, size=1000)
        for least in (-1.0, 0.1, 0.3, 0.5, 1.0):
            near = [row for row in whole if row[2] is None or row[2] >= least]
            assert await lexical_rows(tenant, replace(call, min_similarity=least), size=size) == near[:size]
            counts.add(len(near))
        # Near to one of several vectors: only to the last one, because its own vector is the opposite of the
        # query's.
        opposite = replace(call, vector=-vector, other_vectors=[-vector, vector])
        for least in (0.1, 0.3, 0.5):
            near = [row for row in whole if row[2] is None or row[2] >= least]
            found = await lexical_rows(tenant, replace(opposite, min_similarity=least), size=size)
            assert [row[:2] for row in found] == [row[:2] for row in near[:size]]
            assert [row[2] for row in found] == pytest.approx([row[2] and -row[2] for row in near[:size]], abs=1e-6)
    assert len(counts) > 3
