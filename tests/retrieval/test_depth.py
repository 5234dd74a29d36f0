"""``top_k`` when the first candidates do not become enough hits: the retrievers are queried again for more."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from app.bootstrap import TenantServices
from app.documents.types import DocumentFields
from app.ids import encode_id
from app.knowledge_bases.types import Chunking, NewKnowledgeBase
from app.retrieval.quota import require_complete
from app.retrieval.types import Expansion, Hit, Message, Query, SearchRequest, SearchResult, SearchUnavailable
from app.warnings import ServiceWarning
from tests.ingestion.workshop import Workshop, add_text
from tests.retrieval.statements import statements

FEW, MOST = 6, 1000
STRATEGIES = ("hybrid", "dense", "lexical")
MORE = ServiceWarning("results_may_be_incomplete", "Results may be incomplete: the candidate limit was reached.")
SMALL = Chunking("recursive", max_tokens=16)


async def find(services: TenantServices, query: str | Query, *, rows: int = FEW, **wishes: Any) -> SearchResult:
    """Search with this number of first candidates for each retriever."""
    retrieval = replace(services.retrieval, retriever_candidates=rows)
    return await retrieval.search(SearchRequest([query], **{"top_k": 5, "timeout_seconds": 20.0, **wishes}))


def facts_of(hits: Sequence[Hit]) -> list[tuple[UUID, float, float | None]]:
    return [(hit.chunk.id, hit.score, hit.similarity) for hit in hits]


async def shelf(workshop: Workshop, texts: Sequence[str]) -> TenantServices:
    """Create a tenant with one document for each text."""
    services = await workshop.new_tenant()
    for text in texts:
        await workshop.ingest(await add_text(services, text))
    return services


async def book(workshop: Workshop, *texts: str) -> TenantServices:
    """Create a tenant with long documents in small passages."""
    services = await workshop.new_tenant()
    await services.knowledge_bases.create(NewKnowledgeBase("book", chunking=SMALL))
    for text in texts:
        uploaded = await services.uploads.upload_text("book", text, DocumentFields(), media_type="text/markdown")
        await workshop.ingest(uploaded.document)
    return services


def count_retriever_calls(sent: Sequence[str]) -> int:
    return sum("hybrid_search" in sql for sql in sent)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_expired_documents_do_not_reduce_top_k(workshop: Workshop, strategy: str) -> None:
    services = await shelf(workshop, [f"The ferry to island {number} leaves." for number in range(3 * FEW)])
    best = (await find(services, "the ferry", strategy=strategy, top_k=2 * FEW)).hits
    gone = [hit.document.id for hit in best]
    await workshop.owner.execute("update document set expires_at = now() - interval '1 hour' where id = any($1)", gone)
    async with statements(workshop) as sent:
        found = await find(services, "the ferry", strategy=strategy)
    assert len({hit.document.id for hit in found.hits} - set(gone)) == len(found.hits) == 5
    everything = (await find(services, "the ferry", strategy=strategy, rows=MOST, top_k=3 * FEW)).hits
    assert {hit.chunk.id for hit in found.hits} <= {hit.chunk.id for hit in everything}
    assert [hit.similarity for hit in found.hits] == [
        next(other.similarity for other in everything if other.chunk.id == hit.chunk.id) for hit in found.hits
    ]
    if strategy != "hybrid":  # hybrid keeps the scale of its first candidates
        assert facts_of(found.hits) == facts_of(everything[:5])
    assert found.warnings == []
    assert count_retriever_calls(sent) == 2


@pytest.mark.parametrize("kind", ["section", "parent"])
async def test_merged_passages_count_once_in_top_k(workshop: Workshop, kind: Any) -> None:
    """The first candidates are all of one or two sections."""
    sections = [
        f"# About {name}\n\n"
        + "\n\n".join(f"{name} ferry, paragraph {number} of the timetable." for number in range(9))
        for name in ("Ada", "Bo", "Cy", "Di", "Ed", "Flo")
    ]
    services = await book(workshop, "\n\n".join(sections))
    found = await find(services, "ferry timetable", knowledge_bases=["book"], expansion=Expansion(kind))
    assert len(found.hits) == 5
    assert len({(hit.text_span.start, hit.text_span.end) for hit in found.hits}) == 5
    assert found.warnings == []


async def test_long_section_results_do_not_repeat_passages(workshop: Workshop) -> None:
    """Each result is a part of the section, and none repeats a passage of a better result."""
    services = await book(workshop, "\n\n".join(f"The ferry, paragraph {number} of the log." for number in range(60)))
    found = await find(
        services, "ferry log", knowledge_bases=["book"], top_k=9, expansion=Expansion("section", max_characters=400)
    )
    assert len(found.hits) >= 4
    for place, hit in enumerate(found.hits):
        assert len(hit.text_span.text) == 400
        for better in found.hits[:place]:
            assert not better.text_span.start <= hit.chunk.start < hit.chunk.end <= better.text_span.end


async def test_equal_texts_of_one_knowledge_base_are_all_returned(workshop: Workshop) -> None:
    """Results are unique by document and place, whatever other knowledge base is searched."""
    services = await shelf(workshop, ["I am out of the office." + " " * number for number in range(FEW)])
    alone = (await find(services, "out of the office", knowledge_bases=["default"])).hits
    await services.knowledge_bases.create(NewKnowledgeBase("other"))
    found = (await find(services, "out of the office", knowledge_bases=["default", "other"])).hits
    assert len(found) == 5
    assert facts_of(found) == facts_of(alone)


@pytest.mark.capability("search-equal-texts")
async def test_equal_texts_of_several_knowledge_bases_count_once(workshop: Workshop) -> None:
    same = ["I am out of the office." + " " * number for number in range(2 * FEW)]
    services = await shelf(workshop, [*(f"The office number {number}." for number in range(4)), same[0]])
    await services.knowledge_bases.create(NewKnowledgeBase("other"))
    for text in same:
        uploaded = await services.uploads.upload_text("other", text, DocumentFields(), media_type="text/plain")
        await workshop.ingest(uploaded.document)
    found = await find(services, "out of the office", knowledge_bases=["default", "other"], top_k=20)
    assert {hit.knowledge_base for hit in found.hits if "out of" in hit.chunk.content} in ({"default"}, {"other"})
    assert len({hit.document.id for hit in found.hits}) == len(found.hits) >= 5


async def test_hits_below_threshold_do_not_reduce_top_k(workshop: Workshop) -> None:
    """By BM25 the many texts rank before the one with a high similarity."""
    near = "A long tale of horses and hens and geese, in which a ferry is named but once, and then no more."
    services = await shelf(workshop, [*("ferry " * (1 + number) for number in range(2 * FEW)), near])
    (vector,) = await services.resources.embedders.default.embed_queries([near])
    query = Query("ferry", vector)
    assert len((await find(services, query, strategy="lexical", top_k=FEW)).hits) == FEW
    async with statements(workshop) as sent:
        (hit,) = (await find(services, query, strategy="lexical", score_threshold=0.99)).hits
    assert hit.chunk.content == near
    assert count_retriever_calls(sent) == 2


async def test_hit_without_vector_is_returned_with_threshold(workshop: Workshop) -> None:
    """A threshold is not applied to it, in the second query either."""
    near = "A long tale of horses and hens and geese, in which a ferry is named but once, and then no more."
    services = await shelf(workshop, [*("ferry " * (1 + number) for number in range(2 * FEW)), near])
    (vector,) = await services.resources.embedders.default.embed_queries([near])
    query = Query("ferry", vector)
    (best, *_) = (await find(services, query, strategy="lexical")).hits
    await workshop.owner.execute("delete from chunk_embedding where chunk_id = $1", best.chunk.id)
    for rows in (FEW, MOST):
        found = await find(services, query, strategy="lexical", score_threshold=0.99, rows=rows)
        assert [(hit.chunk.content == near, hit.similarity is None) for hit in found.hits] == [
            (False, True),
            (True, False),
        ]
        assert found.warnings == [
            ServiceWarning(
                "threshold_not_applied", "score_threshold was not applied to results without a known similarity."
            )
        ]


async def test_many_hits_below_threshold_do_not_reduce_top_k(workshop: Workshop) -> None:
    """By BM25 a thousand texts rank before the six with a high similarity."""
    near = [f"Of horses, hens, geese and a ferry, part {number}." for number in range(6)]
    far = "\n\n".join(f"The ferry, ferry and ferry number {number}." for number in range(MOST + 100))
    services = await book(workshop, far, *near, "Of taxes, rain, locks and the ferry.")
    (vector,) = await services.resources.embedders.default.embed_queries([near[0]])
    wishes: dict[str, Any] = {"strategy": "lexical", "knowledge_bases": ["book"], "rows": MOST}
    scored = {hit.chunk.id: hit for hit in (await find(services, Query("ferry", vector), top_k=500, **wishes)).hits}
    assert not any(hit.chunk.content in near for hit in scored.values())
    found = await find(services, Query("ferry", vector), score_threshold=0.7, top_k=20, **wishes)
    assert sorted(hit.chunk.content for hit in found.hits) == near
    assert found.warnings == []
    # A hit's similarity is its highest cosine with any query, whichever query has the words.
    (away,) = await services.resources.embedders.default.embed_queries(
        ["The price of copper in the year of the flood."]
    )
    many = [Query(f"zebra {number}", away) for number in range(14)]
    for queries in (
        [Query("ferry", vector), Query("zebra", away)],
        [Query("ferry", away), *many, Query("zebra", vector)],
    ):
        several = SearchRequest(
            queries, knowledge_bases=["book"], strategy="lexical", score_threshold=0.7, top_k=20, timeout_seconds=20.0
        )
        result = await services.retrieval.search(several)
        assert sorted(hit.chunk.content for hit in result.hits) == near
        assert result.warnings == []
    # The retriever's own results, with a filter that leaves no others.
    alone = await find(
        services,
        Query("ferry", vector),
        top_k=20,
        filter={"$document_id": [encode_id("doc", hit.document.id) for hit in found.hits]},
        **wishes,
        score_threshold=-1,
    )
    assert facts_of(found.hits) == facts_of(alone.hits)


@pytest.mark.parametrize("strategy", ["hybrid", "dense"])
async def test_complete_retrievers_are_queried_once(workshop: Workshop, strategy: str) -> None:
    """All hits above a threshold are among the nearest, and a small knowledge base has no more rows."""
    services = await shelf(workshop, [f"The ferry to island {number} leaves." for number in range(2 * FEW)])
    for wishes in ({"score_threshold": 0.999}, {"rows": MOST, "top_k": 100}, {"filter": {"$title": "none"}}):
        async with statements(workshop) as sent:
            await find(services, "The ferry to island 3 leaves.", strategy=strategy, **wishes)
        assert count_retriever_calls(sent) == 1, wishes


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_many_expired_documents_do_not_reduce_top_k(workshop: Workshop, strategy: str) -> None:
    gone = "\n\n".join(f"The ferry, island number {number}." for number in range(MOST + 100))
    live = [f"Of horses and hens, and of a ferry too, number {number}." for number in range(6)]
    services = await book(workshop, gone, *live)
    best = await find(services, "the ferry island", strategy=strategy, knowledge_bases=["book"])
    (expired,) = {hit.document.id for hit in best.hits}
    ended = datetime.now(UTC) - timedelta(seconds=1)
    await services.documents.update("book", expired, {"expires_at": ended})
    found = await find(services, "the ferry island", strategy=strategy, knowledge_bases=["book"])
    assert len({hit.document.id for hit in found.hits} - {expired}) == len(found.hits) == 5
    assert found.warnings == []


async def test_candidate_limit_reached_is_a_warning(workshop: Workshop) -> None:
    services = await book(
        workshop,
        "\n\n".join(f"The ferry, island number {number}, pier {number % 7} of the port." for number in range(1100)),
    )
    ask = partial(find, services, "the ferry island", strategy="lexical", knowledge_bases=["book"])
    assert len((await ask()).hits) == 5
    await workshop.owner.execute(
        "update document set expires_at = now() - interval '1 s' where tenant_id = $1", services.principal.tenant_id
    )
    found = await ask()
    assert found.hits == []
    assert found.warnings == [MORE]
    with pytest.raises(SearchUnavailable):
        require_complete(found)  # an empty answer is an answer for an agent


@pytest.mark.parametrize("repeat", ["demote", "exclude"])
async def test_many_repeats_need_few_statements(workshop: Workshop, repeat: str) -> None:
    """The conversation has all passages but four. Each statement reads at least as many as all before."""
    count = 60
    services = await shelf(workshop, [f"The ferry to island number {number} leaves." for number in range(count)])
    everything = (await find(services, "the ferry", rows=MOST, top_k=count)).hits
    assert len(everything) == count
    fresh, known = everything[:4], everything[4:]
    messages = [Message("tool", "\n---\n".join(hit.chunk.content for hit in known))]
    async with statements(workshop) as sent:
        found = await find(services, "the ferry", rows=MOST, messages=messages, repeat=repeat)
    expected = [*fresh, *known[:1]] if repeat == "demote" else fresh
    assert [hit.chunk.id for hit in found.hits] == [hit.chunk.id for hit in expected]
    assert sum("from chunk c" in sql for sql in sent) < 8


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_collapsed_texts_do_not_reduce_top_k(workshop: Workshop, strategy: str) -> None:
    same = ["I am out of the office." + " " * number for number in range(2 * FEW)]
    services = await shelf(workshop, [*(f"The list of office number {number} is out." for number in range(4)), *same])
    found = await find(services, "I am out of the office", strategy=strategy, collapse=True)
    assert [len(hit.duplicates or ()) for hit in found.hits] == [len(same) - 1, 0, 0, 0, 0]
    assert len({" ".join(hit.chunk.content.split()) for hit in found.hits}) == 5
    assert found.warnings == []
