"""The baseline creates the schema of the 52 former migrations with new names; older databases are refused."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import asyncpg
import pytest

from app.db.migrate import EarlierSchema, migrate_database
from app.db.session import Database, DatabaseRefused
from app.embedded_postgres import DatabaseUrls, EmbeddedPostgres
from harness.databases import DatabaseFactory
from tests.db.catalogue import Catalogue, read_catalogue
from tests.db.renamed_objects import NAMES, NAMES_WITHIN, renamed
from tests.db.test_migrations import connected, upgrade

# The catalogue of a database of the migrations 0001 to 0053 of commit 2f6f8ba on Postgres 18.
FORMER: Catalogue = json.loads((Path(__file__).parent / "catalogue_of_0053.json").read_text())
# Functions that only earlier versions called: claim_work and claim_delivery replaced claim_job, and find_key
# replaced authenticate. Only tests called the other two: hybrid_search with one retriever gives the same
# result.
LEFT_OUT = {
    ("functions", "claim_job(p_worker text, p_lease interval, p_tenant_concurrency integer)"),
    ("functions", "authenticate(p_key_hash bytea)"),
    *(("functions", name) for name in FORMER["functions"] if name.startswith(("bm25_search(", "dense_search("))),
}
# Two functions had the same subquery, which is a function today.
ADDED = "query_term_weights("
SUBQUERY = re.compile(r"from \(select t\.term,.*? where f\.df > 0\) x;")
CALL = f"from {ADDED}p_tenant, p_index, p_terms, p_keys, p_scopes, p_total, p_visible_chunks) x;"


def superuser_url(server: EmbeddedPostgres, urls: DatabaseUrls) -> str:
    return server.build_url(urls.owner.rpartition("/")[2])


def differences(former: Catalogue, present: Catalogue) -> Mapping[tuple[str, str], tuple[str | None, str | None]]:
    """Return both texts of each object that differs between two catalogues."""
    return {
        (kind, name): (former.get(kind, {}).get(name), present.get(kind, {}).get(name))
        for kind in former.keys() | present.keys()
        for name in former.get(kind, {}).keys() | present.get(kind, {}).keys()
        if former.get(kind, {}).get(name) != present.get(kind, {}).get(name)
    }


@pytest.fixture
async def superuser(database: DatabaseUrls, postgres_server: EmbeddedPostgres) -> AsyncIterator[asyncpg.Connection]:
    """Superuser's connection in a transaction that is rolled back."""
    connection = await asyncpg.connect(superuser_url(postgres_server, database))
    transaction = connection.transaction()
    await transaction.start()
    yield connection
    await transaction.rollback()
    await connection.close()


async def test_baseline_creates_schema_of_former_migrations(
    make_empty_database: DatabaseFactory, postgres_server: EmbeddedPostgres
) -> None:
    urls = await asyncio.to_thread(make_empty_database)
    await upgrade(urls, "0001_baseline")
    async with connected(urls.owner) as owner:
        await owner.execute("grant carrel_app to carrel_runtime")  # as migrate() does for its runtime login
    async with connected(superuser_url(postgres_server, urls)) as superuser:
        if superuser.get_server_version().major != 18:
            pytest.skip("the former catalogue is one of Postgres 18, and others may write the same in other words")
        present = await read_catalogue(superuser)
    former = {
        kind: {n: text for n, text in objects.items() if (kind, n) not in LEFT_OUT} for kind, objects in FORMER.items()
    }
    expected = renamed(former)
    calling = [name for name, text in expected["functions"].items() if SUBQUERY.search(text)]
    assert [name.partition("(")[0] for name in sorted(calling)] == ["lexical_search", "lexical_search_within"]
    for name in calling:
        expected["functions"][name] = SUBQUERY.sub(CALL, expected["functions"][name]).replace("(x.k ", "(x.key ")
    added = {key for key, (before, _) in differences(expected, present).items() if before is None}
    assert [(kind, name.partition("(")[0] + "(") for kind, name in added] == [("functions", ADDED)]
    assert differences(expected, present).keys() == added


