"""Creation, update and removal of SQL views. Each has a view, a schema and a login. The tables' owner runs the
statements.

Statements are formatted with UUIDs, numbers and names. A constraint of the table sql_view checks the form of the names,
and all of them are quoted.
"""

from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from app.db.index_ddl import MaintenanceFailed, OwnerConnection, OwnerDatabase
from app.logging import get_logger

logger = get_logger(__name__)

CONNECTION_LIMIT = 10
# A session of a login can change its own settings. Sessions with a longer statement or transaction are therefore ended.
MAX_STATEMENT_SECONDS, MAX_TRANSACTION_SECONDS = 60, 120
# A transaction locks each object that it drops, and the server can hold only a few thousand locks.
UNLINK_BATCH_SIZE = 500
MAX_TERMINATE_ROUNDS = 5
# Default settings of the login's sessions. A filtered search continues in the vector index until it has enough rows, or
# has scanned `hnsw.max_scan_tuples` rows.
SESSION_SETTINGS = {
    "statement_timeout": "30s",
    "idle_in_transaction_session_timeout": "60s",
    "default_transaction_read_only": "on",
    "hnsw.iterative_scan": "strict_order",
    "hnsw.max_scan_tuples": "100000",
    "hnsw.scan_mem_multiplier": "4",
    "jit": "off",
}
TEMP_FILE_LIMIT = "1GB"
VIEW_OWNER = "carrel_sql_view"


@dataclass(frozen=True, slots=True)
class SqlViewNames:
    """Names of the objects of a SQL view. Every login can list all names, so they reveal nothing about the tenant."""

    id: UUID

    @property
    def schema(self) -> str:
        """The schema that holds only the view."""
        return f"sql_view_{self.id.hex}"

    @property
    def login(self) -> str:
        """The role that can read the view. The policies find the row of sql_view by this name."""
        return f"carrel_sql_view_{self.id.hex}"


