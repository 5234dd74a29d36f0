"""The tables' owner at work: partial indexes that are made, tried, rebuilt and dropped while everything else goes on.

Nothing but this and the migrations uses the owner's URL. CONCURRENTLY runs outside a transaction, so a statement that
is cut short leaves an invalid index behind: ``is_clean`` finds it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, KeysView, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import asyncpg
from sqlalchemy.exc import DBAPIError, InterfaceError
from sqlalchemy.ext.asyncio import AsyncEngine

from app.db.migrate import create_admin_engine
from app.db.session import UNTRANSLATED_ERRORS
from app.errors import UnavailableError

# One build at a time in a database. No login but the owner's may lock this table.
_LOCK_MAINTENANCE = "lock table index_build_lock in exclusive mode nowait"
# pgvector's limit for an HNSW of halfvec.
MAX_DIMENSIONS = 4000
# Every query on a table looks at each of its partial indexes: 200 of them are still cheap. A search index brings three
# to the partition of its dimension, and two to the lexical lane, which has no partitions.
MAX_INDEXES_PER_PARTITION = 60
MAX_INDEXES = 100
# The graph is built several times faster if it fits into memory: about 400 bytes a row in addition to the vector.
ROW_OVERHEAD_BYTES = 400
MIN_BUILD_MB, MAX_BUILD_MB = 64, 1024
ORPHAN_LOCK_TIMEOUT_SECONDS = 5
RECALL_SAMPLE_SIZE, RECALL_TRIALS, RECALL_NEIGHBOURS = 5000, 20, 10
# What a filter is looked up by: containments and equalities, and by terms (ADR 0013).
_FILTER_COLUMNS = "metadata jsonb_path_ops, filter_terms(metadata)"
_INDEX_KINDS = "(hnsw|filter|scope|filterl|scopel)"
_INDEX_NAME_PATTERN = rf"^{_INDEX_KINDS}_[0-9a-f]{{32}}"


class MaintenanceFailed(UnavailableError):
    """The tables' owner could not work on an index; try again."""

    code = "index_maintenance_failed"


@dataclass(frozen=True, slots=True)
class VectorIndexSpec:
    """A search index as its partial indexes know it."""

    tenant_id: UUID
    index_id: UUID
    dim: int

    @property
    def dense_condition(self) -> str:
        """Its rows in the dense lane, as a condition; what is formatted are UUIDs and a number."""
        return f"{self.lexical_condition} and dim = {self.dim}"

    @property
    def lexical_condition(self) -> str:
        """Its rows in the lexical lane."""
        return f"tenant_id = '{self.tenant_id}' and index_id = '{self.index_id}'"

    @property
    def index_names(self) -> KeysView[str]:
        """The names of all indexes of the search index."""
        return self.build_definitions("").keys()

    def build_definitions(self, partition: str) -> dict[str, str]:
        """Return the definitions of its indexes by name, the vector index first."""
        suffix = self.index_id.hex
        return {
            f"hnsw_{suffix}": f"{partition} using hnsw ((embedding::halfvec({self.dim})) halfvec_cosine_ops)"
            f" where {self.dense_condition}",
            f"filter_{suffix}": f"{partition} using gin ({_FILTER_COLUMNS}) where {self.dense_condition}",
            f"scope_{suffix}": f"{partition} (scope_key) where {self.dense_condition}",
            f"filterl_{suffix}": f"chunk_lexical using gin ({_FILTER_COLUMNS}) where {self.lexical_condition}",
            f"scopel_{suffix}": f"chunk_lexical (scope_key) where {self.lexical_condition}",
        }


@dataclass(frozen=True, slots=True)
class OwnerDatabase:
    """The database as the tables' owner; connected to for one piece of work at a time."""

    url: str

    @asynccontextmanager
    async def connect(self, database: str | None = None) -> AsyncIterator["OwnerConnection"]:
        """A connection for this block; a cancellation cancels what it runs. Raises MaintenanceFailed.

        ``database`` is another one of the same cluster.
        """
        engine = create_admin_engine(self.url, database=database)
        try:
            async with AsyncExitStack() as stack:
                driver = await _open_driver_connection(stack, engine)
                await driver.execute("set statement_timeout = 0; set lock_timeout = 0")
                yield OwnerConnection(driver, partial(_open_driver_connection, stack, engine))
        except (OSError, DBAPIError, InterfaceError, *UNTRANSLATED_ERRORS) as exc:
            raise MaintenanceFailed from exc
        finally:
            await engine.dispose()


