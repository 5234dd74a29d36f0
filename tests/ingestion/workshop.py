"""All parts of ingestion in the test's event loop, with an embedding endpoint that fails on demand."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

from app.bootstrap import Resources, TenantServices
from app.db.index_ddl import OwnerDatabase
from app.db.models.base import SYSTEM_TENANT
from app.db.models.control_plane_rows import ClaimedJob
from app.db.models.tenant_data import DocumentRow
from app.db.session import TenantDatabase
from app.documents.types import DocumentFields
from app.embedded_postgres import DatabaseUrls
from app.index_maintenance.service import IndexMaintenance
from app.ingestion.parse_reuse import OriginalParser
from app.ingestion.parsers import PARSERS, ParserSpec
from app.ingestion.parsers.sandbox.pool import ParserPool
from app.ingestion.pipeline import IngestionPipeline
from app.principal import Principal, Role
from app.worker.handlers import HANDLERS, JobContext
from app.worker.loop import Worker
from app.worker.slots import POLL_INTERVAL_SECONDS
from harness.consistency import find_inconsistencies
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import OPERATOR_KEY, build_settings

HANG_SECONDS = 60.0


@dataclass
class Workshop:
    """Resources, pipeline, and the owner's connection for direct access."""

    resources: Resources
    pipeline: IngestionPipeline
    endpoint: EmbeddingServer
    urls: DatabaseUrls
    owner: asyncpg.Connection

    async def new_tenant(self) -> TenantServices:
        tenant, _ = await self.resources.tenants.create("a tenant")
        return TenantServices(Principal(tenant.id, tenant.name, Role.ADMIN), self.resources)

    @property
    def operator(self) -> TenantServices:
        """Services of the operator's key: its tenant is the system tenant, and its documents are shared."""
        return TenantServices(Principal(SYSTEM_TENANT, "system", Role.OPERATOR), self.resources)

    async def ingest(self, document: DocumentRow) -> None:
        """Ingest a document, as the worker does."""
        await self.pipeline.ingest(
            TenantDatabase(self.resources.database, document.tenant_id), document.id, document.version
        )

    async def drop_jobs(self) -> None:
        """Delete all jobs, for tests that call the pipeline themselves."""
        await self.owner.execute("delete from job")

    async def run_jobs(self, *kinds: str) -> int:
        """Run all waiting jobs of these kinds in their order, as a worker does; return their number."""
        done = 0
        while row := await self.owner.fetchrow(
            "select * from job where kind = any($1) and state = 'ready' order by created_at, id limit 1", kinds
        ):
            payload = json.loads(row["payload"])
            job = ClaimedJob(row["tenant_id"], row["id"], row["kind"], row["document_id"], payload, 1, 5)
            await HANDLERS[job.kind](JobContext(self.resources, self.pipeline), job)
            await self.owner.execute("delete from job where id = $1", job.id)
            done += 1
        return done

    async def document(self, document_id: UUID) -> asyncpg.Record:
        return await self.owner.fetchrow("select * from document where id = $1", document_id)

    async def status(self, document_id: UUID) -> str:
        found: str = await self.owner.fetchval("select status from document where id = $1", document_id)
        return found

    async def settled(self, document_id: UUID) -> str:
        """Return the status once the document is ready or failed."""
        await until(lambda: self._is_settled(document_id))
        return await self.status(document_id)

    async def _is_settled(self, document_id: UUID) -> bool:
        return await self.status(document_id) in ("ready", "failed")

    async def end_whole(self) -> None:
        """Delete the jobs, and check that the tables are consistent."""
        await self.drop_jobs()
        assert await self.inconsistencies() == {}

    @property
    def maintenance(self) -> IndexMaintenance:
        """Index maintenance of a worker that knows the tables' owner."""
        return JobContext(self.resources, self.pipeline, OwnerDatabase(self.urls.owner)).index_maintenance

    async def inconsistencies(self) -> dict[str, Any]:
        return await find_inconsistencies(self.urls.owner)

    @asynccontextmanager
    async def working(
        self, *, grace_seconds: float = 0.0, poll_seconds: float = POLL_INTERVAL_SECONDS
    ) -> AsyncIterator[Worker]:
        """Run a worker until the end of the block."""
        worker = Worker(self.resources, self.pipeline, poll_interval_seconds=poll_seconds)
        running = asyncio.create_task(worker.run(shutdown_timeout_seconds=grace_seconds))
        try:
            yield worker
        finally:
            worker.stop()
            await running


async def add_text(services: TenantServices, text: str, **facts: Any) -> DocumentRow:
    """Upload a text into the default knowledge base."""
    uploaded = await services.uploads.upload_text("default", text, DocumentFields(**facts), media_type="text/plain")
    return uploaded.document


async def upload(services: TenantServices, path: Path, *, kb: str = "default", external_id: str = "a") -> DocumentRow:
    """Upload a file as a multipart form."""
    head = (
        f'--b\r\nContent-Disposition: form-data; name="external_id"\r\n\r\n{external_id}\r\n'
        f'--b\r\nContent-Disposition: form-data; name="file"; filename="{path.name}"\r\n\r\n'
    )

    async def body() -> AsyncIterator[bytes]:
        yield head.encode() + path.read_bytes() + b"\r\n--b--\r\n"

    def facts(fields: Any) -> DocumentFields:
        return DocumentFields(external_id=fields["external_id"])

    return (await services.uploads.upload(kb, body(), b"b", facts)).document


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    end = time.monotonic() + HANG_SECONDS
    while not await condition():
        assert time.monotonic() < end, "it never came true"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def open_workshop(
    urls: DatabaseUrls,
    data_dir: Path,
    *,
    parsers: Mapping[str, ParserSpec] = PARSERS,
    models: Mapping[str, str] | None = None,
    embedding: Mapping[str, str] | None = None,
    **worker: int,
) -> AsyncIterator[Workshop]:
    """Open a workshop. Further settings of the worker are keywords, for example ``lease_timeout_seconds=2``."""
    async with AsyncExitStack() as stack:
        endpoint = stack.enter_context(EmbeddingServer())
        settings = build_settings(
            data_dir,
            embedding={
                **endpoint.settings,
                "CARREL_EMBEDDING_TIMEOUT_SECONDS": 2,
                **(embedding or {}),
            },
            models=dict(models or {}),
            worker={f"CARREL_WORKER_{name.upper()}": value for name, value in worker.items()},
        )
        resources = await stack.enter_async_context(
            Resources.open(settings, database_url=urls.app, operator_key=OPERATOR_KEY, bulk_threads=1)
        )
        pool = ParserPool(
            processes=1,
            spare_processes=settings.worker.extra_jobs,
            memory_mb=1000,
            cpu_timeout_seconds=30,
            wall_clock_timeout_seconds=60,
            max_pages=100,
            max_characters=200_000,
            parsers=parsers,
        )
        stack.push_async_callback(pool.close)
        owner = await asyncpg.connect(urls.owner)
        stack.push_async_callback(owner.close)
        pipeline = IngestionPipeline(
            resources.objects,
            OriginalParser(resources.objects, pool),
            resources.embedders,
            resources.queue,
            resources.extractors,
            resources.vision,
        )
        yield Workshop(resources, pipeline, endpoint, urls, owner)
