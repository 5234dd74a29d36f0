"""``carrel doctor``: looks at everything that the service needs, each by using it once."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol
from uuid import UUID

import typer

from app.cli.client.options import REFUSED, AsJson
from app.cli.client.printing import print_json, print_table
from app.cli.runtime import find_runtime
from app.cli.worker_check import check_restarts, check_workers
from app.db.examination import Examined, examine, examine_queue
from app.db.maintenance import OwnerDatabase
from app.db.session import Database
from app.errors import AppError
from app.inference.chat import ChatMessage
from app.inference.embedding.opening import open_embedders
from app.inference.opening import open_chat
from app.inference.rerank.opening import open_reranker
from app.object_store import ObjectStore
from app.object_store.opening import open_object_store
from app.sandbox.process import find_confinement
from app.settings import Settings, load_settings

State = Literal["ok", "warning", "failed", "left out"]
SECONDS = 30.0
# A clock that is off by more makes expiries and presigned links wrong.
CLOCK_SECONDS = 2.0
NAMED_FUNCTIONS = 3
LEAST_FREE_BYTES = 2 * 1024**3
PROBE = b"carrel doctor was here"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look has found; ``detail`` is for people."""

    check: str
    state: State
    detail: str


class _Uncounted:
    """One question more is no matter for a limit a minute."""

    async def claim_pace(self, provider: UUID, **_asked: int | bool | None) -> int:  # noqa: ARG002
        return 0

    async def pause_provider(self, provider: UUID, *, milliseconds: int) -> None: ...


class _Closing(Protocol):
    async def close(self) -> None: ...


def doctor(as_json: AsJson = False) -> None:
    """Check database, tenant isolation, workers, waiting jobs, object store, models, parser confinement and disk.

    Reads the same settings as ``serve``; without CARREL_DATABASE_URL it looks at the service that runs on the data
    directory. It writes one object to the store and takes it away again, and asks each configured model one short
    question. Status 1: something is wrong.

    Example: carrel doctor --json
    """
    findings = asyncio.run(_look(load_settings()))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        print_table(["check", "state", "detail"], [[one.check, one.state, one.detail] for one in findings])
    raise typer.Exit(REFUSED if any(one.state == "failed" for one in findings) else 0)


async def _look(settings: Settings) -> list[Finding]:
    looks: Sequence[tuple[str, Callable[[Settings], AsyncIterator[Finding]]]] = (
        ("disk", _disk),
        ("parser confinement", _parser_confinement),
        ("database", _database),
        ("worker restarts", _worker_restarts),
        ("object store", _object_store),
        ("embedding", _embedding),
        ("chat", _chat),
        ("rerank", _rerank),
    )
    return [finding for name, look in looks for finding in await _found(name, look(settings))]


async def _found(name: str, looking: AsyncIterator[Finding]) -> list[Finding]:
    """All that a look finds, and what ended it."""
    found: list[Finding] = []
    try:
        async with asyncio.timeout(SECONDS):
            async for finding in looking:
                found.append(finding)
    except TimeoutError:
        found.append(Finding(name, "failed", f"nothing within {SECONDS:g} seconds"))
    except AppError as exc:
        found.append(Finding(name, "failed", exc.message))
    return found


async def _disk(settings: Settings) -> AsyncIterator[Finding]:
    place = settings.server.data_dir
    while not place.exists():
        place = place.parent
    usage = shutil.disk_usage(place)
    detail = f"{usage.free / 1024**3:.1f} of {usage.total / 1024**3:.1f} GB free at {place}"
    yield Finding("disk", "ok" if usage.free >= LEAST_FREE_BYTES else "warning", detail)


async def _parser_confinement(_: Settings) -> AsyncIterator[Finding]:
    confinement = await find_confinement()
    yield Finding("parser confinement", "ok" if confinement.level == "full" else "warning", confinement.describe())


async def _database(settings: Settings) -> AsyncIterator[Finding]:
    runtime = find_runtime(settings)
    database = Database.connect(runtime.database_url, pool_size=1)
    try:
        seen = await examine(database)
        yield Finding("database", "ok", f"Postgres {seen.server}, pgvector {seen.pgvector or 'not installed'}")
        await database.check()
        yield Finding("schema and role", "ok", f"{seen.role} is a plain role, and the schema is this version's")
        yield _walls(seen)
        yield _indexes(seen)
        yield _clock(seen)
        for check, state, detail in check_workers(await examine_queue(database)):
            yield Finding(check, state, detail)
        if settings.publication.allowed:
            yield _logins(seen)
    finally:
        await database.close()
    if runtime.admin_database_url is None:
        yield Finding("owner", "warning", "CARREL_ADMIN_DATABASE_URL is not set: large searches get no index")
        return
    async with OwnerDatabase(runtime.admin_database_url).connect():
        yield Finding("owner", "ok", "the tables' owner can connect")


