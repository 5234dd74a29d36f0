"""Cache of knowledge bases: a search does not read them again, and never uses outdated data."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any, cast

import pytest

from app.bootstrap import TenantServices
from app.db.driver import StaleCacheError
from app.documents.types import DocumentFields
from app.errors import AppError
from app.ids import generate_id
from app.inference.embedding import Embedder, EmbeddingUnavailable, Vectors
from app.inference.embedding.model_registry import Embedders
from app.knowledge_bases.cache import MAX_ENTRIES, KnowledgeBaseCache
from app.knowledge_bases.types import KnowledgeBaseNotFound, NewKnowledgeBase
from app.plugins import STRATEGIES
from app.retrieval.routes import RoutingOptions
from app.retrieval.search_run import SearchRun
from app.retrieval.strategies.plugin_strategy import wrap_plugin_strategy
from app.retrieval.strategies.strategy import NoStrategyOptions, SearchContext, Strategy
from app.retrieval.types import Hit, SearchRequest, SearchResult, SearchUnavailable
from tests.ingestion.workshop import Workshop, add_text
from tests.retrieval.statements import all_returned, statements

LOOKED_UP, ASSURED = "from knowledge_base k join search_index i", "require_unchanged"


@pytest.fixture
async def tenant(workshop: Workshop) -> TenantServices:
    """Tenant whose ``default`` holds three texts, and has been searched once."""
    services = await workshop.new_tenant()
    for number in range(3):
        await workshop.ingest(await add_text(services, f"the lantern of harbor {number}", metadata={"n": number}))
    assert len((await search(services)).hits) == 3
    return services


async def search(services: TenantServices, query: str = "lantern", **wishes: Any) -> SearchResult:
    request = SearchRequest([query], **{"knowledge_bases": ["default"], "timeout_seconds": 20.0, **wishes})
    return await services.retrieval.search(request)


async def sent_by(workshop: Workshop, services: TenantServices, **wishes: Any) -> tuple[int, int]:
    """Return how often a search reads knowledge bases, and checks their revision."""
    async with statements(workshop) as sent:
        await search(services, **wishes)
    return sum(LOOKED_UP in sql for sql in sent), sum(ASSURED in sql for sql in sent)


async def test_knowledge_base_is_read_once_and_checked_by_every_search(
    workshop: Workshop, tenant: TenantServices
) -> None:
    assert await sent_by(workshop, tenant) == (0, 1)
    assert await sent_by(workshop, tenant, strategy="lexical", filter={"n": 1}) == (0, 1)
    assert await sent_by(workshop, tenant, knowledge_bases=["default", "default"]) == (0, 1)


async def test_knowledge_base_choice_reads_from_database(workshop: Workshop, tenant: TenantServices) -> None:
    assert await sent_by(workshop, tenant, knowledge_bases=None) == (1, 0)
    assert await sent_by(workshop, tenant, routing=RoutingOptions(1)) == (1, 0)


@pytest.mark.parametrize(
    "change",
    [
        """update knowledge_base set retrieval = '{"top_k": 2}'""",
        "update search_index set avgdl = avgdl",
        "update knowledge_base set metadata_filter = metadata_filter",
    ],
)
async def test_knowledge_base_changed_by_other_process_is_read_again(
    workshop: Workshop, tenant: TenantServices, change: str
) -> None:
    await workshop.owner.execute(f"{change} where tenant_id = $1", tenant.principal.tenant_id)
    assert await sent_by(workshop, tenant) == (1, 1)
    assert await sent_by(workshop, tenant) == (0, 1)
    assert len((await search(tenant)).hits) == (2 if "top_k" in change else 3)


async def test_document_changes_do_not_invalidate_knowledge_base(workshop: Workshop, tenant: TenantServices) -> None:
    document = await add_text(tenant, "the lantern of nowhere")
    await workshop.ingest(document)
    assert await sent_by(workshop, tenant) == (0, 1)
    assert len((await search(tenant)).hits) == 4
    await tenant.deletions.delete("default", document.id)
    assert await sent_by(workshop, tenant) == (0, 1)
    assert len((await search(tenant)).hits) == 3


@pytest.mark.parametrize(
    "wishes",
    [
        {},
        {"query": "…?!", "strategy": "lexical"},  # no query to the database
        {"filter": {"n": {"unknown": 1}}},
        {"query": "", "strategy": "dense"},
    ],
    ids=str,
)
async def test_deleted_knowledge_base_is_not_found_by_any_search(
    workshop: Workshop, tenant: TenantServices, wishes: dict[str, Any]
) -> None:
    kept = tenant.resources.knowledge_base_cache
    elsewhere = replace(kept, _views=copy(kept._views))  # another process, which gets no notification
    await tenant.knowledge_bases.delete("default")
    other = TenantServices(tenant.principal, replace(tenant.resources, knowledge_base_cache=elsewhere))
    assert elsewhere.get(tenant.principal.tenant_id, "default") is not None
    for services in (tenant, other, other):
        with pytest.raises(KnowledgeBaseNotFound):
            await search(services, **wishes)
    assert elsewhere.get(tenant.principal.tenant_id, "default") is None


class SilentEmbedder:
    """Embedder that has stopped answering."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def embed_queries(self, _texts: Sequence[str]) -> Vectors:
        raise EmbeddingUnavailable


