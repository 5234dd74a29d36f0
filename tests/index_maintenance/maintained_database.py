"""Search indexes that the owner fills directly in the tables, and their maintenance."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import numpy as np
import numpy.typing as npt
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from app.db.control_plane import ControlPlaneDatabase
from app.db.index_ddl import OwnerDatabase
from app.db.session import Database
from app.embedded_postgres import DatabaseUrls
from app.filters import CompiledFilter
from app.index_maintenance.service import REFRESH_PROFILE_JOB, IndexMaintenance
from app.jobs.queue import JobQueue

IDENTITY = '{"k1": 1.2, "b": 0.75}'
SCOPE = UUID(int=5)
ADD = """
with texts as (
  select * from unnest($5::uuid[], $6::jsonb[], $7::halfvec[]) with ordinality u(id, metadata, embedding, n)
), chunks as (
  insert into chunk (tenant_id, kb_id, index_id, id, document_id, version, ordinal, content, start_offset, end_offset,
                     token_count, node_path)
  select $1, $2, $3, id, $4, 1, n, '', 0, 0, 1, '{}' from texts
), lexical as (
  insert into chunk_lexical (tenant_id, index_id, chunk_id, dl, scope_key, metadata, terms, keys)
  select $1, $3, id, 1, $8, metadata, '{1:0.5}/1000000000', '{1}' from texts
), totals as (
  insert into index_totals (tenant_id, index_id, chunks, tokens) select $1, $3, count(*), count(*) from texts
)
insert into chunk_embedding (tenant_id, index_id, chunk_id, dim, scope_key, metadata, embedding)
select $1, $3, id, vector_dims(embedding), $8, metadata, embedding from texts"""
REMOVE = """
with deleted as (
  delete from chunk where tenant_id = $1 and index_id = $2 and id = any($3) returning 1
) insert into index_totals (tenant_id, index_id, chunks, tokens) select $1, $2, -count(*), -count(*) from deleted"""


@dataclass
class FilledIndex:
    """Search index of random vectors in one document; ``vectors`` holds the vector of each chunk."""

    world: "MaintainedDatabase"
    tenant: UUID
    kb: UUID
    id: UUID
    document: UUID
    dim: int
    vectors: dict[UUID, npt.NDArray[np.float32]] = field(default_factory=dict)
    _unit: npt.NDArray[np.float64] | None = None

    async def add(
        self,
        count: int,
        *,
        seed: int = 1,
        metadata: Sequence[str] | None = None,
        made: npt.NDArray[np.float32] | None = None,
    ) -> None:
        if made is None:
            made = np.random.default_rng(seed).normal(size=(count, self.dim)).astype(np.float32)
        # The seed is fixed, because a search samples the first chunks.
        rng = Random(f"{seed} {len(self.vectors)}")
        ids = [UUID(int=rng.getrandbits(128)) for _ in range(count)]
        metadata = metadata or [f'{{"n": {n}, "tenth": {n % 10}}}' for n in range(count)]
        await self.world.owner.execute(
            ADD, self.tenant, self.kb, self.id, self.document, ids, metadata, [HalfVector(v) for v in made], SCOPE
        )
        self.vectors |= dict(zip(ids, made, strict=True))
        self._unit = None

    async def remove(self, count: int) -> None:
        gone = list(self.vectors)[:count]
        await self.world.owner.execute(REMOVE, self.tenant, self.id, gone)
        for one in gone:
            del self.vectors[one]
        self._unit = None

    async def row(self) -> asyncpg.Record:
        return await self.world.owner.fetchrow("select * from search_index where id = $1", self.id)

    async def state(self) -> str:
        return str((await self.row())["vector_index"])

    async def names(self) -> set[str]:
        """Return the names of the partial indexes; an invalid one has a suffix."""
        rows = await self.world.owner.fetch(
            "select c.relname, x.indisvalid from pg_class c join pg_index x on x.indexrelid = c.oid"
            " where c.relname like '%' || $1 || '%'",
            self.id.hex,
        )
        return {row[0].replace(self.id.hex, "") + ("" if row[1] else " (invalid)") for row in rows}

    async def bytes(self) -> int:
        """Return the size of the partial indexes in bytes."""
        sql = "select sum(pg_relation_size(c.oid))::bigint from pg_class c where c.relname like '%' || $1"
        return int(await self.world.owner.fetchval(sql, self.id.hex))

    async def search(
        self, query: npt.NDArray[np.float32], *, k: int = 10, filter: CompiledFilter | None = None
    ) -> list[tuple[UUID, float]]:
        """Search as the service does, with the application role."""
        contains, path, lookups = (filter or CompiledFilter()).sql_params
        async with self.world.maintenance.database.transaction(self.tenant) as session:
            driver = session._driver
            rows = await driver.fetch(
                "select * from hybrid_search($1, $2, $3, $4, '{}', '{}', $5, $6::jsonb, $7::jsonpath,"
                "                            $8, 0, $9::jsonb)",
                self.tenant, self.id, HalfVector(query), self.dim, [SCOPE], contains, path, k, lookups,
            )  # fmt: skip
        return [(row["chunk_id"], row["score"]) for row in rows]

    async def recall(self, queries: Sequence[npt.NDArray[np.float32]], *, k: int = 10) -> float:
        """Return the share of the true nearest neighbours that searches find; 0 for a search with too few rows."""
        ids = list(self.vectors)
        if self._unit is None:
            matrix = np.stack(list(self.vectors.values())).astype(np.float64)
            self._unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        shares = []
        for query in queries:
            best = np.argsort(-(self._unit @ query), kind="stable")[:k]
            found = await self.search(query, k=k)
            assert len(found) == min(k, len(ids)), (len(found), k, len(ids))
            shares.append(len({ids[n] for n in best} & {one for one, _ in found}) / k)
        return float(np.mean(shares))

    async def maintain(self) -> None:
        """Run the jobs of maintenance: the periodic scan and the index's own job."""
        await self.world.maintenance.scan()
        await self.world.maintenance.maintain(self.tenant, self.id)