async def _open_driver_connection(stack: AsyncExitStack, engine: AsyncEngine) -> asyncpg.Connection:
    connection = await stack.enter_async_context(engine.connect())
    pooled = connection.sync_connection
    assert pooled is not None
    driver: asyncpg.Connection = pooled.connection.driver_connection
    return driver


@dataclass(slots=True)
class OwnerConnection:
    """The work of the tables' owner; ``open_another`` opens a connection that is closed together with this one."""

    driver: asyncpg.Connection
    open_another: Callable[[], Awaitable[asyncpg.Connection]]
    _has_lock: bool = False

    async def try_lock(self) -> bool:
        """Return whether no other process builds or drops; the turn ends with the connection.

        A second connection holds the lock: a transaction would not let this one build concurrently.
        """
        await self.driver.execute("select 1")  # a broken connection shows here, and not in the middle of the work
        if self._has_lock:
            return True
        holder = await self.open_another()
        await holder.execute("set idle_in_transaction_session_timeout = 0; begin")
        try:
            await holder.execute(_LOCK_MAINTENANCE)
        except asyncpg.LockNotAvailableError:
            await holder.execute("rollback")
            return False
        self._has_lock = True
        return True

    async def build(self, index: VectorIndexSpec, *, chunks: int) -> bool:
        """Build what is missing of its indexes, and say whether the vector index is among that.

        What is unfinished goes first, what has been replaced last.
        """
        await self.drop(await self._fetch_names(_UNFINISHED_INDEXES, index.index_id.hex))
        finished_names = set(await self._fetch_names(_FINISHED_INDEXES, index.index_id.hex))
        await self._configure_memory(index, chunks)
        definitions = index.build_definitions(await self._find_partition(index.dim))
        for name, definition in definitions.items():
            if name not in finished_names:
                await self.driver.execute(f"create index concurrently {name} on {definition}")
        await self.drop(set(await self._fetch_names(_ALL_INDEXES, index.index_id.hex)) - definitions.keys())
        return f"hnsw_{index.index_id.hex}" not in finished_names

    async def rebuild(self, index: VectorIndexSpec, *, chunks: int) -> None:
        """Rebuild its indexes; each old index is used until the new one is complete."""
        await self.drop(await self._fetch_names(_UNFINISHED_INDEXES, index.index_id.hex))
        await self._configure_memory(index, chunks)
        # The dearest last: where another cannot be built, all are begun again.
        for name in sorted(index.index_names, key=lambda name: name.startswith("hnsw_")):
            await self.driver.execute(f"reindex index concurrently {name}")

    async def drop(self, names: Collection[str]) -> None:
        """Remove indexes; searches that use one are waited for."""
        for name in names:
            await self.driver.execute(f'drop index concurrently if exists "{name}"')

    async def drop_all(self, index_id: UUID) -> None:
        """Remove everything that was made for it."""
        await self.drop(await self._fetch_names(_ALL_INDEXES, index_id.hex))

    async def is_complete(self, index: VectorIndexSpec) -> bool:
        """Whether all its indexes are there and valid."""
        finished_names = await self._fetch_names(_FINISHED_INDEXES, index.index_id.hex)
        return set(finished_names) >= index.index_names

    async def is_clean(self, index: VectorIndexSpec) -> bool:
        """Whether it is whole, and nothing else is left of it."""
        names = set(await self._fetch_names(_ALL_INDEXES, index.index_id.hex))
        return names == index.index_names and await self.is_complete(index)

    async def is_index_limit_reached(self, index: VectorIndexSpec) -> bool:
        """Whether there is no room for one more."""
        partition = await self._find_partition(index.dim)
        partition_count, total_count = await self.driver.fetchrow(
            _COUNT_VECTOR_INDEXES, partition, f"hnsw_{index.index_id.hex}"
        )
        return bool(partition_count >= MAX_INDEXES_PER_PARTITION or total_count >= MAX_INDEXES)

    async def measure_recall(self, index: VectorIndexSpec) -> float:
        """Which share of the nearest neighbours of a few stored vectors is found through the vector index."""
        table = await self._find_partition(index.dim)
        distance = f"embedding::halfvec({index.dim}) <=> $1::text::halfvec"
        nearest = (
            f"select {distance} as d from {table} where {index.dense_condition} order by {{}} limit {RECALL_NEIGHBOURS}"  # noqa: S608
        )
        shares = []
        async with self.driver.transaction():
            # Chunk ids are hashes: the first of them are a random sample. Each vector is tried once: thousands of one,
            # as of a notice below every page, find each other, and what keeps searches from finding anything else.
            probes = await self.driver.fetch(
                "select embedding::text from (select distinct on (embedding) chunk_id, embedding from"  # noqa: S608
                f" (select chunk_id, embedding from {table} where {index.dense_condition} order by chunk_id"
                f" limit {RECALL_SAMPLE_SIZE}) first"
                " where l2_norm(embedding) > 0 order by embedding, chunk_id) each"
                f" order by chunk_id limit {RECALL_TRIALS}"
            )
            await self.driver.execute(_SEARCH_SETTINGS)
            for (probe,) in probes:
                approximate = await self.driver.fetch(nearest.format(distance), probe)
                exact = await self.driver.fetch(nearest.format(f"({distance}) + 0.0"), probe)
                # By distance, for equal vectors are as good as each other.
                farthest = exact[-1]["d"] + 1e-6
                shares.append(sum(row["d"] <= farthest for row in approximate) / len(exact))
        return sum(shares) / len(shares) if shares else 1.0

    async def drop_orphans(self) -> int:
        """Remove indexes whose search index is gone, retired, or exact; how many: none where it is another's turn.

        One may be gone back to while those before it are dropped, which takes minutes: what it still has stays. And
        what somebody reads for long, as a backup does, is left to the next look: all other upkeep would wait with it.
        """
        orphans = await self._fetch_names(_ORPHANED_INDEXES, _INDEX_NAME_PATTERN)
        if not orphans or not await self.try_lock():
            return 0
        dropped = 0
        await self.driver.execute(f"set lock_timeout = '{ORPHAN_LOCK_TIMEOUT_SECONDS}s'")
        with suppress(asyncpg.LockNotAvailableError):
            for name in orphans:
                if name in await self._fetch_names(_ORPHANED_INDEXES, _INDEX_NAME_PATTERN):
                    await self.drop([name])
                    dropped += 1
        await self.driver.execute("set lock_timeout = 0")
        return dropped

    async def find_due(
        self, *, threshold: int, max_dead_share: float, min_growth_share: float
    ) -> Sequence[tuple[UUID, UUID]]:
        """Return tenant and id of search indexes that need a vector index, or another one, without having changed.

        A search index needs one from ``threshold`` chunks of 384 dimensions on. It is rebuilt if more than
        ``max_dead_share`` of its rows are dead, and tried again if it has grown by ``min_growth_share``.
        """
        return [tuple(row) for row in await self.driver.fetch(_FIND_DUE, threshold, max_dead_share, min_growth_share)]

    async def flush_pending_lists(self) -> None:
        """Sort new keys and terms into their indexes, so that searches need not read them one by one."""
        await self.driver.execute(_FLUSH_PENDING_LISTS)

    async def _fetch_names(self, sql: str, argument: str) -> list[str]:
        return [row[0] for row in await self.driver.fetch(sql, argument)]

    async def _find_partition(self, dim: int) -> str:
        partition: str = await self.driver.fetchval(_FIND_PARTITION, f"chunk_embedding_{dim}")
        return partition

    async def _configure_memory(self, index: VectorIndexSpec, chunks: int) -> None:
        graph_mb = chunks * (2 * index.dim + ROW_OVERHEAD_BYTES) // 2**20
        memory_mb = min(MAX_BUILD_MB, max(MIN_BUILD_MB, 2 * graph_mb))
        # One process: helpers would need shared memory that containers rarely have, and take processors from searches.
        await self.driver.execute(
            f"set maintenance_work_mem = '{memory_mb}MB'; set max_parallel_maintenance_workers = 0"
        )


