"""Languages of a search index: they grow with its documents, also during concurrent writes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import UUID

import pytest

from app.bootstrap import TenantServices
from app.db.models.base import SYSTEM_TENANT
from app.db.models.tenant_data import DocumentRow
from app.documents.types import DocumentFields
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.types import IndexMismatch, KnowledgeBaseView, NewKnowledgeBase
from app.retrieval.types import SearchRequest
from tests.ingestion.workshop import Workshop

TEXTS = {
    "english": "The notice has to be given three months before the end of the quarter.",
    "german": "Die Kündigung muss drei Monate vor dem Ende des Quartals erklärt werden.",
    "french": "Le préavis doit être donné trois mois avant la fin du trimestre.",
    "spanish": "El aviso debe darse tres meses antes del final del trimestre.",
    "italian": "Il preavviso deve essere dato tre mesi prima della fine del trimestre.",
    "dutch": "De opzegging moet drie maanden voor het einde van het kwartaal gebeuren.",
}


@pytest.fixture
async def services(workshop: Workshop) -> AsyncIterator[TenantServices]:
    """Services of a tenant with a knowledge base of any language; at the end the tables must be consistent."""
    made = await workshop.new_tenant()
    await made.knowledge_bases.create(NewKnowledgeBase("mixed", language="auto"))
    yield made
    await workshop.end_whole()


async def add(services: TenantServices, text: str, *, kb: str = "mixed") -> DocumentRow:
    return (await services.uploads.upload_text(kb, text, DocumentFields(), media_type="text/plain")).document


async def found(services: TenantServices) -> KnowledgeBaseView:
    return await services.knowledge_bases.find("mixed")


async def test_index_languages_grow_one_at_a_time(workshop: Workshop, services: TenantServices) -> None:
    assert (await found(services)).languages == []
    for text, expected in (
        (TEXTS["german"], ["german"]),
        (TEXTS["german"] + " Schriftlich.", ["german"]),
        (TEXTS["french"], ["german", "french"]),
        ("1 2 3 4 5", ["german", "french", "english"]),
    ):
        await workshop.ingest(await add(services, text))
        assert (await found(services)).languages == expected


async def test_index_languages_grow_concurrently(workshop: Workshop, services: TenantServices) -> None:
    documents = [await add(services, f"{text} {number}") for number in range(3) for text in TEXTS.values()]
    await asyncio.gather(*(workshop.ingest(document) for document in documents))
    assert sorted((await found(services)).languages) == sorted(TEXTS)
    assert [await workshop.status(document.id) for document in documents] == ["ready"] * len(documents)


async def test_index_languages_added_by_two_transactions_do_not_wait(
    workshop: Workshop, services: TenantServices
) -> None:
    """Two transactions lock the index like ingestion, and add the same and another language: neither waits for the
    other.
    """
    kb = await found(services)
    tenant_id = services.principal.tenant_id
    database = workshop.resources.database
    async with asyncio.timeout(30), database.transaction(tenant_id) as one:
        first = KnowledgeBaseRepository(one, tenant_id)
        await first.lock_indexes(kb.row.id)
        async with database.transaction(tenant_id) as other:
            second = KnowledgeBaseRepository(other, tenant_id)
            await second.lock_indexes(kb.row.id)
            await second.add_language(kb.index.id, "german")
        await first.add_language(kb.index.id, "german")
        await first.add_language(kb.index.id, "french")
    assert (await found(services)).languages == ["german", "french"]


async def test_index_with_fixed_language_stores_no_languages(workshop: Workshop, services: TenantServices) -> None:
    document = await add(services, TEXTS["german"], kb="default")
    await workshop.ingest(document)
    assert (await workshop.document(document.id))["language"] == "english"
    assert await stored(workshop, document.kb_id) == []
    assert (await services.knowledge_bases.find("default")).languages == ["english"]


async def test_shared_index_in_message_is_marked_as_shared(services: TenantServices) -> None:
    """A tenant may have a knowledge base of the same name, and can reindex only that one."""
    kb = await found(services)
    index = replace(kb.index, identity={**kb.index.identity, "analyzer": "auto-v0"})
    told = [replace(kb, row=replace(kb.row, tenant_id=owner), index=index) for owner in (UUID(int=9), SYSTEM_TENANT)]
    sentence = "nowledge base 'mixed' was analyzed by 'auto-v0', not 'auto-v2'. Reindex it."
    assert [one.analyzer_mismatch for one in told] == [f"K{sentence}", f"Shared k{sentence}"]
    assert [one.display_name for one in told] == ["'mixed'", "the shared 'mixed'"]


async def test_index_of_other_analyzer_is_skipped_with_warning(workshop: Workshop, services: TenantServices) -> None:
    kb = await found(services)
    assert kb.index.identity["analyzer"] == "auto-v2"
    waiting = await add(services, TEXTS["english"])
    await workshop.owner.execute(
        """update search_index set identity = identity || '{"analyzer": "auto-v0"}' where id = $1""", kb.index.id
    )
    with pytest.raises(IndexMismatch, match="auto-v0"):
        await add(services, TEXTS["german"])
    with pytest.raises(IndexMismatch, match="auto-v0"):
        await workshop.ingest(waiting)
    told = "Knowledge base 'mixed' was analyzed by 'auto-v0', not 'auto-v2'. Reindex it. "
    for strategy, remarks in (("lexical", 1), ("hybrid", 1), ("dense", 0)):
        request = SearchRequest(["winters"], knowledge_bases=["mixed"], strategy=strategy)
        result = await services.retrieval.search(request)
        assert [one.code == "analyzer_mismatch" and one.message.startswith(told) for one in result.warnings] == [
            True
        ] * remarks
        assert result.is_complete


async def stored(workshop: Workshop, kb_id: UUID) -> list[str]:
    languages: list[str] = await workshop.owner.fetchval("select languages from search_index where kb_id = $1", kb_id)
    return languages