def test_every_former_name_is_a_word_of_the_former_catalogue() -> None:
    words = set(re.findall(r"\w+", json.dumps(FORMER)))
    assert set(NAMES) - words == set()
    for name, within in NAMES_WITHIN.items():
        texts = [
            f"{key} {text}"
            for objects in FORMER.values()
            for key, text in objects.items()
            if re.match(rf"{name}\b", key)
        ]
        assert set(within) - set(re.findall(r"\w+", " ".join(texts))) == set(), name


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ("alter table document alter column metadata_revision drop default", "columns"),
        ("alter table job set (fillfactor = 90)", "tables"),
        ("alter table deletion no force row level security", "tables"),
        ("grant delete on audit_event to carrel_app", "tables"),
        ("grant select (name) on tenant to carrel_sql_view", "columns"),
        ("alter table document drop constraint document_status_check", "constraints"),
        ("drop index job_dead_idx", "indexes"),
        ("drop statistics chunk_lexical_index", "statistics"),
        ("alter policy read on chat using (true)", "policies"),
        ("alter function reap_jobs() volatile security invoker", "functions"),
        ("alter function hybrid_search set work_mem = '4MB'", "functions"),
        ("grant execute on function check_tenant to public", "functions"),
        ("alter function value_key owner to carrel_control", "functions"),
        ("alter table document disable trigger document_added", "triggers"),
        ("revoke usage on schema public from carrel_app", "database"),
        ("create type mood as enum ('good', 'bad')", "types"),
        ("grant carrel_search to carrel_runtime", "memberships"),
        ("alter role carrel_app createdb", "roles"),
        ("insert into tenant (id, name) values (gen_random_uuid(), 'another')", "rows"),
        ("comment on table chunk is 'changed'", "database"),
    ],
)
async def test_catalogue_comparison_detects_change(superuser: asyncpg.Connection, change: str, kind: str) -> None:
    before = await read_catalogue(superuser)
    await superuser.execute(change)
    assert {changed for changed, _ in differences(before, await read_catalogue(superuser))} == {kind}


@pytest.mark.parametrize("revision", ["0001", "0031", "0053"])
async def test_database_of_an_earlier_version_is_refused_and_not_touched(
    make_database: DatabaseFactory, postgres_server: EmbeddedPostgres, revision: str
) -> None:
    urls = await asyncio.to_thread(make_database)
    rows = "select oid, xmin, relname from pg_class order by oid"
    async with connected(superuser_url(postgres_server, urls)) as superuser:
        await superuser.execute("update alembic_version set version_num = $1", revision)
        before = await read_catalogue(superuser), await superuser.fetch(rows)
        with pytest.raises(EarlierSchema, match=r"before 0\.1\.0.*export.*import") as raised:
            await migrate_database(urls.owner, urls.app)
        assert await superuser.fetchval("select version_num from alembic_version") == revision
        assert (await read_catalogue(superuser), await superuser.fetch(rows)) == before
    assert raised.value.code == "earlier_schema"
    assert "\n" not in raised.value.message


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ("alter table document rename column title to former_title", "document.title"),
        ("alter function lexical_search rename to former_search", "lexical_search"),
    ],
)
async def test_migrate_database_of_unreleased_baseline_names_missing_objects(
    make_database: DatabaseFactory, postgres_server: EmbeddedPostgres, change: str, missing: str
) -> None:
    urls = await asyncio.to_thread(make_database)
    async with connected(superuser_url(postgres_server, urls)) as superuser:
        await superuser.execute(change)
        with pytest.raises(EarlierSchema, match=rf"unreleased version.*{re.escape(missing)}"):
            await migrate_database(urls.owner, urls.app)


async def test_application_role_of_earlier_database_is_refused(make_database: DatabaseFactory) -> None:
    """A process that does not know the owner's URL: its login cannot read the revision."""
    urls = await asyncio.to_thread(make_database)
    async with connected(urls.owner) as owner:
        await owner.execute(
            "create function claim_job(p_worker text, p_lease interval, p_tenant_concurrency int) returns int"
            " language sql as 'select 1'"
        )
    db = Database.connect(urls.app, pool_size=1)
    try:
        with pytest.raises(DatabaseRefused, match=r"before 0\.1\.0"):
            await db.check()
    finally:
        await db.close()