async def test_deleted_knowledge_base_is_not_found_without_model(workshop: Workshop, tenant: TenantServices) -> None:
    """A query without words and without a vector opens no transaction."""
    silent = Embedders(cast(Embedder, SilentEmbedder(tenant.resources.embedders.default)))
    services = TenantServices(tenant.principal, replace(tenant.resources, embedders=silent))
    with pytest.raises(SearchUnavailable):
        await search(services, "…?!")
    await workshop.owner.execute(
        "update knowledge_base set deleted_at = now() where tenant_id = $1", tenant.principal.tenant_id
    )
    with pytest.raises(KnowledgeBaseNotFound):
        await search(services, "…?!")


async def test_index_of_other_model_is_refused_until_it_is_changed_back(
    workshop: Workshop, tenant: TenantServices
) -> None:
    made_with = (
        "update search_index set identity = jsonb_set(identity, '{model}', to_jsonb($2::text)) where tenant_id = $1"
    )
    tenant_id = tenant.principal.tenant_id
    model = tenant.resources.embedders.all[0].identity.model
    await workshop.owner.execute(made_with, tenant_id, "another")
    with pytest.raises(AppError, match="another"):
        await search(tenant, strategy="dense")
    await workshop.owner.execute(made_with, tenant_id, model)
    assert len((await search(tenant, strategy="dense")).hits) == 3


async def test_cache_does_not_extend_rights_of_restricted_key(tenant: TenantServices) -> None:
    narrowed = replace(tenant.principal, knowledge_base_ids=frozenset({generate_id()}))
    with pytest.raises(KnowledgeBaseNotFound):
        await search(TenantServices(narrowed, tenant.resources))


async def test_cache_entry_of_other_tenant_is_always_stale(workshop: Workshop, tenant: TenantServices) -> None:
    kept, other = await tenant.knowledge_bases.find("default"), await workshop.new_tenant()
    states = {kept.row.id: kept.cache_token}
    async with replace(tenant.db, expected_states=states).transaction():
        pass
    for wrong in (
        replace(other.db, expected_states=states),
        replace(tenant.db, expected_states={kept.row.id: "1 (0,1) 1 (0,1)"}),
    ):
        with pytest.raises(StaleCacheError):
            async with wrong.transaction():
                pass
    await all_returned(workshop)


async def test_same_name_of_other_tenant_is_separate(workshop: Workshop, tenant: TenantServices) -> None:
    other = await workshop.new_tenant()
    assert (await search(other)).hits == []
    assert (await search(other)).hits == []
    assert len((await search(tenant)).hits) == 3


async def test_new_shared_knowledge_base_is_found(workshop: Workshop, tenant: TenantServices) -> None:
    name = "handbook"
    await tenant.knowledge_bases.create(NewKnowledgeBase(name))
    for _ in range(2):
        assert (await search(tenant, knowledge_bases=[name])).hits == []
    await workshop.operator.knowledge_bases.create(NewKnowledgeBase(name))
    uploads, text = workshop.operator.uploads, "everybody's lantern"
    uploaded = await uploads.upload_text(name, text, DocumentFields(), media_type="text/plain")
    await workshop.ingest(uploaded.document)
    assert len((await search(tenant, knowledge_bases=[name])).hits) == 1
    assert await sent_by(workshop, tenant, knowledge_bases=[name]) == (0, 1)
    await workshop.operator.knowledge_bases.delete(name)
    assert (await search(tenant, knowledge_bases=[name])).hits == []


async def test_warnings_of_first_attempt_are_dropped(workshop: Workshop, tenant: TenantServices) -> None:
    """The first attempt used another model's index, which the second does not use."""
    made_with = (
        "update search_index set identity = jsonb_set(identity, '{model}', to_jsonb($2::text)) where tenant_id = $1"
    )
    model = tenant.resources.embedders.all[0].identity.model
    await workshop.owner.execute(made_with, tenant.db.tenant_id, "another")
    (warning,) = (await search(tenant)).warnings
    assert warning.code == "embedding_model_mismatch"
    await workshop.owner.execute(made_with, tenant.db.tenant_id, model)
    assert list((await search(tenant)).warnings) == []


async def test_models_are_called_after_revision_check(workshop: Workshop, tenant: TenantServices) -> None:
    """A strategy that generates queries checks the revision first."""
    transformers = ["keywords"]
    await search(tenant, transformers=transformers)
    assert await sent_by(workshop, tenant, transformers=transformers) == (0, 2)


async def test_plugin_strategy_is_not_blamed_for_restart() -> None:
    """The restart of a search is no failure of the strategy."""

    async def run(_context: SearchContext, _options: NoStrategyOptions) -> list[Hit]:
        raise StaleCacheError

    entry = EntryPoint("outdated", "nowhere:it", STRATEGIES)
    (strategy,) = wrap_plugin_strategy(entry, Strategy("outdated", "", NoStrategyOptions, run), {}).values()
    course = SearchRun.from_timeout(5.0)
    context = SearchContext(cast(Any, None), cast(Any, None), course, [], [])
    with pytest.raises(StaleCacheError):
        await strategy.run(context, NoStrategyOptions())
    assert (course.degraded_steps, course.notices) == ({}, [])


async def test_knowledge_base_cache_is_limited_and_excludes_http_sources(tenant: TenantServices) -> None:
    known, tenant_id = KnowledgeBaseCache(), tenant.principal.tenant_id
    plain = await tenant.knowledge_bases.find("default")
    for number in range(MAX_ENTRIES + 1):
        known.put(tenant_id, str(number), plain)
    assert known.get(tenant_id, "0") is None
    assert known.get(tenant_id, "1") is plain
    source = replace(plain, row=replace(plain.row, source={"url": "https://sources.example"}))
    for one in (source, replace(plain, shared_counterpart=source)):
        known.put(tenant_id, "source", one)
        assert known.get(tenant_id, "source") is None