@dataclass(frozen=True, slots=True)
class SqlViewManager:
    """Statements of the tables' owner on SQL views."""

    connection: OwnerConnection
    database: OwnerDatabase

    @property
    def _driver(self) -> asyncpg.Connection:
        return self.connection.driver

    async def apply(self, tenant_id: UUID, sql_view_id: UUID) -> bool:
        """Create the view if it is missing, point it to the live search index, or remove it if it was revoked.

        A second call changes nothing.

        Args:
            tenant_id: Tenant of the SQL view.
            sql_view_id: The SQL view.

        Returns:
            Whether the SQL view was removed.
        """
        names = SqlViewNames(sql_view_id)
        if await self._driver.fetchval(_IS_REVOKED, tenant_id, sql_view_id):
            await self._close_login(names)
            await self._remove_login_objects(names)
        async with self._driver.transaction():
            await self._driver.execute("set local lock_timeout = '5s'")
            row = await self._driver.fetchrow(_LOCK, tenant_id, sql_view_id)
            if row is None:
                return False
            if row["removed_at"] is not None:
                await self._drop_schema_and_role(names)
                await self._driver.execute(_REMOVE, tenant_id, sql_view_id)
                return True
            live = await self._driver.fetchrow(_FIND_LIVE_INDEX, tenant_id, row["kb_id"])
            if live is None or live["id"] == row["index_id"]:
                return False
            if row["index_id"] is None:
                await self._create(names, row["verifier"])
            await self._replace_view(names, row, live)
            await self._driver.execute(_SET_INDEX, tenant_id, sql_view_id, live["id"])
        return False

    async def find_due(self) -> list[tuple[UUID, UUID, UUID]]:
        """Return the ids of tenant, knowledge base and SQL view, for each SQL view that ``apply`` must change."""
        return [tuple(row) for row in await self._driver.fetch(_FIND_DUE)]

    async def drop_orphans(self) -> int:
        """Remove views, schemas and logins of SQL views that have no row, and return the number of SQL views.

        Rows are missing, for example, after an operator has deleted a tenant in SQL.
        """
        orphans = [UUID(row[0]) for row in await self._driver.fetch(_FIND_ORPHANS)]
        return sum([await self.remove(orphan) for orphan in orphans])

    async def remove(self, sql_view_id: UUID) -> bool:
        """Remove view, schema and role of a SQL view that has no row.

        Args:
            sql_view_id: The SQL view.

        Returns:
            False if the role could not be dropped, because it owns something that is not reachable. The role cannot log
                in, and a later call tries again.
        """
        names = SqlViewNames(sql_view_id)
        try:
            await self._close_login(names)
            await self._remove_login_objects(names)
            async with self._driver.transaction():
                await self._driver.execute("set local lock_timeout = '5s'")
                await self._drop_schema_and_role(names)
        except (asyncpg.PostgresError, MaintenanceFailed) as exc:
            logger.warning("sql_view.role_drop_failed", role=names.login, error=type(exc).__name__)
            return False
        return True

    async def terminate_overdue_sessions(
        self,
        *,
        max_statement_seconds: float = MAX_STATEMENT_SECONDS,
        max_transaction_seconds: float = MAX_TRANSACTION_SECONDS,
    ) -> int:
        """End sessions of SQL view logins that exceed a time limit or hold an advisory lock, which no reader needs.

        Args:
            max_statement_seconds: Maximum time of a statement.
            max_transaction_seconds: Maximum time of a transaction.

        Returns:
            The number of ended sessions.
        """
        for (login,) in await self._driver.fetch(_FIND_UNINHERITED_LOGINS):
            with suppress(asyncpg.PostgresError):  # a login of another owner, in another database of the cluster
                await self._grant_login_to_owner(login)
        return len(
            await self._driver.fetch(_TERMINATE_OVERDUE_SESSIONS, max_statement_seconds, max_transaction_seconds)
        )

    async def _create(self, names: SqlViewNames, verifier: str) -> None:
        login, schema = _quote_identifier(names.login), _quote_identifier(names.schema)
        await self._driver.execute(
            f"create role {login} login connection limit {CONNECTION_LIMIT} password {_quote_literal(verifier)}"
        )
        await self._grant_login_to_owner(names.login)
        # Load pgvector's library. Before that, only a superuser may change its settings.
        await self._driver.execute("select vector_dims('[1]'::halfvec)")
        for name, value in SESSION_SETTINGS.items():
            await self._driver.execute(f"alter role {login} set {name} = {_quote_literal(value)}")
        # Only a superuser can grant this setting, and no session can change it.
        if await self._driver.fetchval("select has_parameter_privilege(current_user, 'temp_file_limit', 'set')"):
            await self._driver.execute(f"alter role {login} set temp_file_limit = '{TEMP_FILE_LIMIT}'")
        await self._driver.execute(f"alter role {login} set search_path = {schema}, public")
        await self._driver.execute(f"create schema {schema}; grant usage on schema {schema} to {login}")
        await self._driver.execute(f"grant usage, create on schema {schema} to {VIEW_OWNER}")
        database = _quote_identifier(await self._driver.fetchval("select current_database()"))
        await self._driver.execute(f"grant connect on database {database} to {login}")

    async def _replace_view(self, names: SqlViewNames, row: asyncpg.Record, live: asyncpg.Record) -> None:
        """Drop the view and create it again, because the dimensions of the vectors may have changed."""
        name = f"{_quote_identifier(names.schema)}.{_quote_identifier(row['collection'])}"
        values = {
            "view": name,
            "dim": int(live["dim"]),
            "content_key": _quote_literal(row["content_key"]),
            "tenant": _quote_literal(str(row["tenant_id"])),
            "index": _quote_literal(str(live["id"])),
        }
        await self._driver.execute(f"set local role {VIEW_OWNER}; drop view if exists {name}")
        await self._driver.execute(_CREATE_VIEW.format_map(values))
        await self._driver.execute(f"grant select on {name} to {_quote_identifier(names.login)}; reset role")

    async def _grant_login_to_owner(self, login: str) -> None:
        """Let the owner see and end the login's sessions, and remove what the login owns."""
        await self._driver.execute(f"grant {_quote_identifier(login)} to current_user with inherit true, set true")

    async def _close_login(self, names: SqlViewNames) -> None:
        """Refuse new sessions of the login, and end those that are open."""
        if not await self._has_role(names):
            return
        await self._driver.execute(f"alter role {_quote_identifier(names.login)} nologin")
        await self._grant_login_to_owner(names.login)
        for _ in range(MAX_TERMINATE_ROUNDS):  # a session that is being opened appears late
            if not await self._driver.fetch(_TERMINATE_SESSIONS, names.login):
                return

    async def _remove_login_objects(self, names: SqlViewNames) -> None:
        """Remove the login's objects in all databases of the cluster, because Postgres drops no role that owns objects.

        Raises MaintenanceFailed for a database that the owner cannot connect to.
        """
        if not await self._has_role(names):
            return
        current_database = await self._driver.fetchval("select current_database()")
        await _remove_objects_in_database(self._driver, names.login)
        for (name,) in await self._driver.fetch(_FIND_DATABASES, names.login):
            if name != current_database:
                async with self.database.connect(name) as other:
                    await _remove_objects_in_database(other.driver, names.login)
                    await other.driver.execute(f"drop owned by {_quote_identifier(names.login)}")

    async def _drop_schema_and_role(self, names: SqlViewNames) -> None:
        await self._driver.execute(f"drop schema if exists {_quote_identifier(names.schema)} cascade")
        if await self._has_role(names):
            # This also revokes everything that was granted to the role in this database.
            await self._driver.execute(f"drop owned by {_quote_identifier(names.login)}")
            await self._driver.execute(f"drop role {_quote_identifier(names.login)}")

    async def _has_role(self, names: SqlViewNames) -> bool:
        exists: bool = await self._driver.fetchval(
            "select exists (select from pg_roles where rolname = $1)", names.login
        )
        return exists


