"""Queries for the storage, the usage and the rate limits of a tenant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

from app.db.session import Session
from app.db.statements import Record, parse_statement
from app.principal import Quotas
from app.quotas.types import NO_KEY, StorageUsage, Usage

# Fields that are counted in memory. Numbers of chunks and of document tokens are recorded when chunks are stored.
COUNTED_FIELDS = ("uploads", "documents", "bytes", "searches", "query_tokens")
_USAGE_FIELDS = (
    "uploads", "documents", "bytes", "chunks", "searches", "embedding_tokens", "enrichment_calls", "enrichment_tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RateGrant:
    """Tokens taken from a bucket, and the tokens that remain in it."""

    granted: float
    tokens: float


@dataclass(frozen=True, slots=True)
class TokensToday:
    """Tokens embedded today for a tenant and for a key with its rotated predecessors, with the current quotas of both.

    ``now`` is the time of the database, which decides the day.
    """

    now: datetime
    tenant_tokens: int
    key_tokens: int
    quotas: Quotas
    key_quotas: Quotas


class QuotaRepository:
    """Queries for the storage, the usage and the rate limits of one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def start_counting_storage(self) -> None:
        """Start counting the tenant's documents, chunks and bytes.

        The statement waits until running inserts and deletes of documents end.
        """
        await self.session.fetch_rows(_LOCK, {"t": self.tenant_id})
        await self.session.fetch_rows(_BEGIN, {"t": self.tenant_id})

    async def stop_counting_storage(self) -> None:
        """Stop counting the storage of a tenant without storage quotas."""
        await self.session.fetch_rows(_STOP, {"t": self.tenant_id})

    async def set_max_running_jobs(self, max_jobs: int | None) -> None:
        """Limit the running jobs of the tenant; None means the default limit."""
        await self.session.fetch_rows(_LIMIT_JOBS, {"t": self.tenant_id, "most": max_jobs})

    async def find_counted_storage(self) -> StorageUsage | None:
        """Return the tenant's counted storage, with this transaction's changes. Return None if it is not counted."""
        row = await self.session.fetch_row(_COUNTED, {"t": self.tenant_id})
        return StorageUsage(**row) if row else None

    async def get_storage(self) -> StorageUsage:
        """Return the tenant's storage: the counted storage, or a sum over all rows if the storage is not counted."""
        row = await self.session.fetch_row(_STORED, {"t": self.tenant_id})
        assert row is not None
        return await self.find_counted_storage() or StorageUsage(**row)

    async def start_counting_key_storage(self, key_id: UUID) -> None:
        """Start counting the storage of a new key and of its replacements after rotations."""
        await self.session.fetch_rows(_BEGIN_KEY, {"t": self.tenant_id, "key": key_id})

    async def find_key_storage(self, key_id: UUID) -> StorageUsage | None:
        """Return the counted storage of a key, with this transaction's changes."""
        row = await self.session.fetch_row(_COUNTED_BY_KEY, {"t": self.tenant_id, "key": key_id})
        return StorageUsage(**row) if row else None

    async def acquire(self, bucket_id: UUID, *, requested: int, rate: float, burst: float) -> RateGrant:
        """Take up to the requested number of tokens from a bucket."""
        values = {"t": self.tenant_id, "bucket": bucket_id, "requested": requested, "rate": rate, "burst": burst}
        row = await self.session.fetch_row(_ACQUIRE, values)
        assert row is not None
        return RateGrant(**row)

    async def get_tokens_today(self, key_id: UUID) -> TokensToday:
        """Return the tokens that were embedded today (UTC) for the tenant and for the key."""
        row = await self.session.fetch_row(_TOKENS, {"t": self.tenant_id, "key": key_id})
        assert row is not None
        quotas, key_quotas = Quotas.from_json(row["quotas"]), Quotas.from_json(row["key_quotas"])
        return TokensToday(row["now"], row["of_tenant"], row["of_key"], quotas, key_quotas)

    async def add_usage(self, rows: Mapping[tuple[date, UUID], Mapping[str, int]]) -> None:
        """Add usage by day and key."""
        usage_keys = sorted(rows)  # a fixed order prevents deadlocks between processes
        values: dict[str, Any] = {"t": self.tenant_id}
        values |= {"days": [day for day, _ in usage_keys], "keys": [key for _, key in usage_keys]}
        values |= {name: [rows[usage_key].get(name, 0) for usage_key in usage_keys] for name in COUNTED_FIELDS}
        await self.session.fetch_rows(_ADD, values)

    async def list_usage_by_day(self, begin: date, end: date) -> list[tuple[date, Usage]]:
        """Return the usage of each day from ``begin`` to ``end``, without days that have no usage."""
        rows = await self.session.fetch_rows(_DAYS, self._build_usage_params(begin, end))
        return [(row["day"], _to_usage(row)) for row in rows]

    async def list_usage_by_key(self, begin: date, end: date) -> Sequence[tuple[UUID, str | None, Usage]]:
        """Return the usage of each key in a period, the busiest first, with the key's name if the key still exists."""
        rows = await self.session.fetch_rows(_KEYS, self._build_usage_params(begin, end))
        return [(row["key_id"], row["name"], _to_usage(row)) for row in rows]

    def _build_usage_params(self, begin: date, end: date) -> dict[str, Any]:
        return {"t": self.tenant_id, "begin": begin, "end": end, "no_key": NO_KEY}


