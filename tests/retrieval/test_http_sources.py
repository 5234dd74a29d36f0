"""HTTP sources and retrievers: they run at the same time, and each answers if the other fails."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.http_sources.client import HttpSourceClient
from app.knowledge_bases.stored_rows import LiveIndex, StoredKnowledgeBase
from app.knowledge_bases.types import KnowledgeBaseView
from app.retrieval.federation import MAX_SOURCES, FederatedSearch
from app.retrieval.fusion.merge_sources import fuse_sources
from app.retrieval.search_run import SearchRun
from app.retrieval.types import Hit, Query, SearchRequest, SearchUnavailable
from app.settings.http_sources import HttpSourceSettings
from app.warnings import ServiceWarning
from harness.protocol_servers.site_search import PAGES, SiteSearchServer, build_source_settings
from tests.retrieval.hits import hit

LOCAL = hit("The harbour museum is old.", 0.4)


@pytest.fixture
def site() -> Iterator[SiteSearchServer]:
    with SiteSearchServer() as server:
        yield server


@pytest.fixture
async def sources(site: SiteSearchServer) -> AsyncIterator[HttpSourceClient]:
    given: dict[str, Any] = build_source_settings(site)
    made = HttpSourceClient.from_settings(HttpSourceSettings(**given), lambda _text: [])
    yield made
    await made.close()


def view(site: SiteSearchServer, number: int = 1, **response: str) -> KnowledgeBaseView:
    now = datetime.now(UTC)
    source = {
        "url": site.url,
        "params": {"q": "{query}"},
        "response": {"items": "results", "text": "snippet", "url": "link", **response},
        "timeout_seconds": 30.0,
    }
    row = StoredKnowledgeBase(
        tenant_id=UUID(int=7),
        id=UUID(int=number),
        name=f"site{number}",
        title=None,
        description=None,
        language="english",
        chunking={},
        retrieval={},
        metadata_filter={},
        pending_metadata_filter=None,
        routing={},
        created_at=now,
        updated_at=now,
        source=source,
        filter_revision=0,
        graph={},
    )
    index = LiveIndex(
        id=UUID(int=number),
        identity={},
        dim=1,
        avgdl=1.0,
        vector_index="exact",
        skip_reason=None,
        index_bytes=0,
        languages=[],
    )
    return KnowledgeBaseView(row, index, "")


def outside(sources: HttpSourceClient, *views: KnowledgeBaseView, **request: Any) -> FederatedSearch:
    return FederatedSearch.from_views(sources, None, SearchRun.from_timeout(60), SearchRequest(**request), views)


async def ask(search: FederatedSearch, lanes: Any, *texts: str) -> list[Hit]:
    queries = [Query(text) for text in texts or ("harbour museum",)]
    return fuse_sources(await search.run_with(lanes, queries, top_k=5, get_weight=plain))


def plain(_hits: Sequence[Hit]) -> float:
    return 1.0


async def local() -> list[Hit]:
    return [LOCAL]


async def failing() -> list[Hit]:
    raise SearchUnavailable


@pytest.mark.capability("http-source-concurrent")
async def test_http_source_and_retrievers_run_concurrently(site: SiteSearchServer, sources: HttpSourceClient) -> None:
    site.fail("late")

    async def retrieve() -> list[Hit]:
        # Neither continues before the other has begun.
        assert await asyncio.to_thread(site.arrived.wait, 30)
        site.released.set()
        return [LOCAL]

    search = outside(sources, view(site))
    found = await ask(search, retrieve)
    assert [one.is_external for one in found] == [False, True, True, True]
    assert search.search_run.warnings == []


async def test_http_source_answers_if_retrievers_fail(site: SiteSearchServer, sources: HttpSourceClient) -> None:
    search = outside(sources, view(site))
    assert {one.text_span.text for one in await ask(search, failing)} <= {text for _, text in PAGES.values()}
    assert search.search_run.warnings == [
        ServiceWarning("stored_documents_skipped", "The knowledge bases with stored documents could not be searched.")
    ]
    site.fail(500)
    with pytest.raises(SearchUnavailable):
        await ask(search, failing)


async def test_http_source_refused_search_cancels_requests(site: SiteSearchServer, sources: HttpSourceClient) -> None:
    site.fail("late")

    async def retrieve() -> list[Hit]:
        await asyncio.to_thread(site.arrived.wait, 30)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ask(outside(sources, view(site)), retrieve)


async def test_http_source_requests_are_limited_per_search(site: SiteSearchServer, sources: HttpSourceClient) -> None:
    search = outside(sources, *(view(site, number) for number in range(MAX_SOURCES + 2)))
    await ask(search, local)
    assert len(site.received) == MAX_SOURCES
    assert search.search_run.warnings == [
        ServiceWarning(
            "http_source_limit_reached", "'site8', 'site9' were skipped: a search uses at most 8 HTTP sources."
        )
    ]


async def test_http_source_scores_are_values_or_ranks(site: SiteSearchServer, sources: HttpSourceClient) -> None:
    by_place = await ask(outside(sources, view(site)), None)
    assert [one.score for one in by_place] == pytest.approx([1.0, 2 / 3, 1 / 3])
    by_score = await ask(outside(sources, view(site, score="rank")), None)
    assert [one.score for one in by_score] == pytest.approx([1.0, 1.0, 0.5])


async def test_http_source_queries_become_one_list(site: SiteSearchServer, sources: HttpSourceClient) -> None:
    search = outside(sources, view(site), transformers=[])
    found = await ask(search, None, "lighthouse", "lighthouse ferry", "the ferry", "children", "a fifth")
    texts = [one.text_span.text for one in found]
    assert sorted(texts) == sorted({PAGES["/ferry"][1], PAGES["/tickets"][1], PAGES["/opening"][1]})
    assert search.queries_by_source == {UUID(int=1): ["lighthouse", "lighthouse ferry", "the ferry", "children"]}


async def test_http_source_query_without_text_is_skipped(site: SiteSearchServer, sources: HttpSourceClient) -> None:
    search = outside(sources, view(site))
    found = fuse_sources(
        await search.run_with(local, [Query(vector=np.ones(1, np.float32))], top_k=5, get_weight=plain)
    )
    assert [one.text_span.text for one in found] == [LOCAL.text_span.text]
    assert search.search_run.warnings == [
        ServiceWarning("http_source_needs_text", "'site1' was skipped: an HTTP source needs a query with text.")
    ]
    assert site.received == []
