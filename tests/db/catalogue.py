# ruff: noqa: E501  # SQL is not wrapped
"""Description of Carrel's objects in the catalogue of a database, one text for each object."""

import re
from collections.abc import Mapping

import asyncpg

Catalogue = Mapping[str, Mapping[str, str]]

_OURS = "p.pronamespace = 'public'::regnamespace and not exists (select from pg_depend e where e.objid = p.oid and e.deptype = 'e')"
_ROLES = "('carrel_app', 'carrel_search', 'carrel_control', 'carrel_sql_view')"


def _grants(acl: str, owner: str, kind: str) -> str:
    """Return an SQL expression for the grants of one object, sorted by their text."""
    return f"""coalesce((select string_agg(g.text, ', ' order by g.text) from (
      select format('%s %s by %s', case when a.grantee = 0 then 'public' else pg_get_userbyid(a.grantee) end,
        string_agg(a.privilege_type || case when a.is_grantable then ' with grant' else '' end, '/' order by a.privilege_type),
        pg_get_userbyid(a.grantor)) as text
        from aclexplode(coalesce({acl}, acldefault('{kind}', {owner}))) a
       where a.privilege_type <> 'MAINTAIN' group by a.grantee, a.grantor) g), '')"""


_COLUMN = """concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
  'default ' || pg_get_expr(d.adbin, d.adrelid),
  case when a.attstorage <> (select t.typstorage from pg_type t where t.oid = a.atttypid) then 'storage ' || a.attstorage::text end,
  nullif('identity ' || a.attidentity::text, 'identity '), nullif('generated ' || a.attgenerated::text, 'generated '),
  nullif('compression ' || a.attcompression::text, 'compression '),
  'collation ' || nullif(a.attcollation, (select t.typcollation from pg_type t where t.oid = a.atttypid))::regcollation,
  'statistics ' || nullif(a.attstattarget, -1), 'options ' || a.attoptions::text,
  case when a.attacl is not null then 'grants ' || (
    select string_agg(format('%s %s', pg_get_userbyid(g.grantee), g.privilege_type), ', '
                      order by pg_get_userbyid(g.grantee), g.privilege_type) from aclexplode(a.attacl) g) end)"""

