"""``carrel doctor``: check of everything that the service needs, by one use of each part."""

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

from app.cli.client.options import REFUSED_STATUS, AsJson
from app.cli.client.output import print_json, print_table
from app.cli.runtime_state import find_runtime
from app.cli.worker_check import check_restarts, check_workers
from app.db.diagnostics import DatabaseDiagnostics, diagnose_database, diagnose_queue
from app.db.index_ddl import OwnerDatabase
from app.db.session import Database
from app.errors import AppError
from app.inference.chat import ChatMessage
from app.inference.embedding.factory import create_embedders
from app.inference.factory import create_chat_model
from app.inference.rerank.factory import create_reranker
from app.ingestion.parsers.sandbox.office_conversion import find_office_program
from app.object_store import ObjectStore
from app.object_store.factory import create_object_store
from app.sandbox.process import find_confinement
from app.settings import Settings, load_settings

CheckState = Literal["ok", "warning", "failed", "skipped"]
CHECK_TIMEOUT_SECONDS = 30.0
# A larger difference makes expiry times and presigned links wrong.
MAX_CLOCK_SKEW_SECONDS = 2.0
MAX_NAMED_FUNCTIONS = 3
MIN_FREE_BYTES = 2 * 1024**3
PROBE_CONTENT = b"carrel doctor was here"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check; ``detail`` is a sentence for the operator."""

    check: str
    state: CheckState
    detail: str


class _UnlimitedRateLimitStore:
    """Rate limit store without limits, because the checks send only one request to each model."""

    async def acquire_rate_slot(self, provider: UUID, **_limits: int | bool | None) -> int:  # noqa: ARG002
        return 0

    async def pause_provider(self, provider: UUID, *, milliseconds: int) -> None: ...


class _ClosableClient(Protocol):
    async def close(self) -> None: ...


def doctor(as_json: AsJson = False) -> None:
    """Check database, tenant isolation, workers, waiting jobs, object store, models, parser confinement and disk.

    It reads the same settings as serve. Without CARREL_DATABASE_URL it checks the service that runs on the data
    directory. It writes and deletes one object of the object store, and sends one short request to each model.

    Status 1: a check failed. A warning does not change the status.

    Example: carrel doctor

    Example: carrel doctor --json
    """
    results = asyncio.run(_run_checks(load_settings()))
    if as_json:
        print_json([asdict(result) for result in results])
    else:
        print_table(["check", "state", "detail"], [[result.check, result.state, result.detail] for result in results])
    raise typer.Exit(REFUSED_STATUS if any(result.state == "failed" for result in results) else 0)


async def _run_checks(settings: Settings) -> list[CheckResult]:
    checks: Sequence[tuple[str, Callable[[Settings], AsyncIterator[CheckResult]]]] = (
        ("disk", _check_disk),
        ("parser confinement", _check_parser_confinement),
        ("old Office files", _check_office_program),
        ("database", _check_database),
        ("worker restarts", _check_worker_restarts),
        ("object store", _check_object_store),
        ("embedding", _check_embedding),
        ("chat", _check_chat),
        ("rerank", _check_rerank),
    )
    return [result for name, check in checks for result in await _run_check(name, check(settings))]


async def _run_check(name: str, check: AsyncIterator[CheckResult]) -> list[CheckResult]:
    """Return the results of a check, and the error that ended the check, if any."""
    results: list[CheckResult] = []
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
            async for result in check:
                results.append(result)
    except TimeoutError:
        results.append(CheckResult(name, "failed", f"no result within {CHECK_TIMEOUT_SECONDS:g} seconds"))
    except AppError as exc:
        results.append(CheckResult(name, "failed", exc.message))
    return results


async def _check_disk(settings: Settings) -> AsyncIterator[CheckResult]:
    directory = settings.server.data_dir
    while not directory.exists():
        directory = directory.parent
    usage = shutil.disk_usage(directory)
    detail = f"{usage.free / 1024**3:.1f} of {usage.total / 1024**3:.1f} GB free at {directory}"
    yield CheckResult("disk", "ok" if usage.free >= MIN_FREE_BYTES else "warning", detail)


async def _check_parser_confinement(_: Settings) -> AsyncIterator[CheckResult]:
    confinement = await find_confinement()
    yield CheckResult("parser confinement", "ok" if confinement.level == "full" else "warning", confinement.describe())


async def _check_office_program(_: Settings) -> AsyncIterator[CheckResult]:
    program = find_office_program()
    if program:
        yield CheckResult("old Office files", "ok", f"{program} converts DOC and PPT files")
    else:
        yield CheckResult("old Office files", "skipped", "LibreOffice is not installed: DOC and PPT files are refused")


async def _check_database(settings: Settings) -> AsyncIterator[CheckResult]:
    runtime = find_runtime(settings)
    database = Database.connect(runtime.database_url, pool_size=1)
    try:
        examined = await diagnose_database(database)
        yield CheckResult(
            "database", "ok", f"Postgres {examined.server}, pgvector {examined.pgvector or 'not installed'}"
        )
        await database.check()
        yield CheckResult("schema and role", "ok", f"{examined.role} is a plain role, and the schema has this version")
        yield _check_tenant_isolation(examined)
        yield _check_indexes(examined)
        yield _check_clock(examined)
        for check, state, detail in check_workers(await diagnose_queue(database)):
            yield CheckResult(check, state, detail)
        if settings.sql_views.enabled:
            yield _check_sql_view_logins(examined)
    finally:
        await database.close()
    if runtime.admin_database_url is None:
        yield CheckResult(
            "owner",
            "warning",
            "CARREL_ADMIN_DATABASE_URL is not set: set it so that large knowledge bases get their indexes",
        )
        return
    async with OwnerDatabase(runtime.admin_database_url).connect():
        yield CheckResult("owner", "ok", "the role that owns the tables can connect")


async def _check_worker_restarts(settings: Settings) -> AsyncIterator[CheckResult]:
    if (restarts := await check_restarts(settings)) is not None:
        yield CheckResult("worker restarts", *restarts)


def _check_tenant_isolation(examined: DatabaseDiagnostics) -> CheckResult:
    if examined.open_tables:
        return CheckResult(
            "tenant isolation",
            "failed",
            f"row-level security is not forced on {', '.join(examined.open_tables)}: stop the service, then force it",
        )
    return CheckResult("tenant isolation", "ok", "row-level security is forced on every table with data of tenants")


def _check_indexes(examined: DatabaseDiagnostics) -> CheckResult:
    if examined.invalid_indexes:
        names = ", ".join(examined.invalid_indexes)
        return CheckResult("indexes", "warning", f"not valid: {names}; being built, or the build was interrupted")
    return CheckResult("indexes", "ok", "all indexes are valid")


def _check_sql_view_logins(examined: DatabaseDiagnostics) -> CheckResult:
    if examined.open_functions:
        other_count = len(examined.open_functions) - MAX_NAMED_FUNCTIONS
        names = ", ".join(examined.open_functions[:MAX_NAMED_FUNCTIONS]) + (
            f" and {other_count} more" if other_count > 0 else ""
        )
        detail = f"every role may call {names}; a superuser must run the statements in docs/how-to/read-with-sql.md"
        return CheckResult("logins of SQL views", "warning", detail)
    return CheckResult("logins of SQL views", "ok", "they cannot create large objects or take advisory locks")


def _check_clock(examined: DatabaseDiagnostics) -> CheckResult:
    skew_seconds = abs((datetime.now(UTC) - examined.now).total_seconds())
    return CheckResult(
        "clock",
        "ok" if skew_seconds <= MAX_CLOCK_SKEW_SECONDS else "warning",
        f"{skew_seconds:.1f} s difference to the clock of the database",
    )


async def _check_object_store(settings: Settings) -> AsyncIterator[CheckResult]:
    store = create_object_store(settings)
    kind = f"bucket {settings.object_store.bucket}" if settings.object_store.bucket else "files"
    try:
        await store.check()
        yield CheckResult("object store", "ok", f"{kind} can be reached")
        await _check_object_store_rights(store)
        yield CheckResult("object store rights", "ok", "write, read, list and delete")
    finally:
        await store.close()


async def _check_object_store_rights(store: ObjectStore) -> None:
    """Write, read, list and delete one object. Raises ObjectStoreUnavailable, ObjectMissing."""
    prefix = "carrel-doctor/"
    key = f"{prefix}{time.time_ns()}"
    with tempfile.TemporaryDirectory() as directory:
        source, target = Path(directory, "source"), Path(directory, "target")
        await asyncio.to_thread(source.write_bytes, PROBE_CONTENT)
        try:
            await store.put(key, source)
            await store.get(key, target)
            listed_keys = [listed.key async for listed in store.list_objects(prefix)]
        finally:
            await store.delete(key)
        if await asyncio.to_thread(target.read_bytes) != PROBE_CONTENT or key not in listed_keys:
            raise AppError("the object store returned other bytes than were written")


async def _check_embedding(settings: Settings) -> AsyncIterator[CheckResult]:
    embedders = await asyncio.to_thread(
        create_embedders, settings.embedding, bulk_threads=1, rate_limit_store=_UnlimitedRateLimitStore()
    )
    try:
        for embedder in embedders.all:
            name = f"{embedder.identity.model}, {embedder.identity.dimensions} dimensions"
            yield await _time_answer("embedding", name, embedder.check())
    finally:
        await embedders.close()


async def _check_chat(settings: Settings) -> AsyncIterator[CheckResult]:
    models = settings.models
    names = dict.fromkeys(name for name in (models.chat_model, models.rewrite_model) if name is not None)
    if not names:
        yield CheckResult("chat", "skipped", "CARREL_CHAT_MODEL is not set")
    for name in names:
        chat = await asyncio.to_thread(create_chat_model, models, name)
        if chat is None:
            continue
        question = [ChatMessage("user", "Say: ready")]
        async with _close_on_exit(chat):
            yield await _time_answer(
                "chat", name, chat.complete(question, max_tokens=16, timeout_seconds=CHECK_TIMEOUT_SECONDS / 2)
            )


async def _check_rerank(settings: Settings) -> AsyncIterator[CheckResult]:
    reranker = await asyncio.to_thread(create_reranker, settings.rerank)
    if reranker is None:
        yield CheckResult(
            "rerank", "skipped", "CARREL_RERANK_URL, CARREL_RERANK_LOCAL and CARREL_RERANK_PROVIDER are not set"
        )
        return
    texts = ["A tern is a bird.", "A harbour is a place."]
    async with _close_on_exit(reranker):
        yield await _time_answer(
            "rerank", reranker.name, reranker.rerank("bird", texts, top_n=2, timeout_seconds=CHECK_TIMEOUT_SECONDS / 2)
        )


async def _time_answer(check: str, name: str, answer: Awaitable[object]) -> CheckResult:
    """Return the time of a short request to a model, or the reason of its failure."""
    begun = time.monotonic()
    try:
        await answer
    except AppError as exc:
        return CheckResult(check, "failed", f"{name}: {exc.message}")
    return CheckResult(check, "ok", f"{name}, answered in {time.monotonic() - begun:.2f} s")


@asynccontextmanager
async def _close_on_exit(client: _ClosableClient) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await client.close()
