"""Database schema as the catalogue describes it: policies, grants, and functions that bypass row-level security."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import app
from app.embedded_postgres import DatabaseUrls

APP, SEARCH, CONTROL, SQL_VIEW = "carrel_app", "carrel_search", "carrel_control", "carrel_sql_view"
# Functions that the application role may call; only other functions call the rest.
CALLABLE = {
    "current_tenant",
    "system_tenant",
    "hybrid_search",
    "graph_walk",
    "find_key",
    "list_tenants",
    "count_tenants",
    "claim_work",
    "claim_delivery",
    "is_idle_tenant_waiting",
    "count_workers",
    "get_queue_stats",
    "list_jobs",
    "retry_jobs",
    "list_outages",
    "find_weakest_confinement",
    "resume_jobs",
    "retry_failed_documents",
    "reap_jobs",
    "find_expired_documents",
    "acquire_rate_slot",
    "pause_provider",
    "find_changed_indexes",
    "find_expired_indexes",
    "search_plan",
    "value_key",
    "filter_term",
    "filter_terms",
    "find_rejected_key",
    "require_unchanged",
    "remove_old_audit_events",
    "find_unfinished_deletions",
    "find_outdated_indexes",
    "find_stalled_backfills",
    "remove_old_deletions",
    "default_row_quota",
    "is_open_level",
    "all_private_levels",
    "notification_name",
}
# Functions whose body is bound at creation.
BOUND = {"current_tenant", "system_tenant", "filter_term"}
# Tables where the application role inserts and reads, and never updates or deletes.
APPEND_ONLY = {"audit_event"}
# Tables that the application role only reads.
READ_ONLY = {"notification_secret"}
# A definer function takes values, not SQL, names or literals. Each text argument is listed with its meaning.
TEXT_ARGUMENTS = {(claim, "p_worker"): "stored as a value in job.worker" for claim in ("claim_work", "claim_delivery")}
TEXT_ARGUMENTS[("resume_jobs", "p_code")] = "compared with a value in job.error"
TEXT_ARGUMENTS |= {(name, "p_kind"): "compared with job.kind" for name in ("list_jobs", "retry_jobs")}
TEXT_ARGUMENTS |= {(name, "p_code"): "compared with a value in job.error" for name in ("list_jobs", "retry_jobs")}
TEXT_ARGUMENTS[("list_jobs", "p_state")] = "compared with the state that the function computes"
# Empty tables that the owner or a definer function locks as a whole. No other role has rights to them.
LOCK_TABLES = {"claim_lock", "index_build_lock"}
PATH = "search_path=pg_catalog, public, pg_temp"

OURS = """select p.oid, p.proname, p.prosecdef, coalesce(p.proconfig, '{}') as config,
       pg_get_userbyid(p.proowner) as owner, p.prosrc, l.lanname,
       coalesce(p.proargnames[1:p.pronargs], '{}') as arguments,
       array(select format_type(t, null) from unnest(p.proargtypes) t) as types
  from pg_proc p join pg_language l on l.oid = p.prolang
 where p.pronamespace = 'public'::regnamespace
   and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e') order by p.proname"""
TABLES = """select c.oid, c.relname, c.relispartition, c.relrowsecurity, c.relforcerowsecurity,
       pg_get_userbyid(c.relowner) as owner,
       exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id') as tenant
  from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') order by c.relname"""


@pytest.fixture
async def owner(database: DatabaseUrls) -> AsyncIterator[asyncpg.Connection]:
    """Connection of the owner in a transaction that is rolled back, so that a test may drop a policy."""
    connection = await asyncpg.connect(database.owner)
    transaction = connection.transaction()
    await transaction.start()
    yield connection
    await transaction.rollback()
    await connection.close()


