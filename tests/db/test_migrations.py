"""Migrations as the owner of a managed Postgres runs them: a NOSUPERUSER CREATEROLE login that owns the database."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection

from app.db.migrate import (
    MigrationFailed,
    configure_alembic,
    create_admin_engine,
    create_alembic_config,
    migrate_database,
)
from app.db.models.base import Base
from app.db.session import Database
from app.db.sql_files import find_migrations_directory
from app.embedded_postgres import DatabaseUrls, EmbeddedPostgres
from harness.databases import DatabaseFactory, run_sql
from tests.db.filled_tables import counts, fill

REVISIONS = [script.revision for script in ScriptDirectory.from_config(create_alembic_config()).walk_revisions()][::-1]


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def upgrade(urls: DatabaseUrls, revision: str) -> None:
    engine = create_admin_engine(urls.owner)
    async with engine.connect() as connection:
        await connection.run_sync(lambda sync: command.upgrade(create_alembic_config(sync), revision))
        await connection.commit()
    await engine.dispose()


async def differences(urls: DatabaseUrls) -> list[object]:
    """Return the differences that ``alembic check`` finds."""

    def compare(connection: Connection) -> list[object]:
        class Configured:
            """Context with the same options as in migrate()."""

            @staticmethod
            def configure(*, connection: Connection, **options: object) -> None:
                options.pop("transaction_per_migration")
                made.append(MigrationContext.configure(connection, opts=options))

        made: list[MigrationContext] = []
        configure_alembic(Configured, connection)
        return list(compare_metadata(made[0], Base.metadata))

    engine = create_admin_engine(urls.owner)
    async with engine.connect() as connection:
        found = await connection.run_sync(compare)
    await engine.dispose()
    return found


async def test_owner_has_rights_of_managed_postgres(database: DatabaseUrls) -> None:
    async with connected(database.owner) as owner:
        row = await owner.fetchrow(
            "select rolsuper, rolbypassrls, rolcreatedb, rolcreaterole from pg_roles where rolname = current_user"
        )
    assert tuple(row) == (False, False, False, True)


def test_revisions_are_linear() -> None:
    scripts = ScriptDirectory.from_config(create_alembic_config())
    assert len(scripts.get_heads()) == 1
    assert len(scripts.get_bases()) == 1
    assert REVISIONS[0] == "0001_baseline"
    # Plain numbers would be revisions before 0.1.0; alembic_version holds 32 characters.
    assert all(re.fullmatch(r"\d{4}_[a-z0-9_]{1,27}", revision) for revision in REVISIONS)
    assert [int(revision[:4]) for revision in REVISIONS] == [*range(1, len(REVISIONS) + 1)]
    files = {path.stem for path in (find_migrations_directory() / "versions").glob("*.py")}
    assert files == set(REVISIONS)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_migrate_filled_database_of_any_revision_succeeds(
    make_empty_database: DatabaseFactory, revision: str
) -> None:
    urls = await asyncio.to_thread(make_empty_database)
    await upgrade(urls, revision)
    async with connected(urls.owner) as owner:
        await fill(owner)
        before = await counts(owner)
        assert all(before.values()), before
        await migrate_database(urls.owner, urls.app)
        after = await counts(owner)
        assert {table: after.get(table) for table in before} == before
        await fill(owner)
    db = Database.connect(urls.app, pool_size=1)
    await db.check()
    await db.close()
    assert await differences(urls) == []


async def test_migrate_again_changes_nothing(database: DatabaseUrls) -> None:
    async with connected(database.owner) as owner:
        snapshot = "select oid, xmin, relname from pg_class where relnamespace = 'public'::regnamespace order by oid"
        before = await owner.fetch(snapshot)
        await migrate_database(database.owner, database.app)
        assert await owner.fetch(snapshot) == before


async def test_concurrent_migrations_take_turns(make_empty_database: DatabaseFactory) -> None:
    urls = await asyncio.to_thread(make_empty_database)
    await asyncio.gather(*(migrate_database(urls.owner, urls.app) for _ in range(3)))
    assert await differences(urls) == []


async def test_application_role_may_have_any_name(
    make_empty_database: DatabaseFactory, postgres_server: EmbeddedPostgres
) -> None:
    urls = await asyncio.to_thread(make_empty_database)
    name = 'Ein "anderer" Name'
    quoted = '"' + name.replace('"', '""') + '"'
    await asyncio.to_thread(
        run_sql, postgres_server.build_url("postgres"), f"create role {quoted} login password 'secret'"
    )
    url = "postgresql://Ein%20%22anderer%22%20Name:secret@" + urls.app.partition("@")[2]
    await migrate_database(urls.owner, url)
    db = Database.connect(url, pool_size=1)
    await db.check()
    await db.close()


async def test_failed_migration_names_reason_in_one_line(
    make_empty_database: DatabaseFactory, database: DatabaseUrls
) -> None:
    urls = await asyncio.to_thread(make_empty_database)
    with pytest.raises(MigrationFailed, match="permission denied"):
        await migrate_database(urls.app, urls.app)
    with pytest.raises(MigrationFailed, match="authentication failed"):
        await migrate_database(urls.owner.replace("carrel_owner", "carrel_nobody"), urls.app)
    with pytest.raises(MigrationFailed, match=r"refused|Connect call failed"):
        await migrate_database("postgresql://nobody:secret@127.0.0.1:1/nothing", urls.app)
    async with connected(database.owner) as owner:
        await owner.execute("update alembic_version set version_num = '9999'")
        try:
            with pytest.raises(MigrationFailed, match="9999") as raised:
                await migrate_database(database.owner, database.app)
        finally:
            await owner.execute("update alembic_version set version_num = $1", REVISIONS[-1])
    assert "\n" not in raised.value.message


async def test_models_equal_migrations_and_comparison_detects_change(make_database: DatabaseFactory) -> None:
    urls = await asyncio.to_thread(make_database)
    assert await differences(urls) == []
    for change in (
        "alter table document add column forgotten text",
        "alter table chunk alter column ordinal type bigint",
        "alter table job drop column worker",
        "drop index job_ready_idx",
        "create table forgotten (id int)",
        "alter table api_key alter column hint drop not null",
        "alter table knowledge_base drop constraint knowledge_base_tenant_id_name_key",
    ):
        async with connected(urls.owner) as owner:
            before = len(await differences(urls))
            await owner.execute(change)
            assert len(await differences(urls)) > before, change


async def test_new_revision_from_template_runs(make_database: DatabaseFactory, tmp_path: Path) -> None:
    shutil.copytree(find_migrations_directory(), tmp_path / "migrations")
    made = create_alembic_config()
    made.set_main_option("script_location", str(tmp_path / "migrations"))
    written = command.revision(made, "Add a column", rev_id="9000_add_a_column")
    assert isinstance(written, Script)
    text = Path(written.path).read_text()
    assert text.startswith('"""Add a column.')
    assert "lock_timeout" in text
    # This migration runs unchanged, after all others.
    urls = await asyncio.to_thread(make_database)
    engine = create_admin_engine(urls.owner)
    async with engine.connect() as connection:

        def run(sync: Connection) -> None:
            made.attributes["connection"] = sync
            command.upgrade(made, "head")

        await connection.run_sync(run)
        await connection.commit()
    await engine.dispose()
    async with connected(urls.owner) as owner:
        assert await owner.fetchval("select version_num from alembic_version") == "9000_add_a_column"
