"""Work of a search during calls of its chat model, checked by the order of requests at the endpoints."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from threading import Event

import pytest

from app.bootstrap import TenantServices
from app.documents.types import DocumentFields
from app.embedded_postgres import DatabaseUrls
from app.errors import InvalidInputError
from app.index_maintenance.service import REFRESH_PROFILE_JOB
from app.knowledge_bases.types import NewKnowledgeBase, Retrieval
from app.retrieval.explain import Reformulation
from app.retrieval.query_embedding import QueryVectorCache
from app.retrieval.routes import RoutingOptions
from app.retrieval.search_run import SearchRun
from app.retrieval.service import RetrievalService
from app.retrieval.types import Message, Query, SearchRequest
from app.worker.handlers import JobContext
from harness.protocol_servers.chat import ChatServer, ReceivedTextRequest
from harness.protocol_servers.embedding import ReceivedEmbeddingRequest, reply_at_once
from tests.ingestion.workshop import Workshop, open_workshop

# Longer than any step of these tests, and shorter than the chat model's time limit.
PATIENCE_SECONDS = 8.0
TEXTS = {
    "birds": "the heron waits in the reeds",
    "bikes": "a chain drives the rear wheel",
    "moons": "jupiter has four large moons",
}
QUESTION, STANDALONE = "and where does it wait?", "where does the heron wait"
TALK = [Message("user", "tell me of the heron"), Message("agent", "gladly"), Message("user", QUESTION)]
REQUEST = SearchRequest(messages=TALK, routing=RoutingOptions(2), transformers=["reformulate"], timeout_seconds=60)


@pytest.fixture(scope="module")
def running_chat() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.fixture(scope="module")
async def workshop(
    database: DatabaseUrls, running_chat: ChatServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Workshop]:
    models = {"CARREL_CHAT_BASE_URL": running_chat.base_url, "CARREL_CHAT_MODEL": "talker"}
    async with open_workshop(database, tmp_path_factory.mktemp("data"), models=models) as opened:
        yield opened


@pytest.fixture(scope="module")
async def tenant(workshop: Workshop) -> TenantServices:
    """Three knowledge bases of one topic each, with routing profiles."""
    made = await workshop.new_tenant()
    for name, text in TEXTS.items():
        own = Retrieval(strategy="lexical") if name == "moons" else Retrieval()
        await made.knowledge_bases.create(NewKnowledgeBase(name, retrieval=own))
        uploaded = await made.uploads.upload_text(name, text, DocumentFields(), media_type="text/plain")
        await workshop.ingest(uploaded.document)
    await JobContext(workshop.resources, workshop.pipeline).index_maintenance.scan()
    await workshop.run_jobs("maintain_index")
    assert await workshop.run_jobs(REFRESH_PROFILE_JOB) == len(TEXTS)
    await workshop.drop_jobs()
    return made


@dataclass
class Meeting:
    """Chat model and embedding model that record their requests, and wait for each other on request."""

    events: list[str] = field(default_factory=list)
    embedding: Event = field(default_factory=Event)
    chat: Event = field(default_factory=Event)
    waited_for: str | None = None
    met: list[bool] = field(default_factory=list)

    def reply(self, talk: ReceivedTextRequest) -> str:
        analysing = "indices_of_related_messages" in talk.messages[0]["content"]
        self.events.append("analysis" if analysing else "chat")
        self.chat.set()
        if self.waited_for == self.events[-1]:
            self.met.append(self.embedding.wait(PATIENCE_SECONDS))
        found = {"query": STANDALONE, "analysis": "The heron.", "indices_of_related_messages": [0]}
        return json.dumps({**found, "texts": [STANDALONE]})

    def before_reply(self, request: ReceivedEmbeddingRequest) -> None:
        self.events.append(f"embedding of {len(request.inputs)}")
        self.embedding.set()
        if self.waited_for == "chat":
            self.met.append(self.chat.wait(PATIENCE_SECONDS))


@pytest.fixture
def meeting(workshop: Workshop, running_chat: ChatServer, tenant: TenantServices) -> Iterator[Meeting]:
    made = Meeting()
    running_chat.reset()
    running_chat.reply = made.reply
    workshop.endpoint.before_reply = made.before_reply
    yield made
    workshop.endpoint.before_reply = reply_at_once


@pytest.fixture
def retrieval(tenant: TenantServices) -> RetrievalService:
    """Retrieval service with an empty cache of query vectors."""
    return replace(tenant.retrieval, query_vector_cache=QueryVectorCache())


@pytest.mark.capability("talk-routing")
async def test_routing_runs_during_reformulation(retrieval: RetrievalService, meeting: Meeting) -> None:
    meeting.waited_for = "chat"
    result = await retrieval.search(REQUEST)
    assert meeting.met == [True, True, True]  # the second embedding is the one of the generated query
    assert sorted(meeting.events) == ["chat", "embedding of 1", "embedding of 2"]
    assert (list(result.queries), list(result.warnings)) == ([STANDALONE], [])
    assert {"route", "rewrite"} <= result.timings_ms.keys()
    assert result.hits[0].chunk.content == TEXTS["birds"]


async def test_transformer_that_reads_knowledge_bases_waits_for_routing(
    retrieval: RetrievalService, meeting: Meeting
) -> None:
    result = await retrieval.search(replace(REQUEST, transformers=["translate"]))
    assert meeting.events[:2] == ["embedding of 2", "chat"]
    assert (list(result.queries), list(result.warnings)) == ([STANDALONE], [])


async def test_routed_knowledge_base_settings_apply(retrieval: RetrievalService, meeting: Meeting) -> None:
    request = SearchRequest([Query("jupiter has moons")], knowledge_bases=list(TEXTS), routing=RoutingOptions(1))
    assert (await retrieval.search(request)).strategy == "lexical"
    assert (await retrieval.search(replace(request, routing=RoutingOptions(2)))).strategy == "mixed"


@pytest.mark.capability("talk-analysis")
async def test_analysis_runs_during_retrieval(retrieval: RetrievalService, meeting: Meeting) -> None:
    meeting.waited_for = "analysis"
    request = replace(REQUEST, knowledge_bases=["birds"], routing=None, needs_analysis=True)
    result = await retrieval.search(request)
    assert meeting.met == [True]
    assert sorted(meeting.events) == ["analysis", "chat", "embedding of 1"]
    assert result.reformulation == Reformulation(STANDALONE, "The heron.", [0])
    assert list(result.warnings) == []


async def test_refused_search_leaves_no_task(retrieval: RetrievalService, meeting: Meeting) -> None:
    before = asyncio.all_tasks()
    with pytest.raises(InvalidInputError):
        await retrieval.search(replace(REQUEST, transformers=["magic"]))
    begun = asyncio.all_tasks() - before
    await asyncio.wait_for(asyncio.gather(*begun, return_exceptions=True), PATIENCE_SECONDS)
    assert list((await retrieval.search(REQUEST)).queries) == [STANDALONE]


async def test_background_tasks_end_with_search() -> None:
    course = SearchRun.from_timeout(1)
    task = course.start_background(asyncio.sleep(60))
    course.cancel_background()
    await asyncio.wait([task])
    assert task.cancelled()
