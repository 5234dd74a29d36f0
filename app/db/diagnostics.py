"""Diagnostics of the database for ``carrel doctor``. They need only the service's role, which owns no tables."""

from dataclasses import dataclass
from datetime import datetime

from app.db.models.base import SYSTEM_TENANT
from app.db.models.control_plane_rows import WorkerConfinement
from app.db.session import Database
from app.db.statements import parse_statement

_DIAGNOSE = parse_statement(
    """select current_setting('server_version') as server, current_user::text as role, clock_timestamp() as now,
       (select extversion from pg_extension where extname = 'vector') as pgvector,
       array(select c.relname::text from pg_class c
              where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
                and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id')
                and not (c.relrowsecurity and c.relforcerowsecurity) order by 1) as open_tables,
       array(select i.indexrelid::regclass::text from pg_index i join pg_class c on c.oid = i.indrelid
              where c.relnamespace = 'public'::regnamespace and not (i.indisvalid and i.indisready)
              order by 1) as invalid_indexes,
       array(select p.proname::text from pg_proc p where p.pronamespace = 'pg_catalog'::regnamespace
                and (p.proname in ('lo_create', 'lo_creat', 'lo_from_bytea') or p.proname ~ '^pg_(try_)?advisory_')
                and has_function_privilege('public', p.oid, 'execute') group by 1 order by 1) as open_functions"""
)

_DIAGNOSE_QUEUE = parse_statement("""
select (select waiting from get_queue_stats()) as waiting,
       extract(epoch from clock_timestamp() - (select oldest_at from get_queue_stats()))::float8 as oldest_seconds""")
# A worker that shuts down deletes its row. The row of a killed worker remains.
_COUNT_WORKERS = parse_statement("""
select count(*) filter (where heartbeat_at > clock_timestamp() - interval '1 min') as alive,
       count(*) filter (where heartbeat_at <= clock_timestamp() - interval '1 min'
                          and heartbeat_at > clock_timestamp() - interval '11 min') as lost
  from worker_heartbeat where tenant_id = :tenant""")
_WEAKEST_CONFINEMENT = parse_statement("select level, detail from find_weakest_confinement(interval '1 min')")


@dataclass(frozen=True, slots=True)
class DatabaseDiagnostics:
    """Versions, role, clock and faults of a database.

    Attributes:
        server: Version of Postgres.
        role: Role of the connection.
        now: Clock of the server.
        pgvector: Version of pgvector, if it is installed.
        open_tables: Tables with ``tenant_id`` and without forced row-level security.
        invalid_indexes: Indexes that no query can use.
        open_functions: Functions that every login may call, although a call can exhaust shared resources.
    """

    server: str
    role: str
    now: datetime
    pgvector: str | None
    open_tables: list[str]
    invalid_indexes: list[str]
    open_functions: list[str]


async def diagnose_database(database: Database) -> DatabaseDiagnostics:
    """Return the diagnostics of a database.

    Raises:
        DatabaseUnavailable: The database does not answer.
        DatabaseRefused: The login or the database does not exist.
    """
    async with database.autocommit() as session:
        (row,) = await session.fetch_rows(_DIAGNOSE, {})
    return DatabaseDiagnostics(**dict(row))


@dataclass(frozen=True, slots=True)
class QueueDiagnostics:
    """Numbers of workers and of waiting jobs.

    Attributes:
        alive: Workers with a heartbeat within the last minute.
        lost: Workers whose last heartbeat is one to eleven minutes old.
        waiting: Jobs that are due.
        oldest_seconds: Waiting time of the oldest due job.
        confinement: Weakest confinement of parser processes that a live worker has reported.
    """

    alive: int
    lost: int
    waiting: int
    oldest_seconds: float | None
    confinement: WorkerConfinement | None


async def diagnose_queue(database: Database) -> QueueDiagnostics:
    """Return the diagnostics of the workers and of the jobs of all tenants.

    Raises:
        DatabaseUnavailable: The database does not answer.
        DatabaseRefused: The login or the database does not exist.
    """
    async with database.autocommit() as session:
        (queue,) = await session.fetch_rows(_DIAGNOSE_QUEUE, {})
        weakest = await session.fetch_row(_WEAKEST_CONFINEMENT, {})
    async with database.transaction(SYSTEM_TENANT) as session:
        (workers,) = await session.fetch_rows(_COUNT_WORKERS, {"tenant": SYSTEM_TENANT})
    confinement = WorkerConfinement(**weakest) if weakest else None
    return QueueDiagnostics(**dict(queue), **dict(workers), confinement=confinement)
