"""Every documented case, and random filters, through both retrievers of a search and through the list."""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.documents.repository import DocumentRowFilters
from app.documents.types import DocumentFields, ProvidedChunk
from app.errors import InvalidInputError
from app.filters import CompiledFilter, compile_filter
from app.ids import encode_id
from app.retrieval.index_refs import IndexRef
from app.retrieval.repository import RetrieverQuery
from app.retrieval.retrievers.executor import HybridRetriever
from app.retrieval.retrievers.ranking import ListRanker
from app.retrieval.search_run import SearchRun
from app.retrieval.types import SearchRequest
from tests.filters.filter_cases import CASES
from tests.filters.filter_model import passes, random_filter, random_metadata
from tests.fixtures.trees import read_tree
from tests.ingestion.workshop import Workshop, add_text

RANDOM_DOCUMENTS, RANDOM_FILTERS = 30, 120
STRATEGIES = ("dense", "lexical")


@dataclass(frozen=True)
class FilteredTenant:
    """Tenant with a document for the metadata of each case, and for some random metadata."""

    services: TenantServices
    metadata: Mapping[UUID, dict[str, Any]]

    async def searched(self, expression: dict[str, Any], strategy: str) -> set[UUID]:
        request = SearchRequest(
            queries=["lantern"], knowledge_bases=["default"], strategy=strategy, top_k=500, filter=expression
        )
        return {hit.document.id for hit in (await self.services.retrieval.search(request)).hits}

    async def listed(self, expression: dict[str, Any]) -> set[UUID]:
        compiled = compile_filter(expression)
        filters = DocumentRowFilters(contains=compiled.contains, path=compiled.path)
        _, found = await self.services.documents.list_documents("default", filters, after=None, limit=1000)
        return {document.id for document in found}

    async def found(self, expression: dict[str, Any]) -> set[UUID]:
        """Return the documents that both retrievers and the list find, after checking that they agree."""
        ways = [await self.searched(expression, strategy) for strategy in STRATEGIES]
        ways.append(await self.listed(expression))
        assert ways[0] == ways[1] == ways[2]
        return ways[0]


@pytest.fixture(scope="module")
async def shelf(workshop: Workshop) -> FilteredTenant:
    rng = random.Random(20260105)
    wanted = {json.dumps(metadata): metadata for metadata, _, _ in CASES}
    all_metadata = [*wanted.values(), *(random_metadata(rng) for _ in range(RANDOM_DOCUMENTS))]
    services = await workshop.new_tenant()
    made = {}
    for number, metadata in enumerate(all_metadata):
        document = await add_text(services, f"lantern {number}", metadata=metadata)
        await workshop.ingest(document)
        made[document.id] = metadata
    return FilteredTenant(services, made)


@pytest.mark.capability("filter-same-everywhere")
@pytest.mark.parametrize(("metadata", "expression", "matches"), CASES, ids=lambda value: json.dumps(value)[:70])
async def test_search_and_list_documented_filter_case_agree(
    shelf: FilteredTenant, metadata: dict[str, Any], expression: dict[str, Any], matches: bool
) -> None:
    found = await shelf.found(expression)
    same = {key for key, stored in shelf.metadata.items() if json.dumps(stored) == json.dumps(metadata)}
    assert same & found == (same if matches else set())


async def test_search_and_list_random_filters_agree(shelf: FilteredTenant) -> None:
    rng, sizes = random.Random(21), set()
    for _ in range(RANDOM_FILTERS):
        expression = random_filter(rng)
        expected = {key for key, metadata in shelf.metadata.items() if passes(metadata, expression)}
        assert await shelf.found(expression) == expected, expression
        sizes.add(len(expected))
    assert len(sizes) > 15


HANDBOOK = (
    "# Leave\n\nlantern one\n\n## Holidays\n\nlantern two\n\n### Abroad\n\nlantern three\n\n# Pay\n\nlantern four\n"
)


async def add(workshop: Workshop, services: TenantServices, text: str, media_type: str, **facts: Any) -> DocumentRow:
    uploaded = await services.uploads.upload_text("default", text, DocumentFields(**facts), media_type=media_type)
    await workshop.ingest(uploaded.document)
    return await services.documents.get("default", uploaded.document.id)


