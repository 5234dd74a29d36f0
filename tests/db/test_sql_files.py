"""The database has the functions and triggers of app/db/sql, and a released migration always runs the same text."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from app.db.sql_files import (
    OWNER,
    ROLES,
    SQL_DIRECTORY,
    build_function_script,
    build_trigger_script,
    read_migration_sql,
    read_sql,
)
from app.embedded_postgres import EmbeddedPostgres
from harness.databases import DatabaseFactory
from scripts.pin_migrations import PINS, format_pins, list_migrations
from tests.db.catalogue import QUERIES, normalise, read_catalogue
from tests.db.test_baseline import superuser_url
from tests.db.test_migrations import connected

FUNCTIONS = sorted(
    path.relative_to(SQL_DIRECTORY / "functions").with_suffix("").as_posix()
    for path in SQL_DIRECTORY.glob("functions/*/*")
)
TRIGGERS = sorted(path.stem for path in SQL_DIRECTORY.glob("triggers/*"))
NEWEST = "9999"
NAMES = "select proname, prosrc from pg_proc where pronamespace = 'public'::regnamespace"


@pytest.fixture
async def superuser(
    make_database: DatabaseFactory, postgres_server: EmbeddedPostgres
) -> AsyncIterator[asyncpg.Connection]:
    urls = await asyncio.to_thread(make_database)
    connection = await asyncpg.connect(superuser_url(postgres_server, urls))
    yield connection
    await connection.close()


@pytest.mark.parametrize(
    "path", sorted(path.relative_to(SQL_DIRECTORY).as_posix() for path in SQL_DIRECTORY.rglob("*.sql"))
)
def test_sql_file_has_comment_and_creates_named_object(path: str) -> None:
    text = (SQL_DIRECTORY / path).read_text()
    assert re.match(r"-- [A-Z].*\.$", text.split("\ncreate ")[0], re.DOTALL)
    kind = "function" if path.startswith("functions/") else "trigger"
    made = re.findall(r"^create or replace (function|trigger) (\w+)", text, re.MULTILINE)
    assert made == [(kind, Path(path).stem)]
    assert len(re.findall(r"^create ", text, re.MULTILINE)) == 1
    assert kind == "trigger" or f"\nrevoke all on function {Path(path).stem} from public;\n" in text


def test_sql_folders_are_kinds_and_roles() -> None:
    assert {path.name for path in SQL_DIRECTORY.iterdir()} == {"functions", "triggers"}
    assert {path.name for path in (SQL_DIRECTORY / "functions").iterdir()} == {OWNER, *ROLES}
    assert {path.suffix for path in SQL_DIRECTORY.rglob("*") if path.is_file()} == {".sql"}


async def test_database_functions_equal_files(
    superuser: asyncpg.Connection, make_empty_database: DatabaseFactory, postgres_server: EmbeddedPostgres
) -> None:
    present = await read_catalogue(superuser)
    # Functions can be created without tables, so an empty database gets the functions of the files alone.
    urls = await asyncio.to_thread(make_empty_database)
    async with connected(urls.owner) as owner, owner.transaction():
        await owner.execute("create table alembic_version ()")
        await owner.execute(read_migration_sql("baseline/roles.sql"))
        await owner.execute(build_function_script(FUNCTIONS, NEWEST))
    async with connected(superuser_url(postgres_server, urls)) as other:
        rows = await other.fetch(QUERIES["functions"])
    of_files = {name: text.partition("body\n") for name, text in rows}
    assert present["functions"] == {
        name: facts + mark + normalise(body) for name, (facts, mark, body) in of_files.items()
    }


async def test_database_triggers_equal_files(superuser: asyncpg.Connection) -> None:
    before = await read_catalogue(superuser)
    assert {name.partition(".")[2] for name in before["triggers"]} == set(TRIGGERS)
    transaction = superuser.transaction()
    await transaction.start()
    await superuser.execute("set local role carrel_owner")
    await superuser.execute(build_trigger_script(TRIGGERS, NEWEST))
    assert (await read_catalogue(superuser))["triggers"] == before["triggers"]
    await transaction.rollback()


async def test_changed_sql_text_is_detected(superuser: asyncpg.Connection) -> None:
    before = await read_catalogue(superuser)
    await superuser.execute(
        "create or replace trigger document_added after insert on document"
        " for each statement execute function count_document()"
    )
    changed = (SQL_DIRECTORY / "functions/owner/notify_key.sql").read_text().replace("begin\n", "begin\n  perform 1;\n")
    await superuser.execute(changed)
    after = await read_catalogue(superuser)
    assert after["triggers"] != before["triggers"]
    assert after["functions"] != before["functions"]


async def test_every_sql_function_body_is_valid(superuser: asyncpg.Connection) -> None:
    """Migrations create functions without this check, so that their order does not matter."""
    checked = await superuser.fetch(
        "select p.proname, case l.lanname when 'sql' then fmgr_sql_validator(p.oid) else plpgsql_validator(p.oid) end"
        " from pg_proc p join pg_language l on l.oid = p.prolang"
        " where p.pronamespace = 'public'::regnamespace and l.lanname in ('sql', 'plpgsql')"
    )
    assert len(checked) == len(FUNCTIONS)
    await superuser.execute("set check_function_bodies = off")
    await superuser.execute("create function broken() returns int language sql as 'select missing from nothing'")
    await superuser.execute("set check_function_bodies = on")
    with pytest.raises(asyncpg.UndefinedTableError):
        await superuser.execute("select fmgr_sql_validator('broken()'::regprocedure)")


def test_migrations_run_pinned_text() -> None:
    pinned = {path.stem: path.read_text() for path in PINS.iterdir()}
    changed = {
        migration.revision: sorted(
            set(format_pins(migration).splitlines()) ^ set(pinned.get(migration.revision, "").splitlines())
        )
        for migration in list_migrations()
    }
    assert {revision: lines for revision, lines in changed.items() if lines} == {}, (
        "a migration runs other SQL than when it was pinned: keep the former text in migrations/former/<new revision>/"
        " and write a migration (CONTRIBUTING.md); for a new migration run scripts/pin_migrations.py"
    )
    assert set(pinned) == {migration.revision for migration in list_migrations()}


def test_former_sql_files_differ_from_current() -> None:
    former = PINS.parent / "former"
    revisions = {migration.revision for migration in list_migrations()}
    for path in former.rglob("*.sql"):
        revision, _, name = path.relative_to(former).as_posix().partition("/")
        assert revision in revisions, path
        assert not (SQL_DIRECTORY / name).is_file() or (SQL_DIRECTORY / name).read_text() != path.read_text(), path


def test_read_sql_returns_text_of_revision(tmp_path: Path) -> None:
    name = "triggers/document_added.sql"
    for revision, text in (("0002_a", "of 0001"), ("0004_c", "of 0002 and 0003")):
        path = tmp_path / "former" / revision / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    texts = [read_sql(name, revision, tmp_path) for revision in ("0001_x", "0002_a", "0003_b", "0004_c", "0005_d")]
    newest = (SQL_DIRECTORY / name).read_text()
    assert texts == ["of 0001", "of 0002 and 0003", "of 0002 and 0003", newest, newest]
