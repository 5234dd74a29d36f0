"""Shared knowledge bases: a search asks the operator's one of the same name, in one round trip, with its own model."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.documents.types import DocumentFields
from app.embedded_postgres import DatabaseUrls
from app.ids import encode_id
from app.knowledge_bases.types import KnowledgeBaseNotFound, NewKnowledgeBase
from app.principal import Principal, Role
from app.retrieval.types import Expansion, Hit, SearchRequest
from harness.protocol_servers.embedding import EmbeddingServer
from tests.ingestion.workshop import Workshop, open_workshop
from tests.retrieval.statements import statements

OWN, SHARED = 64, 24
STRATEGIES = ("dense", "lexical", "hybrid")
RULES, LEAVE = "the lantern rules are for everybody", "# Leave\n\nThe lantern stays at home.\n\n# Travel\n\nTake two."


@pytest.fixture(scope="module")
async def workshop(database: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Workshop]:
    """Workshop whose operator has knowledge bases with another model and enforced metadata."""
    with EmbeddingServer(dimensions=SHARED) as endpoint:
        model = {"model": "smaller", "base_url": endpoint.base_url, "dimensions": SHARED}
        further = {"CARREL_EMBEDDING_MODELS": json.dumps([model])}
        async with open_workshop(database, tmp_path_factory.mktemp("data"), embedding=further) as opened:
            for name in ("default", "handbook"):
                new = NewKnowledgeBase(name, model="smaller", metadata_filter={"from": "operator"})
                await opened.operator.knowledge_bases.create(new)
            await add(opened, opened.operator, RULES)
            await add(opened, opened.operator, LEAVE, kb="handbook", media_type="text/markdown")
            yield opened


@pytest.fixture(scope="module")
async def tenant(workshop: Workshop) -> TenantServices:
    """Tenant with a twin of ``default``, and with ``alone``, which has none."""
    services = await workshop.new_tenant()
    await services.knowledge_bases.create(NewKnowledgeBase("alone"))
    await add(workshop, services, "our own lantern is in the cellar")
    await add(workshop, services, "the lantern of one alone", kb="alone")
    return services


async def add(
    workshop: Workshop, services: TenantServices, text: str, *, kb: str = "default", media_type: str = "text/plain",
    **facts: Any,
) -> DocumentRow:  # fmt: skip
    uploaded = await services.uploads.upload_text(kb, text, DocumentFields(**facts), media_type=media_type)
    await workshop.ingest(uploaded.document)
    return uploaded.document


async def find(services: TenantServices, *kbs: str, query: str = "lantern", **wishes: Any) -> list[Hit]:
    request = SearchRequest([query], knowledge_bases=kbs or None, **{"top_k": 50, **wishes})
    result = await services.retrieval.search(request)
    assert list(result.warnings) == []
    return list(result.hits)


def texts(hits: list[Hit]) -> set[str]:
    return {hit.chunk.content for hit in hits}


@pytest.mark.capability("scope-shared-models")
@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_shared_and_own_documents_are_found_by_their_models(tenant: TenantServices, strategy: str) -> None:
    hits = await find(tenant, "default", strategy=strategy, return_vectors=True)
    assert texts(hits) == {RULES, "our own lantern is in the cellar"}
    assert {hit.knowledge_base for hit in hits} == {"default"}
    assert {len(hit.vector or ()) for hit in hits} == {OWN, SHARED}
    for hit in hits:
        assert (hit.scores.dense is not None) == (strategy != "lexical")
        assert (hit.scores.lexical is not None) == (strategy != "dense")
    (best,) = await find(tenant, "default", strategy=strategy, query=RULES, top_k=1)
    assert best.chunk.content == RULES
    if strategy != "lexical":
        assert best.similarity == pytest.approx(1, abs=1e-3)


async def test_shared_twin_depends_on_name(workshop: Workshop, tenant: TenantServices) -> None:
    assert texts(await find(tenant, "alone")) == {"the lantern of one alone"}
    everything = {RULES, "our own lantern is in the cellar", "the lantern of one alone"}
    assert texts(await find(tenant)) == everything
    assert texts(await find(tenant, "alone", "default")) == everything
    with pytest.raises(KnowledgeBaseNotFound):  # only the operator has it
        await find(tenant, "handbook")
    operators = await find(workshop.operator)
    assert len(operators) == len({hit.key for hit in operators})
    assert {hit.knowledge_base for hit in operators} >= {"default", "handbook"}
    by_id = encode_id("kb", (await tenant.knowledge_bases.find("default")).row.id)
    assert RULES in texts(await find(tenant, by_id))


async def test_shared_twin_is_visible_to_permitted_keys(workshop: Workshop, tenant: TenantServices) -> None:
    principal = tenant.principal
    for_a_user = Principal(principal.tenant_id, principal.tenant_name, Role.READER, user_id="u")
    assert RULES in texts(await find(TenantServices(for_a_user, workshop.resources)))
    for name, sees in (("default", True), ("alone", False)):
        only = frozenset({(await tenant.knowledge_bases.find(name)).row.id})
        key = Principal(principal.tenant_id, principal.tenant_name, Role.READER, knowledge_base_ids=only)
        assert (RULES in texts(await find(TenantServices(key, workshop.resources)))) == sees


async def test_shared_twin_gets_filters_and_expansion(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    await services.knowledge_bases.create(NewKnowledgeBase("handbook"))
    await add(workshop, services, "a lantern of ours", kb="handbook", metadata={"from": "us"})
    assert texts(await find(services, "handbook", filter={"from": "us"})) == {"a lantern of ours"}
    theirs: dict[str, Any] = {"filter": {"from": "operator"}, "strategy": "lexical"}
    (shared,) = await find(services, "handbook", **theirs, expansion=Expansion("section"))
    assert shared.text_span.text.strip().endswith("The lantern stays at home.")
    (shared,) = await find(services, "handbook", **theirs, expansion=Expansion("window"))
    assert "Take two." in shared.text_span.text
    result = await services.retrieval.search(
        SearchRequest(["lantern"], knowledge_bases=["handbook"], filter={"from": "operator"}, explain=True)
    )
    assert result.explanation is not None
    plans = [(one.knowledge_base, one.is_shared, one.filter) for one in result.explanation.indexes]
    asked = {"from": "operator"}
    assert plans == [("handbook", False, asked), ("handbook", True, {"and": [asked, asked]})]


async def test_shared_twin_enforces_its_metadata(workshop: Workshop) -> None:
    """A document without the enforced metadata of its knowledge base is in no search."""
    await workshop.operator.knowledge_bases.create(NewKnowledgeBase("guarded", metadata_filter={"team": "hr"}))
    services = await workshop.new_tenant()
    await services.knowledge_bases.create(NewKnowledgeBase("guarded"))
    document = await add(workshop, workshop.operator, "a lantern under guard", kb="guarded")
    assert texts(await find(services, "guarded")) == {"a lantern under guard"}
    assert (await services.documents.get("guarded", document.id)).id == document.id
    unstamp = "update {} set metadata = metadata - 'team' where tenant_id = $1"
    for lane in ("chunk_embedding", "chunk_lexical"):
        await workshop.owner.execute(unstamp.format(lane), workshop.operator.principal.tenant_id)
    for strategy in STRATEGIES:
        assert await find(services, "guarded", strategy=strategy) == []


async def test_shared_document_deleted_or_expired_disappears_at_once(workshop: Workshop) -> None:
    await workshop.operator.knowledge_bases.create(NewKnowledgeBase("passing"))
    tenants = [await workshop.new_tenant() for _ in range(2)]
    for services in tenants:
        await services.knowledge_bases.create(NewKnowledgeBase("passing"))
    soon = datetime.now(UTC) + timedelta(days=1)
    deleted = await add(workshop, workshop.operator, "a lantern that is deleted", kb="passing")
    expiring = await add(workshop, workshop.operator, "a lantern that expires", kb="passing", expires_at=soon)
    for services in tenants:
        assert len(await find(services, "passing")) == 2
    await workshop.operator.deletions.delete("passing", deleted.id)
    for services in tenants:
        assert texts(await find(services, "passing")) == {"a lantern that expires"}
    past = {"expires_at": datetime.now(UTC) - timedelta(seconds=1)}
    await workshop.operator.documents.update("passing", expiring.id, past)
    for services in tenants:
        assert await find(services, "passing") == []


async def test_shared_twin_needs_no_further_statement(workshop: Workshop, tenant: TenantServices) -> None:
    wishes: dict[str, Any] = {"expansion": Expansion("window"), "return_vectors": True}
    sent = {}
    for kb in ("alone", "default"):
        await find(tenant, kb, **wishes)
        async with statements(workshop) as sent[kb]:
            await find(tenant, kb, **wishes)
    assert len(sent["alone"]) == len(sent["default"]) > 5
    lanes = [sql for sql in sent["default"] if "hybrid_search" in sql]
    assert [sql.count("hybrid_search") for sql in lanes] == [2]


async def test_search_above_statement_limit_is_split(tenant: TenantServices) -> None:
    """Many queries in many knowledge bases; only the last query here has a hit."""
    queries = [*["!"] * 3300, "lantern"]
    request = SearchRequest(queries, knowledge_bases=["alone"], strategy="lexical", explain=True, timeout_seconds=60)
    result = await tenant.retrieval.search(request)
    assert texts(list(result.hits)) == {"the lantern of one alone"}
    assert [place.query for hit in result.hits for place in hit.ranks] == [3300]