async def test_search_and_list_reserved_names_agree(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    markdown = await add(
        workshop, services, HANDBOOK, "text/markdown", title="Handbook", source_uri="https://example.org/h"
    )
    plain = await add(workshop, services, "lantern five", "text/plain", metadata={"title": "Handbook"})
    shelf = FilteredTenant(services, {})
    for expression, expected in (
        ({"$document_id": encode_id("doc", markdown.id)}, {markdown}),
        ({"$document_id": [encode_id("doc", plain.id), "doc_other"]}, {plain}),
        ({"$source": "Handbook"}, {markdown}),
        ({"$source_uri": {"contains": "example.org"}}, {markdown}),
        ({"$source_uri": {"exists": False}}, {plain}),
        ({"$media_type": "text/markdown"}, {markdown}),
        ({"$title": "Handbook"}, {markdown}),
        ({"$title": {"not": "Handbook"}}, {plain}),
        ({"title": "Handbook"}, {plain}),
        ({"$created_at": {"gte": str(markdown.created_at.date())}}, {markdown, plain}),
        ({"$created_at": {"lt": markdown.created_at.isoformat()}}, set()),
        ({"$created_at": {"lte": markdown.created_at.isoformat()}}, {markdown}),
    ):
        assert await shelf.found(expression) == {document.id for document in expected}, expression


@pytest.mark.capability("filter-node")
async def test_filter_by_node_matches_its_descendants(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    document = await add(workshop, services, HANDBOOK, "text/markdown")
    other = await add(workshop, services, "# Leave\n\nlantern six\n", "text/markdown")
    tree = await read_tree(services.content, "default", document.id)
    by_title = {node.title: encode_id("nod", node.id) for node in tree.nodes if node.title}
    root = encode_id("nod", tree.nodes[0].id)
    for expression, words in (
        ({"$node": by_title["Leave"]}, {"one", "two", "three"}),
        ({"$node": by_title["Holidays"]}, {"two", "three"}),
        ({"$node": by_title["Abroad"]}, {"three"}),
        ({"$node": root}, {"one", "two", "three", "four"}),
        ({"$node": [by_title["Abroad"], by_title["Pay"]]}, {"three", "four"}),
        ({"$node": {"contains": by_title["Abroad"]}}, {"three"}),
        ({"$node": {"not": by_title["Leave"]}}, {"four", "six"}),
        ({"not": {"$node": root}}, {"six"}),
        ({"$node": {"exists": True}}, {"one", "two", "three", "four", "six"}),
        ({"$node": None}, set()),
        ({"$node": by_title["Leave"], "$document_id": encode_id("doc", other.id)}, set()),
    ):
        for strategy in STRATEGIES:
            request = SearchRequest(["lantern"], strategy=strategy, top_k=100, filter=expression)
            hits = (await services.retrieval.search(request)).hits
            assert {hit.chunk.content.split()[-1] for hit in hits} == words, (expression, strategy)
    # A whole document has no node.
    assert await FilteredTenant(services, {}).listed({"$node": root}) == set()


@pytest.mark.capability("filter-page")
async def test_filter_by_page_matches_chunks_that_begin_there(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    chunks = [
        ProvidedChunk("lantern one", page=1),
        ProvidedChunk("lantern two", page=2),
        ProvidedChunk("lantern three"),
    ]
    uploaded = await services.uploads.upload_chunks("default", chunks, DocumentFields())
    await workshop.ingest(uploaded.document)
    for expression, words in (
        ({"$page": 2}, {"two"}),
        ({"$page": "2"}, set()),
        ({"$page": {"gte": 1, "lt": 2}}, {"one"}),
        ({"$page": [1, 2, 3]}, {"one", "two"}),
        ({"$page": {"exists": False}}, {"three"}),
        ({"$page": {"not": 1}}, {"two", "three"}),
    ):
        for strategy in STRATEGIES:
            request = SearchRequest(["lantern"], strategy=strategy, top_k=100, filter=expression)
            hits = (await services.retrieval.search(request)).hits
            assert {hit.chunk.content.split()[-1] for hit in hits} == words, (expression, strategy)


@pytest.mark.parametrize("path", ["strict $[", "strict $.a == $unknown", 'strict $.a like_regex "("'])
async def test_filter_refused_by_database_is_invalid_input(shelf: FilteredTenant, path: str) -> None:
    """No compiled filter is refused, so the test replaces the compiled jsonpath by an invalid one."""
    services = shelf.services
    with pytest.raises(InvalidInputError) as caught:
        await services.documents.list_documents("default", DocumentRowFilters(path=path), after=None, limit=10)
    assert caught.value.loc == ("query", "filter")
    kb = await services.knowledge_bases.find("default")
    tenant_id, scopes = kb.row.tenant_id, SearchRequest().scope.list_visible_keys()
    vector = np.ones(kb.index.dim, np.float32)
    call = RetrieverQuery(tenant_id, kb.index.id, kb.index.dim, vector, [], [], scopes, CompiledFilter(path=path))
    searched = {kb.index.id.bytes: IndexRef(tenant_id, "default")}
    finder = HybridRetriever(services.retrieval.db, SearchRun.from_timeout(5), searched, 10)
    ranker = ListRanker(calls=[call], query_count=1, models=[0], rank=lambda _: [], is_fused=False)
    with pytest.raises(InvalidInputError) as caught:
        await finder.retrieve([call], ranker)
    assert caught.value.loc == ("body", "filter")
