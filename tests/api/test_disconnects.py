"""Disconnects: when a caller leaves, the work for its request ends in the database and in threads."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import asyncpg
import httpx2
import pytest

from app.api.http.disconnects import READ_AHEAD_BYTES, WatchedBody
from app.threads import raise_if_cancelled, run_in_thread
from harness.archives import ArchiveDocument, build_archive
from harness.running_service import Service, Tenant
from tests.transfer.test_round_trip import ARCHIVE

PATIENCE_SECONDS = 60
RUNNING_JOBS = "select count(*) from job where state = 'running' and kind <> 'send_webhook'"
WAITING = "select count(*) from pg_locks where not granted and relation = $1::text::regclass"


def holds_soon(check: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if check():
            return True
        time.sleep(0.02)
    return False


class Locked:
    """A table locked against all other sessions; ``waiting`` counts the sessions that wait for the lock."""

    def __init__(self, url: str) -> None:
        self._url, self._loop = url, asyncio.new_event_loop()

    def lock(self, table: str) -> None:
        """Lock a table while no job runs, because a job could wait for the table too."""
        self._table = table
        self._connection = self._loop.run_until_complete(asyncpg.connect(self._url))
        self._loop.run_until_complete(self._connection.execute("begin; lock table claim_lock in exclusive mode"))
        assert holds_soon(lambda: self._loop.run_until_complete(self._connection.fetchval(RUNNING_JOBS)) == 0)
        self._loop.run_until_complete(self._connection.execute(f"lock table {table}"))

    def waiting(self) -> int:
        return int(self._loop.run_until_complete(self._connection.fetchval(WAITING, self._table)))

    def close(self) -> None:
        self._loop.run_until_complete(self._connection.close())
        self._loop.close()


@contextmanager
def locked(service: Service, table: str) -> Iterator[Locked]:
    held = Locked(service.urls.owner)
    held.lock(table)
    try:
        yield held
    finally:
        held.close()


@contextmanager
def asking(tenant: Tenant, request: Mapping[str, Any]) -> Iterator[Callable[[], None]]:
    """Send a request on a separate connection. A call of the yielded function closes the connection."""
    client = httpx2.Client(base_url=tenant.service.url, headers=tenant.admin.headers, timeout=PATIENCE_SECONDS)
    cancelled = threading.Event()

    async def send() -> None:
        async with httpx2.AsyncClient(base_url=client.base_url, headers=client.headers, timeout=90) as one:
            asked = asyncio.create_task(one.request(**request))
            while not cancelled.is_set() and not asked.done():
                await asyncio.sleep(0.02)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(send()))
    thread.start()
    try:
        yield cancelled.set
    finally:
        cancelled.set()
        thread.join()
        client.close()


MESSAGES = {"messages": [{"role": "user", "content": "Which bird dives?"}]}
SEARCH = {"method": "POST", "json": {"query": "tern", "strategy": "hybrid"}}
REQUESTS: dict[str, tuple[dict[str, Any], str]] = {
    "search": ({**SEARCH, "url": "/v1/search"}, "chunk_lexical"),
    "search of a knowledge base": ({**SEARCH, "url": "/v1/knowledge-bases/default/search"}, "chunk_lexical"),
    "agent search": ({"method": "POST", "url": "/v1/agent-search", "json": MESSAGES}, "chunk_lexical"),
    "export": ({"method": "GET", "url": "/v1/knowledge-bases/default/export"}, "document_page"),
    "import": (
        {
            "method": "POST",
            "url": "/v1/knowledge-bases/default/import",
            "content": build_archive(ArchiveDocument(["A puffin."])),
            "headers": ARCHIVE,
        },
        "document_text",
    ),
    "upload": (
        {"method": "POST", "url": "/v1/knowledge-bases/default/documents", "json": {"text": "An auk."}},
        "document_object",
    ),
    "store search": (
        {"method": "POST", "url": "/openai/v1/vector_stores/default/search", "json": {"query": "tern"}},
        "chunk_lexical",
    ),
}


@pytest.fixture(scope="module")
def tenant(service: Service) -> Tenant:
    made = service.create_tenant("leaving")
    made.add_text("The tern dives.")
    return made


@pytest.mark.parametrize("name", REQUESTS)
def test_request_caller_leaves_work_ends(service: Service, tenant: Tenant, name: str) -> None:
    request, table = REQUESTS[name]
    with locked(service, table) as held, asking(tenant, request) as leave:
        assert holds_soon(lambda: held.waiting() > 0)

        leave()

        assert holds_soon(lambda: held.waiting() == 0)


def test_import_caller_leaves_while_words_are_analysed_thread_ends(service: Service) -> None:
    tenant = service.create_tenant("leaving early")
    words = [" ".join(f"word{number}{at}" for at in range(60)) for number in range(20_000)]
    request = {
        "method": "POST",
        "url": "/v1/knowledge-bases/default/import",
        "content": build_archive(ArchiveDocument(words)),
        "headers": ARCHIVE,
    }
    with asking(tenant, request) as leave:
        assert holds_soon(lambda: service.resources.transfer_slots.imports.acquired_count == 1)
        assert holds_soon(lambda: works_on("app/transfer/"))

        leave()

        assert holds_soon(lambda: service.resources.transfer_slots.imports.acquired_count == 0)
        assert holds_soon(lambda: not works_on("app/transfer/"))
    assert tenant.admin.get("/v1/knowledge-bases/default/documents").json()["items"] == []


def works_on(package: str) -> bool:
    """Return whether a thread other than the event loop's runs code of a package."""
    import sys

    loops = {thread.ident for thread in threading.enumerate() if thread.name in ("service", "MainThread")}
    for ident, frame in sys._current_frames().items():
        found = None if ident in loops else frame
        while found is not None:
            if package in found.f_code.co_filename:
                return True
            found = found.f_back
    return False


async def test_run_in_thread_cancelled_caller_raises_in_function() -> None:
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        try:
            while True:
                raise_if_cancelled()
                time.sleep(0.001)
        finally:
            ended.set()

    task = asyncio.create_task(run_in_thread(work))
    assert await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
    task.cancel()
    assert await asyncio.to_thread(ended.wait, PATIENCE_SECONDS)


async def test_run_in_thread_returns_the_result() -> None:
    assert await run_in_thread(json.loads, "[1]") == [1]
    raise_if_cancelled()


async def test_watched_body_reads_ahead_no_more_than_its_limit() -> None:
    piece, sent = b"x" * (64 * 1024), 0

    async def receive() -> dict[str, Any]:
        nonlocal sent
        sent += 1
        await asyncio.sleep(0)
        return {"type": "http.request", "body": piece, "more_body": True}

    body = WatchedBody(receive)
    current = asyncio.current_task()
    assert current is not None
    watcher = asyncio.create_task(body.watch_connection(current))
    for _ in range(1000):
        await asyncio.sleep(0)
    assert sent * len(piece) <= READ_AHEAD_BYTES + 2 * len(piece)
    for _ in range(100):
        assert (await body.receive())["body"] == piece
    watcher.cancel()
    await asyncio.gather(watcher, return_exceptions=True)
