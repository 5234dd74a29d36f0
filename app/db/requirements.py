"""Requirements that a database must meet before the service uses it."""

MIN_POSTGRES_VERSION = 160000
MIN_PGVECTOR_VERSION = [0, 8]
EARLIER_SCHEMA_MESSAGE = (
    "a version of Carrel before 0.1.0 has made this database, and this version cannot use it. "
    "With the old version, export the knowledge bases; then import them into a new database or data directory"
)
UNRELEASED_SCHEMA_MESSAGE = (
    "an unreleased version of Carrel has made this database, and this version cannot use it: use a new database "
    "or data directory"
)

# A role is also privileged if it can `set role` to a privileged one. The query reads pg_roles, because pg_has_role
# raises for unknown names. The service's role cannot read the schema's version, so objects of the newest revision prove
# the version.
# Schemas from before 0.1.0 have a function that the baseline lacks.
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
    """Return the reason why the service cannot use a database, or None.

    Args:
        role: Name of the login's role.
        version: Version of Postgres, as in ``server_version_num``.
        pgvector: Version of pgvector as numbers; ``[0]`` if it is not installed.
        privileged: Whether the role bypasses row-level security, owns tables, or can become such a role.
        migrated: Whether the newest schema exists and the role may use it.
        earlier: Whether a version before 0.1.0 made the schema.
    """
    if version < MIN_POSTGRES_VERSION:
        return f"Postgres {MIN_POSTGRES_VERSION // 10000} or newer is needed; this one is {version // 10000}"
    if privileged:
        return (
            f"CARREL_DATABASE_URL: role {role} is, or may become, a superuser, a role that bypasses row-level "
            "security, or an owner of tables; use the plain role"
        )
    if pgvector < MIN_PGVECTOR_VERSION:
        return "pgvector 0.8 or newer is needed: create or update the extension `vector` in the database"
    if earlier:
        return EARLIER_SCHEMA_MESSAGE
    if not migrated:
        return "the schema is missing or CARREL_DATABASE_URL's role may not use it: run carrel migrate"
    return None
