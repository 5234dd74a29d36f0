"""Routing with two embedding models: building of profiles, and a model that is down."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.bootstrap import TenantServices
from app.documents.types import DocumentFields
from app.embedded_postgres import DatabaseUrls
from app.index_maintenance.service import REFRESH_PROFILE_JOB
from app.inference.embedding import Embedder, EmbeddingUnavailable
from app.knowledge_bases.routing_settings import RoutingSettings
from app.knowledge_bases.service import ROUTING_JOB
from app.knowledge_bases.types import NewKnowledgeBase, ReindexOptions
from app.retrieval.routes import RoutingOptions
from app.retrieval.routing.profile_cache import ProfileCache
from app.retrieval.types import Query, SearchRequest, SearchResult
from app.warnings import ServiceWarning
from app.worker.handlers import JobContext
from harness.protocol_servers.embedding import EmbeddingServer
from tests.ingestion.workshop import Workshop, open_workshop, until

OTHER_SIZE = 48
TEXTS = {
    "birds": "the heron waits in the reeds",
    "bikes": "a chain drives the rear wheel",
    "moons": "jupiter has four large moons",
    "breads": "knead the dough for ten minutes",
}
OF_OTHER_MODEL = ("moons", "breads")


@pytest.fixture(scope="module")
def other_model() -> Any:
    with EmbeddingServer(dimensions=OTHER_SIZE) as server:
        yield server


@pytest.fixture(scope="module")
async def workshop(
    database: DatabaseUrls, other_model: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Workshop]:
    further = {"model": "others", "base_url": other_model.base_url, "dimensions": OTHER_SIZE, "max_tokens": 256}
    embedding = {"CARREL_EMBEDDING_MODELS": json.dumps([further])}
    async with open_workshop(database, tmp_path_factory.mktemp("data"), embedding=embedding) as opened:
        yield opened


async def add(workshop: Workshop, services: TenantServices, kb: str, text: str) -> UUID:
    facts = DocumentFields(external_id=text)
    uploaded = await services.uploads.upload_text(kb, text, facts, media_type="text/plain")
    await workshop.ingest(uploaded.document)
    return uploaded.document.id


async def look_after(workshop: Workshop) -> int:
    """Run the periodic scan and its jobs; return the number of profiles that were built."""
    await JobContext(workshop.resources, workshop.pipeline).index_maintenance.scan()
    await workshop.run_jobs("maintain_index")
    return await workshop.run_jobs(REFRESH_PROFILE_JOB)


@pytest.fixture
async def services(workshop: Workshop, other_model: EmbeddingServer) -> AsyncIterator[TenantServices]:
    """Services of a tenant with two knowledge bases of each model, one topic each."""
    await workshop.drop_jobs()
    made = await workshop.new_tenant()
    for name, text in TEXTS.items():
        await made.knowledge_bases.create(NewKnowledgeBase(name, model="others" if name in OF_OTHER_MODEL else None))
        await add(workshop, made, name, text)
    await look_after(workshop)
    await workshop.drop_jobs()
    yield made
    for server in (workshop.endpoint, other_model):
        server.reset()
    for embedder in workshop.resources.embedders.all:  # the circuit breaker waits between attempts
        await until(partial(answers, embedder))


async def answers(embedder: Embedder) -> bool:
    try:
        await embedder.embed_documents(["anything"])
        await embedder.embed_queries(["anything"])
    except EmbeddingUnavailable:
        return False
    return True


async def search(services: TenantServices, query: str, top_n: int | None = 1, **wishes: Any) -> SearchResult:
    request = SearchRequest([Query(query)], routing=RoutingOptions(top_n), explain=True, **wishes)
    return await services.retrieval.search(request)


def scores(result: SearchResult) -> dict[str, float]:
    assert result.explanation is not None
    return {one.name: one.score for one in result.explanation.routing_decisions if one.score is not None}


def searched(result: SearchResult) -> set[str]:
    assert result.explanation is not None
    return {one.knowledge_base for one in result.explanation.indexes} - {"default"}


async def test_routing_each_model_chooses_separately(services: TenantServices) -> None:
    assert searched(await search(services, "heron reeds jupiter")) == {"birds", "moons"}
    assert searched(await search(services, "chain dough")) == {"bikes", "breads"}
    assert searched(await search(services, "chain dough", top_n=2)) == set(TEXTS)


async def test_routing_vector_is_compared_with_models_of_its_dimension(services: TenantServices) -> None:
    vector = np.ones(OTHER_SIZE, np.float32) / np.sqrt(OTHER_SIZE)
    request = SearchRequest([Query("chain", vector)], routing=RoutingOptions(1), explain=True)
    result = await services.retrieval.search(request)
    assert result.explanation is not None
    reasons = {one.name: one.reason for one in result.explanation.routing_decisions}
    assert {name: reasons[name] for name in ("birds", "bikes")} == {"birds": "not_compared", "bikes": "not_compared"}
    assert sorted(reasons[name] for name in OF_OTHER_MODEL) == ["best", "less_similar"]


@pytest.mark.capability("routing-model-down")
async def test_routing_unavailable_model_searches_all_of_its_knowledge_bases(
    services: TenantServices, other_model: EmbeddingServer
) -> None:
    other_model.fail(500, times=None)
    result = await search(services, "heron waits reeds dough")
    assert searched(result) == {"birds", *OF_OTHER_MODEL}
    assert "knead the dough for ten minutes" in [hit.chunk.content for hit in result.hits]  # by its words
    assert result.warnings == [
        ServiceWarning(
            "embedding_unavailable",
            "The embedding model 'others' is not answering: only the lexical retriever was used in 'breads', 'moons'.",
        ),
        ServiceWarning(
            "routing_skipped",
            "The embedding model 'others' did not answer, so all of its knowledge bases were searched.",
        ),
    ]
    assert result.is_complete is False


async def test_routing_stalled_model_does_not_stop_search(
    services: TenantServices, workshop: Workshop, other_model: EmbeddingServer
) -> None:
    for server in (workshop.endpoint, other_model):
        server.fail("slow", times=None, seconds=30.0)
    result = await search(services, "reeds of the stalling kind", timeout_seconds=4.0)
    assert searched(result) == set(TEXTS)
    assert [hit.chunk.content for hit in result.hits][:1] == [TEXTS["birds"]]


async def test_routing_profiles_follow_changes(services: TenantServices, workshop: Workshop) -> None:
    query = "saffron on the quay"
    before = await search(services, query)
    document = await add(workshop, services, "bikes", "saffron is traded on the quay")
    assert await look_after(workshop) == 1
    assert "bikes" in searched(await search(services, query))
    assert await look_after(workshop) == 0  # nothing has changed
    await services.deletions.delete("bikes", document)
    await look_after(workshop)
    assert searched(await search(services, query)) == searched(before)


async def test_routing_reindexed_generation_has_profile(services: TenantServices, workshop: Workshop) -> None:
    await services.reindexing.start("bikes", ReindexOptions(model="others"))
    await services.knowledge_bases.update("bikes", {"routing": RoutingSettings(["gears and spokes"])})
    await workshop.run_jobs("reindex_knowledge_base")
    result = await search(services, "gears", top_n=1)
    assert result.explanation is not None
    told = {one.name: one for one in result.explanation.routing_decisions}
    assert (told["birds"].reason, told["bikes"].reason) == ("not_compared", "best")
    assert told["bikes"].centroids is not None
    assert told["bikes"].texts is not None


async def test_routing_descriptions_wait_for_unavailable_model(
    services: TenantServices, workshop: Workshop, other_model: EmbeddingServer
) -> None:
    other_model.fail(500, times=None)
    changes = {"routing": RoutingSettings(["sourdough and rye"], description_weight=1.0)}
    view = await services.knowledge_bases.update("breads", changes)
    assert view.routing.descriptions == ["sourdough and rye"]
    with pytest.raises(EmbeddingUnavailable):
        await workshop.run_jobs(ROUTING_JOB)
    other_model.reset()
    await until(partial(answers, workshop.resources.embedders.all[1]))
    await services.knowledge_bases.update("breads", {"title": "Breads"})
    await workshop.run_jobs(ROUTING_JOB)
    assert "breads" in searched(await search(services, "rye"))
    await services.knowledge_bases.update("breads", {"routing": RoutingSettings()})
    asked = other_model.request_count
    await workshop.run_jobs(ROUTING_JOB)
    assert other_model.request_count == asked
    result = await search(services, "rye")
    assert result.explanation is not None
    assert [one.texts for one in result.explanation.routing_decisions if one.name == "breads"] == [None]


async def test_routing_profile_too_large_for_cache_is_compared_in_database(services: TenantServices) -> None:
    """The choice is the same."""
    without = ProfileCache(max_tenant_bytes=100)
    in_database = TenantServices(services.principal, replace(services.resources, routing_profile_cache=without))
    kept = [await search(services, query) for query in ("heron jupiter", "chain dough", "wheel moons")]
    asked = [await search(in_database, query) for query in ("heron jupiter", "chain dough", "wheel moons")]
    known = [of.get(services.principal.tenant_id) for of in (services.retrieval.profile_cache, without)]
    assert [bool(one and one.matrices) for one in known] == [True, False]
    for one, other in zip(kept, asked, strict=True):
        assert scores(one) == pytest.approx(scores(other), abs=1e-3)
        assert searched(one) == searched(other)
