"""SQL text that migrations run: functions and triggers of ``app/db/sql``, and files of the migrations.

A file of ``app/db/sql`` holds the newest text. A released migration always runs the text of its release. A later
migration that changes or removes a file keeps a copy of the former text. The copy has the same path below
``migrations/former/`` and the later migration's revision.
"""

from collections.abc import Sequence
from pathlib import Path

SQL_DIRECTORY = Path(__file__).resolve().parent / "sql"
# The folders below `functions` are called like the roles that own their functions. `owner` is the owner of the tables,
# who runs the migrations.
OWNER = "owner"
ROLES = ("carrel_search", "carrel_control")

# Without this check, a function can name tables and functions that are created later. Postgres allows `set hnsw.*` only
# after pgvector's library is loaded.
_BEGIN_FUNCTIONS = """
set local check_function_bodies = off;
do $$ begin perform vector_dims('[1]'::halfvec); end $$;
"""
# To create a trigger, the tables' owner briefly needs EXECUTE on functions that other roles own.
_TRIGGER_FUNCTIONS = """
do $$ declare f regprocedure; tables_owner name := current_user; begin
  set local role carrel_control;
  for f in select oid from pg_proc where proowner = 'carrel_control'::regrole and prorettype = 'trigger'::regtype loop
    execute format('{action}', f, tables_owner);
  end loop;
  reset role;
end $$;
"""


def find_migrations_directory() -> Path:
    """Return the folder of the migrations: inside the package in a wheel, at the top level in a source checkout."""
    package = Path(__file__).resolve().parent.parent
    packaged = package / "_migrations"
    return packaged if packaged.is_dir() else package.parent / "migrations"


def read_migration_sql(path: str) -> str:
    """Return the text of a file below ``migrations/``, for example ``baseline/tables.sql``."""
    return (find_migrations_directory() / path).read_text(encoding="utf-8")


def read_sql(path: str, revision: str, migrations: Path | None = None) -> str:
    """Return the text of a file of ``app/db/sql`` for a migration.

    Args:
        path: The file below ``app/db/sql``, for example ``triggers/document_added.sql``.
        revision: The migration. Revisions sort by name.
        migrations: The folder of the migrations; by default that of this version.
    """
    former = (migrations or find_migrations_directory()) / "former"
    later = sorted(folder for folder in former.iterdir() if folder.name > revision) if former.is_dir() else []
    copies = [folder / path for folder in later if (folder / path).is_file()]
    return (copies[0] if copies else SQL_DIRECTORY / path).read_text(encoding="utf-8")


def build_function_script(functions: Sequence[str], revision: str) -> str:
    """Return a script that creates or replaces functions, each as the role that owns it.

    Args:
        functions: Files below ``functions`` without their ending, for example ``carrel_search/hybrid_search``.
        revision: The migration that runs the script.
    """
    parts = [_BEGIN_FUNCTIONS]
    for folder in (OWNER, *ROLES):
        texts = [read_sql(f"functions/{name}.sql", revision) for name in functions if name.startswith(f"{folder}/")]
        if not texts:
            continue
        if folder == OWNER:
            parts += texts
        else:
            parts += [f"grant create on schema public to {folder};", f"set role {folder};", *texts]
            parts += ["reset role;", f"revoke create on schema public from {folder};"]
    return "\n".join(parts)


def build_trigger_script(triggers: Sequence[str], revision: str) -> str:
    """Return a script that creates or replaces triggers.

    Args:
        triggers: Files below ``triggers`` without their ending.
        revision: The migration that runs the script.
    """
    texts = [read_sql(f"triggers/{name}.sql", revision) for name in triggers]
    allow = _TRIGGER_FUNCTIONS.replace("{action}", "grant execute on function %s to %I")
    refuse = _TRIGGER_FUNCTIONS.replace("{action}", "revoke execute on function %s from %I")
    return "\n".join([allow, *texts, refuse])
