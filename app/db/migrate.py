"""Database migrations: run Alembic from code, and grant rights to the service's role, which owns no tables."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from alembic import command, op
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, MetaData, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from app.db import models
from app.db.models.base import Base
from app.db.requirements import EARLIER_SCHEMA_MESSAGE, UNRELEASED_SCHEMA_MESSAGE
from app.db.sql_files import SQL_DIRECTORY, find_migrations_directory
from app.errors import AppError

APP_ROLE = "carrel_app"
# Tables and indexes that the models do not have. Jobs create them per knowledge base, migrations per dimension.
_UNMODELLED_PREFIXES = (
    "claim_lock",
    "index_build_lock",
    "chunk_embedding_",
    "hnsw_",
    "filter_",
    "filterl_",
    "scope_",
    "scopel_",
)

# Numbers of the migrations that the baseline of 0.1.0 replaced. Later revisions have names like 0002_what_changes.
EARLIER_REVISIONS = frozenset(f"{number:04}" for number in range(1, 54))

# A copy of Alembic's definition of its version table.
_CREATE_VERSION_TABLE = """
create table if not exists alembic_version (
  version_num varchar(32) not null constraint alembic_version_pkc primary key)"""
# unique_violation, duplicate_object, duplicate_table: another process creates the same table at the same moment.
_DUPLICATE_OBJECT_SQLSTATES = ("23505", "42710", "42P07")


class MigrationFailed(AppError):
    """The database could not be migrated; read the error of Postgres."""

    code = "migration_failed"


class EarlierSchema(MigrationFailed):
    """A version before 0.1.0 made the schema; no migration leads to this version."""

    code = "earlier_schema"


def to_sqlalchemy_url(url: str) -> URL:
    """Return a ``postgresql://`` URL for asyncpg, where libpq's option ``sslmode`` is called ``ssl``."""
    converted = make_url(url).set(drivername="postgresql+asyncpg")
    if "sslmode" not in converted.query:
        return converted
    return converted.difference_update_query(["sslmode"]).update_query_dict({"ssl": converted.query["sslmode"]})


def create_admin_engine(url: str, *, database: str | None = None) -> AsyncEngine:
    """Return an engine with the URL of the tables' owner. It keeps no connection open.

    ``database`` is another database of the same cluster.
    """
    target = to_sqlalchemy_url(url)
    return create_async_engine(target if database is None else target.set(database=database), poolclass=NullPool)


def configure_alembic(context: Any, connection: Connection) -> None:
    """Configure Alembic's context. Migrations and comparisons with the models use the same configuration.

    Args:
        context: The module ``alembic.context``.
        connection: Connection of the tables' owner.
    """
    context.configure(
        connection=connection,
        target_metadata=_load_metadata(),
        include_name=lambda name, kind, _parents: (
            kind not in ("table", "index") or not (name or "").startswith(_UNMODELLED_PREFIXES)
        ),
        transaction_per_migration=True,
        compare_type=True,
        compare_server_default=False,
    )


def _load_metadata() -> MetaData:
    """Import all modules of models, and return their metadata. Tables of a module that was not imported would be
    missing.
    """
    for module in iter_modules(models.__path__, f"{models.__name__}."):
        import_module(module.name)
    return Base.metadata


def run_script(script: str) -> None:
    """Run a script of several statements in the running migration; asyncpg prepares only single statements."""
    connection = op.get_bind().connection.dbapi_connection
    op.execute("select 1")  # opens the driver's transaction
    connection.run_async(lambda driver: driver.execute(script))  # type: ignore[union-attr]  # an asyncpg adapter


def build_rls_script(*tables: str, shared: bool = False) -> str:
    """Return a script that protects new tables of tenants: forced row-level security, policies and grants.

    Args:
        tables: Tables with a column ``tenant_id``.
        shared: Whether every tenant may also read the rows of the system tenant.
    """
    own_rows = "(tenant_id = (select current_tenant()))"
    system_rows = "(tenant_id = system_tenant() and (select current_tenant()) is not null)"
    readable = f"({own_rows} or {system_rows})" if shared else own_rows
    lines = []
    for table in tables:
        lines += [
            f"alter table {table} enable row level security, force row level security",
            f"revoke all on {table} from public",
            # FORCE applies policies to the owner too: without this policy its statements would see no rows.
            f"create policy owner on {table} to current_user using (true) with check (true)",
            f"create policy read on {table} for select to {APP_ROLE} using {readable}",
            f"create policy add on {table} for insert to {APP_ROLE} with check {own_rows}",
            f"create policy change on {table} for update to {APP_ROLE} using {own_rows} with check {own_rows}",
            f"create policy remove on {table} for delete to {APP_ROLE} using {own_rows}",
            f"grant select, insert, update, delete on {table} to {APP_ROLE}",
        ]
    return ";\n".join(lines)


