"""Databases of the scale benchmark: a temporary Postgres, the real services on it, and bare SQL statements."""

import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self

import asyncpg
import httpx2
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from app.bootstrap import Resources
from app.bootstrap.tenant_services import TenantServices
from app.db.driver import build_begin_sql
from app.db.index_ddl import OwnerDatabase, VectorIndexSpec
from app.db.migrate import migrate_database
from app.db.session import SERVER_SETTINGS
from app.documents.scopes import DocumentScope
from app.embedded_postgres import DatabaseUrls, EmbeddedPostgres
from app.embedded_postgres.server import find_free_ports
from app.filters import compile_filter
from app.index_maintenance.repository import IndexRepository
from app.index_maintenance.service import IndexMaintenance
from app.lexical.analyzers import get_analyzer
from app.lexical.weights import compute_query_terms, compute_salt
from app.principal import Principal, Role
from app.retrieval.service import RetrievalService
from app.retrieval.types import Query, SearchRequest, SearchResult
from app.settings import Settings, load_settings
from benchmarks.scale_corpus import Question
from harness.embedding_endpoint import DIMENSIONS
from harness.loader import IndexReference
from harness.processes import FAST_CLIENT_SETTINGS, ROOT, build_environment, list_process_tree, wait_for_answer

Filter = Mapping[str, Any] | None
RETRIEVER_CANDIDATES = 100
HYBRID_SQL = "select * from hybrid_search($1, $2, $3, $4, $5, $6, $7, $8, $9, 100, 100, $10)"
DENSE_SQL = "select chunk_id, score from hybrid_search($1, $2, $3, $4, '{}', '{}', $5, $6, $7, $8, 0, $9)"
LEXICAL_SQL = "select chunk_id, score from hybrid_search($1, $2, null, null, $3, $4, $5, $6, $7, 0, $8, $9)"
# The loader runs vacuum and analyze after a load, so autovacuum is off and cannot disturb a measurement.
QUIET_SETTINGS = {"autovacuum": "off"}


@dataclass(frozen=True, slots=True)
class ScaleTenant:
    """Tenant with the knowledge base ``default``, its API key and its retrieval service."""

    principal: Principal
    key: str
    index: IndexReference
    retrieval: RetrievalService

    async def search(self, question: Question, *, filter: Filter = None, **fields: Any) -> SearchResult:
        """Search with the service, as a request with a query vector does."""
        requested = SearchRequest(
            queries=[Query(question.text, question.vector)], knowledge_bases=["default"], filter=filter, **fields
        )
        return await self.retrieval.search(requested)


@dataclass(frozen=True, slots=True)
class BareSql:
    """Connection of the application role that runs the search statements without the service."""

    connection: asyncpg.Connection

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator[Self]:
        connection = await asyncpg.connect(url, server_settings=SERVER_SETTINGS)
        try:
            await register_vector(connection)
            yield cls(connection)
        finally:
            await connection.close()

    async def run(
        self, place: IndexReference, question: Question, *, retriever: str = "both", filter: Filter = None
    ) -> float:
        """Run one search statement in a transaction like the service's, and return the milliseconds."""
        values = _build_values(place, question, retriever, filter)
        statement = {"both": HYBRID_SQL, "dense": DENSE_SQL, "lexical": LEXICAL_SQL}[retriever]
        begin = build_begin_sql(place.tenant_id, snapshot=True, allow_generic_plans=True, read_only=True)
        started = time.perf_counter()
        await self.connection.execute(begin)
        await self.connection.fetch(statement, *values)
        await self.connection.execute("commit")
        return (time.perf_counter() - started) * 1000


def _build_values(place: IndexReference, question: Question, retriever: str, filter: Filter) -> tuple[Any, ...]:
    contains, path, lookups = compile_filter(filter, enforced_filter=None).sql_params
    where = (list(DocumentScope().list_visible_keys()), contains, path)
    terms, keys = compute_query_terms(get_analyzer("english").tokenize(question.text), compute_salt(place.index_id))
    index, vector = (place.tenant_id, place.index_id), (HalfVector(question.vector), DIMENSIONS)
    if retriever == "both":
        return (*index, *vector, terms, keys, *where, lookups)
    requested = vector if retriever == "dense" else (terms, keys)
    return (*index, *requested, *where, RETRIEVER_CANDIDATES, lookups)


