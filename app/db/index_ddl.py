"""Partial indexes of search indexes. The owner of the tables builds, tests, rebuilds and drops them during operation.

Only this module, SQL views and the migrations connect with the owner's URL. CONCURRENTLY runs outside a transaction, so
an interrupted statement leaves an invalid index. ``OwnerConnection.is_clean`` finds it.
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

# Only one process builds indexes of a database at a time. Only the owner may lock this table.
_LOCK_MAINTENANCE = "lock table index_build_lock in exclusive mode nowait"
# pgvector's limit for an HNSW of halfvec.
MAX_DIMENSIONS = 4000
# Every query on a table examines each of its partial indexes. 200 partial indexes are still cheap. A search index adds
# three of them to the partition of its dimension, and two to the lexical table, which has no partitions.
MAX_INDEXES_PER_PARTITION = 60
MAX_INDEXES = 100
# Building the HNSW graph is several times faster in memory. It needs about 400 bytes a row in addition to the vector.
ROW_OVERHEAD_BYTES = 400
MIN_BUILD_MB, MAX_BUILD_MB = 64, 1024
ORPHAN_LOCK_TIMEOUT_SECONDS = 5
RECALL_SAMPLE_SIZE, RECALL_TRIALS, RECALL_NEIGHBOURS = 5000, 20, 10
# Filters use containment, equality and terms (ADR 0012).
_FILTER_COLUMNS = "metadata jsonb_path_ops, filter_terms(metadata)"
_INDEX_KINDS = "(hnsw|filter|scope|filterl|scopel)"
_INDEX_NAME_PATTERN = rf"^{_INDEX_KINDS}_[0-9a-f]{{32}}"


class MaintenanceFailed(UnavailableError):
    """The owner of the tables could not change an index; try again."""

    code = "index_maintenance_failed"


@dataclass(frozen=True, slots=True)
class VectorIndexSpec:
    """A search index for which partial indexes are built."""

    tenant_id: UUID
    index_id: UUID
    dim: int

    @property
    def dense_condition(self) -> str:
        """SQL condition of the index's rows in the dense table. It contains only UUIDs and a number."""
        return f"{self.lexical_condition} and dim = {self.dim}"

    @property
    def lexical_condition(self) -> str:
        """SQL condition of the index's rows in the lexical table."""
        return f"tenant_id = '{self.tenant_id}' and index_id = '{self.index_id}'"

    @property
    def index_names(self) -> KeysView[str]:
        """The names of all partial indexes of the search index."""
        return self.build_definitions("").keys()

    def build_definitions(self, partition: str) -> dict[str, str]:
        """Return the SQL definitions of the partial indexes by name, the vector index first.

        Args:
            partition: Table of the vectors of this dimension.
        """
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
    """The database, with the login of the tables' owner. It has no pool: each block opens its connection."""

    url: str

    @asynccontextmanager
    async def connect(self, database: str | None = None) -> AsyncIterator["OwnerConnection"]:
        """Yield a connection for this block. A cancellation of the block cancels its running statement.

        Args:
            database: Name of a database of the cluster; by default the database of the URL.

        Raises:
            MaintenanceFailed: The database does not answer, or a statement failed.
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
    """Statements of the tables' owner on indexes.

    ``open_another`` opens a further connection, which closes together with this one.
    """

    driver: asyncpg.Connection
    open_another: Callable[[], Awaitable[asyncpg.Connection]]
    _has_lock: bool = False

    async def try_lock(self) -> bool:
        """Acquire the right to build and drop indexes, and return whether that was possible.

        The lock ends with the connection. A second connection holds the lock, because CONCURRENTLY cannot run inside
        the transaction that the lock needs.
        """
        await self.driver.execute("select 1")  # a broken connection fails here, and not during a build
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
        """Build the missing partial indexes of a search index. First drop unfinished indexes; last, drop replaced
        indexes.

        Args:
            index: The search index.
            chunks: Its number of chunks, from which the memory is computed.

        Returns:
            Whether the vector index was missing.
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
        """Rebuild the partial indexes of a search index. Queries use each old one until the new one is complete.

        Args:
            index: The search index.
            chunks: Its number of chunks, from which the memory is computed.
        """
        await self.drop(await self._fetch_names(_UNFINISHED_INDEXES, index.index_id.hex))
        await self._configure_memory(index, chunks)
        # The HNSW index is the slowest and comes last: if another index fails, all indexes are rebuilt in the next
        # attempt.
        for name in sorted(index.index_names, key=lambda name: name.startswith("hnsw_")):
            await self.driver.execute(f"reindex index concurrently {name}")

    async def drop(self, names: Collection[str]) -> None:
        """Drop indexes by name. Each drop waits for the searches that use the index."""
        for name in names:
            await self.driver.execute(f'drop index concurrently if exists "{name}"')

    async def drop_all(self, index_id: UUID) -> None:
        """Drop all partial indexes of a search index."""
        await self.drop(await self._fetch_names(_ALL_INDEXES, index_id.hex))

    async def is_complete(self, index: VectorIndexSpec) -> bool:
        """Return whether all partial indexes of a search index exist and are valid."""
        finished_names = await self._fetch_names(_FINISHED_INDEXES, index.index_id.hex)
        return set(finished_names) >= index.index_names

    async def is_clean(self, index: VectorIndexSpec) -> bool:
        """Return whether the partial indexes of a search index are complete, and no other index with its id exists."""
        names = set(await self._fetch_names(_ALL_INDEXES, index.index_id.hex))
        return names == index.index_names and await self.is_complete(index)

    async def is_index_limit_reached(self, index: VectorIndexSpec) -> bool:
        """Return whether this index cannot be built, because the maximum number of vector indexes exists."""
        partition = await self._find_partition(index.dim)
        partition_count, total_count = await self.driver.fetchrow(
            _COUNT_VECTOR_INDEXES, partition, f"hnsw_{index.index_id.hex}"
        )
        return bool(partition_count >= MAX_INDEXES_PER_PARTITION or total_count >= MAX_INDEXES)

    async def measure_recall(self, index: VectorIndexSpec) -> float:
        """Return the recall of the vector index: the share of exact nearest neighbours that it finds for stored
        vectors.

        The sample has up to 20 distinct vectors, with 10 neighbours each.

        Args:
            index: The search index.

        Returns:
            Recall from 0 to 1; 1 if there is no vector to test.
        """
        table = await self._find_partition(index.dim)
        distance = f"embedding::halfvec({index.dim}) <=> $1::text::halfvec"
        nearest = (
            f"select {distance} as d from {table} where {index.dense_condition} order by {{}} limit {RECALL_NEIGHBOURS}"  # noqa: S608
        )
        shares = []
        async with self.driver.transaction():
            # Chunk ids are hashes, so the first ids are a random sample. Each vector is tried once. Thousands of equal
            # vectors, for example of a footer on every page, find each other and would hide a low recall.
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
                # Neighbours are compared by distance, because equal vectors are equally good.
                farthest = exact[-1]["d"] + 1e-6
                shares.append(sum(row["d"] <= farthest for row in approximate) / len(exact))
        return sum(shares) / len(shares) if shares else 1.0

    async def drop_orphans(self) -> int:
        """Drop partial indexes whose search index is deleted, retired or searched exactly.

        A rollback may make a search index live again during the minutes of this work, so each partial index is checked
        again before its drop. An index that a long query or a backup uses is left for the next call: a longer wait
        would delay all other index maintenance.

        Returns:
            The number of dropped indexes; 0 if another process holds the lock.
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
        """Return search indexes whose vector index must be built, rebuilt or tried again although their chunks did not
        change.

        Args:
            threshold: Number of chunks with 384 dimensions from which a vector index is built. Fewer chunks suffice
                with more dimensions.
            max_dead_share: Share of deleted rows above which a vector index is rebuilt.
            min_growth_share: Growth since the last build above which a vector index is tried again.

        Returns:
            Tenant id and search index id of each.
        """
        return [tuple(row) for row in await self.driver.fetch(_FIND_DUE, threshold, max_dead_share, min_growth_share)]

    async def flush_pending_lists(self) -> None:
        """Flush the pending lists of GIN indexes, which hold new keys and terms, into the indexes.

        Searches would otherwise read the pending lists row by row.
        """
        await self.driver.execute(_FLUSH_PENDING_LISTS)

    async def _fetch_names(self, sql: str, argument: str) -> list[str]:
        return [row[0] for row in await self.driver.fetch(sql, argument)]

    async def _find_partition(self, dim: int) -> str:
        partition: str = await self.driver.fetchval(_FIND_PARTITION, f"chunk_embedding_{dim}")
        return partition

    async def _configure_memory(self, index: VectorIndexSpec, chunks: int) -> None:
        graph_mb = chunks * (2 * index.dim + ROW_OVERHEAD_BYTES) // 2**20
        memory_mb = min(MAX_BUILD_MB, max(MIN_BUILD_MB, 2 * graph_mb))
        # No parallel workers: they need shared memory that containers rarely have, and take processors from searches.
        await self.driver.execute(
            f"set maintenance_work_mem = '{memory_mb}MB'; set max_parallel_maintenance_workers = 0"
        )


_PUBLIC_INDEXES = """
select c.relname from pg_class c join pg_index x on x.indexrelid = c.oid
 where c.relnamespace = 'public'::regnamespace"""
_ALL_INDEXES = f"{_PUBLIC_INDEXES} and c.relname ~ ('^{_INDEX_KINDS}_' || $1)"
# An interrupted REINDEX CONCURRENTLY leaves indexes with this suffix.
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
# This query compares the states of all search indexes. Three reasons for a build change no row of the search index: a
# new threshold, a dead job, and a drop of another index.
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