async def _worker_restarts(settings: Settings) -> AsyncIterator[Finding]:
    if (found := await check_restarts(settings)) is not None:
        yield Finding("worker restarts", *found)


def _walls(seen: Examined) -> Finding:
    if seen.open_tables:
        return Finding("walls", "failed", f"no forced row-level security on {', '.join(seen.open_tables)}")
    return Finding("walls", "ok", "row-level security is forced on every table of tenants")


def _indexes(seen: Examined) -> Finding:
    if seen.invalid_indexes:
        names = ", ".join(seen.invalid_indexes)
        return Finding("indexes", "warning", f"not valid: {names}; being built, or left by a build that was cut short")
    return Finding("indexes", "ok", "all are valid")


def _logins(seen: Examined) -> Finding:
    if seen.open_functions:
        others = len(seen.open_functions) - NAMED_FUNCTIONS
        names = ", ".join(seen.open_functions[:NAMED_FUNCTIONS]) + (f" and {others} more" if others > 0 else "")
        detail = f"every login may call {names}; docs/publication.md has the statements that a superuser runs"
        return Finding("logins of SQL views", "warning", detail)
    return Finding("logins of SQL views", "ok", "they can make no large objects and take no advisory locks")


def _clock(seen: Examined) -> Finding:
    apart = abs((datetime.now(UTC) - seen.now).total_seconds())
    return Finding("clock", "ok" if apart <= CLOCK_SECONDS else "warning", f"{apart:.1f} s from the database's")


async def _object_store(settings: Settings) -> AsyncIterator[Finding]:
    store = open_object_store(settings)
    kind = f"bucket {settings.object_store.bucket}" if settings.object_store.bucket else "files"
    try:
        await store.check()
        yield Finding("object store", "ok", f"{kind} can be reached")
        await _use(store)
        yield Finding("object store rights", "ok", "write, read, list and delete")
    finally:
        await store.close()


async def _use(store: ObjectStore) -> None:
    """Raises ObjectStoreUnavailable, ObjectMissing."""
    prefix = "carrel-doctor/"
    key = f"{prefix}{time.time_ns()}"
    with tempfile.TemporaryDirectory() as directory:
        source, target = Path(directory, "source"), Path(directory, "target")
        await asyncio.to_thread(source.write_bytes, PROBE)
        try:
            await store.put(key, source)
            await store.get(key, target)
            listed = [found.key async for found in store.list_objects(prefix)]
        finally:
            await store.delete(key)
        if await asyncio.to_thread(target.read_bytes) != PROBE or key not in listed:
            raise AppError("what was written is not what is there")


async def _embedding(settings: Settings) -> AsyncIterator[Finding]:
    embedders = await asyncio.to_thread(open_embedders, settings.embedding, bulk_threads=1, ledger=_Uncounted())
    try:
        for embedder in embedders.all:
            name = f"{embedder.identity.model}, {embedder.identity.dimensions} dimensions"
            yield await _asked("embedding", name, embedder.check())
    finally:
        await embedders.close()


async def _chat(settings: Settings) -> AsyncIterator[Finding]:
    models = settings.models
    names = dict.fromkeys(name for name in (models.chat_model, models.rewrite_model) if name is not None)
    if not names:
        yield Finding("chat", "left out", "no CARREL_CHAT_MODEL is set")
    for name in names:
        chat = await asyncio.to_thread(open_chat, models, name)
        if chat is None:
            continue
        question = [ChatMessage("user", "Say: ready")]
        async with _closing(chat):
            yield await _asked("chat", name, chat.complete(question, max_tokens=16, seconds=SECONDS / 2))


async def _rerank(settings: Settings) -> AsyncIterator[Finding]:
    reranker = await asyncio.to_thread(open_reranker, settings.rerank)
    if reranker is None:
        yield Finding("rerank", "left out", "no CARREL_RERANK_URL is set")
        return
    texts = ["A tern is a bird.", "A harbour is a place."]
    async with _closing(reranker):
        yield await _asked("rerank", reranker.name, reranker.rerank("bird", texts, top_n=2, seconds=SECONDS / 2))


async def _asked(check: str, name: str, answer: Awaitable[object]) -> Finding:
    """How long one short question took, or why there was no answer."""
    begun = time.monotonic()
    try:
        await answer
    except AppError as exc:
        return Finding(check, "failed", f"{name}: {exc.message}")
    return Finding(check, "ok", f"{name}, answered in {time.monotonic() - begun:.2f} s")


@asynccontextmanager
async def _closing(opened: _Closing) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await opened.close()