_PUBLIC_INDEXES = """
select c.relname from pg_class c join pg_index x on x.indexrelid = c.oid
 where c.relnamespace = 'public'::regnamespace"""
_ALL_INDEXES = f"{_PUBLIC_INDEXES} and c.relname ~ ('^{_INDEX_KINDS}_' || $1)"
# REINDEX CONCURRENTLY leaves names with a suffix.
_UNFINISHED_INDEXES = f"{_ALL_INDEXES} and (not x.indisvalid or c.relname ~ '_cc(new|old)[0-9]*$')"
_FINISHED_INDEXES = f"{_ALL_INDEXES} and x.indisvalid and c.relname !~ '_cc(new|old)[0-9]*$'"
_ORPHANED_INDEXES = f"""{_PUBLIC_INDEXES} and c.relname ~ $1 and not exists (
  select from search_index i where i.id = substring(c.relname from '_([0-9a-f]{{32}})')::uuid
     and i.state in ('live', 'building') and i.vector_index <> 'exact')"""  # noqa: S608  (constants)
_FLUSH_PENDING_LISTS = """
select gin_clean_pending_list(c.oid) from pg_class c join pg_index x on x.indexrelid = c.oid and x.indisvalid
 where c.relnamespace = 'public'::regnamespace and c.relname ~ '^(chunk_lexical_keys$|filterl?_[0-9a-f]{32}$)'"""