async def unprotected_tables(owner: asyncpg.Connection) -> set[str]:
    """Return the tenants' tables whose row-level security is off, not forced, or without a policy for a role."""
    found = set()
    for table in await owner.fetch(TABLES):
        if not (table["tenant"] or table["relname"] == "tenant"):
            continue
        policies = await owner.fetch(
            "select polcmd, pg_get_expr(polqual, polrelid) as using, pg_get_expr(polwithcheck, polrelid) as checked,"
            " array(select pg_get_userbyid(r) from unnest(polroles) r) as roles from pg_policy where polrelid = $1",
            table["oid"],
        )
        by_role: dict[str, set[str]] = {}
        for policy in policies:
            for role in policy["roles"]:
                by_role.setdefault(role, set()).add(policy["polcmd"].decode())
        wanted = {"*"} if table["relispartition"] else {"r", "a", "w", "d"}
        if table["relname"] in APPEND_ONLY:
            wanted = {"r", "a"}
        covered = by_role.get(table["owner"] if table["relispartition"] else APP, set())
        scoped = all(
            "current_tenant()" in (policy[expression] or "current_tenant()")
            for policy in policies
            if APP in policy["roles"]
            for expression in ("using", "checked")
        )
        walled = table["relrowsecurity"] and table["relforcerowsecurity"] and wanted <= covered and scoped
        strangers = set(by_role) - {table["owner"], APP, SEARCH, CONTROL, SQL_VIEW}
        if not walled or strangers or "*" not in by_role.get(table["owner"], set()):
            found.add(table["relname"])
    return found


async def test_tenant_tables_have_forced_row_level_security(owner: asyncpg.Connection) -> None:
    names = {row["relname"] for row in await owner.fetch(TABLES)}
    assert {"tenant", "document", "chunk", "chunk_embedding_384", "term_document_frequency", "job"} <= names
    assert await unprotected_tables(owner) == set()


@pytest.mark.parametrize(
    ("change", "table"),
    [
        ("create table forgotten (tenant_id uuid)", "forgotten"),
        ("alter table document no force row level security", "document"),
        ("alter table job disable row level security", "job"),
        ("drop policy change on chunk", "chunk"),
        ("drop policy owner on term_document_frequency", "term_document_frequency"),
        ("alter policy read on node using (true)", "node"),
        ("alter policy add on tenant with check (true)", "tenant"),
        ("create policy leak on api_key to public using (true)", "api_key"),
    ],
)
async def test_tables_without_policies_detects_a_gap(owner: asyncpg.Connection, change: str, table: str) -> None:
    await owner.execute(change)
    assert await unprotected_tables(owner) == {table}


async def test_policies_of_definer_roles_are_the_listed_ones(owner: asyncpg.Connection) -> None:
    rows = await owner.fetch(
        "select c.relname, pg_get_userbyid(r) as role, p.polcmd from pg_policy p join pg_class c on c.oid = p.polrelid,"
        " unnest(p.polroles) r where pg_get_userbyid(r) in ($1, $2, $3)", SEARCH, CONTROL, SQL_VIEW,
    )  # fmt: skip
    seen = {(row["role"], row["relname"]) for row in rows}
    assert seen == {
        *(
            (SEARCH, table)
            for table in (
                "chunk_embedding",
                "chunk_lexical",
                "term_document_frequency",
                "index_totals",
                "private_frequency",
                "search_index",
                *("chunk_entity", "entity", "entity_alias", "private_entity_frequency", "relation", "chunk"),
            )
        ),
        *(
            (CONTROL, table)
            for table in (
                *("tenant", "api_key", "job", "tenant_queue", "document", "provider_rate_limit", "index_totals"),
                *("search_index", "audit_event", "deletion", "knowledge_base"),
                *("webhook", "webhook_delivery", "tenant_usage", "usage_day", "routing_profile", "quota_lock"),
                "worker_heartbeat",
            )
        ),
        *(
            (SQL_VIEW, table)
            for table in ("chunk_embedding", "chunk", "document", "knowledge_base", "sql_view", "tenant")
        ),
    }


