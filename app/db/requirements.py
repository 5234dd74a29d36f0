"""Requirements of a database that the service can use."""

MIN_POSTGRES_VERSION = 160000
MIN_PGVECTOR_VERSION = [0, 8]
EARLIER_SCHEMA_MESSAGE = (
    "a version of Carrel before 0.1.0 has made this database, and this version cannot take it over: export the "
    "knowledge bases with that version, and import them into a new database or data directory"
)
UNRELEASED_SCHEMA_MESSAGE = (
    "an unreleased version of Carrel has made this database, and this version cannot take it over: use a new database "
    "or data directory"
)

# Privileged is also who may `set role` to one that is; asked of pg_roles, because pg_has_role raises for unknown names.
# The objects of the last revision represent the whole schema, whose version the plain role cannot read. Schemas of
# before 0.1.0 have a function that the baseline lacks.
REQUIREMENTS_QUERY = """
select current_setting('server_version_num')::int as version, current_user as role,
       exists (select from pg_roles r where pg_has_role(r.oid, 'member') and (
         r.rolsuper or r.rolbypassrls or r.rolname in ('carrel_search', 'carrel_control')
         or exists (select from pg_class c where c.relowner = r.oid and c.relkind in ('r', 'p')))) as privileged,
       coalesce((select string_to_array(extversion, '.')::int[] from pg_extension where extname = 'vector'), '{0}')
         as pgvector,
       exists (select from pg_attribute a
                where a.attrelid = to_regclass('public.document') and a.attname = 'metadata_revision')
         and exists (select from pg_roles r where r.rolname = 'carrel_app' and pg_has_role(r.oid, 'usage')) as migrated,
       to_regprocedure('public.claim_job(text, interval, integer)') is not null as earlier
"""


def find_unmet_requirement(
    role: str, *, version: int, pgvector: list[int], privileged: bool, migrated: bool, earlier: bool
) -> str | None:
    """Why a database is not fit to serve from, as a sentence; None when it is. ``version`` as in server_version_num."""
    if version < MIN_POSTGRES_VERSION:
        return f"Postgres {MIN_POSTGRES_VERSION // 10000} or newer is needed; this one is {version // 10000}"
    if privileged:
        return (
            f"CARREL_DATABASE_URL: role {role} is, or may become, a superuser, one that bypasses row-level security, "
            "or the owner of tables; use the plain role"
        )
    if pgvector < MIN_PGVECTOR_VERSION:
        return "pgvector 0.8 or newer is needed: create or update the extension `vector` in the database"
    if earlier:
        return EARLIER_SCHEMA_MESSAGE
    if not migrated:
        return "the schema is missing or CARREL_DATABASE_URL's role may not use it: run carrel migrate"
    return None