def create_alembic_config(connection: Connection | None = None) -> Config:
    """Return Alembic's configuration. It needs no ``alembic.ini``, which a wheel does not contain."""
    result = Config()
    result.set_main_option("script_location", str(find_migrations_directory()).replace("%", "%%"))
    result.set_main_option("path_separator", "os")
    result.attributes["connection"] = connection
    return result


@asynccontextmanager
async def _lock_migrations(engine: AsyncEngine) -> AsyncIterator[None]:
    """Wait until no other process migrates, and hold the lock for this block.

    The lock needs the owner's rights. Its mode conflicts with itself, but not with Alembic's own statements.
    """
    async with engine.connect() as connection:
        try:
            await connection.execute(text(_CREATE_VERSION_TABLE))
            await connection.commit()
        except DBAPIError as exc:
            if getattr(exc.orig, "sqlstate", None) not in _DUPLICATE_OBJECT_SQLSTATES:
                raise
        await connection.rollback()
        await connection.execute(text("set local idle_in_transaction_session_timeout = 0"))
        await connection.execute(text("lock table alembic_version in share update exclusive mode"))
        yield


async def _reject_earlier_schema(connection: AsyncConnection) -> None:
    """Raise EarlierSchema if a version before 0.1.0 has made the schema."""
    revision = await connection.scalar(text("select max(version_num) from alembic_version"))
    await connection.rollback()  # Alembic begins a transaction for each migration only if no transaction is open
    if revision in EARLIER_REVISIONS:
        raise EarlierSchema(EARLIER_SCHEMA_MESSAGE)


_FIND_EXISTING_NAMES = """
select table_name || '.' || column_name from information_schema.columns where table_schema = 'public'
union all select proname from pg_proc where pronamespace = 'public'::regnamespace"""


async def _reject_unreleased_schema(connection: AsyncConnection) -> None:
    """Raise EarlierSchema if the newest revision lacks a column or function that this version needs.

    Until 0.1.0 is released, the baseline changes under the same revision number.
    """
    needed = {f"{table.name}.{column.name}" for table in _load_metadata().tables.values() for column in table.columns}
    needed |= {file.stem for file in (SQL_DIRECTORY / "functions").rglob("*.sql")}
    existing = set((await connection.scalars(text(_FIND_EXISTING_NAMES))).all())
    if missing := sorted(needed - existing):
        raise EarlierSchema(f"{UNRELEASED_SCHEMA_MESSAGE} (it lacks {missing[0]})")


async def migrate_database(admin_url: str, runtime_url: str) -> None:
    """Migrate the schema to the newest revision, and let the service's role use the schema.

    Two concurrent calls run one after the other.

    Args:
        admin_url: URL with the login of the tables' owner.
        runtime_url: URL whose login becomes a member of the role ``carrel_runtime``, which owns no tables.

    Raises:
        MigrationFailed: A migration failed, or the database does not answer.
        EarlierSchema: A version before 0.1.0, or an unreleased version, made the database. A schema from before 0.1.0
            is not changed.
    """
    login = to_sqlalchemy_url(runtime_url).username
    engine = create_admin_engine(admin_url)
    try:
        async with _lock_migrations(engine), engine.connect() as connection:
            await _reject_earlier_schema(connection)
            await connection.run_sync(lambda sync: command.upgrade(create_alembic_config(sync), "head"))
            await connection.commit()
            await _reject_unreleased_schema(connection)
            quoted = engine.dialect.identifier_preparer.quote_identifier(login or "")
            await connection.execute(text(f"grant {APP_ROLE} to {quoted}"))
            # A dump or a copy of a database loses such grants, so each call repeats this one.
            name = engine.dialect.identifier_preparer.quote_identifier(engine.url.database or "")
            await connection.execute(text(f"revoke temporary on database {name} from public"))
            await connection.commit()
    except (DBAPIError, CommandError, OSError) as exc:
        reason = str(getattr(exc, "orig", None) or exc).splitlines()[0]
        raise MigrationFailed(f"the database could not be migrated: {reason}") from exc
    finally:
        await engine.dispose()