async def test_grants_are_the_listed_ones(owner: asyncpg.Connection) -> None:
    rows = await owner.fetch(
        "select c.relname, c.relispartition, pg_get_userbyid(a.grantee) as role,"
        " array_agg(a.privilege_type order by a.privilege_type) as kinds from pg_class c, aclexplode(c.relacl) a"
        " where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')"
        " and a.grantee <> c.relowner group by 1, 2, 3"
    )
    assert [row["relname"] for row in rows if row["relispartition"]] == []
    everything = ["DELETE", "INSERT", "SELECT", "UPDATE"]
    held = {(row["role"], row["relname"]): row["kinds"] for row in rows}
    for (role, table), kinds in held.items():
        wanted = ["INSERT", "SELECT"] if table in APPEND_ONLY else ["SELECT"] if table in READ_ONLY else everything
        assert role != APP or kinds == wanted, table
    plain = {row["relname"] for row in await owner.fetch(TABLES) if not row["relispartition"]}
    plain -= {"alembic_version", *LOCK_TABLES}
    assert {table for role, table in held if role == APP} == plain
    assert {key: kinds for key, kinds in held.items() if key[0] != APP} == {
        **{
            (SEARCH, table): ["SELECT"]
            for table in (
                "chunk_embedding",
                "chunk_lexical",
                "term_document_frequency",
                "index_totals",
                "private_frequency",
                "search_index",
                *("chunk_entity", "entity", "entity_alias", "private_entity_frequency", "relation"),
            )
        },
        (CONTROL, "tenant"): ["SELECT"],
        (CONTROL, "api_key"): ["SELECT"],
        (CONTROL, "job"): ["INSERT", "SELECT", "UPDATE"],
        (CONTROL, "tenant_queue"): ["INSERT", "SELECT", "UPDATE"],
        (CONTROL, "provider_rate_limit"): ["INSERT", "SELECT", "UPDATE"],
        (CONTROL, "quota_lock"): ["INSERT", "SELECT", "UPDATE"],
        (CONTROL, "claim_lock"): ["UPDATE"],
        (CONTROL, "worker_heartbeat"): ["SELECT"],
        (CONTROL, "audit_event"): ["DELETE"],
        (CONTROL, "deletion"): ["DELETE"],
        (CONTROL, "notification_secret"): ["SELECT"],
        (SQL_VIEW, "chunk_embedding"): ["SELECT"],
    }
    columns = await owner.fetch(
        "select a.attrelid::regclass::text, a.attname, x.privilege_type from pg_attribute a, aclexplode(a.attacl) x"
        " join pg_roles r on r.oid = x.grantee where r.rolname like 'carrel%'"
    )
    assert {tuple(row) for row in columns} == {
        *(
            ("document", name, "SELECT")
            for name in ("tenant_id", "id", "version", "status", "kb_id", "expires_at", "error")
        ),
        *(("document", name, "UPDATE") for name in ("status", "error", "progress", "updated_at")),
        *(("index_totals", name, "SELECT") for name in ("tenant_id", "index_id", "merged", "chunks", "tokens")),
        *(("audit_event", name, "SELECT") for name in ("tenant_id", "created_at", "id")),
        *(("deletion", name, "SELECT") for name in ("tenant_id", "id", "requested_at", "finished_at")),
        *(("knowledge_base", name, "SELECT") for name in ("tenant_id", "id", "deleted_at", "name")),
        *(("webhook", name, "SELECT") for name in ("tenant_id", "id", "events", "enabled")),
        *(("webhook_delivery", name, "INSERT") for name in ("tenant_id", "id", "webhook_id", "event", "data")),
        *(("tenant_usage", name, "SELECT") for name in ("tenant_id", "documents", "stored_bytes", "chunks")),
        *(("usage_day", name, "SELECT") for name in ("tenant_id", "day", "embedding_tokens", "query_tokens")),
        *(
            ("knowledge_base", name, "SELECT")
            for name in ("tenant_id", "id", "deleted_at", "metadata_filter", "pending_metadata_filter")
        ),
        *(("document", name, "SELECT") for name in ("scope_level", "dynamic")),
        *(("chunk", name, "SELECT") for name in ("tenant_id", "index_id", "id", "document_id", "content")),
        *(("sql_view", name, "SELECT") for name in ("tenant_id", "id", "kb_id", "index_id", "removed_at")),
        *(("tenant", name, "SELECT") for name in ("id", "deleted_at", "sql_views")),
        *(("search_index", name, "SELECT") for name in ("tenant_id", "id", "kb_id", "state", "retired_at", "avgdl")),
        *(("routing_profile", name, "SELECT") for name in ("tenant_id", "index_id", "chunks", "changed_chunks")),
    }


