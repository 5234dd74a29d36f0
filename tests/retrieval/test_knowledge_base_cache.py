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
from tests.retrieval.statements import nothing_lent, statements

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


async def test_it_is_read_once_and_made_sure_of_by_every_search(workshop: Workshop, tenant: TenantServices) -> None:
    assert await sent_by(workshop, tenant) == (0, 1)
    assert await sent_by(workshop, tenant, strategy="lexical", filter={"n": 1}) == (0, 1)
    assert await sent_by(workshop, tenant, knowledge_bases=["default", "default"]) == (0, 1)


async def test_what_is_to_be_chosen_is_read(workshop: Workshop, tenant: TenantServices) -> None:
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
async def test_after_a_change_by_somebody_else_it_is_read_anew(
    workshop: Workshop, tenant: TenantServices, change: str
) -> None:
    await workshop.owner.execute(f"{change} where tenant_id = $1", tenant.principal.tenant_id)
    assert await sent_by(workshop, tenant) == (1, 1)
    assert await sent_by(workshop, tenant) == (0, 1)
    assert len((await search(tenant)).hits) == (2 if "top_k" in change else 3)


async def test_documents_come_and_go_without_it(workshop: Workshop, tenant: TenantServices) -> None:
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
        {"query": "the of and", "strategy": "lexical"},  # no query to the database
        {"filter": {"n": {"unknown": 1}}},
        {"query": "", "strategy": "dense"},
    ],
    ids=str,
)
async def test_one_that_is_deleted_is_not_there_whatever_is_asked(
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


async def test_one_that_is_deleted_is_not_there_when_no_model_answers(
    workshop: Workshop, tenant: TenantServices
) -> None:
    """A query without words and without a vector opens no transaction."""
    silent = Embedders(cast(Embedder, SilentEmbedder(tenant.resources.embedders.default)))
    services = TenantServices(tenant.principal, replace(tenant.resources, embedders=silent))
    with pytest.raises(SearchUnavailable):
        await search(services, "the of and")
    await workshop.owner.execute(
        "update knowledge_base set deleted_at = now() where tenant_id = $1", tenant.principal.tenant_id
    )
    with pytest.raises(KnowledgeBaseNotFound):
        await search(services, "the of and")


async def test_an_index_of_another_model_is_no_longer_refused(workshop: Workshop, tenant: TenantServices) -> None:
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


async def test_a_narrowed_key_does_not_find_what_others_have_searched(tenant: TenantServices) -> None:
    narrowed = replace(tenant.principal, knowledge_base_ids=frozenset({generate_id()}))
    with pytest.raises(KnowledgeBaseNotFound):
        await search(TenantServices(narrowed, tenant.resources))


async def test_what_another_tenant_has_is_never_as_it_was(workshop: Workshop, tenant: TenantServices) -> None:
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
    await nothing_lent(workshop)


async def test_the_same_name_of_another_tenant_is_another(workshop: Workshop, tenant: TenantServices) -> None:
    other = await workshop.new_tenant()
    assert (await search(other)).hits == []
    assert (await search(other)).hits == []
    assert len((await search(tenant)).hits) == 3


async def test_a_shared_one_of_its_name_is_found_when_it_comes(workshop: Workshop, tenant: TenantServices) -> None:
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


async def test_what_the_first_try_told_is_not_told(workshop: Workshop, tenant: TenantServices) -> None:
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


async def test_models_are_asked_after_it_was_made_sure_of(workshop: Workshop, tenant: TenantServices) -> None:
    """A strategy that generates queries checks the revision first."""
    transformers = ["keywords"]
    await search(tenant, transformers=transformers)
    assert await sent_by(workshop, tenant, transformers=transformers) == (0, 2)


async def test_a_plugins_strategy_is_not_blamed_for_it() -> None:
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


async def test_only_so_many_are_kept_and_no_http_sources(tenant: TenantServices) -> None:
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
