"""Dimensions of search indexes: filled, searched exactly by both retrievers, and given a vector index."""

import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import asyncpg
import numpy as np
import numpy.typing as npt
import pytest

from app.bootstrap import TenantServices
from app.documents.types import DocumentFields
from app.embedded_postgres import DatabaseUrls
from app.knowledge_bases.types import NewKnowledgeBase
from app.retrieval.types import Hit, SearchRequest
from harness.protocol_servers.embedding import EmbeddingServer
from harness.word_vectors import compute_text_vector
from tests.index_maintenance.indexed_knowledge_base import ANALYZER
from tests.ingestion.workshop import Workshop, open_workshop
from tests.lexical.reference import bm25s_scorer

KB = "sized"
# Dimensions of pgvector's halfvec in an HNSW, from the minimum to the maximum.
DIMENSIONS = (1, 2, 300, 2000, 4000)
WORDS = ["anchor", "basket", "candle", "dagger", "eagle", "feather", "garden", "hammer", "island", "jacket", "ladder"]
TEXTS = [" ".join(random.Random(number).choices(WORDS, k=3 + number % 7)) + f" number{number}" for number in range(24)]
QUERIES = ("anchor", "candle feather", "the garden of an eagle, a hammer and a ladder")


@pytest.fixture(scope="module")
async def workshop(database: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Workshop]:
    """Workshop with one model for all these dimensions."""
    with EmbeddingServer() as server:
        model = {"model": "sized", "base_url": server.base_url, "send_dimensions": True}
        sizes = json.dumps([{**model, "dimensions": dim} for dim in DIMENSIONS])
        data = tmp_path_factory.mktemp("data")
        async with open_workshop(database, data, embedding={"CARREL_EMBEDDING_MODELS": sizes}) as opened:
            yield opened


@dataclass(frozen=True)
class Sized:
    """Knowledge base of one dimension with all texts."""

    workshop: Workshop
    services: TenantServices
    dim: int

    async def fill(self) -> None:
        await self.services.knowledge_bases.create(NewKnowledgeBase(KB, model="sized", dimensions=self.dim))
        for text in TEXTS:
            stored = await self.services.uploads.upload_text(KB, text, DocumentFields(), media_type="text/plain")
            await self.workshop.ingest(stored.document)

    async def promote(self) -> None:
        """Create the vector index, as maintenance does for many more chunks."""
        row = await self.row()
        await replace(self.workshop.maintenance, threshold=1).maintain(row["tenant_id"], row["id"])

    async def row(self) -> asyncpg.Record:
        tenant = self.services.principal.tenant_id
        return await self.workshop.owner.fetchrow(
            "select * from search_index where tenant_id = $1 and dim = $2", tenant, self.dim
        )

    async def search(self, query: str, strategy: str) -> list[Hit]:
        request = SearchRequest([query], knowledge_bases=[KB], strategy=strategy, top_k=100)
        return list((await self.services.retrieval.search(request)).hits)

    async def nearest_by_index(self, query: str) -> list[float]:
        """Return the ten best cosines of the vector index, which a search uses for many more chunks."""
        row, owner = await self.row(), self.workshop.owner
        distance = (
            f"embedding::halfvec({self.dim}) <=> '{half(compute_text_vector(query, self.dim)).tolist()}'::halfvec"
        )
        sql = (
            f"select 1 - ({distance}) from chunk_embedding where tenant_id = '{row['tenant_id']}'"
            f" and index_id = '{row['id']}' and dim = {self.dim} order by {distance} limit 10"
        )
        async with owner.transaction():
            await owner.execute("set local enable_seqscan = off; set local enable_sort = off")
            plan = await owner.fetch(f"explain {sql}")
            assert any(f"hnsw_{row['id'].hex}" in line[0] for line in plan)
            return [found[0] for found in await owner.fetch(sql)]

    def cosines(self, query: str) -> dict[str, float]:
        """Return the cosine of each text by brute force over unit vectors in half precision."""
        asked = half(compute_text_vector(query, self.dim))
        stored = np.stack([half(compute_text_vector(text, self.dim)) for text in TEXTS])
        cosines = stored @ asked / np.linalg.norm(stored, axis=1) / np.linalg.norm(asked)
        return dict(zip(TEXTS, cosines.tolist(), strict=True))

    async def assert_exact(self) -> None:
        bm25 = bm25s_scorer([ANALYZER.tokenize(text) for text in TEXTS], avgdl=(await self.row())["avgdl"])
        for query in QUERIES:
            cosines = self.cosines(query)
            words = {text: score for text, score in zip(TEXTS, bm25(ANALYZER.tokenize(query)), strict=True) if score}
            for strategy, wanted in (("dense", cosines), ("lexical", words)):
                found = {hit.chunk.content: hit.score for hit in await self.search(query, strategy)}
                assert found == pytest.approx(wanted, abs=2e-5)
                assert list(found.values()) == pytest.approx(sorted(wanted.values(), reverse=True), abs=2e-5)
            both = await self.search(query, "hybrid")
            assert {hit.chunk.content: hit.similarity for hit in both} == pytest.approx(cosines, abs=2e-5)
            assert {hit.chunk.content for hit in both if hit.scores.lexical is not None} == words.keys()


def half(vector: list[float]) -> npt.NDArray[np.float64]:
    made = np.asarray(vector)
    stored: npt.NDArray[np.float16] = (made / np.linalg.norm(made)).astype(np.float16)
    return stored.astype(np.float64)


@pytest.mark.parametrize("dim", DIMENSIONS)
async def test_index_of_any_dimension_is_searched_exactly_and_promoted(workshop: Workshop, dim: int) -> None:
    kb = Sized(workshop, await workshop.new_tenant(), dim)
    await kb.fill()
    assert (await kb.row())["vector_index"] == "exact"
    await kb.assert_exact()
    await kb.promote()
    row = await kb.row()
    assert (row["vector_index"], row["skip_reason"], row["built_chunks"]) == ("hnsw", None, len(TEXTS))
    await kb.assert_exact()
    for query in QUERIES:
        best = sorted(kb.cosines(query).values())[-10:]
        assert sorted(await kb.nearest_by_index(query)) == pytest.approx(best, abs=2e-5)