async def test_locks_are_taken_on_tables_and_rows_with_privileges(owner: asyncpg.Connection) -> None:
    """Every login of the database can take any advisory lock, even the login of a SQL view."""
    sources = Path(app.__file__).parent.rglob("*.py")
    taking = re.compile(r"pg_(try_)?advisory_\w*lock\w*\(")
    # a lock in another database
    assert [path.name for path in sources if taking.search(path.read_text())] == ["roles.py"]
    assert [row["proname"] for row in await owner.fetch(OURS) if "advisory" in row["prosrc"]] == []
    for table in await owner.fetch("select unnest($1::text[]) as name", list(LOCK_TABLES)):
        assert await owner.fetchval("select count(*) from pg_attribute where attrelid = $1::regclass and attnum > 0",
                                    table["name"]) == 0  # fmt: skip
        for kind in ("select", "insert", "update", "delete", "truncate"):
            for role in (APP, SEARCH, SQL_VIEW, "carrel_runtime"):
                assert not await owner.fetchval("select has_table_privilege($1, $2, $3)", role, table["name"], kind)


async def test_application_role_cannot_read_alembic_version(owner: asyncpg.Connection) -> None:
    for role in (APP, SEARCH, CONTROL, SQL_VIEW, "carrel_runtime"):
        for kind in ("select", "insert", "update", "delete"):
            assert not await owner.fetchval("select has_table_privilege($1, 'alembic_version', $2)", role, kind)


async def test_service_roles_cannot_create_objects(owner: asyncpg.Connection) -> None:
    for role in (APP, SEARCH, CONTROL, SQL_VIEW, "carrel_runtime"):
        assert not await owner.fetchval("select has_schema_privilege($1, 'public', 'create')", role), role
        assert not await owner.fetchval("select has_database_privilege($1, current_database(), 'create')", role), role
        assert not await owner.fetchval("select has_database_privilege($1, current_database(), 'temporary')", role), (
            role
        )
    rows = await owner.fetch(
        "select rolname, rolcanlogin or rolsuper or rolcreaterole or rolcreatedb or rolbypassrls or rolreplication"
        " from pg_roles where rolname in ($1, $2, $3, $4)", APP, SEARCH, CONTROL, SQL_VIEW,
    )  # fmt: skip
    assert {tuple(row) for row in rows} == {(APP, False), (SEARCH, False), (CONTROL, False), (SQL_VIEW, False)}


def wrong_with(function: Any) -> list[str]:
    """Return the rules that a function of the project breaks."""
    wrong = []
    config = list(function["config"])
    if function["lanname"] not in ("sql", "plpgsql"):
        wrong.append("language")
    if PATH not in config and function["proname"] not in BOUND:
        wrong.append("search_path")
    if not function["prosecdef"]:
        return wrong
    if function["owner"] not in (SEARCH, CONTROL):
        wrong.append("owner")
    for name, kind in zip(function["arguments"], function["types"], strict=True):
        words = kind.startswith(("text", "character", "name", "reg", "cstring", '"char"', "xml"))
        if words and (function["proname"], name) not in TEXT_ARGUMENTS:
            wrong.append(f"argument {name} {kind}")
    if function["owner"] == SEARCH and not function["prosrc"].strip().partition("begin")[2].strip().startswith(
        "perform check_tenant(p_tenant);"
    ):
        wrong.append("does not check the tenant first")
    return wrong


async def test_functions_have_required_properties(owner: asyncpg.Connection) -> None:
    functions = await owner.fetch(OURS)
    assert {function["proname"] for function in functions} > CALLABLE
    assert {function["proname"]: wrong_with(function) for function in functions if wrong_with(function)} == {}
    # Bodies bound at creation need no search_path: they name no table, and their names cannot resolve
    # differently.
    bound = await owner.fetch(
        "select proname from pg_proc where prosqlbody is not null and pronamespace = 'public'::regnamespace"
    )
    assert {row[0] for row in bound} == BOUND


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("create function f() returns int language sql security definer as 'select 1'", "search_path"),
        (
            "create function f() returns int language sql security definer set search_path=pg_catalog as 'select 1'",
            "search_path",
        ),
        (f"create function f() returns int language sql security definer set {PATH} as 'select 1'", "owner"),
        (
            f"create function f(p_where text) returns int language sql security definer set {PATH} as 'select 1'",
            "argument p_where text",
        ),
        (
            f"create function f(p_table regclass) returns int language sql security definer set {PATH} as 'select 1'",
            "argument p_table regclass",
        ),
    ],
)
async def test_careless_function_is_detected(owner: asyncpg.Connection, change: str, reason: str) -> None:
    await owner.execute(change)
    assert any(reason in wrong_with(function) for function in await owner.fetch(OURS) if function["proname"] == "f")