def _to_usage(row: Record) -> Usage:
    return Usage(**{name: int(row[name]) for name in _USAGE_FIELDS})


# The triggers that count storage take a shared lock on the tenant's row. An exclusive lock therefore waits for all
# writers.
_LOCK = parse_statement("select 1 from tenant where id = :t for update")
# Stored files count in addition to documents.
_FILE_BYTES = "(select coalesce(sum(f.bytes), 0) from stored_file f where f.tenant_id = :t)"
_BEGIN = parse_statement(f"""
insert into tenant_usage (tenant_id, documents, stored_bytes, chunks)
select :t::uuid, count(*), coalesce(sum(bytes), 0) + {_FILE_BYTES}, coalesce(sum(chunk_count), 0)
  from document where tenant_id = :t
on conflict do nothing""")  # noqa: S608  (a constant)
_STOP = parse_statement("delete from tenant_usage where tenant_id = :t")
_LIMIT_JOBS = parse_statement("""
insert into tenant_queue (tenant_id, max_running) values (:t, :most::smallint)
on conflict (tenant_id) do update set max_running = excluded.max_running""")
_COUNTED = parse_statement("select documents, stored_bytes, chunks from tenant_usage where tenant_id = :t")
_BEGIN_KEY = parse_statement("insert into key_usage (tenant_id, key_id) values (:t, :key)")
_COUNTED_BY_KEY = parse_statement("""
select documents, stored_bytes, chunks from key_usage where tenant_id = :t and key_id = :key""")
_STORED = parse_statement(f"""
select count(*) documents, (coalesce(sum(bytes), 0) + {_FILE_BYTES})::bigint stored_bytes,
       coalesce(sum(chunk_count), 0) chunks
  from document where tenant_id = :t""")  # noqa: S608  (a constant)
_REFILLED = """
least(:burst::float8, b.tokens + :rate::float8 * greatest(0, extract(epoch from clock_timestamp() - b.filled_at)))"""
_GRANTED = f"greatest(0, least(:requested::float8, floor({_REFILLED})))"
_ACQUIRE = parse_statement(f"""
insert into rate_bucket as b (tenant_id, bucket, tokens, granted, filled_at)
values (:t, :bucket, :burst::float8 - :requested::float8, :requested::float8, clock_timestamp())
on conflict (tenant_id, bucket) do update
   set tokens = {_REFILLED} - {_GRANTED}, granted = {_GRANTED}, filled_at = greatest(clock_timestamp(), b.filled_at)
returning granted, tokens""")  # noqa: S608  (constants)
# One look-up for each key of the lineage: a join would read all keys of the day, and there may be thousands.
_TOKENS = parse_statement("""
with recursive lineage(id) as (
  select coalesce(k.key_lineage_id, k.id) from api_key k where k.tenant_id = :t and k.id = :key
  union
  select following.id from lineage l cross join lateral (
    select k.replaced_by id from api_key k
     where k.tenant_id = :t and k.id = l.id and k.replaced_by is not null offset 0) following
)
select now() now, coalesce(sum(embedding_tokens + query_tokens), 0)::bigint of_tenant,
       coalesce(sum(embedding_tokens + query_tokens)
                  filter (where key_id = any(array(select id from lineage))), 0)::bigint of_key,
       (select t.quotas from tenant t where t.id = :t) quotas,
       (select k.quotas from api_key k where k.tenant_id = :t and k.id = :key) key_quotas
  from usage_day where tenant_id = :t and day = (now() at time zone 'utc')::date""")
_ADD = parse_statement("""
insert into usage_day as d (tenant_id, day, key_id, uploads, documents, bytes, searches, query_tokens)
select :t::uuid, u.* from unnest(:days::date[], :keys::uuid[], :uploads::bigint[], :documents::bigint[],
                                 :bytes::bigint[], :searches::bigint[], :query_tokens::bigint[]) u
on conflict (tenant_id, day, key_id) do update
   set uploads = d.uploads + excluded.uploads, documents = d.documents + excluded.documents,
       bytes = d.bytes + excluded.bytes, searches = d.searches + excluded.searches,
       query_tokens = d.query_tokens + excluded.query_tokens""")
_SUMS = """
sum(uploads) uploads, sum(documents) documents, sum(bytes) bytes, sum(chunks) chunks, sum(searches) searches,
sum(embedding_tokens + query_tokens) embedding_tokens, sum(calls) enrichment_calls, sum(tokens) enrichment_tokens"""
# The row of the enrichment whose owner is the tenant has the sums of its knowledge bases.
_USAGE = """
(select day, key_id, uploads, documents, bytes, chunks, searches, embedding_tokens, query_tokens, 0 calls, 0 tokens
   from usage_day where tenant_id = :t and day between :begin and :end
 union all
 select day, :no_key::uuid, 0, 0, 0, 0, 0, 0, 0, calls, tokens
   from enrichment_usage where tenant_id = :t and owner_id = :t and day between :begin and :end) used"""
_DAYS = parse_statement(f"""
select day, {_SUMS} from {_USAGE} group by day order by day""")  # noqa: S608  (constants)
_KEYS = parse_statement(f"""
select u.*, k.name from (select key_id, {_SUMS} from {_USAGE} group by key_id) u
  left join api_key k on k.tenant_id = :t and k.id = u.key_id
 order by u.searches + u.uploads desc, u.key_id limit 1000""")  # noqa: S608  (constants)
