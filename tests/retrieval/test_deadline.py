"""Deadline of a search: the steps that are dropped after a timeout or failure, the warnings, and the remaining
results.
"""

import io
import itertools
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import httpx2
import pytest

from app.logging import configure_logging
from app.retrieval import time_budget
from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer, ReceivedTextRequest
from harness.protocol_servers.embedding import EmbeddingServer
from harness.protocol_servers.rerank import RerankServer
from harness.protocol_servers.site_search import SiteSearchServer, build_source_settings
from harness.protocol_servers.slow_link import SlowLink
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.retrieval.test_degradation import DegradableService

TEXTS = ["The lantern hangs above the door.", "A ferry leaves at nine.", "Moss grows on the lantern."]
SOURCE = {
    "params": {"q": "{query}", "n": "{top_k}"},
    "response": {"items": "results", "text": "snippet", "title": "title", "url": "link"},
}
RECOVERY_SECONDS = 60.0
NUMBERS = itertools.count()


def understands(talk: ReceivedTextRequest) -> str:
    """Answer for conversations, and for each query with other words."""
    material = json.loads(next(one["content"] for one in talk.messages if one["role"] == "user"))
    if "conversation" in material:
        return json.dumps({"query": material["question"], "analysis": "A lantern."})
    return json.dumps({"texts": [f"{material['query']} again", f"{material['query']} once more"]})


@dataclass(frozen=True)
class DependentService:
    """A service and the servers that it depends on."""

    service: Service
    tenant: Tenant
    chat: ChatServer
    embedding: EmbeddingServer
    reranker: RerankServer
    site: SiteSearchServer
    link: SlowLink

    def search(self, **body: Any) -> httpx2.Response:
        return self.tenant.admin.post("/v1/search", json={"messages": conversation(), **body})

    def agent_search(self, agent: str = "local") -> httpx2.Response:
        return self.tenant.admin.post("/v1/agent-search", json={"messages": conversation(), "agent_id": agent})

    def heal(self) -> None:
        """Repair all dependencies, and wait until the service has noticed."""
        self.link.release()
        self.chat.reset()
        self.embedding.reset()
        self.reranker.reset()
        self.site.reset()
        end = time.monotonic() + RECOVERY_SECONDS
        while True:
            reply = self.search(rerank=True, timeout_seconds=30)
            if reply.status_code == 200 and reply.json()["warnings"] == []:
                return
            assert time.monotonic() < end, "it never recovered"
            time.sleep(0.1)


def conversation() -> list[dict[str, str]]:
    """Return a conversation with a new question, so that its vector is not cached."""
    turns = ["I look for a lantern.", "Gladly.", f"Where is the lantern? {next(NUMBERS)}"]
    return [{"role": role, "content": turn} for role, turn in zip(("user", "assistant", "user"), turns, strict=True)]


@pytest.fixture(scope="module")
def world(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DependentService]:
    urls = make_database()
    with (
        ChatServer(reply=understands) as chat,
        EmbeddingServer() as embedding,
        RerankServer() as reranker,
        SiteSearchServer(pages={"/lantern": ("Lantern", "Every lantern has a wick.")}) as site,
        SlowLink(urls.app) as link,
    ):
        settings = build_settings(
            tmp_path_factory.mktemp("deadline"),
            embedding=embedding.settings,
            models={"CARREL_CHAT_BASE_URL": chat.base_url, "CARREL_CHAT_MODEL": "talker"},
            rerank={"CARREL_RERANK_URL": reranker.url},
            http_sources=build_source_settings(site),
        )
        with run_service(settings, type(urls)(urls.owner, link.url)) as service:
            tenant = service.create_tenant()
            for text in TEXTS:
                assert tenant.add_text(text)["status"] == "ready"
            source = {"name": "site", "kind": "http", "source": {"url": site.url, **SOURCE}}
            assert tenant.admin.post("/v1/knowledge-bases", json=source).status_code == 201
            for name, bases in {"local": ["default"], "both": ["default", "site"]}.items():
                body = {"knowledge_bases": bases, "timeout_seconds": 2}
                assert tenant.admin.put(f"/v1/agents/{name}", json=body).is_success
            yield DependentService(service, tenant, chat, embedding, reranker, site, link)


@pytest.fixture(autouse=True)
def _healthy(world: DependentService) -> None:
    world.heal()


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Stream of the log during a test."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    written = io.StringIO()
    configure_logging("info", stream=written)
    yield written
    root.handlers[:] = before
    root.setLevel(level)


def degraded_by(reply: httpx2.Response) -> list[str]:
    """Return the degraded steps in the header Server-Timing."""
    steps = reply.headers["Server-Timing"].split(", ")
    return [step.partition('"')[2].rstrip('"') for step in steps if step.startswith("degraded;")]


def logged(stream: io.StringIO) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in lines if line["event"] == "search.degraded"]


def test_search_without_failures_has_no_degraded_step(world: DependentService, stream: io.StringIO) -> None:
    reply = world.search(rerank=True, strategy="multi_query", timeout_seconds=30)
    assert (reply.json()["warnings"], reply.json()["degraded"], degraded_by(reply), logged(stream)) == ([], [], [], [])