@dataclass(frozen=True, slots=True)
class ScaleDatabase:
    """Migrated database with the resources of the service."""

    name: str
    urls: DatabaseUrls
    superuser_url: str
    owner: asyncpg.Connection
    resources: Resources

    @classmethod
    @asynccontextmanager
    async def open(cls, postgres: EmbeddedPostgres, name: str, settings: Settings) -> AsyncIterator[Self]:
        urls = postgres.ensure_database(name)
        await migrate_database(urls.owner, urls.app)
        superuser = await asyncpg.connect(postgres.build_url(name))
        try:
            async with Resources.open(
                settings, database_url=urls.app, operator_key="k" * 40, bulk_threads=1
            ) as resources:
                yield cls(name, urls, postgres.build_url(name), superuser, resources)
        finally:
            await superuser.close()

    async def create_tenant(self, name: str) -> ScaleTenant:
        tenant, issued = await self.resources.tenants.create(name)
        principal = Principal(tenant.id, name, Role.ADMIN)
        services = TenantServices(principal, self.resources)
        view = await services.knowledge_bases.find("default")
        place = IndexReference(tenant.id, view.row.id, view.index.id)
        return ScaleTenant(principal, issued.secret, place, services.retrieval)

    async def maintain(self, place: IndexReference, *, threshold: int) -> str:
        """Run the maintenance job for a search index and return its ``vector_index`` state."""
        resources = self.resources
        maintenance = IndexMaintenance(
            resources.database,
            resources.queue,
            partial(resources.control_plane.find_changed_indexes, limit=100),
            partial(resources.control_plane.find_outdated_indexes, limit=100),
            OwnerDatabase(self.urls.owner),
            threshold,
        )
        await maintenance.maintain(place.tenant_id, place.index_id)
        return await self.get_vector_index(place)

    async def get_vector_index(self, place: IndexReference) -> str:
        result: str = await self.owner.fetchval("select vector_index from search_index where id = $1", place.index_id)
        return result

    @asynccontextmanager
    async def vectors_alone(self, reader: asyncpg.Connection) -> AsyncIterator[Callable[[Question], Awaitable[object]]]:
        """Create a table with only ids and vectors; yield a function that reads the nearest vectors with ``reader``."""
        await self.owner.execute(
            f"create table vectors_alone (id uuid, embedding halfvec({DIMENSIONS}));"
            "alter table vectors_alone alter embedding set storage plain;"
            "insert into vectors_alone select chunk_id, embedding from chunk_embedding;"
            "grant select on vectors_alone to public"
        )
        await self.owner.execute("vacuum analyze vectors_alone")
        best = await reader.prepare(
            "select id, cosine_distance(embedding, $1) d from vectors_alone order by d limit $2"
        )

        async def find_nearest(question: Question) -> object:
            return await best.fetch(HalfVector(question.vector), RETRIEVER_CANDIDATES)

        yield find_nearest
        await self.owner.execute("drop table vectors_alone")

    async def build_vector_index(self, place: IndexReference, chunks: int) -> None:
        """Build the vector index as maintenance does, but with three processes and 4 GB, for a million vectors."""
        index = VectorIndexSpec(place.tenant_id, place.index_id, DIMENSIONS)
        await self.owner.execute("set maintenance_work_mem = '4GB'; set max_parallel_maintenance_workers = 2")
        for name, definition in index.build_definitions(f"chunk_embedding_{DIMENSIONS}").items():
            await self.owner.execute(f"create index {name} on {definition}", timeout=3600)
        async with self.resources.database.transaction(place.tenant_id) as session:
            repository = IndexRepository(session, place.tenant_id, place.index_id)
            await repository.set_built(chunks=chunks)

    async def measure_sizes(self) -> dict[str, int]:
        """Return the bytes of the tables and indexes, by part."""
        return {row[0]: row[1] for row in await self.owner.fetch(_SIZES_SQL)}


_SIZES_SQL = """
select s.part, sum(s.bytes)::bigint from (
  select case when c.relkind = 'i' then case when c.relname ~ '^hnsw_' then 'hnsw'
                                             when c.relname = 'chunk_lexical_keys' then 'lexical keys'
                                             else 'other indexes' end
              when c.relname = 'chunk' then 'texts'
              when c.relname ~ '^chunk_embedding' then 'vectors'
              when c.relname = 'chunk_lexical' then 'lexical'
              else 'others' end as part,
         pg_relation_size(c.oid) + case when c.reltoastrelid = 0 then 0 else pg_total_relation_size(c.reltoastrelid) end
           as bytes
    from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'i')) s
 group by s.part"""


@contextmanager
def running_postgres(embedding_url: str) -> Iterator[tuple[EmbeddedPostgres, Settings]]:
    """Start Postgres in a temporary directory as ``carrel serve`` does; yield it and settings for its services."""
    with tempfile.TemporaryDirectory(prefix="carrel-scale-") as folder:
        Path(folder).chmod(0o711)  # under root, Postgres runs as another user, who must be able to enter this directory
        embedding = {
            "CARREL_EMBEDDING_BASE_URL": embedding_url,
            "CARREL_EMBEDDING_MODEL": "directions",
            "CARREL_EMBEDDING_DIMENSIONS": DIMENSIONS,
        }
        settings = load_settings(server={"CARREL_DATA_DIR": Path(folder) / "service"}, embedding=embedding)
        with EmbeddedPostgres(Path(folder) / "data", fsync=False, settings=QUIET_SETTINGS) as postgres:
            yield postgres, settings


@contextmanager
def running_api(urls: DatabaseUrls, settings: Settings, key: str) -> Iterator[httpx2.Client]:
    """Start ``carrel serve --api-only`` on a database in a separate process; yield a client with the API key."""
    (port,) = islice(find_free_ports(), 1)
    environment = build_environment(str(settings.embedding.base_url)) | {
        **FAST_CLIENT_SETTINGS,
        "CARREL_DATABASE_URL": urls.app,
        "CARREL_LOG_LEVEL": "error",
    }
    command = [sys.executable, "-m", "app.cli", "serve", "--api-only", "--port", str(port)]
    command += ["--data-dir", str(settings.server.data_dir)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment, cwd=ROOT) as process:
        try:
            with httpx2.Client(
                base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}, timeout=60
            ) as client:
                if not wait_for_answer(process, lambda: client.get("/readyz").is_success or None):
                    raise RuntimeError("the API did not start; its standard error has the reason")
                yield client
        finally:
            process.terminate()


def measure_proportional_mb(pid: int) -> float:
    """Return the proportional memory (PSS) of a process tree in MB. An unreadable process counts as 0."""
    total = 0
    for process in list_process_tree(pid):
        try:
            lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024
