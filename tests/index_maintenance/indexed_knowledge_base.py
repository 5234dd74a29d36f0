"""A knowledge base of short texts, and its BM25 scores: the lexical retriever compared with bm25s."""

from collections.abc import Iterable
from contextlib import suppress
from uuid import UUID

import pytest

from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.documents.types import DocumentNotFound
from app.ingestion.parsers.toolkit.links import strip_addresses
from app.ingestion.plain_tables import format_plain_tables
from app.lexical.analyzers import get_analyzer
from app.lexical.weights import compute_query_terms, compute_salt
from tests.ingestion.workshop import Workshop, add_text
from tests.lexical.reference import bm25s_scorer

ANALYZER = get_analyzer("english")


class IndexedKnowledgeBase:
    """A tenant's default knowledge base; ``texts`` holds the expected text of each document."""

    def __init__(self, workshop: Workshop, services: TenantServices, index: UUID) -> None:
        self.workshop, self.services, self.index = workshop, services, index
        self.texts: dict[UUID, str] = {}

    @property
    def tenant(self) -> UUID:
        return self.services.principal.tenant_id

    async def put(self, name: str, text: str) -> DocumentRow:
        """Upload and ingest a text; the same name replaces a document."""
        document = await add_text(self.services, text, external_id=name)
        await self.workshop.ingest(document)
        self.texts[document.id] = text
        return document

    def indexed_texts(self) -> list[str]:
        """Return the texts without what is not indexed: addresses of links and bars of tables."""
        return [format_plain_tables(strip_addresses(text)) for text in self.texts.values()]

    async def delete(self, document: UUID) -> None:
        with suppress(DocumentNotFound):
            await self.services.deletions.delete("default", document)
        self.texts.pop(document, None)

    async def crowd(self) -> None:
        """Insert many frequency changes that cancel out, enough for a folding."""
        await self.workshop.owner.execute(
            "insert into term_document_frequency"
            " select tenant_id, index_id, key, sign, 0 from term_document_frequency, (values (1), (-1)) s(sign),"
            " generate_series(1, 1 + 1200 / (select greatest(1, count(*)) from term_document_frequency"
            "                                 where index_id = $1))"
            " where index_id = $1",
            self.index,
        )

    async def avgdl(self) -> float:
        found: float = await self.workshop.owner.fetchval("select avgdl from search_index where id = $1", self.index)
        return found

    async def scores(self, query: str) -> dict[UUID, float]:
        """Return the lexical retriever's scores by document, in its order; each document has one chunk."""
        terms, keys = compute_query_terms(ANALYZER.tokenize(query), compute_salt(self.index))
        async with self.services.content.db.transaction() as session:
            scopes = await self.workshop.owner.fetchval(
                "select array_agg(distinct scope_key) from document where tenant_id = $1", self.tenant
            )
            rows = await session._driver.fetch(
                "select c.document_id, b.score"
                "  from hybrid_search($1, $2, null, null, $3, $4, $5, null, null, 0, 1000) b"
                " join chunk c on c.tenant_id = $1 and c.index_id = $2 and c.id = b.chunk_id order by b.rank",
                self.tenant, self.index, terms, keys, scopes,
            )  # fmt: skip
        return {row[0]: row[1] for row in rows}

    async def assert_exact(self, queries: Iterable[str], *, avgdl: float | None = None) -> None:
        """Check texts, order and scores against bm25s, with its mean length or with this one."""
        chunks = await self.workshop.owner.fetchval("select count(*) from chunk where index_id = $1", self.index)
        assert chunks == len(self.texts), "a text of these tests is one chunk"
        reference = bm25s_scorer([ANALYZER.tokenize(text) for text in self.indexed_texts()], avgdl=avgdl)
        for query in queries:
            theirs = zip(self.texts, reference(ANALYZER.tokenize(query)), strict=True)
            expected = {document: score for document, score in theirs if score > 0}
            found = await self.scores(query)
            assert expected, query
            assert found == pytest.approx(expected, rel=1e-6, abs=2e-5), query
            assert list(found.values()) == pytest.approx(sorted(expected.values(), reverse=True), rel=1e-6, abs=2e-5), (
                query
            )
