"""``make bench NAME=planner``: measure the CPU of a search outside embedding, SQL, HTTP and fusion.

Searches run one after the other in this process, with the real services on a real database and the event loop of the
service. CPU time inside a transaction does not count: it is SQL and the fusion of the rows. The vectors of the queries
are cached, and the chat model replies at once. The exit code is 1 if a median is above the target. The target does not
apply to the search with an explanation, which asks the chat model once more.
"""

import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast
from uuid import uuid4

import uvloop

from app.agents.types import BindingSettings, BoundAgent
from app.api.v1.search.agent_binding import apply_binding
from app.bootstrap import Resources
from app.bootstrap.tenant_services import TenantServices
from app.db.driver import DriverReader
from app.db.session import Session, TenantDatabase
from app.inference.chat import ChatMessage, ChatModel, ChatTokens, StructuredCompletion
from app.inference.chat.structured_output import Shape
from app.principal import Principal
from app.retrieval.types import Message, SearchRequest
from app.settings import load_settings
from benchmarks.search import Vocabulary, fill_knowledge_base
from harness.embedding_endpoint import DIMENSIONS
from harness.processes import RunningService, embedding_endpoint, exit_on_sigterm, running_service

WARM_UP, SEARCHES, MAX_MEDIAN_MS = 50, 400, 1.0
EXPLAINED_SEARCH = "the same, explained"


@dataclass(slots=True)
class ExcludedCpu:
    """CPU seconds of the thread that the benchmark subtracts."""

    seconds: float = 0.0

    @contextmanager
    def counting(self) -> Iterator[None]:
        begun = time.thread_time()
        try:
            yield
        finally:
            self.seconds += time.thread_time() - begun


@dataclass(frozen=True, slots=True)
class MeteredDatabase(TenantDatabase):
    """Tenant database that adds the CPU time inside its transactions to ``excluded_cpu``."""

    excluded_cpu: ExcludedCpu = field(default_factory=ExcludedCpu)

    @asynccontextmanager
    async def transaction(
        self,
        *,
        snapshot: bool | str = False,
        statement_timeout_seconds: float | None = None,
        allow_generic_plans: bool = False,
    ) -> AsyncIterator[Session]:
        opened = TenantDatabase.transaction(
            self,
            snapshot=snapshot,
            statement_timeout_seconds=statement_timeout_seconds,
            allow_generic_plans=allow_generic_plans,
        )
        with self.excluded_cpu.counting():
            async with opened as session:
                yield session

    @asynccontextmanager
    async def read_transaction(
        self, *, snapshot: bool | str = False, statement_timeout_seconds: float | None = None
    ) -> AsyncIterator[DriverReader]:
        with self.excluded_cpu.counting():
            async with TenantDatabase.read_transaction(
                self, snapshot=snapshot, statement_timeout_seconds=statement_timeout_seconds
            ) as reader:
                yield reader


@dataclass(frozen=True, slots=True)
class PreparedChat:
    """Chat model that returns prepared completions at once, because parsing a reply is the chat client's work."""

    texts: Sequence[str]
    name: str = "ready"
    completions: dict[type[Any], StructuredCompletion[Any]] = field(default_factory=dict)

    async def complete_structured(
        self, _messages: Sequence[ChatMessage], shape: type[Shape], **_limits: float
    ) -> StructuredCompletion[Shape]:
        if shape not in self.completions:
            provided = {"query": self.texts[0], "analysis": "", "texts": self.texts}
            self.completions[shape] = StructuredCompletion(shape.model_validate(provided), ChatTokens())
        return self.completions[shape]


async def measure(service: RunningService, embedding_url: str, vocabulary: Vocabulary) -> dict[str, float]:
    """Return the median CPU milliseconds of each kind of search."""
    embedding = {
        "CARREL_EMBEDDING_BASE_URL": embedding_url,
        "CARREL_EMBEDDING_MODEL": "directions",
        "CARREL_EMBEDDING_DIMENSIONS": DIMENSIONS,
    }
    settings = load_settings(server={"CARREL_DATA_DIR": service.data_dir}, embedding=embedding)
    opened = Resources.open(settings, database_url=service.database_url, operator_key="x" * 40, bulk_threads=1)
    async with opened as resources:
        principal = await resources.authenticator.authenticate(service.key)
        return {
            name: await _measure_median(resources, principal, ask) for name, ask in _build_requests(vocabulary).items()
        }


def _build_requests(vocabulary: Vocabulary) -> dict[str, Callable[[Principal], SearchRequest]]:
    turns = [Message(("user", "assistant")[number % 2], vocabulary.generate_text(40)) for number in range(10)]
    messages = [*turns, Message("user", vocabulary.generate_query())]
    plain = SearchRequest(queries=[messages[-1].content], knowledge_bases=["bench"])
    talk = SearchRequest(messages=messages, knowledge_bases=["bench"])
    steps = ["reformulate", "multi_query", "decompose"]

    def build_bound_request(principal: Principal) -> SearchRequest:
        settings = BindingSettings(timeout_seconds=5.0, max_messages=10, top_k=5)
        now = cast(Any, None)
        binding = BoundAgent(uuid4(), "agent", [], settings, now, now)
        return apply_binding(talk, binding, principal, session_id=None)

    return {
        "a query": lambda _: plain,
        "a conversation of eleven turns": lambda _: talk,
        "the same in an agent's name": build_bound_request,
        "the same with three transformers": lambda _: replace(talk, transformers=steps),
        EXPLAINED_SEARCH: lambda _: replace(talk, transformers=steps, explain=True),
    }


async def _measure_median(
    resources: Resources, principal: Principal, ask: Callable[[Principal], SearchRequest]
) -> float:
    elsewhere, spent = ExcludedCpu(), []
    db = MeteredDatabase(resources.database, principal.tenant_id, excluded_cpu=elsewhere)
    chat = cast(ChatModel, PreparedChat(["what is wanted", "that in other words", "and once more"]))

    own = replace(TenantServices(principal, resources).retrieval, db=db, rewrite_model=chat)

    async def search() -> None:
        result = await own.search(ask(principal))
        if not result.queries or result.warnings:
            raise RuntimeError(f"the search has no queries or has warnings: {result.warnings}")

    for number in range(WARM_UP + SEARCHES):
        elsewhere.seconds, begun = 0.0, time.thread_time()
        await search()
        if number >= WARM_UP:
            spent.append(time.thread_time() - begun - elsewhere.seconds)
    return statistics.median(spent) * 1000


def main() -> int:
    vocabulary = Vocabulary(1)
    with embedding_endpoint() as url, running_service(url) as service:
        fill_knowledge_base(service, vocabulary)
        medians = uvloop.run(measure(service, url, vocabulary))
    print(f"CPU of the planner, median of {SEARCHES} searches:")
    for name, milliseconds in medians.items():
        print(f"  {name:34} {milliseconds:5.2f} ms")
    missed = max(median for name, median in medians.items() if name != EXPLAINED_SEARCH) > MAX_MEDIAN_MS
    print(f"target: {MAX_MEDIAN_MS:g} ms a search: {'missed' if missed else 'reached'}")
    return int(missed)


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main())