@pytest.mark.parametrize(
    ("break_", "body", "degraded"),
    [
        (lambda world: world.chat.fail("slow", times=99), {}, "rewrite: timeout"),
        (
            lambda world: world.chat.fail("garbage", times=99),
            {"transformers": ["multi_query"]},
            "extra_queries: invalid_response",
        ),
        (lambda world: world.reranker.fail("not_json", times=99), {"rerank": True}, "rerank: invalid_response"),
        (lambda world: world.reranker.fail("never", times=99), {"rerank": True}, "rerank: timeout"),
        (lambda world: world.embedding.fail("slow", times=None, seconds=30), {}, "dense: timeout"),
        (lambda world: world.embedding.fail(500, times=None), {}, "dense: embedding_unavailable"),
        (lambda world: world.site.fail(500, times=99), {}, "http_source: http_source_unavailable"),
    ],
    ids=["rewrite", "extra queries", "garbled order", "no order", "slow embedder", "no embedder", "source"],
)
def test_search_with_broken_part_names_degraded_step_everywhere(
    world: DependentService, stream: io.StringIO, break_: Any, body: dict[str, Any], degraded: str
) -> None:
    break_(world)
    reply = world.search(timeout_seconds=3, **body)
    assert reply.status_code == 200
    assert any("lantern" in result["text"] for result in reply.json()["results"])
    assert len(reply.json()["warnings"]) == 1
    assert degraded_by(reply) == [degraded]
    assert [f"{step['step']}: {step['reason']}" for step in reply.json()["degraded"]] == [degraded]
    (line,) = logged(stream)
    assert line["degraded"] == [degraded.replace(": ", ":")]
    assert (line["budget_seconds"], line["request_id"]) == (3, reply.headers["X-Request-Id"])
    assert "lantern" not in json.dumps(line)


@pytest.mark.capability("agent-search-broken")
def test_agent_search_is_answered_whatever_is_broken(world: DependentService) -> None:
    world.chat.fail("slow", times=99)
    world.embedding.fail("slow", times=None, seconds=30)
    world.site.fail("never", times=99)
    reply = world.agent_search("both")
    assert reply.status_code == 200
    assert set(reply.json()) == {TEXTS[0], TEXTS[2]}
    assert [one.partition(":")[0] for one in degraded_by(reply)] == ["rewrite", "dense", "http_source", "rerank"]


def test_search_without_time_skips_reranker(world: DependentService) -> None:
    asked = len(world.reranker.received)
    reply = world.search(rerank=True, timeout_seconds=time_budget.MIN_RERANK_SECONDS)
    assert reply.status_code == 200
    assert reply.json()["results"]
    assert "rerank: no_time" in degraded_by(reply)
    assert len(world.reranker.received) == asked


def test_extra_queries_are_dropped_before_dense_retriever(world: DependentService) -> None:
    """The lexical retriever is unavailable: the dense retriever answers, for the original query alone."""
    fragile = DegradableService(world.service, world.embedding, world.tenant)
    with fragile.locked("chunk_lexical"):
        reply = world.search(
            messages=None,
            query=f"the lantern {next(NUMBERS)}",
            transformers=["multi_query"],
            timeout_seconds=4,
            explain=True,
        )
    found = reply.json()
    assert degraded_by(reply) == ["extra_queries: retrievers", "lexical: failed"]
    assert {rank["query"] for result in found["results"] for rank in result.get("ranks", [])} == {0}
    assert {rank["retriever"] for result in found["results"] for rank in result.get("ranks", [])} == {"dense"}


def test_silent_chat_model_opens_circuit(world: DependentService) -> None:
    world.chat.fail("slow", times=99)
    asked = len(world.chat.text_requests)
    told = [degraded_by(world.agent_search()) for _ in range(8)]
    # A busy machine may drop more.
    assert "rewrite: timeout" in told[0]
    assert any("rewrite: circuit_open" in degraded for degraded in told)
    assert len(world.chat.text_requests) - asked == sum("rewrite: timeout" in degraded for degraded in told)


def test_chat_model_retry_after_is_respected(world: DependentService) -> None:
    world.chat.fail(429, times=99, retry_after="5")
    assert degraded_by(world.search(timeout_seconds=2)) == ["rewrite: rate_limited"]
    asked = len(world.chat.text_requests)
    assert degraded_by(world.search(timeout_seconds=2)) == ["rewrite: circuit_open"]
    assert len(world.chat.text_requests) == asked


def test_stalled_database_is_503_within_time_limit(world: DependentService) -> None:
    world.link.stall()
    reply = world.agent_search()
    assert reply.status_code == 503
    world.link.release()
    assert world.agent_search().json()


async def test_locked_table_is_503_and_no_empty_answer(world: DependentService) -> None:
    owner = await asyncpg.connect(world.service.urls.owner)
    try:
        await owner.execute("begin; lock table chunk_embedding, chunk_lexical in access exclusive mode")
        reply = world.agent_search()
    finally:
        await owner.close()
    assert reply.status_code == 503