async def _remove_objects_in_database(driver: asyncpg.Connection, login: str) -> None:
    """Remove the login's prepared transactions and large objects in one database.

    There may be very many large objects, so each batch is a transaction.
    """
    for (name,) in await driver.fetch(_FIND_PREPARED_TRANSACTIONS, login):
        await driver.execute(f"set role {_quote_identifier(login)}")
        try:
            await driver.execute(f"rollback prepared {_quote_literal(name)}")
        finally:
            await driver.execute("reset role")
    while await driver.fetch(_UNLINK_OBJECTS, login, UNLINK_BATCH_SIZE):
        pass


def _quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quote_literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


# The ids are constants, because the planner otherwise ignores the partial index. The cast sets the dimension of the
# column and matches the expression of the index.
_CREATE_VIEW = """
create view {view} as
select e.chunk_id as id, e.embedding::halfvec({dim}) as vec,
       e.metadata || jsonb_build_object({content_key}, c.content) as metadata
  from public.chunk_embedding e
  join public.chunk c on c.tenant_id = e.tenant_id and c.index_id = e.index_id and c.id = e.chunk_id
 where e.tenant_id = {tenant} and e.index_id = {index} and e.dim = {dim}"""
_IS_REVOKED = "select removed_at is not null from sql_view where tenant_id = $1 and id = $2"
_LOCK = "select * from sql_view where tenant_id = $1 and id = $2 for update"
_FIND_LIVE_INDEX = "select id, dim from search_index where tenant_id = $1 and kb_id = $2 and state = 'live'"
_SET_INDEX = """
update sql_view set index_id = $3, blocked_reason = null, updated_at = now() where tenant_id = $1 and id = $2"""
_REMOVE = "delete from sql_view where tenant_id = $1 and id = $2"
_FIND_DUE = """
select p.tenant_id, p.kb_id, p.id from sql_view p
 where p.removed_at is not null or exists (
   select from search_index i where i.tenant_id = p.tenant_id and i.kb_id = p.kb_id and i.state = 'live'
      and i.id is distinct from p.index_id)"""
_FIND_ORPHANS = r"""
select substring(n.nspname from 10) from pg_namespace n
 where n.nspname ~ '^sql_view_[0-9a-f]{32}$' and pg_get_userbyid(n.nspowner) = current_user
   and not exists (select from sql_view p where p.id = substring(n.nspname from 10)::uuid)
union
select substring(r.rolname from 17) from pg_database d, aclexplode(d.datacl) a join pg_roles r on r.oid = a.grantee
 where d.datname = current_database() and r.rolname ~ '^carrel_sql_view_[0-9a-f]{32}$'
   and not exists (select from sql_view p where p.id = substring(r.rolname from 17)::uuid)"""
_TERMINATE_SESSIONS = "select pg_terminate_backend(pid, 2000) from pg_stat_activity where usename = $1"
_FIND_UNINHERITED_LOGINS = r"""
select rolname from pg_roles where rolname ~ '^carrel_sql_view_[0-9a-f]{32}$' and not pg_has_role(oid, 'usage')"""
_TERMINATE_OVERDUE_SESSIONS = r"""
select pg_terminate_backend(a.pid) from pg_stat_activity a
 where a.usename ~ '^carrel_sql_view_[0-9a-f]{32}$' and pg_has_role(a.usesysid, 'usage')
   and (a.state = 'active' and a.query_start < clock_timestamp() - make_interval(secs => $1)
        or a.xact_start < clock_timestamp() - make_interval(secs => $2)
        or exists (select from pg_locks l where l.pid = a.pid and l.locktype = 'advisory'))"""
# A login owns no shared objects (database 0).
_FIND_DATABASES = """
select distinct d.datname from pg_shdepend s join pg_database d on d.oid = s.dbid
 where s.refclassid = 'pg_authid'::regclass and s.refobjid = $1::text::regrole and d.datallowconn"""
_FIND_PREPARED_TRANSACTIONS = "select gid from pg_prepared_xacts where owner = $1 and database = current_database()"
_UNLINK_OBJECTS = """
select lo_unlink(o.oid) from (
  select oid from pg_largeobject_metadata where lomowner = $1::text::regrole limit $2) o"""