@dataclass
class MaintainedDatabase:
    """Database with the owner's connection, and the maintenance under test."""

    urls: DatabaseUrls
    owner: asyncpg.Connection
    maintenance: IndexMaintenance

    @property
    def owner_database(self) -> OwnerDatabase:
        return OwnerDatabase(self.urls.owner)

    def without_owner(self) -> IndexMaintenance:
        return replace(self.maintenance, owner_database=None)

    async def new_index(self, dim: int) -> FilledIndex:
        made = FilledIndex(self, uuid4(), uuid4(), uuid4(), uuid4(), dim)
        await self.owner.execute("insert into tenant (id, name) values ($1, 't')", made.tenant)
        await self.owner.execute(
            "insert into knowledge_base (tenant_id, id, name, chunking, retrieval) values ($1, $2, 'kb', '{}', '{}')",
            made.tenant, made.kb,
        )  # fmt: skip
        await self.owner.execute(
            "insert into search_index (tenant_id, kb_id, id, identity, dim, state, avgdl)"
            " values ($1, $2, $3, $4, $5, 'live', 1)",
            made.tenant, made.kb, made.id, IDENTITY, dim,
        )  # fmt: skip
        await self.owner.execute(
            "insert into document (tenant_id, kb_id, id, source, media_type, bytes, sha256, scope_key, live_version,"
            " status) values ($1, $2, $3, 's', 'text/plain', 1, '', $4, 1, 'ready')",
            made.tenant, made.kb, made.document, SCOPE,
        )  # fmt: skip
        return made

    async def jobs(self) -> list[asyncpg.Record]:
        """Return the jobs without the ones of routing profiles: no test here builds a profile, so these jobs always
        exist.
        """
        sql = "select * from job where kind <> $1 order by id"
        found: list[asyncpg.Record] = await self.owner.fetch(sql, REFRESH_PROFILE_JOB)
        return found

    async def until(self, sql: str, *values: Any) -> None:
        async with asyncio.timeout(60):
            while not await self.owner.fetchval(sql, *values):
                await asyncio.sleep(0.002)


@asynccontextmanager
async def open_maintained_database(urls: DatabaseUrls, *, threshold: int) -> AsyncIterator[MaintainedDatabase]:
    database = Database.connect(urls.app, pool_size=5)
    owner = await asyncpg.connect(urls.owner)
    await register_vector(owner)
    system = ControlPlaneDatabase(database)
    maintenance = IndexMaintenance(
        database,
        JobQueue(database, system, 3),
        partial(system.find_changed_indexes, limit=100),
        partial(system.find_outdated_indexes, limit=100),
        OwnerDatabase(urls.owner),
        threshold,
    )
    try:
        yield MaintainedDatabase(urls, owner, maintenance)
    finally:
        await owner.close()
        await database.close()