async def test_only_listed_functions_can_be_called(owner: asyncpg.Connection) -> None:
    for function in await owner.fetch(OURS):
        for role in ("carrel_runtime", APP):
            allowed = await owner.fetchval(
                "select has_function_privilege($1, $2::oid, 'execute')", role, function["oid"]
            )
            assert allowed == (function["proname"] in CALLABLE), function["proname"]
        everyone = await owner.fetchval(
            "select exists (select from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a"
            " where p.oid = $1 and a.grantee = 0)", function["oid"],
        )  # fmt: skip
        assert not everyone, f"{function['proname']} is open to everybody"


async def test_dynamic_sql_formats_numbers_only(owner: asyncpg.Connection) -> None:
    """A function formats only constants and typed numbers into a statement: %L, never %I or %s."""
    for function in await owner.fetch(OURS):
        assert "%I" not in function["prosrc"], function["proname"]
        assert "%s" not in function["prosrc"], function["proname"]
        assert "quote_ident" not in function["prosrc"], function["proname"]


async def test_keys_begin_with_the_tenant(owner: asyncpg.Connection) -> None:
    """Primary keys, unique constraints and foreign keys begin with the tenant, so that tables can be distributed by
    tenant.
    """
    rows = await owner.fetch(
        "select c.conrelid::regclass::text as name, c.conname, a.attname from pg_constraint c"
        " join pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]"
        " where c.connamespace = 'public'::regnamespace and c.contype in ('p', 'u', 'f')"
    )
    others = {row["name"] for row in rows if row["attname"] != "tenant_id"}
    assert others == {"tenant", "alembic_version"}
    unique = await owner.fetch(
        "select i.indrelid::regclass::text as name from pg_index i join pg_attribute a on a.attrelid = i.indrelid"
        " and a.attnum = i.indkey[0] join pg_class c on c.oid = i.indrelid"
        " where i.indisunique and c.relnamespace = 'public'::regnamespace and a.attname <> 'tenant_id'"
    )
    assert {row["name"] for row in unique} == {"tenant", "alembic_version"}
    assert await owner.fetchval("select count(*) from pg_sequence") == 0


async def test_no_other_object_can_bypass_row_level_security(owner: asyncpg.Connection) -> None:
    views = await owner.fetchval(
        "select count(*) from pg_class where relnamespace = 'public'::regnamespace and relkind in ('v', 'm', 'f', 'S')"
    )
    triggers = await owner.fetch("select tgname from pg_trigger where not tgisinternal order by 1")
    rules = await owner.fetchval(
        "select count(*) from pg_rewrite r join pg_class c on c.oid = r.ev_class"
        " where c.relnamespace = 'public'::regnamespace"
    )
    extensions = await owner.fetch("select extname from pg_extension order by 1")
    assert (views, rules) == (0, 0)
    assert [row[0] for row in triggers] == [
        "agent_binding_quota",
        "api_key_changed",
        "api_key_quota",
        "chat_quota",
        "document_added",
        "document_changed",
        "document_deleted",
        "document_deleted_notify_webhooks",
        "document_notify_webhooks",
        "document_recounted",
        "evaluation_quota",
        "file_batch_file_quota",
        "file_batch_quota",
        "golden_item_quota",
        "golden_set_quota",
        "idempotency_key_quota",
        "knowledge_base_notify_webhooks",
        "knowledge_base_quota",
        "prompt_version_quota",
        "search_index_notify_webhooks",
        "sql_view_quota",
        "stored_file_counted",
        "stored_file_quota",
        "tenant_changed",
        "tenant_notify_webhooks",
        "tenant_usage_notify_webhooks",
        "usage_day_notify_webhooks",
        "webhook_quota",
    ]
    assert [row[0] for row in extensions] == ["plpgsql", "vector"]