_FIND_PARTITION = "select coalesce(to_regclass('public.' || $1), 'public.chunk_embedding_other'::regclass)::text"
_VECTOR_INDEXES = r"""
select x.indrelid as place, c.relname as name from pg_class c join pg_index x on x.indexrelid = c.oid
 where c.relnamespace = 'public'::regnamespace and c.relname like 'hnsw\_%'"""
_COUNT_VECTOR_INDEXES = f"""
select count(*) filter (where made.place = $1::text::regclass), count(*)
  from ({_VECTOR_INDEXES}) made where made.name <> $2"""  # noqa: S608  (constants)
# Another threshold, a job that was given up, and room that somebody else left change none of its rows.
_FIND_DUE = f"""
with made as ({_VECTOR_INDEXES})
select i.tenant_id, i.id from search_index i cross join lateral (
  select coalesce(sum(t.chunks), 0) as there, $1 * sqrt(384.0 / i.dim) as wanted,
         coalesce(to_regclass('public.chunk_embedding_' || i.dim), 'public.chunk_embedding_other'::regclass) as place
    from index_totals t where t.tenant_id = i.tenant_id and t.index_id = i.id) n
 where i.state = 'live' and case i.vector_index
   when 'building' then true
   when 'hnsw' then n.there < n.wanted / 2 or i.deleted_chunks > $2::float8 * i.built_chunks
        or n.there > (1 + $3::float8) * i.built_chunks or exists (
     select from unnest(array['hnsw_', 'filter_', 'scope_', 'filterl_', 'scopel_']) part(name)
      where not exists (
        select from pg_class c join pg_index x on x.indexrelid = c.oid and x.indisvalid
         where c.relnamespace = 'public'::regnamespace and c.relname = part.name || replace(i.id::text, '-', '')))
   else case when n.there < n.wanted / 2 then i.skip_reason is not null
             when n.there < n.wanted then false
             when i.skip_reason = 'too_many' then (select count(*) < {MAX_INDEXES} and
               count(*) filter (where made.place = n.place) < {MAX_INDEXES_PER_PARTITION} from made)
             else coalesce(i.skip_reason, 'no_owner') = 'no_owner' end end"""  # noqa: S608  (constants)
_SEARCH_SETTINGS = """
set local enable_seqscan = off; set local enable_sort = off; set local enable_bitmapscan = off;
set local hnsw.ef_search = 100; set local hnsw.iterative_scan = relaxed_order"""