QUERIES: Mapping[str, str] = {
    "tables": f"""
      select c.relname, concat_ws('; ', 'kind ' || c.relkind::text, 'persistence ' || c.relpersistence::text,
        'row security ' || c.relrowsecurity || ' forced ' || c.relforcerowsecurity, 'owner ' || pg_get_userbyid(c.relowner),
        'options ' || c.reloptions::text, 'toast options ' || (select t.reloptions::text from pg_class t where t.oid = c.reltoastrelid),
        case when c.relreplident <> 'd' then 'replica identity ' || c.relreplident::text end, 'bound ' || pg_get_expr(c.relpartbound, c.oid),
        'partitioned ' || pg_get_partkeydef(c.oid), 'inherits ' || (select i.inhparent::regclass from pg_inherits i where i.inhrelid = c.oid),
        'grants ' || {_grants("c.relacl", "c.relowner", "r")})
        from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
         and not exists (select from pg_depend e where e.objid = c.oid and e.deptype = 'e')""",
    "columns": f"""
      select c.relname, string_agg({_COLUMN}, E',\\n  ' order by a.attnum)
        from pg_class c join pg_attribute a on a.attrelid = c.oid left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
       where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
       group by c.relname""",
    # Postgres 18 has a named constraint for NOT NULL, which the columns show already.
    "constraints": """
      select k.conrelid::regclass || '.' || k.conname, concat_ws(' ', pg_get_constraintdef(k.oid),
        case when not k.convalidated then 'not validated' end, case when k.conparentid <> 0 then 'inherited' end)
        from pg_constraint k where k.connamespace = 'public'::regnamespace and k.conrelid <> 0 and k.contype not in ('n', 't')""",
    "indexes": """
      select i.indexrelid::regclass::text, concat_ws(' ', pg_get_indexdef(i.indexrelid), case when not i.indisvalid then 'invalid' end,
        case when i.indisclustered then 'clustered' end, case when i.indisreplident then 'replica identity' end)
        from pg_index i join pg_class c on c.oid = i.indrelid where c.relnamespace = 'public'::regnamespace""",
    "statistics": """
      select s.stxname, pg_get_statisticsobjdef(s.oid) || ' owner ' || pg_get_userbyid(s.stxowner)
        from pg_statistic_ext s where s.stxnamespace = 'public'::regnamespace""",
    "policies": """
      select p.polrelid::regclass || '.' || p.polname, concat_ws(' ', case when not p.polpermissive then 'restrictive' end,
        'for ' || p.polcmd::text, 'to ' || (select string_agg(r::regrole::text, ', ' order by r::regrole::text) from unnest(p.polroles) r),
        'using ' || pg_get_expr(p.polqual, p.polrelid), 'check ' || pg_get_expr(p.polwithcheck, p.polrelid))
        from pg_policy p""",
    "functions": f"""
      select p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', concat_ws('; ',
        'arguments ' || pg_get_function_arguments(p.oid), 'result ' || pg_get_function_result(p.oid), 'kind ' || p.prokind::text,
        'language ' || (select l.lanname from pg_language l where l.oid = p.prolang), 'owner ' || pg_get_userbyid(p.proowner),
        'volatility ' || p.provolatile::text, 'parallel ' || p.proparallel::text, 'security definer ' || p.prosecdef, 'strict ' || p.proisstrict,
        'leakproof ' || p.proleakproof, 'cost ' || p.procost, 'rows ' || p.prorows, 'support ' || p.prosupport,
        'settings ' || p.proconfig::text, 'grants ' || {_grants("p.proacl", "p.proowner", "f")},
        E'body\\n' || coalesce(pg_get_function_sqlbody(p.oid), p.prosrc))
        from pg_proc p where {_OURS}""",
    "triggers": """
      select c.relname || '.' || t.tgname, pg_get_triggerdef(t.oid) || ' enabled ' || t.tgenabled::text
        from pg_trigger t join pg_class c on c.oid = t.tgrelid where not t.tgisinternal and c.relnamespace = 'public'::regnamespace""",
    "types": """
      select t.typname, t.typtype::text || ' ' || coalesce((select string_agg(v.enumlabel, ', ' order by v.enumsortorder) from pg_enum v
        where v.enumtypid = t.oid), '') from pg_type t
       where t.typnamespace = 'public'::regnamespace and t.typtype in ('e', 'd', 'r', 'm')
         and not exists (select from pg_depend e where e.objid = t.oid and e.deptype = 'e')""",
    "roles": f"""
      select r.rolname, concat_ws(' ', 'superuser', r.rolsuper, 'inherit', r.rolinherit, 'createrole', r.rolcreaterole,
        'createdb', r.rolcreatedb, 'login', r.rolcanlogin, 'replication', r.rolreplication, 'bypassrls', r.rolbypassrls,
        'connections', r.rolconnlimit, 'settings', (select s.setconfig::text from pg_db_role_setting s where s.setrole = r.oid))
        from pg_roles r where r.rolname in {_ROLES}""",
    "memberships": f"""
      select format('%s in %s by %s', m.member::regrole, m.roleid::regrole, m.grantor::regrole),
        format('admin %s inherit %s set %s', m.admin_option, m.inherit_option, m.set_option)
        from pg_auth_members m where m.roleid::regrole::text in {_ROLES}
         and m.member::regrole::text in ('carrel_owner', 'carrel_runtime', 'carrel_app', 'carrel_search', 'carrel_control', 'carrel_sql_view')""",
    "database": f"""
      select 'database', concat_ws('; ', 'owner ' || pg_get_userbyid(d.datdba), 'grants ' || {_grants("d.datacl", "d.datdba", "d")},
        'settings ' || (select string_agg(s.setconfig::text, ', ') from pg_db_role_setting s where s.setdatabase = d.oid))
        from pg_database d where d.datname = current_database()
      union all
      select 'schema ' || n.nspname, 'owner ' || pg_get_userbyid(n.nspowner) || '; grants ' || {_grants("n.nspacl", "n.nspowner", "n")}
        from pg_namespace n where n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
      union all select 'extension ' || e.extname, 'schema ' || e.extnamespace::regnamespace from pg_extension e
      union all select 'event trigger ' || e.evtname, e.evtevent from pg_event_trigger e
      union all select 'default grants ' || a.defaclrole::regrole, a.defaclacl::text from pg_default_acl a
      union all select 'rule ' || r.rulename, pg_get_ruledef(r.oid) from pg_rewrite r join pg_class c on c.oid = r.ev_class
                 where c.relnamespace = 'public'::regnamespace
      union all select 'comment ' || pg_describe_object(c.classoid, c.objoid, c.objsubid), c.description from pg_description c
                 where c.classoid = 'pg_class'::regclass and c.objoid in (
                   select oid from pg_class where relnamespace = 'public'::regnamespace)""",
}  # fmt: skip

_LITERAL_OR_COMMENT = re.compile(r"('(?:[^']|'')*')|--[^\n]*")


def normalise(text: str) -> str:
    """Return SQL without comments and with one space for each run of white space outside of literals."""
    parts, last = [], 0
    for match in _LITERAL_OR_COMMENT.finditer(text):
        parts.append(re.sub(r"\s+", " ", text[last : match.start()]))
        parts.append(match[1] or " ")
        last = match.end()
    parts.append(re.sub(r"\s+", " ", text[last:]))
    return re.sub(r"  +", " ", "".join(parts)).strip()


async def read_catalogue(connection: asyncpg.Connection) -> dict[str, dict[str, str]]:
    """Return the text of each object by kind and name, and the rows of a new database.

    Args:
    connection: A connection of a superuser to a database that holds nothing but the migrations' objects.
    """
    found = {kind: dict[str, str](await connection.fetch(query)) for kind, query in QUERIES.items()}
    for name, text in found["functions"].items():
        facts, mark, body = text.partition("body\n")
        found["functions"][name] = facts + mark + normalise(body)
    found["rows"] = {}
    for table in sorted(found["tables"]):
        count = await connection.fetchval(f'select count(*) from "{table}"')
        if count and table != "alembic_version":
            found["rows"][table] = str(count)
    return found
